//! Virtual topologies of communicators that several threads use.

use std::sync::Arc;

use am_core::fabric::Fabric;

use super::SharedCommunicator;
use super::communicator::Handle;
use crate::collective::Neighbours;
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::topology::{Cartesian, DistributedGraph, Graph, Topology, Weights};

impl<F: Fabric> SharedCommunicator<F> {
    pub(super) fn with<R: Send>(&self, call: impl FnOnce(&Communicator<F>) -> Result<R>) -> Result<R> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, call)
    }

    /// As [`Communicator::create_cartesian`].
    ///
    /// # Errors
    /// As there.
    pub fn create_cartesian(&self, dimensions: &[u32], periods: &[bool]) -> Result<Option<Self>> {
        self.make(|inside| inside.start_cartesian(dimensions, periods))
    }

    /// As [`Communicator::sub_cartesian`].
    ///
    /// # Errors
    /// As there.
    pub fn sub_cartesian(&self, remains: &[bool]) -> Result<Self> {
        let slice = self.with(|inside| inside.slice(remains))?;
        let topology = Topology::Cartesian(Arc::new(slice.grid));
        let part = self.split_into(Some(slice.color), slice.key, |part| part.with_topology(topology))?;
        Ok(part.expect("a colour was given"))
    }

    /// As [`Communicator::create_graph`].
    ///
    /// # Errors
    /// As there.
    pub fn create_graph(&self, index: &[u32], edges: &[u32]) -> Result<Option<Self>> {
        self.make(|inside| inside.start_graph(index, edges).map(Some))
    }

    /// As [`Communicator::create_distributed_graph_adjacent`].
    ///
    /// # Errors
    /// As there.
    pub fn create_distributed_graph_adjacent(
        &self,
        sources: (&[u32], &Weights),
        destinations: (&[u32], &Weights),
        info: &Info,
    ) -> Result<Self> {
        let made = self.make(|inside| inside.start_adjacent(sources, destinations, info).map(Some))?;
        Ok(made.expect("every task is a member"))
    }

    /// As [`Communicator::create_distributed_graph`].
    ///
    /// # Errors
    /// As there.
    pub fn create_distributed_graph(
        &self,
        sources: (&[u32], &[u32]),
        destinations: &[u32],
        weights: &Weights,
        info: &Info,
    ) -> Result<Self> {
        let own = self.with(|inside| inside.edges(sources, destinations, weights))?;
        let lists = self.gather_lists(&own)?;
        let made = self.make(|inside| inside.start_of_edges(&lists, info).map(Some))?;
        Ok(made.expect("every task is a member"))
    }

    /// What each task has to say, by rank; each may give another number of words. The same steps as those of a task of one thread.
    fn gather_lists(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let mut lengths = self.with(|inside| Ok(inside.placed_words(&[own.len() as u64])))?;
        self.combine(&mut lengths)?;
        let lengths: Vec<usize> = lengths
            .into_iter()
            .map(|len| usize::try_from(len).map_err(|_| Error::TooLarge { call: "a list of words" }))
            .collect::<Result<_>>()?;
        let before: usize = lengths[..self.rank() as usize].iter().sum();
        let mut all = vec![0; lengths.iter().sum()];
        all[before..][..own.len()].copy_from_slice(own);
        self.combine(&mut all)?;
        let mut rest = all.into_iter();
        Ok(lengths.into_iter().map(|len| rest.by_ref().take(len).collect()).collect())
    }

    /// As [`Communicator::map_cartesian`].
    ///
    /// # Errors
    /// As there.
    pub fn map_cartesian(&self, dimensions: &[u32], periods: &[bool]) -> Result<Option<u32>> {
        self.with(|inside| inside.map_cartesian(dimensions, periods))
    }

    /// As [`Communicator::map_graph`].
    ///
    /// # Errors
    /// As there.
    pub fn map_graph(&self, index: &[u32], edges: &[u32]) -> Result<Option<u32>> {
        self.with(|inside| inside.map_graph(index, edges))
    }

    /// The virtual topology, if it has one.
    ///
    /// # Errors
    /// A call inside another one.
    pub fn topology(&self) -> Result<Option<Topology>> {
        self.with(|inside| Ok(inside.topology().cloned()))
    }

    /// The grid.
    ///
    /// # Errors
    /// The communicator has none.
    pub fn cartesian(&self) -> Result<Cartesian> {
        self.with(|inside| inside.cartesian().cloned())
    }

    /// The graph that everybody knows.
    ///
    /// # Errors
    /// The communicator has none.
    pub fn graph(&self) -> Result<Graph> {
        self.with(|inside| inside.graph().cloned())
    }

    /// The graph of which each task knows its part.
    ///
    /// # Errors
    /// The communicator has none.
    pub fn distributed_graph(&self) -> Result<DistributedGraph> {
        self.with(|inside| inside.distributed_graph().cloned())
    }

    /// The neighbours that the communicator's topology gives this task; `None` if it has none.
    ///
    /// # Errors
    /// A call inside another one.
    pub fn neighbours(&self) -> Result<Option<Neighbours>> {
        self.with(|inside| Ok(inside.neighbours()))
    }
}
