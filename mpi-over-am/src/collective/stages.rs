//! Long reductions, in stages.
//!
//! The vector is cut into pieces, and each piece into one chunk for each task. A task receives its own chunk of every other task's vector,
//! combines these chunks with its own (in the order of the ranks, if the operation does not commute), and sends the result to the tasks
//! that need it. Several pieces are under way at once: a task sends the chunks of a later piece, then combines its own chunk of the current
//! piece, and then receives the results of an earlier piece. So two tasks that send chunks to each other copy at the same time. A chunk is
//! a message of a few packets: its receiver combines one packet while the sender writes the next.

use super::chunks::{Chunks, elements_of_piece};
use super::reduce_scatter::{Incoming, slots};
use super::{Plan, partners, receive_all};
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;

/// Number of steps from sending the chunks of a piece to combining this task's own chunk of the piece, and again from that to receiving the
/// piece's results. In each step, a task sends the chunks of one piece. The number is so small that there are always credits for the chunks
/// under way. Used for more than two tasks if all get the result. If one task gets the result, the number is 0: each other task combines
/// all its chunks in the same memory, so it must send a chunk before it combines the next one.
const PIECES_AHEAD: u64 = 4;
/// The same for two tasks, whose chunks are longer.
const PIECES_AHEAD_OF_TWO: u64 = 1;

/// Combines the vectors of all tasks into rank `root`'s `into`, or into every task's `into` if there is no root. `own` is this task's
/// vector; `None`: it is already in `into` (`MPI_IN_PLACE`).
pub(super) fn reduce(
    plan: &mut impl Plan,
    own: Option<&SendData>,
    into: Option<&RecvData>,
    root: Option<u32>,
) -> Result<()> {
    let (rank, size) = (plan.rank(), plan.size());
    let Some(whole) = own.cloned().or_else(|| into.map(RecvData::as_send)) else { return Ok(()) };
    let into = into.filter(|_| root.is_none_or(|root| root == rank));
    let of_piece = elements_of_piece(plan, whole.datatype()).min(whole.count());
    let longest = of_piece.div_ceil(size.into());
    let slots = slots(plan, longest, whole.datatype())?;
    let buffer = if into.is_none() { Some(plan.scratch(longest, whole.datatype())?) } else { None };
    let chunk_of = |piece: u64, rank| {
        let at = piece * of_piece;
        let (first, count) = Chunks::Even { count: of_piece.min(whole.count() - at), size }.of(rank);
        (at.cast_signed() + first, count)
    };
    let ahead = match (root, size) {
        (Some(_), _) => 0,
        (None, 2) => PIECES_AHEAD_OF_TWO,
        (None, _) => PIECES_AHEAD,
    };
    let pieces = whole.count().div_ceil(of_piece.max(1));
    for step in 0..pieces + 2 * ahead {
        // All tasks do these three steps in the same order, so the sends and receives of two tasks match.
        if step < pieces {
            for (_, to) in partners(rank, size) {
                let (first, count) = chunk_of(step, to);
                plan.send(&whole.part(first, count), to)?;
            }
        }
        let piece = step.checked_sub(ahead).filter(|&piece| piece < pieces);
        if let Some(piece) = piece {
            let (first, count) = chunk_of(piece, rank);
            let chunk = match (into, &buffer) {
                (Some(into), _) => into.part(first, count),
                (None, Some(buffer)) => buffer.part(0, count),
                (None, None) => return Ok(()),
            };
            let part = whole.part(first, count);
            let incoming = Incoming::new(plan, (&part, own.is_none()), (&chunk, &slots))?;
            incoming.receive_and_combine(plan)?;
            match root {
                None => partners(rank, size).try_for_each(|(_, to)| plan.send(&chunk.as_send(), to))?,
                Some(root) if root != rank => plan.push(&chunk.as_send(), root)?,
                Some(_) => {}
            }
        }
        let piece = step.checked_sub(2 * ahead);
        if let (Some(into), Some(piece)) = (into, piece) {
            receive_all(plan, |from| {
                let (first, count) = chunk_of(piece, from);
                into.part(first, count)
            })?;
        }
    }
    plan.wait()
}
