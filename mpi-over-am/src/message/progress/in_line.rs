//! Receives in line: a short eager message is taken directly from the sender's ring, without a poll and the engine's queues.

use std::ops::RangeInclusive;

use am_core::buffer::{Arrived, RawBuffer};
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::error::Result;
use crate::matching::{Envelope, Pattern};
use crate::message::early_message::footprint;
use crate::message::envelope;
use crate::message::handlers::{EAGER, Eager, MpiHandlers};
use crate::message::request_id::RequestId;
use crate::message::state::State;
use crate::message::status::Status;

/// Maximum rounds of progress in which [`receive_packets`] waits for a message. A round looks at the ring for up to 2 us if each task has a
/// core; otherwise it ends at once.
const ROUNDS_MAX: u32 = 8;

/// Receives the next message of `source` in line, if it matches `pattern` and fits into `buffer`. `None`: nothing has happened, and the
/// receive has to be posted.
#[inline(always)]
pub(crate) fn receive_in_line<F: Fabric>(
    state: &mut State<F>,
    source: TaskId,
    pattern: &Pattern,
    buffer: RawBuffer,
) -> Option<Status> {
    let handlers = state.context.handlers();
    if !may_receive(handlers) {
        return None;
    }
    let index = handlers.budget.index(source.0);
    let (mut messages, handlers) = state.context.in_line(index)?;
    let (uhdr, data) = messages.look(EAGER)?.parts(envelope::BYTES)?;
    let (envelope, _) = envelope::parse(uhdr.as_slice())?;
    if !pattern.matches(&envelope) || data.len() > buffer.len() {
        return None;
    }
    let len = data.copy_to_buffer(buffer);
    handlers.budget.received(source.0, footprint(len));
    messages.take();
    Some(Status::new(envelope.source(), envelope.tag(), len as u64))
}

/// Whether a receive in line is possible: no earlier receive may match the message, and no earlier message may match the receive.
#[inline(always)]
fn may_receive(handlers: &MpiHandlers) -> bool {
    handlers.requests.posted() == 0 && handlers.early.is_empty() && handlers.completions.are_plain()
}

/// Like [`receive_in_line`], for a message in pieces. If some of the pieces do not come in time, the message becomes an early message whose
/// first bytes are in `buffer`. The caller must then post its receive, which takes the remaining bytes.
#[inline(never)]
pub(crate) fn receive_pieces<F: Fabric>(
    state: &mut State<F>,
    source: TaskId,
    pattern: &Pattern,
    buffer: RawBuffer,
) -> Option<Status> {
    if !may_receive(state.context.handlers()) {
        return None;
    }
    let taken = take_packets(state, source, pattern, 0..=buffer.len(), |offset, data| {
        if let Some(part) = buffer.part(offset, data.len()) {
            data.copy_to_buffer(part);
        }
    })?;
    let (envelope, len) = (taken.envelope, taken.len as u64);
    (taken.received == taken.len).then_some(Status::new(envelope.source(), envelope.tag(), len))
}

