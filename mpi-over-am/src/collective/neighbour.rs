//! Collectives among neighbours (MPI 5.0 section 8.6). There are few neighbours, so each gets its message directly.

use am_core::fabric::Fabric;

use super::Plan;
use super::parts::{Neighbours, Parts};
use crate::communicator::Communicator;
use crate::communicator::topology::Topology;
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// This task's neighbours in the communicator's topology; `None` if it has no topology.
    #[must_use]
    pub fn neighbours(&self) -> Option<Neighbours> {
        let topology = self.topology()?;
        let (sources, destinations) = topology.neighbors(self.rank());
        Some(Neighbours { sources, destinations, is_grid: matches!(topology, Topology::Cartesian(_)) })
    }
}

/// Sends `own` to each destination, and receives part `i` of `into` from source `i`.
pub(super) fn allgather(
    plan: &mut impl Plan,
    own: &SendData,
    into: &Parts<RecvData>,
    neighbours: &Neighbours,
) -> Result<()> {
    exchange(plan, |_| own.clone(), into, neighbours)
}

/// Sends part `i` of `parts` to destination `i`, and receives part `i` of `into` from source `i`.
pub(super) fn alltoall(
    plan: &mut impl Plan,
    parts: &Parts<SendData>,
    into: &Parts<RecvData>,
    neighbours: &Neighbours,
) -> Result<()> {
    exchange(plan, |index| parts.of(index), into, neighbours)
}

fn exchange(
    plan: &mut impl Plan,
    part: impl Fn(u32) -> SendData,
    into: &Parts<RecvData>,
    neighbours: &Neighbours,
) -> Result<()> {
    for index in neighbours.receiving_order() {
        if let Some(source) = neighbours.sources[index as usize] {
            plan.receive(&into.of(index), source)?;
        }
    }
    for (index, destination) in (0..).zip(&neighbours.destinations) {
        if let Some(destination) = *destination {
            plan.send(&part(index), destination)?;
        }
    }
    plan.wait()
}
