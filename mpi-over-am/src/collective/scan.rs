//! Prefix reductions by recursive doubling. After round k a task has the result for the 2^k ranks up to its own.

use super::Plan;
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;

/// Combines the vectors of rank 0 up to this rank into `into`. `own` is this task's vector; `None`: it is already in `into`
/// (`MPI_IN_PLACE`).
pub(super) fn inclusive(plan: &mut impl Plan, own: Option<&SendData>, into: &RecvData) -> Result<()> {
    if let Some(own) = own {
        plan.copy(own, into)?;
    }
    if plan.size() == 1 {
        return Ok(());
    }
    let earlier = plan.scratch(into.count(), into.datatype())?;
    rounds(plan, &into.clone(), &earlier, |_, _| Ok(()))
}

/// Combines the vectors of the ranks before this one into `into`, which is unchanged at rank 0. `own`: as in [`inclusive`].
pub(super) fn exclusive(plan: &mut impl Plan, own: Option<&SendData>, into: &RecvData) -> Result<()> {
    if plan.size() == 1 {
        return Ok(());
    }
    let own = own.cloned().unwrap_or_else(|| into.as_send());
    let with_own = plan.scratch(into.count(), into.datatype())?;
    let earlier = plan.scratch(into.count(), into.datatype())?;
    plan.copy(&own, &with_own)?;
    let mut is_first = true;
    rounds(plan, &with_own, &earlier, |plan, earlier| {
        if std::mem::take(&mut is_first) { plan.copy(earlier, into) } else { plan.combine(earlier, into) }
    })
}

/// Replaces `reduced` with the result for all ranks up to this one. Calls `each` with every partial result that it receives from earlier
/// ranks.
fn rounds<P: Plan>(
    plan: &mut P,
    reduced: &RecvData,
    earlier: &RecvData,
    mut each: impl FnMut(&mut P, &SendData) -> Result<()>,
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let mut distance = 1;
    while distance < size {
        let later = rank.checked_add(distance).filter(|&later| later < size);
        if rank >= distance {
            plan.receive(earlier, rank - distance)?;
        }
        if let Some(later) = later {
            plan.send(&reduced.as_send(), later)?;
        }
        plan.wait()?;
        if rank >= distance {
            each(plan, &earlier.as_send())?;
            plan.combine(&earlier.as_send(), reduced)?;
        }
        distance = distance.saturating_mul(2);
    }
    Ok(())
}
