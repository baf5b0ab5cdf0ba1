//! Everybody sends everybody a block of its own. Each task begins with its next neighbour, so that not all send to the same one.

use super::call::Parts;
use super::{Plan, exchange};
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
    let Some(parts) = parts else { return in_place(plan, into) };
    let rank = plan.rank();
    plan.copy(&parts.of(rank), &into.of(rank))?;
    exchange(plan, |to| parts.of(to), |from| into.of(from))
}

/// What is sent is copied first, since it lies where the rest comes in.
fn in_place(plan: &mut impl Plan, into: &Parts<RecvData>) -> Result<()> {
    let size = plan.size();
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
    exchange(plan, |to| parts[to as usize].clone(), |from| into.of(from))
}