/// Waits for some rounds of progress for the next message of `source`. If it matches `pattern` and has `len` bytes, passes the bytes of
/// each packet to `store`, with their offset in the message. Returns the number of these bytes. If that number is less than `len`, the
/// caller must post its receive. If the number is also more than 0, the message has become an early message, and the receive stores only
/// the remaining bytes, at their offsets in the message.
///
/// # Errors
/// An error while making progress; no byte was received then.
pub(crate) fn receive_packets<F: Fabric>(
    state: &mut State<F>,
    source: TaskId,
    pattern: &Pattern,
    len: usize,
    mut store: impl FnMut(usize, Arrived<'_>),
) -> Result<usize> {
    state.learn_peer(source);
    for _ in 0..ROUNDS_MAX {
        if !may_receive(state.context.handlers()) {
            break;
        }
        if let Some(taken) = take_packets(state, source, pattern, len..=len, &mut store) {
            return Ok(taken.received);
        }
        state.probe()?;
    }
    Ok(0)
}

/// A message that was received in line.
struct Taken {
    envelope: Envelope,
    len: usize,
    received: usize,
}

/// Takes the next message of `source`, if it matches and has one of these lengths. If some pieces of a message do not come in time, the
/// message becomes an early message.
fn take_packets<F: Fabric>(
    state: &mut State<F>,
    source: TaskId,
    pattern: &Pattern,
    lens: RangeInclusive<usize>,
    mut store: impl FnMut(usize, Arrived<'_>),
) -> Option<Taken> {
    let task = source.0;
    let index = state.context.handlers().budget.index(task);
    let (mut messages, handlers) = state.context.in_line(index)?;
    let next = messages.look(EAGER)?;
    let (uhdr, data) = next.parts(next.uhdr_len()?)?;
    let (envelope, len) = match envelope::parse(uhdr.as_slice()) {
        Some((envelope, _)) => (envelope, data.len()),
        None => handlers.first_of_pieces(task, uhdr.as_slice(), data.len())?,
    };
    if !pattern.matches(&envelope) || !lens.contains(&len) {
        return None;
    }
    let mut received = data.len();
    store(0, data);
    messages.take();
    while received < len {
        // Anything but a piece is left to the poll, which refuses it.
        let Some((_, data)) = messages.look(EAGER).and_then(|next| next.parts(0)) else { break };
        if data.is_empty() || data.len() > len - received {
            break;
        }
        store(received, data);
        received += data.len();
        messages.take();
    }
    handlers.budget.received(task, footprint(len));
    if received < len {
        handlers.begin_in_place(task, envelope, len, received);
    }
    Some(Taken { envelope, len, received })
}

impl<F: Fabric> State<F> {
    /// Takes messages of `source` in line, as their header handler would, until the posted receive `request` is over, or no further message
    /// comes in time. Returns whether the receive is over; if not, the caller must wait for it.
    ///
    /// # Errors
    /// An error while making progress.
    #[inline(never)]
    pub(crate) fn is_over_in_line(&mut self, source: TaskId, request: RequestId) -> Result<bool> {
        let task = source.0;
        let index = self.handlers().budget.index(task);
        let mut may_probe = true;
        loop {
            if let Some((mut messages, handlers)) = self.context.in_line(index) {
                let mut is_over = false;
                while !is_over && let Some(next) = messages.look(EAGER) {
                    is_over = if let Some((uhdr, here)) = next.parts(envelope::BYTES) {
                        let Some(envelope) = handlers.envelope(uhdr.as_slice()) else { break };
                        match handlers.take_eager(task, &envelope, here) {
                            Eager::Received(slot) => slot == request.slot(),
                            Eager::Kept => false,
                            Eager::Refused => break,
                        }
                    } else if handlers.take_next_piece(task, next) {
                        handlers.requests.is_over(request)
                    } else {
                        break;
                    };
                    may_probe = true;
                    messages.take();
                }
                if is_over {
                    return Ok(true);
                }
            }
            // When the source's ring is empty, or the source's turn is over, the other peers are polled. The ring does become empty: each
            // message has a posted receive or a part of the budget of early arrivals.
            if !may_probe || !self.probe()? {
                return Ok(false);
            }
            may_probe = false;
            if self.context.handlers().requests.is_over(request) {
                return Ok(true);
            }
        }
    }

    /// The task that a posted receive waits for, if messages of that task may be taken in line. `None` also for a receive from any source,
    /// and for any other operation.
    #[inline(always)]
    pub(crate) fn source_in_line(&mut self, request: RequestId) -> Option<TaskId> {
        let handlers = self.context.handlers_mut();
        let pattern = handlers.requests.posted_pattern(request)?;
        let rank = pattern.source().filter(|_| handlers.completions.are_plain())?;
        let task = handlers.peers.sender(pattern.context_id(), rank)?;
        self.learn_peer(task);
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use am_double::{Config, network};

    use super::*;
    use crate::group::Group;
    use crate::matching::{ContextId, Envelope};
    use crate::message::protocol::{Borrowed, send, start_receive};
    use crate::message::route::{Mode, Receive, ReceiveBuffer, Route};
    use crate::settings::Settings;

    /// A wait takes what its source has sent: a message without a receive is kept, and the one that matches ends the wait. A receive
    /// from any source has no ring to look at.
    #[test]
    fn a_wait_for_a_named_source_takes_its_messages_in_line() {
        let (_network, fabrics) = network(Config::new(2));
        let states = fabrics.into_iter().map(|fabric| State::new(fabric, &Settings::default()).unwrap());
        let [mut receiver, mut sender] = <[State<_>; 2]>::try_from(states.collect::<Vec<_>>()).unwrap();
        receiver.handlers().peers.begin(0, Group::consecutive(TaskId(0), 2, TaskId(0)), None);
        for tag in [9, 5] {
            let route =
                Route { task: TaskId(0), destination: 0, envelope: Envelope::new(ContextId(0), 1, tag) };
            assert!(send(&mut sender, Mode::Standard, &route, Borrowed(&[])).is_ok());
        }
        let [named, any] = [Some(1), None].map(|source| {
            let pattern = Pattern::new(ContextId(0), source, Some(5));
            let buffer = ReceiveBuffer::Bytes(RawBuffer::EMPTY);
            start_receive(&mut receiver, Receive { pattern, buffer })
        });
        assert_eq!(receiver.source_in_line(any), None);
        let source = receiver.source_in_line(named).expect("the receive names its source");
        assert_eq!(source, TaskId(1));
        assert!(receiver.is_over_in_line(source, named).unwrap());
        assert_eq!(receiver.handlers().early.len(), 1, "the message without a receive is kept");
        assert!(!receiver.handlers().requests.is_over(any));
    }
}
