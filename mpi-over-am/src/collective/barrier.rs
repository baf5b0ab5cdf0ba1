//! The barrier.
//!
//! A few tasks notify each other in rounds (dissemination; Hensgen, Finkel, Manber 1988), which is fastest if each task has a processor.
//! More tasks use a flat tree: it needs fewer messages (2n - 2 instead of n log n), and wakes all but the inner tasks only once; if tasks
//! share processors, wake-ups dominate. With 16 tasks on 2 cores, a tree with up to 16 children per task took half the time of a tree with
//! four, or of rounds (medians: 27 us against 60 to 80); with 3 to 8 tasks it was not slower.

use super::{Plan, nothing};
use crate::error::Result;
use crate::message::tree::Tree;

/// Completes only after all tasks have called `barrier`.
pub(super) fn barrier(plan: &mut impl Plan) -> Result<()> {
    if plan.selection().uses_rounds(plan.size().into()) { in_rounds(plan) } else { by_tree(plan) }
}

fn in_rounds(plan: &mut impl Plan) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let (out, incoming) = nothing();
    let mut distance = 1;
    while distance < size {
        // Sends and receives at the same time: if all tasks sent first, they would deadlock if messages are announced.
        let (next, last) = ((rank + distance) % size, (rank + size - distance) % size);
        plan.across((&out, next), (&incoming, last))?;
        distance *= 2;
    }
    Ok(())
}

fn by_tree(plan: &mut impl Plan) -> Result<()> {
    arrive(plan)?;
    leave(plan)
}

/// The way up the tree. At rank 0, completes only after all tasks have called `arrive`.
pub(super) fn arrive(plan: &mut impl Plan) -> Result<()> {
    let (place, (out, incoming)) = (place_in_tree(plan), nothing());
    place.children().try_for_each(|child| plan.pull(&incoming, child))?;
    place.parent().map_or(Ok(()), |parent| plan.push(&out, parent))
}

/// The way down the tree. Completes only after rank 0 has called `leave`.
pub(super) fn leave(plan: &mut impl Plan) -> Result<()> {
    let (place, (out, incoming)) = (place_in_tree(plan), nothing());
    place.parent().map_or(Ok(()), |parent| plan.pull(&incoming, parent))?;
    place.children().try_for_each(|child| plan.push(&out, child))
}

fn place_in_tree(plan: &impl Plan) -> Tree {
    Tree::new(&plan.selection(), (plan.rank(), plan.size()), 0, 0)
}
