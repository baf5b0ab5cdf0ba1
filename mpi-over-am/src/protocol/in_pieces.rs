//! Messages in pieces: several packets, all of which can be sent at once. The receiver copies one piece while the sender copies the next,
//! or a network to another host carries all of them as one message. [`handlers`](crate::handlers) receives them.

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
/// Number of looks for credits before a message is announced. All looks together take longer than the receiver's copy of a message.
const LOOKS_MAX: u32 = 256;

/// A message of at most this many bytes is always sent as one packet, if a packet can hold it: see [`try_send_split`].
pub(crate) const UNSPLIT_BYTES_MAX: usize = 12 << 10;

/// Sends a message in pieces, or announces it.
///
/// # Errors
/// An error of am-core, such as a dead receiver; an error while making progress.
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
/// An error while making progress; nothing was sent then.
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

/// Sends a message as two packets if that is faster, although one packet can hold it; returns whether the message was sent. The message
/// must have more than [`UNSPLIT_BYTES_MAX`] bytes. Two packets are faster if the tasks share a cache and the receiver waits for the
/// message, as it probably does if it has answered the last message. In a stream of messages, the receiver copies one message while the
/// sender copies the next, and more packets only take more time.
#[inline(never)]
pub(super) fn try_send_split<F: Fabric>(state: &mut State<F>, route: Route, bytes: &[u8]) -> bool {
    let budget = &mut state.handlers().budget;
    let (has_answered, index) = (budget.has_answered(route.task.0), budget.index(route.task.0));
    let target = state.peer(route.task, index);
    has_answered && state.context.shares_cache(target) && try_send(state, route, bytes)
}

/// Sends a message in pieces, if the message is not too long and all pieces can be sent at once; returns whether it was sent.
#[inline(never)]
pub(super) fn try_send<F: Fabric>(
    state: &mut State<F>,
    Route { task, destination, envelope }: Route,
    bytes: &[u8],
) -> bool {
    let len = bytes.len();
    if len > state.eager_limits.in_pieces {
        return false;
    }
    // At least two pieces.
    let max = state.eager_limits.bytes.min(len.div_ceil(2).next_multiple_of(LINE_BYTES));
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

#[cfg(test)]
mod tests {
    use am_core::buffer::RawBuffer;
    use am_core::task::{Endpoint, TaskId};
    use am_core::testing::loopback::{Config, Loopback, network};

    use super::*;
    use crate::matching::{ContextId, Envelope, Pattern};
    use crate::message::{Mode, Receive, ReceiveBuffer};
    use crate::protocol::{Borrowed, send, start_receive};
    use crate::settings::Settings;

    fn route(from: u32) -> Route {
        Route {
            task: TaskId(1 - from),
            destination: 1 - from,
            envelope: Envelope::new(ContextId(0), from, 5),
        }
    }

    /// Receives a message of task `from` into an empty buffer: the bytes of the message do not matter here.
    fn receive(state: &mut State<Loopback>, from: u32) {
        let (pattern, buffer) = (Pattern::of(&route(from).envelope), ReceiveBuffer::Bytes(RawBuffer::EMPTY));
        let request = start_receive(state, Receive { pattern, buffer });
        while !state.handlers().requests.is_over(request) {
            state.probe().unwrap();
        }
        let _truncated = state.handlers().requests.take(request);
    }

    #[test]
    fn a_message_of_one_packet_is_two_if_its_receiver_has_answered() {
        let (_network, fabrics) = network(Config { packet_bytes_max: 1 << 15, ..Config::new(2) });
        let states = fabrics.into_iter().map(|fabric| State::new(fabric, &Settings::default()).unwrap());
        let [mut one, mut other] = <[State<_>; 2]>::try_from(states.collect::<Vec<_>>()).unwrap();
        let packets_sent = |state: &mut State<Loopback>| {
            let peer = Endpoint { task: TaskId(1), ..state.context.endpoint() };
            state.context.peer_statistics(peer).unwrap().packets_sent
        };
        let packets = |one: &mut State<_>, other: &mut State<_>, len| {
            let before = packets_sent(one);
            assert!(eager::try_send(one, &route(0), &vec![7; len]), "{len} bytes");
            let sent = packets_sent(one) - before;
            receive(other, 0);
            sent
        };
        assert!(send(&mut one, Mode::Standard, &route(0), Borrowed(&[])).is_ok());
        receive(&mut other, 0);
        for len in [UNSPLIT_BYTES_MAX + 1, 16 << 10] {
            assert_eq!(packets(&mut one, &mut other, len), 1, "{len} bytes without an answer");
            assert!(send(&mut other, Mode::Standard, &route(1), Borrowed(&[])).is_ok());
            receive(&mut one, 1);
            assert_eq!(packets(&mut one, &mut other, UNSPLIT_BYTES_MAX), 1, "a shorter message");
            assert_eq!(packets(&mut one, &mut other, len), 2, "{len} bytes after an answer");
            assert_eq!(packets(&mut one, &mut other, len), 1, "the next {len} bytes");
        }
    }
}
