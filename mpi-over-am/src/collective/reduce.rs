//! The reduction to one task.
//!
//! Short vectors are combined along a binomial tree whose root is the task that gets the result. If the operation does not commute, the
//! tree's root is rank 0, which sends the result on. For long vectors each task reduces a chunk, and the root collects the chunks. Two
//! tasks use the tree, which is one message, for longer vectors than more tasks do.

use super::chunks::{Chunks, Pieces};
use super::tree::Tree;
use super::{Plan, reduce_scatter};
use crate::buffer::{RecvData, SendData};
use crate::error::Result;

/// Maximum bytes of a vector that two tasks reduce by one message, whatever the setting `reduce_tree_bytes_max`, if the operation commutes.
/// With chunks, 64 KiB took 1.9 times as long, and 1 MiB 1.3 times.
const TREE_OF_TWO_BYTES_MAX: u64 = 1 << 20;

/// Combines the `own` of all tasks into `into` at rank `root`. At the root, `own` is `None` if `into` holds it.
pub(super) fn reduce(
    plan: &mut impl Plan,
    own: Option<&SendData>,
    into: Option<&RecvData>,
    root: u32,
) -> Result<()> {
    let is_in_place = own.is_none();
    let Some(own) = own.cloned().or_else(|| into.map(RecvData::as_send)) else { return Ok(()) };
    let of_two = if plan.size() == 2 && plan.is_commutative() { TREE_OF_TWO_BYTES_MAX } else { 0 };
    let is_long = own.packed_len() > plan.selection().reduce_tree_bytes_max.max(of_two)
        && own.count() >= u64::from(plan.size())
        && plan.size() > 1;
    if is_long {
        by_chunks(plan, &own, into, (root, is_in_place))
    } else {
        by_tree(plan, &own, into, (root, is_in_place))
    }
}

/// Like [`reduce`], along a tree.
pub(super) fn by_tree(
    plan: &mut impl Plan,
    own: &SendData,
    into: Option<&RecvData>,
    (root, is_in_place): (u32, bool),
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let top = if plan.is_commutative() { root } else { 0 };
    let place = Tree::new(&plan.selection(), (rank, size), top, own.packed_len());
    let place = if plan.is_commutative() { place } else { place.in_order() };
    let (mut reduced, mut is_own) = (own.clone(), true);
    let mut buffers: [Option<RecvData>; 2] = [None, None];
    for child in place.children() {
        // The result of a round is in the buffer of the later half; the next half is received into the other buffer.
        buffers.swap(0, 1);
        let buffer = match &buffers[0] {
            Some(buffer) => buffer.clone(),
            None => plan.scratch(own.count(), own.datatype())?,
        };
        buffers[0] = Some(buffer.clone());
        plan.pull(&buffer, child)?;
        plan.combine(&reduced, &buffer)?;
        (reduced, is_own) = (buffer.as_send(), false);
    }
    if let Some(parent) = place.parent() {
        plan.push(&reduced, parent)?;
    } else if rank != root {
        plan.push(&reduced, root)?;
    }
    match into {
        Some(into) if rank == root && top != root => plan.pull(into, top),
        Some(into) if rank == root && !(is_in_place && is_own) => plan.copy(&reduced, into),
        _ => Ok(()),
    }
}

fn by_chunks(
    plan: &mut impl Plan,
    own: &SendData,
    into: Option<&RecvData>,
    (root, is_in_place): (u32, bool),
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let into = into.filter(|_| rank == root);
    let pieces = Pieces::of(plan, own.count(), own.datatype());
    let longest = pieces.longest_chunk(size);
    // The root reduces its chunk directly into the result.
    let buffer = match into {
        Some(into) => into.clone(),
        None => plan.scratch(longest, own.datatype())?,
    };
    let slots = reduce_scatter::slots(plan, &buffer, longest)?;
    for (at, count) in pieces {
        let chunks = Chunks::Even { count, size };
        let own = own.part(at, count);
        let (first, count) = chunks.of(rank);
        let chunk = if into.is_some() { buffer.part(at + first, count) } else { buffer.part(0, count) };
        if !is_in_place {
            plan.copy(&own.part(first, count), &chunk)?;
        }
        reduce_scatter::exchange(plan, &own, &chunks, (&chunk, &slots))?;
        let Some(into) = into else {
            plan.push(&chunk.as_send(), root)?;
            continue;
        };
        for from in (0..size).filter(|&from| from != rank) {
            let (first, count) = chunks.of(from);
            plan.receive(&into.part(at + first, count), from)?;
        }
        plan.wait()?;
    }
    Ok(())
}
