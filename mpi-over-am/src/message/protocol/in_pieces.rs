//! Messages in pieces: several packets, which are sent together, at once or when there are credits for all of them. The receiver copies one
//! piece while the sender copies the next, or a network to another host carries all of them as one message.
//! [`handlers`](crate::message::handlers) receives them.

use am_core::error::Outcome;
use am_core::fabric::{Fabric, Posted};

use super::charge::charge;
use super::{Load, rendezvous};
use crate::error::Result;
use crate::message::budget::UNKNOWN;
use crate::message::early_message::footprint;
use crate::message::envelope;
use crate::message::handlers::EAGER;
use crate::message::route::Route;
use crate::message::state::State;

/// Pieces begin at cache lines if the message does.
const LINE_BYTES: usize = 64;
/// Number of looks for credits before a message is announced. All looks together take longer than the receiver's copy of a message.
const LOOKS_MAX: u32 = 256;

/// Sends a message in pieces, or announces it.
///
/// # Errors
/// An error of am-core, such as a dead receiver; an error while making progress.
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, mut load: impl Load) -> Result<Outcome> {
    if load.try_in_pieces(state, &route)? {
        return Ok(Outcome::Done);
    }
    match send_later(state, route, &mut load)? {
        Outcome::Retry => rendezvous::send(state, route, load),
        sent => Ok(sent),
    }
}

/// Sends a message in pieces that wait for credits, if that is faster than an announced message, and the load can wait. `Retry`: nothing
/// was sent.
///
/// # Errors
/// An error of am-core, such as a dead receiver.
fn send_later<F: Fabric>(state: &mut State<F>, route: Route, load: &mut impl Load) -> Result<Outcome> {
    let (task, len) = (route.task, load.len());
    let Some(Cut { piece_bytes, pieces }) = cut(state, len) else { return Ok(Outcome::Retry) };
    let target = state.peer(task, state.context.handlers().budget.index(task.0));
    if !state.context.pieces_may_wait(target, len, pieces) || !charge(state, task, len)? {
        return Ok(Outcome::Retry);
    }
    let sent = load.send_in_pieces(state, &route, piece_bytes);
    if !matches!(sent, Ok(Outcome::Done | Outcome::Posted)) {
        state.handlers().budget.take_back(task.0, footprint(len));
    }
    sent
}

/// How a message is cut into pieces.
struct Cut {
    piece_bytes: u32,
    pieces: u32,
}

/// `None`: the message is too long to be sent in pieces.
fn cut<F: Fabric>(state: &State<F>, len: usize) -> Option<Cut> {
    if len > state.eager_limits.in_pieces {
        return None;
    }
    // At least two pieces.
    let max = state.eager_limits.bytes.min(len.div_ceil(2).next_multiple_of(LINE_BYTES));
    let piece_bytes = len.div_ceil(len.div_ceil(max)).next_multiple_of(LINE_BYTES).min(max);
    let (piece_bytes, pieces) =
        (u32::try_from(piece_bytes).ok()?, u32::try_from(len.div_ceil(piece_bytes)).ok()?);
    Some(Cut { piece_bytes, pieces })
}

/// The user header of the first piece.
pub(super) fn header(route: &Route, len: usize) -> [u8; envelope::BYTES_WITH_WORD] {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    envelope::to_bytes_with_word(&route.envelope, route.destination, len)
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
        if !state.context.takes_pieces(peer, bytes.len(), 0)? {
            break;
        }
        state.context.probe()?;
    }
    Ok(false)
}

/// Sends a message as two packets if that is faster, although one packet can hold it; returns whether the message was sent. The message
/// must have more than [`UNSPLIT_BYTES_MAX`](crate::message::route::UNSPLIT_BYTES_MAX) bytes. Two packets are faster if the tasks share a
/// cache and the receiver waits for the message, as it probably does if it has answered the last message. In a stream of messages, the
/// receiver copies one message while the sender copies the next, and more packets only take more time.
#[inline(never)]
pub(super) fn try_send_split<F: Fabric>(state: &mut State<F>, route: Route, bytes: &[u8]) -> bool {
    let budget = &mut state.handlers().budget;
    let (has_answered, index) = (budget.has_answered(route.task.0), budget.index(route.task.0));
    let target = state.peer(route.task, index);
    has_answered && state.context.shares_cache(target) && try_send(state, route, bytes)
}

