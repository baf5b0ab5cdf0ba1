//! Virtual topologies: the neighbours of each task (MPI 5.0 chapter 8).
//!
//! Ranks are never reordered, even if neighbours run on different hosts.

mod cartesian;
mod dimensions;
mod graph;

use std::sync::Arc;

pub use cartesian::{Cartesian, Shift};
pub use dimensions::dimensions;
pub use graph::{DistributedGraph, Graph, Weights};

/// The topology of a communicator (`MPI_Topo_test`). Cloning is cheap.
#[derive(Clone, Debug)]
pub enum Topology {
    /// A grid (`MPI_CART`).
    Cartesian(Arc<Cartesian>),
    /// A graph that every task knows (`MPI_GRAPH`).
    Graph(Arc<Graph>),
    /// A graph in which each task knows its own neighbours (`MPI_DIST_GRAPH`).
    DistributedGraph(Arc<DistributedGraph>),
}

impl Topology {
    /// The neighbours of `rank`, which must be the task's own rank, in the order of neighbourhood collectives (MPI 5.0 section 8.6): first
    /// the sources, then the destinations. `None` is a missing neighbour at the edge of a grid.
    #[must_use]
    pub fn neighbors(&self, rank: u32) -> (Vec<Option<u32>>, Vec<Option<u32>>) {
        match self {
            Self::Cartesian(grid) => {
                let both: Vec<_> = (0..grid.dimensions().len())
                    .flat_map(|dimension| {
                        let Shift { source, dest } =
                            grid.shift(rank, dimension, 1).unwrap_or(Shift { source: None, dest: None });
                        [source, dest]
                    })
                    .collect();
                (both.clone(), both)
            }
            Self::Graph(graph) => {
                let all: Vec<_> =
                    graph.neighbors(rank).unwrap_or_default().iter().copied().map(Some).collect();
                (all.clone(), all)
            }
            Self::DistributedGraph(graph) => (
                graph.sources().iter().copied().map(Some).collect(),
                graph.destinations().iter().copied().map(Some).collect(),
            ),
        }
    }
}
