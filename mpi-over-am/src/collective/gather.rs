//! Gather and scatter: the root exchanges a message with each task. In a gather, the root posts all receives before it waits, so no task
//! waits for another.

use super::Plan;
use super::parts::Parts;
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;

/// Collects the blocks of all tasks in rank `root`'s `into`. `own` is this task's block; `None` at the root: the block is already in its
/// place in `into` (`MPI_IN_PLACE`).
pub(super) fn gather(
    plan: &mut impl Plan,
    own: Option<&SendData>,
    into: Option<&Parts<RecvData>>,
    root: u32,
) -> Result<()> {
    let rank = plan.rank();
    if rank != root {
        return own.map_or(Ok(()), |own| plan.push(own, root));
    }
    let Some(into) = into else { return Ok(()) };
    if let Some(own) = own {
        plan.copy(own, &into.of(rank))?;
    }
    let mut others = (0..plan.size()).filter(|&from| from != rank);
    let last = others.next_back();
    for from in others {
        plan.receive(&into.of(from), from)?;
    }
    // The last receive is a blocking one, so with two tasks the root needs no request.
    if let Some(last) = last {
        plan.pull(&into.of(last), last)?;
    }
    plan.wait()
}

/// Sends every task its part of the root's data. At the root, `into` is `None` if the root's part stays where it is.
pub(super) fn scatter(
    plan: &mut impl Plan,
    parts: Option<&Parts<SendData>>,
    into: Option<&RecvData>,
    root: u32,
) -> Result<()> {
    let rank = plan.rank();
    if rank != root {
        return into.map_or(Ok(()), |into| plan.pull(into, root));
    }
    let Some(parts) = parts else { return Ok(()) };
    for to in (0..plan.size()).filter(|&to| to != rank) {
        plan.send(&parts.of(to), to)?;
    }
    if let Some(into) = into {
        plan.copy(&parts.of(rank), into)?;
    }
    plan.wait()
}
