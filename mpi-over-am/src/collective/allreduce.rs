//! The allreduce.
//!
//! Short vectors of a few tasks: recursive doubling. In each round a task exchanges its partial result with a partner and combines the two;
//! after log n rounds all tasks have the result. Vectors are combined in the order of the ranks, so this also serves operations that do not
//! commute.
//!
//! Short vectors of more tasks: a reduction to rank 0, and a broadcast. Most tasks then wait once instead of log n times.
//!
//! Long vectors: each task reduces one chunk, and sends the result to all ([`stages`]). Each element is sent about twice, whatever the
//! number of tasks. A ring sends as much, but waits for a neighbour in each of its 2n - 2 steps.
//!
//! In all cases the order of combination does not depend on the order of arrival, and all tasks get the same bits. A board combines short
//! vectors in the same order ([`Order`](crate::message::board::Order)).

use super::{Plan, broadcast, reduce, stages};
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::settings::Selection;

/// Combines the vectors of all tasks into every task's `into`. `own` is this task's vector; `None`: it is already in `into`
/// (`MPI_IN_PLACE`).
pub(super) fn allreduce(plan: &mut impl Plan, own: Option<&SendData>, into: &RecvData) -> Result<()> {
    if is_in_parts(into, &plan.selection(), plan.size()) {
        return stages::reduce(plan, own, Some(into), None);
    }
    if let Some(own) = own {
        plan.copy(own, into)?;
    }
    match plan.size() {
        1 => Ok(()),
        size if plan.selection().uses_rounds(size.into()) => by_doubling(plan, into),
        _ => {
            reduce::by_tree(plan, &into.as_send(), Some(into), (0, true))?;
            broadcast::by_tree(plan, into, 0)
        }
    }
}

/// Whether each of `size` tasks reduces a part of a vector like `into`.
pub(super) fn is_in_parts(into: &RecvData, selection: &Selection, size: u32) -> bool {
    into.packed_len() > selection.allreduce_doubling_bytes_max && into.count() >= u64::from(size) && size > 1
}

/// Combines by recursive doubling. If the number of ranks is not a power of two, the first ranks are folded in pairs until a power of two
/// is left: the even rank of a pair sends its vector to the odd rank, and receives the result at the end.
fn by_doubling(plan: &mut impl Plan, into: &RecvData) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let in_rounds = 1 << size.ilog2();
    let folded = size - in_rounds;
    if rank < 2 * folded && rank.is_multiple_of(2) {
        plan.push(&into.as_send(), rank + 1)?;
        return plan.pull(into, rank + 1);
    }
    let other = plan.scratch(into.count(), into.datatype())?;
    if rank < 2 * folded {
        plan.pull(&other, rank - 1)?;
        plan.combine(&other.as_send(), into)?;
    }
    let number = if rank < 2 * folded { rank / 2 } else { rank - folded };
    let (mut result, mut other) = (into.clone(), other);
    let mut is_elsewhere = false;
    let mut distance = 1;
    while distance < in_rounds {
        let partner = number ^ distance;
        let partner_rank = if partner < folded { 2 * partner + 1 } else { partner + folded };
        plan.across((&result.as_send(), partner_rank), (&other, partner_rank))?;
        if partner < number {
            plan.combine(&other.as_send(), &result)?;
        } else {
            plan.combine(&result.as_send(), &other)?;
            std::mem::swap(&mut result, &mut other);
            is_elsewhere = !is_elsewhere;
        }
        distance *= 2;
    }
    if is_elsewhere {
        plan.copy(&result.as_send(), into)?;
    }
    if rank < 2 * folded { plan.push(&into.as_send(), rank - 1) } else { Ok(()) }
}
