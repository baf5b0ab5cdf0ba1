//! Everybody sends everybody a block of its own. Each task begins with its next neighbour, so that not all send to the same one.

use super::Plan;
use super::call::Parts;
use crate::buffer::{RecvData, SendData};
use crate::error::Result;
use mpi_datatype::{Datatype, Predefined};

/// Sends part `r` of `parts` to rank `r`, and receives part `r` of `into` from there. `parts` is `None` where `into` holds
/// them.
pub(super) fn alltoall(
    plan: &mut impl Plan,
    parts: Option<&Parts<SendData>>,
    into: &Parts<RecvData>,
) -> Result<()> {
    match parts {
        Some(parts) => exchange(plan, |_, rank| Ok(parts.of(rank)), into),
        None => in_place(plan, into),
    }
}

fn exchange<P: Plan>(
    plan: &mut P,
    mut part_for: impl FnMut(&mut P, u32) -> Result<SendData>,
    into: &Parts<RecvData>,
) -> Result<()> {
    let rank = plan.rank();
    for (from, to) in super::partners(rank, plan.size()) {
        plan.receive(&into.of(from), from)?;
        let part = part_for(plan, to)?;
        plan.send(&part, to)?;
    }
    let part = part_for(plan, rank)?;
    plan.copy(&part, &into.of(rank))?;
    plan.wait()
}

/// What is sent is copied first, since it lies where the rest comes in.
fn in_place(plan: &mut impl Plan, into: &Parts<RecvData>) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let lens: Vec<u64> = (0..size).map(|rank| into.of(rank).packed_len()).collect();
    let copies = plan.scratch(lens.iter().sum(), &Datatype::predefined(Predefined::Byte))?;
    let mut first = 0;
    let mut parts = Vec::with_capacity(lens.len());
    for (rank, len) in (0..size).zip(lens) {
        let copy = copies.part(first, len);
        plan.copy(&into.of(rank).as_send(), &copy)?;
        parts.push(copy.as_send());
        first += len.cast_signed();
    }
    for (from, to) in super::partners(rank, size) {
        plan.receive(&into.of(from), from)?;
        plan.send(&parts[to as usize], to)?;
    }
    plan.wait()
}
