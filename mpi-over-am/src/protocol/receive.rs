//! Receiving: look among the early arrivals, then post (seed paper, figure 9).
//!
//! A message that lies in the NIC's queue when its receive is posted is copied once: progress is made after posting, so that
//! its header handler finds the receive.

use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;
use am_core::handler::Place;
use am_core::task::TaskId;

use super::{Borrowed, Mode, Route, send};
use crate::early_message::{EarlyMessage, deliver, footprint};
use crate::error::{Error, Result, Side};
use crate::handlers::Posted;
use crate::matching::{Envelope, Pattern};
use crate::request::{Phase, RequestId};
use crate::state::{State, is_over};
use crate::status::Status;

/// What a receive takes, and where it puts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) pattern: Pattern,
    pub(crate) buffer: RawBuffer,
}

/// Receives a message. When this returns or unwinds, nothing uses the buffer any more.
///
/// # Errors
/// [`Error::Truncated`], [`Error::NotReady`], and what progress reports.
#[inline(always)]
pub(crate) fn receive<F: Fabric>(state: &mut State<F>, receive: Receive) -> Result<Status> {
    const REQUEST: RequestId = RequestId::BLOCKING_RECEIVE;
    state.handlers().requests.begin_blocking(REQUEST);
    let ending = Ending { state, request: REQUEST };
    start_into(ending.state, receive, REQUEST);
    ending.state.wait_over(REQUEST)?;
    let status = ending.state.handlers().requests.take_blocking(REQUEST);
    std::mem::forget(ending);
    status
}

/// Sends a message and receives another at the same time. When this returns or unwinds, nothing uses the buffers any more.
///
/// # Errors
/// As for [`receive`] and for sends.
pub(crate) fn send_receive<F: Fabric>(
    state: &mut State<F>,
    route: &Route,
    bytes: &[u8],
    receive: Receive,
) -> Result<Status> {
    const REQUEST: RequestId = RequestId::BLOCKING_RECEIVE;
    state.handlers().requests.begin_blocking(REQUEST);
    let ending = Ending { state, request: REQUEST };
    start_into(ending.state, receive, REQUEST);
    send(ending.state, Mode::Standard, route, Borrowed(bytes))?;
    ending.state.wait_over(REQUEST)?;
    let status = ending.state.handlers().requests.take_blocking(REQUEST);
    std::mem::forget(ending);
    status
}

/// Ends a blocking operation that an error or an unwinding has interrupted.
struct Ending<'a, F: Fabric> {
    state: &'a mut State<F>,
    request: RequestId,
}

impl<F: Fabric> Drop for Ending<'_, F> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        end(self.state, self.request);
        // The caller gets the error that interrupted the operation.
        let _ = self.state.handlers().requests.take_blocking(self.request);
    }
}

/// Ends an operation: withdraws what has not met its other half, and waits for bytes in motion.
pub(crate) fn end<F: Fabric>(state: &mut State<F>, request: RequestId) {
    match state.handlers().requests.phase(request) {
        Phase::Posted(handle) => {
            state.handlers().posted.cancel(handle);
            state.handlers().requests.end(request, Some(Error::Cancelled));
        }
        Phase::Moving if !state.handlers().requests.is_receive(request) => {
            state.context.give_up(request.number());
        }
        Phase::Moving | Phase::Done | Phase::Free => {}
    }
    state.context.wait_until_ended(|context| is_over(context, request));
}

/// Starts a receive into memory that its request holds.
pub(crate) fn start_receive<F: Fabric>(state: &mut State<F>, receive: Receive, scope: u32) -> RequestId {
    let request = state.handlers().requests.insert(true, scope);
    start_into(state, receive, request);
    request
}

/// Starts a receive: takes an early arrival, or posts.
#[inline(always)]
fn start_into<F: Fabric>(state: &mut State<F>, receive: Receive, request: RequestId) {
    let handlers = state.handlers();
    match handlers.early.take_match(&receive.pattern) {
        Some((envelope, message)) => take_early(state, receive, request, envelope, message),
        None => {
            let posted = Posted { request, buffer: receive.buffer };
            let handle = handlers.posted.post(receive.pattern, posted);
            handlers.requests.posted(request, handle);
        }
    }
}

#[inline(never)]
fn take_early<F: Fabric>(
    state: &mut State<F>,
    receive: Receive,
    request: RequestId,
    envelope: Envelope,
    message: EarlyMessage,
) {
    let handlers = state.handlers();
    handlers.requests.matched(request, &envelope);
    match message {
        EarlyMessage::Short { task, len, bytes } => {
            let placed = deliver(&bytes[..usize::from(len)], receive.buffer);
            handlers.budget.received(task, footprint(usize::from(len)));
            handlers.requests.delivered(request, u64::from(len), placed);
        }
        EarlyMessage::Kept { task, len, buffer } => {
            let placed = deliver(&buffer[..len as usize], receive.buffer);
            handlers.budget.received(task, footprint(len as usize));
            handlers.buffers.give_back(buffer);
            handlers.requests.delivered(request, u64::from(len), placed);
        }
        EarlyMessage::NotReady { len } => {
            let error =
                Error::NotReady { side: Side::Receiver, peer: envelope.source(), tag: envelope.tag(), len };
            handlers.requests.end(request, Some(error));
        }
        EarlyMessage::Announced { ticket, task, len } => {
            let lengths = (len, receive.buffer.len() as u64);
            let completion = handlers.completions.completion(request, (TaskId(task), false), lengths);
            if let Err(error) = state.context.accept(ticket, Place::Raw(receive.buffer), completion) {
                state.handlers().requests.end(request, Some(error.into()));
            }
        }
    }
}