/// Sends a message in pieces, if the message is not too long and all pieces can be sent at once; returns whether it was sent.
#[inline(never)]
pub(super) fn try_send<F: Fabric>(state: &mut State<F>, route: Route, bytes: &[u8]) -> bool {
    let (task, len) = (route.task, bytes.len());
    let Some(Cut { piece_bytes, .. }) = cut(state, len) else { return false };
    state.learn_peer(task);
    // An error is not lost: the caller's next attempt gets it again.
    if state.handlers().budget.index(task.0) == UNKNOWN || !charge(state, task, len).unwrap_or(false) {
        return false;
    }
    let header = header(&route, len);
    let sent = state.context.try_amsend_in_pieces(task, EAGER, &header, bytes, piece_bytes);
    let is_sent = matches!(sent, Ok(Posted::Done));
    if !is_sent {
        state.handlers().budget.take_back(task.0, footprint(len));
    }
    is_sent
}

#[cfg(test)]
mod tests {
    use am_core::buffer::RawBuffer;
    use am_core::task::{Endpoint, TaskId};
    use am_double::{Config, Double, network};

    use super::*;
    use crate::data::buffer::keep_vec;
    use crate::matching::{ContextId, Envelope, Pattern};
    use crate::message::protocol::{Borrowed, send, start_receive, start_send};
    use crate::message::route::{Mode, Receive, ReceiveBuffer, UNSPLIT_BYTES_MAX};
    use crate::settings::Settings;

    fn route(from: u32) -> Route {
        Route {
            task: TaskId(1 - from),
            destination: 1 - from,
            envelope: Envelope::new(ContextId(0), from, 5),
        }
    }

    /// Receives a message of task `from` into an empty buffer: the bytes of the message do not matter here.
    fn receive(state: &mut State<Double>, from: u32) {
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
        let packets_sent = |state: &mut State<Double>| {
            let peer = Endpoint { task: TaskId(1), ..state.context.endpoint() };
            state.context.peer_statistics(peer).unwrap().packets_sent
        };
        let packets = |one: &mut State<_>, other: &mut State<_>, len| {
            let before = packets_sent(one);
            assert!(crate::message::protocol::try_send(one, &route(0), &vec![7; len]), "{len} bytes");
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

    /// Messages whose pieces wait for credits arrive in order, before a shorter message that was sent later, and none of them is announced.
    #[test]
    fn pieces_wait_for_credits_in_order() {
        const LEN: usize = 10_000;
        const PIECE: usize = 1000;
        const MESSAGES: u8 = 20;
        let (_network, fabrics) = network(Config { credits: 24, ..Config::new(2) });
        let settings = Settings { eager_limit_bytes: PIECE, ..Settings::default() };
        let states = fabrics.into_iter().map(|fabric| State::new(fabric, &settings).unwrap());
        let [mut one, mut other] = <[State<_>; 2]>::try_from(states.collect::<Vec<_>>()).unwrap();
        let lens = (0..MESSAGES).map(|_| LEN).chain([1]);
        let sent: Vec<_> = (0..).zip(lens).map(|(number, len)| keep_vec(&one, vec![number; len])).collect();
        let start = |(_, buffer): &(_, RawBuffer)| {
            start_send(&mut one, Mode::Standard, &route(0), buffer.as_bytes()).unwrap()
        };
        let sends: Vec<_> = sent.iter().map(start).collect();
        assert!(
            !one.handlers().requests.is_over(sends[2]),
            "there are not enough credits for three messages"
        );
        for (number, send) in sends.iter().enumerate() {
            let (_kept, buffer) = keep_vec(&other, vec![0xff; LEN]);
            let receive =
                Receive { pattern: Pattern::of(&route(0).envelope), buffer: ReceiveBuffer::Bytes(buffer) };
            let receive = start_receive(&mut other, receive);
            while !other.handlers().requests.is_over(receive) || !one.handlers().requests.is_over(*send) {
                one.probe().unwrap();
                other.probe().unwrap();
            }
            let len = usize::try_from(other.handlers().requests.take(receive).unwrap().len).unwrap();
            let mut got = vec![0; LEN];
            buffer.as_bytes().copy_to(&mut got);
            assert!(
                len == sent[number].1.len() && got[..len].iter().all(|&byte| usize::from(byte) == number)
            );
        }
        let peer = Endpoint { task: TaskId(1), ..one.context.endpoint() };
        let packets = one.context.peer_statistics(peer).unwrap().packets_sent;
        assert_eq!(
            packets,
            u64::from(MESSAGES) * (LEN / PIECE) as u64 + 1,
            "all messages are sent in pieces"
        );
    }
}
