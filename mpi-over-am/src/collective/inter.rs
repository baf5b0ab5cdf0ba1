//! Collectives between the two groups of an inter-communicator (MPI 5.0 section 6.2.3): each group gets the data of the other group.
//!
//! In a barrier or reduction, each group first works among its own tasks, and then its first rank exchanges the result with the other
//! group. A broadcast goes through the first rank of the receiving group. All other data are sent directly.

use super::broadcast::{self};
use super::call::Collective;
use super::chunks::Chunks;
use super::parts::Parts;
use super::{Plan, gather, nothing};
use crate::data::buffer::{RecvData, SendData};
use crate::data::op::Op;
use crate::error::{Error, ErrorClass, Result};
use crate::rank::{PROC_NULL, ROOT};

/// Carries out this task's part.
///
/// # Errors
/// Those of the plan; a collective that inter-communicators do not have.
pub(super) fn perform(collective: &Collective, plan: &mut impl Plan) -> Result<()> {
    match collective {
        Collective::Barrier => barrier(plan),
        Collective::Broadcast { data, root } => broadcast(plan, data, *root),
        Collective::Gather { send, recv, root, .. } => match *root {
            ROOT => receive_all(plan, recv.as_ref()),
            PROC_NULL => Ok(()),
            root => send.as_ref().map_or(Ok(()), |send| plan.push(send, root)),
        },
        Collective::Scatter { send, recv, root, .. } => match *root {
            ROOT => send_all(plan, send.as_ref()),
            PROC_NULL => Ok(()),
            root => recv.as_ref().map_or(Ok(()), |recv| plan.pull(recv, root)),
        },
        Collective::Allgather { send: Some(send), recv } => exchange(plan, |_| send.clone(), recv),
        Collective::Alltoall { send: Some(send), recv } => exchange(plan, |rank| send.of(rank), recv),
        Collective::Reduce { send, recv, root, .. } => match (*root, send, recv) {
            (ROOT, _, Some(recv)) => plan.pull(recv, 0),
            (ROOT | PROC_NULL, ..) | (_, None, _) => Ok(()),
            (root, Some(send), _) => match reduced(plan, send)? {
                Some(reduced) => plan.push(&reduced.as_send(), root),
                None => Ok(()),
            },
        },
        Collective::Allreduce { send: Some(send), recv, .. } => {
            if let Some(reduced) = reduced(plan, send)? {
                plan.across((&reduced.as_send(), 0), (recv, 0))?;
            }
            plan.among_own(|plan| from_first(recv).perform(plan))
        }
        Collective::ReduceScatterBlock { send: Some(send), recv, .. }
        | Collective::ReduceScatter { send: Some(send), recv, .. } => {
            reduce_scatter(plan, send, recv, &collective.chunks())
        }
        _ => {
            let what =
                "inter-communicators have no such collective; the value is the size of the local group";
            let size = i64::from(plan.size());
            Err(Error::refused(ErrorClass::Communicator, "a collective", what, size))
        }
    }
}

fn barrier(plan: &mut impl Plan) -> Result<()> {
    let (out, incoming) = nothing();
    plan.among_own(|plan| Collective::Barrier.perform(plan))?;
    if plan.rank() == 0 {
        plan.across((&out, 0), (&incoming, 0))?;
    }
    plan.among_own(|plan| broadcast::by_tree(plan, &incoming, 0))
}

fn broadcast(plan: &mut impl Plan, data: &RecvData, root: u32) -> Result<()> {
    match root {
        ROOT => plan.push(&data.as_send(), 0),
        PROC_NULL => Ok(()),
        root => {
            if plan.rank() == 0 {
                plan.pull(data, root)?;
            }
            plan.among_own(|plan| from_first(data).perform(plan))
        }
    }
}

/// A broadcast of rank 0's data within the local group.
fn from_first(data: &RecvData) -> Collective {
    Collective::Broadcast { data: data.clone(), root: 0 }
}

fn receive_all(plan: &mut impl Plan, recv: Option<&Parts<RecvData>>) -> Result<()> {
    let Some(recv) = recv else { return Ok(()) };
    (0..plan.peers()).try_for_each(|from| plan.receive(&recv.of(from), from))?;
    plan.wait()
}

fn send_all(plan: &mut impl Plan, send: Option<&Parts<SendData>>) -> Result<()> {
    let Some(send) = send else { return Ok(()) };
    (0..plan.peers()).try_for_each(|to| plan.send(&send.of(to), to))?;
    plan.wait()
}

fn exchange(plan: &mut impl Plan, part: impl Fn(u32) -> SendData, recv: &Parts<RecvData>) -> Result<()> {
    (0..plan.peers()).try_for_each(|from| plan.receive(&recv.of(from), from))?;
    (0..plan.peers()).try_for_each(|to| plan.send(&part(to), to))?;
    plan.wait()
}

/// The reduction of the local group's vectors. `None` except at the group's first rank.
fn reduced(plan: &mut impl Plan, own: &SendData) -> Result<Option<RecvData>> {
    let into = if plan.rank() == 0 { Some(plan.scratch(own.count(), own.datatype())?) } else { None };
    let reduction =
        Collective::Reduce { send: Some(own.clone()), recv: into.clone(), op: Op::BESIDE, root: 0 };
    plan.among_own(|plan| reduction.perform(plan))?;
    Ok(into)
}

fn reduce_scatter(plan: &mut impl Plan, own: &SendData, into: &RecvData, chunks: &Chunks) -> Result<()> {
    let reduced = reduced(plan, own)?;
    let (_, count) = chunks.of(plan.rank());
    let into = into.part(0, count);
    let Some(reduced) = reduced else {
        return plan.among_own(|plan| gather::scatter(plan, None, Some(&into), 0));
    };
    let theirs = plan.scratch(own.count(), own.datatype())?;
    plan.across((&reduced.as_send(), 0), (&theirs, 0))?;
    let parts = (0..plan.size()).map(|rank| {
        let (first, count) = chunks.of(rank);
        theirs.part(first, count).as_send()
    });
    let parts = Parts::Listed(parts.collect());
    plan.among_own(|plan| gather::scatter(plan, Some(&parts), Some(&into), 0))
}
