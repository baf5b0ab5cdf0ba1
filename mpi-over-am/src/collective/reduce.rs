//! The reduction to one task.
//!
//! Short vectors are combined along a [tree](crate::message::tree) whose top is the task that gets the result. If the operation does not
//! commute, the top is rank 0, which sends the result on. For long vectors each task reduces a chunk, and the root collects the chunks. Two
//! tasks use the tree for vectors of any length if the operation commutes, piece by piece: each byte is sent once, and combined directly
//! from the packet in which it arrives.

use super::chunks::pieces;
use super::plan::Others;
use super::{Plan, stages};
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::message::tree::Tree;

/// Maximum bytes of a piece along the tree.
const TREE_PIECE_BYTES: u64 = 64 << 10;

/// Combines the vectors of all tasks into rank `root`'s `into`. `own` is this task's vector; `None` at the root: it is already in `into`
/// (`MPI_IN_PLACE`).
pub(super) fn reduce(
    plan: &mut impl Plan,
    own: Option<&SendData>,
    into: Option<&RecvData>,
    root: u32,
) -> Result<()> {
    let Some(vector) = own.cloned().or_else(|| into.map(RecvData::as_send)) else { return Ok(()) };
    let is_long = vector.packed_len() > plan.selection().reduce_tree_bytes_max
        && vector.count() >= u64::from(plan.size())
        && plan.size() > if plan.is_commutative() { 2 } else { 1 };
    if is_long {
        stages::reduce(plan, own, into, Some(root))
    } else {
        by_tree(plan, &vector, into, (root, own.is_none()))
    }
}

/// Like [`reduce`], along a tree. `is_in_place`: at the root, `own` and `into` are the same memory.
pub(super) fn by_tree(
    plan: &mut impl Plan,
    own: &SendData,
    into: Option<&RecvData>,
    (root, is_in_place): (u32, bool),
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let is_commutative = plan.is_commutative();
    let top = if is_commutative { root } else { 0 };
    let place = Tree::of_reduction(&plan.selection(), (rank, size), top, own.packed_len(), is_commutative);
    let piece = (TREE_PIECE_BYTES / own.datatype().size().max(1)).max(1);
    let mut buffers: [Option<RecvData>; 2] = [None, None];
    for (at, count) in pieces(own.count(), piece) {
        let into = into.filter(|_| rank == root).map(|into| into.part(at, count));
        // The first child's elements are received in the memory of the result, unless this task's own elements are there.
        let result = into.as_ref().filter(|_| top == root && !is_in_place);
        let (mut reduced, mut is_in_result) = (own.part(at, count), is_in_place && top == root);
        for (number, child) in place.children().enumerate() {
            is_in_result = result.is_some() && number.is_multiple_of(2);
            let buffer = match (result, &buffers[number % 2]) {
                (Some(result), _) if is_in_result => result.clone(),
                (_, Some(buffer)) => buffer.part(0, count),
                (_, None) => {
                    let buffer = plan.scratch(piece.min(own.count()), own.datatype())?;
                    buffers[number % 2].insert(buffer).part(0, count)
                }
            };
            plan.pull_and_combine(&buffer, child, Others::Earlier(&reduced))?;
            reduced = buffer.as_send();
        }
        if let Some(parent) = place.parent() {
            plan.push(&reduced, parent)?;
        } else if rank != root {
            plan.push(&reduced, root)?;
        }
        match into {
            Some(into) if top != root => plan.pull(&into, top)?,
            Some(into) if !is_in_result => plan.copy(&reduced, &into)?,
            _ => {}
        }
    }
    Ok(())
}
