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
    let own = own.cloned().unwrap_or_else(|| into.as_send());
    let (first, count) = chunks.of(plan.rank());
    let into = into.part(0, count);
    if plan.size() == 1 {
        return if own.at() == into.at().cast_const() && first == 0 {
            Ok(())
        } else {
            plan.copy(&own.part(first, count), &into)
        };
    }
    let reduced = exchange(plan, &own, chunks)?;
    plan.copy(&reduced, &into)
}

/// This task's chunk, reduced, in scratch memory.
pub(super) fn exchange(plan: &mut impl Plan, own: &SendData, chunks: &Chunks) -> Result<SendData> {
    let (rank, size) = (plan.rank(), plan.size());
    let (first, count) = chunks.of(rank);
    let slots = plan.scratch(count * u64::from(size), own.datatype())?;
    let slot = |rank: u32| slots.part((u64::from(rank) * count).cast_signed(), count);
    for (from, to) in super::partners(rank, size) {
        if count > 0 {
            plan.receive(&slot(from), from)?;
        }
        let (first, count) = chunks.of(to);
        if count > 0 {
            plan.send(&own.part(first, count), to)?;
        }
    }
    plan.copy(&own.part(first, count), &slot(rank))?;
    plan.wait()?;
    if count > 0 {
        for later in 1..size {
            plan.combine(&slot(later - 1).as_send(), &slot(later))?;
        }
    }
    Ok(slot(size - 1).as_send())
}
