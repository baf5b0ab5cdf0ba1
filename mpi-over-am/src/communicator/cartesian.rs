//! Communicators with the topology of a grid.

use std::sync::Arc;

use am_core::fabric::Fabric;

use super::{Communicator, PendingCommunicator};
use crate::communicator::info::Info;
use crate::communicator::topology::{Cartesian, Topology};
use crate::error::{Error, ErrorClass, Result};
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A communicator of the first tasks, as a grid (`MPI_Cart_create`); `None` for the other tasks, and for all tasks if a dimension has
    /// size 0. Collective.
    ///
    /// # Errors
    /// A grid of more tasks than the communicator has; different numbers of periods and sizes; an inter-communicator; all context ids are
    /// in use; an error while making progress.
    pub fn create_cartesian(&self, dimensions: &[u32], periods: &[bool]) -> Result<Option<Self>> {
        self.start_cartesian(dimensions, periods)?.map_or(Ok(None), PendingCommunicator::wait_for_part)
    }

    /// Starts a [`create_cartesian`](Self::create_cartesian); `None` for an empty grid.
    pub(crate) fn start_cartesian(
        &self,
        dimensions: &[u32],
        periods: &[bool],
    ) -> Result<Option<PendingCommunicator<F, L>>> {
        if dimensions.len() == periods.len() && dimensions.contains(&0) {
            self.first_ranks("create_cartesian", 0)?;
            return Ok(None);
        }
        let grid = Cartesian::new(dimensions, periods)?;
        let group = self.first_ranks("create_cartesian", grid.size())?;
        self.start_with(group, Some(Topology::Cartesian(Arc::new(grid))), &Info::new()).map(Some)
    }

    /// The grid.
    ///
    /// # Errors
    /// The communicator is not a grid.
    pub fn cartesian(&self) -> Result<&Cartesian> {
        match self.topology() {
            Some(Topology::Cartesian(grid)) => Ok(grid),
            _ => {
                let what = "the communicator is not a grid; the value is its size";
                let size = i64::from(self.size());
                Err(Error::refused(ErrorClass::Topology, "cartesian", what, size))
            }
        }
    }

    /// The rank that this task would get in a grid (`MPI_Cart_map`): its own, or `None` outside the grid or for an empty grid.
    ///
    /// # Errors
    /// A grid of more tasks than the communicator has; different numbers of periods and sizes; an inter-communicator, unless the grid is
    /// empty.
    pub fn map_cartesian(&self, dimensions: &[u32], periods: &[bool]) -> Result<Option<u32>> {
        if dimensions.len() == periods.len() && dimensions.contains(&0) {
            return Ok(None);
        }
        let grid = Cartesian::new(dimensions, periods)?;
        self.first_ranks("map_cartesian", grid.size())?;
        Ok((self.rank() < grid.size()).then_some(self.rank()))
    }

    /// A communicator of the tasks whose coordinates differ from this task's only in the dimensions that remain (`MPI_Cart_sub`).
    /// Collective.
    ///
    /// # Errors
    /// The communicator is not a grid; `remains` does not have one entry for each dimension.
    pub fn sub_cartesian(&self, remains: &[bool]) -> Result<Self> {
        let Slice { grid, color, key } = self.slice(remains)?;
        let part = self.split(Some(color), key)?.expect("a colour was given");
        Ok(part.with_topology(Topology::Cartesian(Arc::new(grid))))
    }

    /// The grid that [`sub_cartesian`](Self::sub_cartesian) makes, and the arguments of its split.
    pub(crate) fn slice(&self, remains: &[bool]) -> Result<Slice> {
        let grid = self.cartesian()?;
        if remains.len() != grid.dimensions().len() {
            let (given, expected) = (remains.len(), grid.dimensions().len());
            return Err(Error::Count { call: "sub_cartesian", given, expected });
        }
        let kept = |values: Vec<u32>| {
            values.into_iter().zip(remains).filter(|(_, remain)| **remain).map(|(v, _)| v).collect()
        };
        let (mut color, mut key) = (0, 0);
        for ((&size, at), &remain) in
            grid.dimensions().iter().zip(grid.coordinates(self.rank())?).zip(remains)
        {
            let part = if remain { &mut key } else { &mut color };
            *part = *part * size + at;
        }
        let (color, key) = (i32::try_from(color), i32::try_from(key));
        let (Ok(color), Ok(key)) = (color, key) else {
            return Err(Error::TooLarge { call: "sub_cartesian" });
        };
        let dimensions: Vec<u32> = kept(grid.dimensions().to_vec());
        let periods: Vec<bool> = grid
            .periods()
            .iter()
            .zip(remains)
            .filter(|(_, remain)| **remain)
            .map(|(&period, _)| period)
            .collect();
        Ok(Slice { grid: Cartesian::new(&dimensions, &periods)?, color, key })
    }
}

/// A part of a grid, and the arguments of the split that makes its communicator.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) grid: Cartesian,
    pub(crate) color: i32,
    pub(crate) key: i32,
}
