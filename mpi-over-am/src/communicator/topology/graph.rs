//! Graphs: each task knows the whole graph, or its own part (MPI 5.0 sections 8.5.3 and 8.5.4).

use crate::error::{Error, ErrorClass, Result};

/// A graph that every task knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// For each rank, the end of its neighbours in `edges`.
    index: Vec<u32>,
    edges: Vec<u32>,
}

/// Weights of edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weights {
    /// No weights (`MPI_UNWEIGHTED`).
    Unweighted,
    /// A weight for each edge.
    Each(Vec<u32>),
}

/// A graph in which each task knows its own neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistributedGraph {
    pub(crate) sources: Vec<u32>,
    pub(crate) source_weights: Weights,
    pub(crate) destinations: Vec<u32>,
    pub(crate) destination_weights: Weights,
}

impl Graph {
    /// A graph: `index[rank]` is the number of edges of all ranks up to `rank`, and `edges` lists the neighbour at the end of each edge.
    ///
    /// # Errors
    /// The index decreases, or does not end with the number of edges; a neighbour does not exist.
    pub fn new(index: &[u32], edges: &[u32]) -> Result<Self> {
        let refused =
            |what, value: u32| Err(Error::refused(ErrorClass::Topology, "a graph", what, i64::from(value)));
        let count = index.last().copied().unwrap_or(0);
        if !index.is_sorted() || count as usize != edges.len() {
            return refused(
                "the index decreases, or does not end with the number of edges; the value is the last index",
                count,
            );
        }
        match edges.iter().find(|&&edge| edge as usize >= index.len()) {
            Some(&edge) => {
                refused("an edge ends at a rank that the graph does not have; the value is the rank", edge)
            }
            None => Ok(Self { index: index.to_vec(), edges: edges.to_vec() }),
        }
    }

    /// The index passed to [`new`](Self::new) (`MPI_Graph_get`).
    #[must_use]
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// The edges passed to [`new`](Self::new) (`MPI_Graph_get`).
    #[must_use]
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The neighbours of a rank (`MPI_Graph_neighbors`).
    ///
    /// # Errors
    /// A rank that the graph does not have.
    pub fn neighbors(&self, rank: u32) -> Result<&[u32]> {
        let size = u32::try_from(self.index.len()).unwrap_or(u32::MAX);
        let end = *self.index.get(rank as usize).ok_or(Error::UnknownRank { rank, size: size.max(1) })?;
        let start = if rank == 0 { 0 } else { self.index[rank as usize - 1] };
        Ok(&self.edges[start as usize..end as usize])
    }
}

impl Weights {
    pub(crate) fn check(&self, edges: usize) -> Result<()> {
        match self {
            Self::Each(weights) if weights.len() != edges => {
                Err(Error::Count { call: "a graph's weights", given: weights.len(), expected: edges })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn of(&self, edge: usize) -> u32 {
        match self {
            Self::Unweighted => 1,
            Self::Each(weights) => weights[edge],
        }
    }
}

impl DistributedGraph {
    /// The tasks that have an edge to this task (`MPI_Dist_graph_neighbors`).
    #[must_use]
    pub fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// The weights of the edges to this task.
    #[must_use]
    pub fn source_weights(&self) -> &Weights {
        &self.source_weights
    }

    /// The tasks to which this task has an edge.
    #[must_use]
    pub fn destinations(&self) -> &[u32] {
        &self.destinations
    }

    /// The weights of the edges from this task.
    #[must_use]
    pub fn destination_weights(&self) -> &Weights {
        &self.destination_weights
    }

    /// Whether the edges have weights (`MPI_Dist_graph_neighbors_count`).
    #[must_use]
    pub fn is_weighted(&self) -> bool {
        self.source_weights != Weights::Unweighted || self.destination_weights != Weights::Unweighted
    }
}
