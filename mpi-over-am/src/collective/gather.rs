//! Gather and scatter: the root talks to each task. All of its receives are posted first, so that nobody waits for another.

use super::Plan;
use super::call::Parts;
use crate::buffer::{RecvData, SendData};
use crate::error::Result;

/// Collects every task's `own` in `into` at rank `root`. At the root `own` is `None` where it is in its place.
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
    // Of two tasks the root needs no request.
    if let Some(last) = last {
        plan.pull(&into.of(last), last)?;
    }
    plan.wait()
}

/// Gives every task its part of what rank `root` has. At the root `into` is `None` where it stays in its place.
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
