//! Communicators with the topology of a graph.

use std::sync::Arc;

use am_core::fabric::Fabric;

use super::{Communicator, PendingCommunicator};
use crate::communicator::info::Info;
use crate::communicator::topology::{DistributedGraph, Graph, Topology, Weights};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A communicator with a graph, of the first tasks: one for each node (`MPI_Graph_create`). `None` for the other tasks. Collective; all
    /// tasks must pass the same graph.
    ///
    /// # Errors
    /// A graph of more nodes than the communicator has tasks; an inter-communicator; those of [`Graph::new`]; all context ids are in use;
    /// the death of a task.
    pub fn create_graph(&self, index: &[u32], edges: &[u32]) -> Result<Option<Self>> {
        self.start_graph(index, edges)?.wait_for_part()
    }

    /// Starts a [`create_graph`](Self::create_graph).
    pub(crate) fn start_graph(&self, index: &[u32], edges: &[u32]) -> Result<PendingCommunicator<F, L>> {
        let graph = Graph::new(index, edges)?;
        let size = u32::try_from(index.len()).unwrap_or(u32::MAX);
        let group = self.first_ranks("create_graph", size)?;
        self.start_with(group, Some(Topology::Graph(Arc::new(graph))), &Info::new())
    }

    /// The rank that this task would have in a graph (`MPI_Graph_map`): its own; `None` if the graph has no node for this task.
    ///
    /// # Errors
    /// A graph of more nodes than the communicator has tasks; an inter-communicator; those of [`Graph::new`].
    pub fn map_graph(&self, index: &[u32], edges: &[u32]) -> Result<Option<u32>> {
        Graph::new(index, edges)?;
        let size = u32::try_from(index.len()).unwrap_or(u32::MAX);
        self.first_ranks("map_graph", size)?;
        Ok((self.rank() < size).then_some(self.rank()))
    }

    /// The graph.
    ///
    /// # Errors
    /// The communicator has no such topology.
    pub fn graph(&self) -> Result<&Graph> {
        match self.topology() {
            Some(Topology::Graph(graph)) => Ok(graph),
            _ => Err(self.no_such_topology("graph")),
        }
    }

    /// A communicator in which each task names its own sources and destinations (`MPI_Dist_graph_create_adjacent`). Collective.
    ///
    /// # Errors
    /// A neighbour that does not exist, more or fewer weights than neighbours, an inter-communicator.
    pub fn create_distributed_graph_adjacent(
        &self,
        (sources, source_weights): (&[u32], &Weights),
        (destinations, destination_weights): (&[u32], &Weights),
        info: &Info,
    ) -> Result<Self> {
        self.start_adjacent((sources, source_weights), (destinations, destination_weights), info)?.wait()
    }

    /// Starts a [`create_distributed_graph_adjacent`](Self::create_distributed_graph_adjacent).
    pub(crate) fn start_adjacent(
        &self,
        (sources, source_weights): (&[u32], &Weights),
        (destinations, destination_weights): (&[u32], &Weights),
        info: &Info,
    ) -> Result<PendingCommunicator<F, L>> {
        source_weights.check(sources.len())?;
        destination_weights.check(destinations.len())?;
        self.check_neighbors(sources.iter().chain(destinations))?;
        let graph = DistributedGraph {
            sources: sources.to_vec(),
            source_weights: source_weights.clone(),
            destinations: destinations.to_vec(),
            destination_weights: destination_weights.clone(),
        };
        self.start_distributed(graph, info)
    }

    /// A communicator with a graph whose edges any tasks may name: this task names `degrees[i]` edges from `sources[i]` to the next entries
    /// of `destinations` (`MPI_Dist_graph_create`). Collective; either all tasks must pass weights, or none.
    ///
    /// # Errors
    /// Those of [`create_distributed_graph_adjacent`](Self::create_distributed_graph_adjacent).
    pub fn create_distributed_graph(
        &self,
        (sources, degrees): (&[u32], &[u32]),
        destinations: &[u32],
        weights: &Weights,
        info: &Info,
    ) -> Result<Self> {
        let own = self.edges((sources, degrees), destinations, weights)?;
        let lists = self.gather_lists(&own)?;
        self.start_of_edges(&lists, info)?.wait()
    }

    /// This task's words for a [`create_distributed_graph`](Self::create_distributed_graph).
    pub(crate) fn edges(
        &self,
        (sources, degrees): (&[u32], &[u32]),
        destinations: &[u32],
        weights: &Weights,
    ) -> Result<Vec<u64>> {
        if sources.len() != degrees.len() {
            let (given, expected) = (degrees.len(), sources.len());
            return Err(Error::Count { call: "a graph's degrees", given, expected });
        }
        let edges: usize = degrees.iter().map(|&degree| degree as usize).sum();
        if destinations.len() != edges {
            let (given, expected) = (destinations.len(), edges);
            return Err(Error::Count { call: "a graph's destinations", given, expected });
        }
        weights.check(edges)?;
        self.check_neighbors(sources.iter().chain(destinations))?;
        let starts =
            sources.iter().zip(degrees).flat_map(|(&source, &degree)| (0..degree).map(move |_| source));
        Ok(starts
            .zip(destinations)
            .enumerate()
            .flat_map(|(edge, (source, &destination))| {
                let ends = u64::from(source) << 32 | u64::from(destination);
                [ends, u64::from(weights.of(edge))]
            })
            .chain([u64::from(*weights != Weights::Unweighted)])
            .collect())
    }

    /// Starts a [`create_distributed_graph`](Self::create_distributed_graph) from the words of all tasks.
    pub(crate) fn start_of_edges(
        &self,
        lists: &[Vec<u64>],
        info: &Info,
    ) -> Result<PendingCommunicator<F, L>> {
        let is_weighted = lists.iter().any(|list| list.last() == Some(&1));
        let edges = lists.iter().flat_map(|list| list.chunks_exact(2)).map(|edge| {
            let [source, destination] = [edge[0] >> 32, edge[0] & u64::from(u32::MAX)].map(narrow);
            (source, destination, narrow(edge[1]))
        });
        let (mut into, mut from) = (Vec::new(), Vec::new());
        for (source, destination, weight) in edges {
            if destination == self.rank() {
                into.push((source, weight));
            }
            if source == self.rank() {
                from.push((destination, weight));
            }
        }
        let taken_apart = |edges: Vec<(u32, u32)>| {
            let (ends, weights) = edges.into_iter().unzip();
            (ends, if is_weighted { Weights::Each(weights) } else { Weights::Unweighted })
        };
        let (sources, source_weights) = taken_apart(into);
        let (destinations, destination_weights) = taken_apart(from);
        let graph = DistributedGraph { sources, source_weights, destinations, destination_weights };
        self.start_distributed(graph, info)
    }

    fn start_distributed(&self, graph: DistributedGraph, info: &Info) -> Result<PendingCommunicator<F, L>> {
        let group = self.first_ranks("create_distributed_graph", self.size())?;
        let topology = Topology::DistributedGraph(Arc::new(graph));
        self.start_with(group, Some(topology), info)
    }

    /// The distributed graph.
    ///
    /// # Errors
    /// The communicator has no such topology.
    pub fn distributed_graph(&self) -> Result<&DistributedGraph> {
        match self.topology() {
            Some(Topology::DistributedGraph(graph)) => Ok(graph),
            _ => Err(self.no_such_topology("distributed_graph")),
        }
    }

    fn no_such_topology(&self, call: &'static str) -> Error {
        let what = "the communicator has no such topology; the value is its size";
        Error::refused(ErrorClass::Topology, call, what, i64::from(self.size()))
    }

    fn check_neighbors<'a>(&self, mut ranks: impl Iterator<Item = &'a u32>) -> Result<()> {
        match ranks.find(|&&rank| rank >= self.size()) {
            Some(&rank) => Err(Error::UnknownRank { rank, size: self.size() }),
            None => Ok(()),
        }
    }

    /// The group of the first tasks, for a topology.
    pub(super) fn first_ranks(&self, call: &'static str, count: u32) -> Result<Group> {
        if self.is_inter() {
            let what = "an inter-communicator has no topology; the value is the topology's number of ranks";
            return Err(Error::refused(ErrorClass::Communicator, call, what, i64::from(count)));
        }
        if count > self.size() {
            let what = "the topology has more ranks than the communicator; the value is the topology's number of ranks";
            return Err(Error::refused(ErrorClass::Argument, call, what, i64::from(count)));
        }
        self.group().incl(&(0..count).collect::<Vec<_>>())
    }
}

fn narrow(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_between_their_indexes() {
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2]).unwrap();
        assert_eq!(graph.neighbors(0).unwrap(), [1, 3]);
        assert_eq!(graph.neighbors(2).unwrap(), [3]);
        assert_eq!(graph.neighbors(3).unwrap(), [0, 2]);
        assert_eq!(graph.neighbors(4).unwrap_err().class(), ErrorClass::Rank);
    }

    #[test]
    fn graphs_that_cannot_be_are_refused() {
        for (index, edges) in [(&[2, 1][..], &[0][..]), (&[1], &[1]), (&[2], &[0]), (&[], &[0])] {
            assert_eq!(Graph::new(index, edges).unwrap_err().class(), ErrorClass::Topology);
        }
    }
}
