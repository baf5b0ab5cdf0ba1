//! The alltoall: each task sends a different block to each task.
//!
//! Long blocks are sent directly. Each task begins with the next rank after its own, so that not all tasks send to the same task at once.
//! Many tasks with short blocks of the same length work in rounds: in each, a task passes about half of its blocks on to the task 1, 2, 4,
//! ... ranks after it (Bruck et al. 1997). A task then sends log n messages instead of n - 1, over log n connections.

use super::parts::Parts;
use super::{Plan, exchange};
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use mpi_datatype::{Datatype, Predefined};

/// Sends part `r` of `parts` to rank `r`, and receives part `r` of `into` from it. `parts` is `None` if `into` also holds the data to send.
pub(super) fn alltoall(
    plan: &mut impl Plan,
    parts: Option<&Parts<SendData>>,
    into: &Parts<RecvData>,
) -> Result<()> {
    let part_for = |to| parts.map_or_else(|| into.of(to).as_send(), |parts| parts.of(to));
    if let (Parts::Equal { all, .. }, None | Some(Parts::Equal { .. })) = (into, parts)
        && plan.size() > plan.selection().alltoall_linear_tasks_max
        && all.packed_len() <= plan.selection().alltoall_rounds_bytes_max
    {
        return in_rounds(plan, part_for, into);
    }
    if parts.is_none() {
        return in_place(plan, into);
    }
    let rank = plan.rank();
    plan.copy(&part_for(rank), &into.of(rank))?;
    exchange(plan, part_for, |from| into.of(from))
}

/// Exchanges the blocks in rounds. Initially, block `i` of the scratch memory is for the task `i` ranks after this one. At the end, it is
/// the block from the task `i` ranks before this one.
fn in_rounds(plan: &mut impl Plan, part_for: impl Fn(u32) -> SendData, into: &Parts<RecvData>) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let after = |distance: u32| {
        if rank < size - distance { rank + distance } else { rank - (size - distance) }
    };
    let block = into.of(rank).packed_len();
    // Behind the blocks lie copies of the blocks that a round sends, then the blocks that it receives: each time at most half of all
    // blocks.
    let (out, incoming) = (size, size + size / 2);
    let all = u64::from(size + size / 2 * 2) * block;
    let scratch = plan.scratch(all, &Datatype::predefined(Predefined::Byte))?;
    let blocks = |first: u32, count: u32| {
        scratch.part((u64::from(first) * block).cast_signed(), u64::from(count) * block)
    };
    for distance in 0..size {
        plan.copy(&part_for(after(distance)), &blocks(distance, 1))?;
    }
    let mut bit = 1;
    while bit < size {
        // Of each `2 * bit` blocks, the second half.
        let runs = (bit..size).step_by(2 * bit as usize).map(|first| (first, bit.min(size - first)));
        let mut moved = 0;
        for (first, count) in runs.clone() {
            plan.copy(&blocks(first, count).as_send(), &blocks(out + moved, count))?;
            moved += count;
        }
        let (to, from) = (after(bit), after(size - bit));
        plan.across((&blocks(out, moved).as_send(), to), (&blocks(incoming, moved), from))?;
        let mut taken = 0;
        for (first, count) in runs {
            plan.copy(&blocks(incoming + taken, count).as_send(), &blocks(first, count))?;
            taken += count;
        }
        bit *= 2;
    }
    for distance in 0..size {
        plan.copy(&blocks(distance, 1).as_send(), &into.of(after(size - distance)))?;
    }
    Ok(())
}

/// Exchanges the parts in `into`. Copies the data to send first, because the received data replace them.
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
