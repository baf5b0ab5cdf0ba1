//! Messages in pieces: several packets, all of which can be sent at once. The receiver copies one while the sender copies the next,
//! or a network to another host carries all of them as one message.
//! [`handlers`](crate::handlers) receives them.

use am_core::AmOptions;
use am_core::error::Outcome;
use am_core::fabric::Fabric;

use super::{Load, eager, rendezvous};
use crate::early_message::footprint;
use crate::envelope;
use crate::error::Result;
use crate::handlers::EAGER;
use crate::message::Route;
use crate::state::State;

/// Pieces begin at cache lines if the message does.
const LINE_BYTES: usize = 64;
/// Number of looks for credits before a message is announced. All of them take longer than the receiver's copy of a message.
const LOOKS_MAX: u32 = 256;

/// Sends a message in pieces, or announces it.
///
/// # Errors
/// An error of am-core, such as a dead receiver; an error of progress.
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, load: impl Load) -> Result<Outcome> {
    if load.try_in_pieces(state, &route)? {
        return Ok(Outcome::Done);
    }
    rendezvous::send(state, route, load)
}

/// Like [`try_send`], for a send that waits anyway: a receiver that is copying pieces returns credits soon, and an announced message
/// would take longer.
///
/// # Errors
/// An error of progress; nothing was sent then.
pub(super) fn send_soon<F: Fabric>(state: &mut State<F>, route: Route, bytes: &[u8]) -> Result<bool> {
    for _ in 0..LOOKS_MAX {
        if try_send(state, route, bytes) {
            return Ok(true);
        }
        let peer = state.peer(route.task, state.context.handlers().budget.index(route.task.0));
        if !state.context.takes_pieces(peer, bytes, 0) {
            break;
        }
        state.context.probe()?;
    }
    Ok(false)
}

/// Sends a message above the eager limit in pieces, if it is not too long and all of them can go at once; returns whether it did.
#[inline(never)]
pub(super) fn try_send<F: Fabric>(
    state: &mut State<F>,
    Route { task, destination, envelope }: Route,
    bytes: &[u8],
) -> bool {
    let (len, max) = (bytes.len(), state.eager_limits.bytes);
    if len > state.eager_limits.in_pieces {
        return false;
    }
    let piece_bytes = len.div_ceil(len.div_ceil(max)).next_multiple_of(LINE_BYTES).min(max);
    let (Ok(word), Ok(pieces)) = (u32::try_from(len), u32::try_from(len.div_ceil(piece_bytes))) else {
        return false;
    };
    state.learn_peer(task);
    // An error is not lost: the caller's next attempt gets it again.
    if !eager::charge(state, task, len).unwrap_or(false) {
        return false;
    }
    let target = state.peer(task, state.context.handlers().budget.index(task.0));
    let header = envelope::to_bytes_with_word(&envelope, destination, word);
    let mut header = header.as_slice();
    let is_sent = state.context.takes_pieces(target, bytes, pieces)
        && bytes.chunks(piece_bytes).all(|piece| {
            let sent = state.context.try_amsend(task, EAGER, header, piece, AmOptions::default());
            header = &[];
            // If this fails, the receiver is gone, and the caller's next attempt gets the error.
            matches!(sent, Ok(Outcome::Done))
        });
    if !is_sent {
        state.handlers().budget.take_back(task.0, footprint(len));
    }
    is_sent
}
