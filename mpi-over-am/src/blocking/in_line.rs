//! A blocking receive from one rank while nothing else waits for a message: it takes a short eager message from the sender's ring, without
//! the queues and the table of requests.

use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::early_message::footprint;
use crate::envelope;
use crate::handlers::EAGER;
use crate::matching::Pattern;
use crate::state::State;
use crate::status::Status;

/// Receives the next message of `source` in line, if it matches `pattern` and fits. `None`: nothing has happened, and the receive has to be
/// posted.
#[inline(always)]
pub(crate) fn receive_in_line<F: Fabric>(
    state: &mut State<F>,
    source: TaskId,
    pattern: &Pattern,
    buffer: RawBuffer,
) -> Option<Status> {
    let handlers = state.context.handlers();
    // An earlier receive may match the message, or this receive may match an earlier message.
    if handlers.requests.posted() != 0 || !handlers.early.is_empty() || !handlers.completions.are_plain() {
        return None;
    }
    let next = state.context.look_at_next(source, EAGER)?;
    let (uhdr, data) = state.context.parts_of(&next)?;
    let (envelope, _) = envelope::parse(uhdr)?;
    if !pattern.matches(&envelope) || data.len() > buffer.len() {
        return None;
    }
    let len = data.copy_to_buffer(buffer);
    state.context.take_next(next);
    state.handlers().budget.received(source.0, footprint(len));
    Some(Status { source: envelope.source(), tag: envelope.tag(), len: len as u64 })
}
