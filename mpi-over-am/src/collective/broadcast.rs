//! The broadcast.
//!
//! Short data use a [tree](crate::message::tree), which has few hops. Long data use a chain, in pieces: each task sends one piece on while
//! it receives the next, so the time hardly grows with the number of tasks.

use super::{Plan, as_bytes};
use crate::data::buffer::RecvData;
use crate::error::Result;
use crate::message::tree::Tree;
use mpi_datatype::{Datatype, Predefined};

/// Copies the elements of rank `root` to all other tasks.
pub(super) fn broadcast(plan: &mut impl Plan, data: &RecvData, root: u32) -> Result<()> {
    if plan.size() == 1 {
        return Ok(());
    }
    if data.packed_len() <= plan.selection().broadcast_tree_bytes_max {
        return by_tree(plan, data, root);
    }
    // All tasks have the same number of bytes, but not necessarily the same types, so pieces are cut by bytes.
    if let Some(bytes) = as_bytes(data) {
        return by_chain(plan, &bytes, root);
    }
    let packed = plan.scratch(data.packed_len(), &Datatype::predefined(Predefined::Byte))?;
    if plan.rank() == root {
        plan.copy(&data.as_send(), &packed)?;
        return by_chain(plan, &packed, root);
    }
    by_chain(plan, &packed, root)?;
    plan.copy(&packed.as_send(), data)
}

pub(super) fn by_tree(plan: &mut impl Plan, data: &RecvData, root: u32) -> Result<()> {
    let place = Tree::new(&plan.selection(), (plan.rank(), plan.size()), root, data.packed_len());
    if let Some(parent) = place.parent() {
        plan.pull(data, parent)?;
    }
    // The child with the largest subtree first.
    place.children().rev().try_for_each(|child| plan.push(&data.as_send(), child))
}

fn by_chain(plan: &mut impl Plan, bytes: &RecvData, root: u32) -> Result<()> {
    let size = u64::from(plan.size());
    let from_root = (u64::from(plan.rank()) + size - u64::from(root)) % size;
    let before = (from_root > 0).then(|| behind_root(plan, from_root - 1, root));
    let next = (from_root + 1 < size).then(|| behind_root(plan, from_root + 1, root));
    let (len, step) = (bytes.count(), plan.selection().broadcast_piece_bytes.max(1));
    let mut last: Option<RecvData> = None;
    let mut at = 0;
    while at < len {
        let piece = bytes.part(at.cast_signed(), step.min(len - at));
        match (before, next, &last) {
            (None, None, _) => {}
            (None, Some(next), _) => plan.push(&piece.as_send(), next)?,
            (Some(before), Some(next), Some(last)) => {
                plan.across((&last.as_send(), next), (&piece, before))?;
            }
            (Some(before), _, _) => plan.pull(&piece, before)?,
        }
        at += piece.count();
        last = Some(piece);
    }
    match (before, next, last) {
        (Some(_), Some(next), Some(last)) => plan.push(&last.as_send(), next),
        _ => Ok(()),
    }
}

/// The rank `distance` ranks after the root, wrapping around.
fn behind_root(plan: &impl Plan, distance: u64, root: u32) -> u32 {
    let rank = (u64::from(root) + distance) % u64::from(plan.size());
    u32::try_from(rank).expect("a remainder of a u32 is one")
}
