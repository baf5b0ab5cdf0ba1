//! The reduction with a part of its result at each task.
//!
//! Each task sends each other task its part of that task's chunk, and combines the received parts in the order of the ranks. This is one
//! step, and keeps the order for operations that do not commute.

use super::Plan;
use super::chunks::Chunks;
use crate::buffer::{RecvData, SendData};
use crate::error::Result;

/// Combines all tasks' chunks for this task into `into`. `own` is `None` if `into` initially holds the whole vector.
pub(super) fn reduce_scatter(
    plan: &mut impl Plan,
    own: Option<&SendData>,
    into: &RecvData,
    chunks: &Chunks,
) -> Result<()> {
    let (first, count) = chunks.of(plan.rank());
    let memory = slots(plan, into, count)?;
    let result = into.part(0, count);
    if let Some(own) = own {
        return exchange(plan, (own, false), chunks, (&result, &memory));
    }
    // The chunks for the other tasks are in the memory of the result.
    let chunk = plan.scratch(count, into.datatype())?;
    plan.copy(&into.part(first, count).as_send(), &chunk)?;
    exchange(plan, (&into.as_send(), true), chunks, (&chunk, &memory))?;
    plan.copy(&chunk.as_send(), &result)
}

/// Memory for the other tasks' parts of a chunk.
pub(super) fn slots(plan: &mut impl Plan, like: &RecvData, count: u64) -> Result<RecvData> {
    let others = u64::from(plan.size() - 1);
    plan.scratch(count * others, like.datatype())
}

/// Combines all tasks' parts of this task's chunk in `chunk`, which holds this task's own part already if `is_in_place`. `own` has the
/// parts for the other tasks, and `slots` the memory for theirs.
pub(super) fn exchange(
    plan: &mut impl Plan,
    (own, is_in_place): (&SendData, bool),
    chunks: &Chunks,
    (chunk, slots): (&RecvData, &RecvData),
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let part_for = |to: u32| {
        let (first, count) = chunks.of(to);
        own.part(first, count)
    };
    let (_, count) = chunks.of(rank);
    // One task's part is received in the chunk, unless this task's own is there, and then needs no copy.
    let in_chunk = (plan.is_commutative() && !is_in_place && size > 1).then_some(u32::from(rank == 0));
    if !is_in_place && in_chunk.is_none() {
        plan.copy(&part_for(rank), chunk)?;
    }
    // This task itself has no slot.
    let slot = |from: u32| {
        if in_chunk == Some(from) {
            return chunk.clone();
        }
        let number = if from < rank { from } else { from - 1 };
        slots.part((u64::from(number) * count).cast_signed(), count)
    };
    super::exchange(plan, part_for, slot)?;
    if count == 0 || size == 1 {
        return Ok(());
    }
    if plan.is_commutative() {
        if in_chunk.is_some() {
            plan.combine(&part_for(rank), chunk)?;
        }
        return (0..size)
            .filter(|&from| from != rank && in_chunk != Some(from))
            .try_for_each(|from| plan.combine(&slot(from).as_send(), chunk));
    }
    for later in 1..rank {
        plan.combine(&slot(later - 1).as_send(), &slot(later))?;
    }
    if rank > 0 {
        plan.combine(&slot(rank - 1).as_send(), chunk)?;
    }
    let mut reduced = chunk.clone();
    for later in rank + 1..size {
        plan.combine(&reduced.as_send(), &slot(later))?;
        reduced = slot(later);
    }
    if rank + 1 < size { plan.copy(&reduced.as_send(), chunk) } else { Ok(()) }
}
