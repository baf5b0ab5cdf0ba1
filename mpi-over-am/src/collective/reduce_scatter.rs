//! The reduction of which each task gets a part.
//!
//! Each task sends each other its part of that task's chunk, and combines what it gets in the order of the ranks: one step,
//! and the order is kept for operations that do not commute.

use super::Plan;
use super::chunks::Chunks;
use crate::buffer::{RecvData, SendData};
use crate::error::Result;

/// Combines everybody's chunk for this task into `into`. `own` is `None` where `into` holds the whole vector first.
pub(super) fn reduce_scatter(
    plan: &mut impl Plan,
    own: Option<&SendData>,
    into: &RecvData,
    chunks: &Chunks,
) -> Result<()> {
    let (first, count) = chunks.of(plan.rank());
    let room = slots(plan, into, count)?;
    let result = into.part(0, count);
    if let Some(own) = own {
        plan.copy(&own.part(first, count), &result)?;
        return exchange(plan, own, chunks, (&result, &room));
    }
    // What the others get lies where the result comes.
    let chunk = plan.scratch(count, into.datatype())?;
    plan.copy(&into.part(first, count).as_send(), &chunk)?;
    exchange(plan, &into.as_send(), chunks, (&chunk, &room))?;
    plan.copy(&chunk.as_send(), &result)
}

/// Room for what the others send of a chunk.
pub(super) fn slots(plan: &mut impl Plan, like: &RecvData, count: u64) -> Result<RecvData> {
    let others = u64::from(plan.size() - 1);
    plan.scratch(count * others, like.datatype())
}

/// Makes `chunk`, which is this task's part of its own chunk, what everybody's come to. `own` has what the others get, and
/// `slots` room for what comes from them.
pub(super) fn exchange(
    plan: &mut impl Plan,
    own: &SendData,
    chunks: &Chunks,
    (chunk, slots): (&RecvData, &RecvData),
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let (_, count) = chunks.of(rank);
    // This task itself has none.
    let slot = |from: u32| {
        let number = if from < rank { from } else { from - 1 };
        slots.part((u64::from(number) * count).cast_signed(), count)
    };
    for (from, to) in super::partners(rank, size) {
        if count > 0 {
            plan.receive(&slot(from), from)?;
        }
        let (first, count) = chunks.of(to);
        if count > 0 {
            plan.send(&own.part(first, count), to)?;
        }
    }
    plan.wait()?;
    if count == 0 || size == 1 {
        return Ok(());
    }
    if plan.is_commutative() {
        return (0..size)
            .filter(|&from| from != rank)
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
