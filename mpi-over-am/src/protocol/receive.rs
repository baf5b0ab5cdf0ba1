//! Receiving: look among the early arrivals, then post (seed paper, figure 9).
//!
//! A message that lies in the NIC's queue when its receive is posted is copied once: progress is made after posting, so that
//! its header handler finds the receive.

use am_core::Context;
use am_core::buffer::{Arrived, RawBuffer};
use am_core::fabric::Fabric;
use am_core::handler::Place;
use am_core::task::TaskId;

use super::{Borrowed, Mode, Route, send, send_data, start_send_data};
use crate::buffer::{RecvData, SendData, Window};
use crate::communicator::Space;
use crate::early_message::{EarlyMessage, deliver, footprint};
use crate::error::{Error, Result, Side};
use crate::handlers::MpiHandlers;
use crate::matching::{Envelope, Pattern};
use crate::request::{Phase, RequestId, abandon, abandon_schedule};
use crate::state::{State, is_over};
use crate::status::Status;

/// What a receive takes, and where it puts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) pattern: Pattern,
    pub(crate) room: Room,
}

/// Where a receive puts its message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// Into these bytes.
    Bytes(RawBuffer),
    /// Where the layout says that its request holds.
    Layout,
}

/// Receives a message. When this returns or unwinds, nothing uses the buffer any more.
///
/// # Errors
/// [`Error::Truncated`], [`Error::NotReady`], and what progress reports.
#[inline(always)]
pub(crate) fn receive<F: Fabric>(state: &mut State<F>, receive: Receive) -> Result<Status> {
    receive_by(state, receive, State::wait_over)
}

#[inline(always)]
fn receive_by<F: Fabric>(
    state: &mut State<F>,
    receive: Receive,
    wait: impl FnOnce(&mut State<F>, RequestId) -> Result<()>,
) -> Result<Status> {
    const REQUEST: RequestId = RequestId::BLOCKING_RECEIVE;
    state.handlers().requests.begin_blocking(REQUEST);
    let ending = Ending { state, request: REQUEST };
    start_into(&mut ending.state.context, receive, REQUEST);
    wait(ending.state, REQUEST)?;
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
    start_into(&mut ending.state.context, receive, REQUEST);
    send(ending.state, Mode::Standard, route, Borrowed(bytes)).map(|_| ())?;
    ending.state.wait_over(REQUEST)?;
    let status = ending.state.handlers().requests.take_blocking(REQUEST);
    std::mem::forget(ending);
    status
}

/// As [`receive`], for elements of a datatype.
///
/// # Errors
/// As for [`receive`].
#[inline]
pub(crate) fn receive_data<F: Fabric>(
    state: &mut State<F>,
    pattern: Pattern,
    data: &RecvData,
) -> Result<Status> {
    receive_data_by(state, pattern, data, State::wait_over)
}

/// As [`receive_data`], for a caller who waits in its own way, and may give up.
///
/// # Errors
/// As for [`receive`], and what `wait` reports.
#[inline(always)]
pub(crate) fn receive_data_by<F: Fabric>(
    state: &mut State<F>,
    pattern: Pattern,
    data: &RecvData,
    wait: impl FnOnce(&mut State<F>, RequestId) -> Result<()>,
) -> Result<Status> {
    match data.as_buffer() {
        Some(buffer) => receive_by(state, Receive { pattern, room: Room::Bytes(buffer) }, wait),
        None => {
            let request = start_receive_data(state, pattern, data, 0);
            wait_here_by(state, request, wait)
        }
    }
}

/// As [`send_receive`], for elements of datatypes.
///
/// # Errors
/// As for [`receive`] and for sends.
pub(crate) fn send_receive_data<F: Fabric>(
    state: &mut State<F>,
    route: &Route,
    out: &SendData,
    pattern: Pattern,
    data: &RecvData,
) -> Result<Status> {
    send_receive_data_by(state, (route, out), (pattern, data), State::wait_over)
}

/// As [`send_receive_data`], for a caller who waits in its own way, and may give up.
///
/// # Errors
/// As there, and what `wait` reports.
#[inline(always)]
pub(crate) fn send_receive_data_by<F: Fabric>(
    state: &mut State<F>,
    (route, out): (&Route, &SendData),
    (pattern, data): (Pattern, &RecvData),
    wait: impl FnOnce(&mut State<F>, RequestId) -> Result<()>,
) -> Result<Status> {
    let receiving = start_receive_data(state, pattern, data, 0);
    let mut abandon = Abandon { state, request: Some(receiving) };
    send_data(abandon.state, Mode::Standard, route, out)?;
    abandon.request = None;
    wait_here_by(abandon.state, receiving, wait)
}

/// Sends elements that are not in one piece, and waits until they have gone.
///
/// # Errors
/// What am-core and progress report.
pub(super) fn send_and_wait<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    data: &SendData,
) -> Result<()> {
    let request = start_send_data(state, mode, route, data, 0)?;
    wait_here(state, request).map(|_| ())
}

/// Waits for an operation on memory of this call. When it returns or unwinds, nothing uses the memory any more.
///
/// # Errors
/// The operation's own error; what progress reports.
pub(crate) fn wait_here<F: Fabric>(state: &mut State<F>, request: RequestId) -> Result<Status> {
    wait_here_by(state, request, State::wait_over)
}

#[inline(always)]
fn wait_here_by<F: Fabric>(
    state: &mut State<F>,
    request: RequestId,
    wait: impl FnOnce(&mut State<F>, RequestId) -> Result<()>,
) -> Result<Status> {
    let mut abandon = Abandon { state, request: Some(request) };
    wait(abandon.state, request)?;
    abandon.request = None;
    abandon.state.handlers().requests.take(request)
}

/// Ends an operation on memory of this call that an error or an unwinding has interrupted.
struct Abandon<'a, F: Fabric> {
    state: &'a mut State<F>,
    request: Option<RequestId>,
}

impl<F: Fabric> Drop for Abandon<'_, F> {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            end(self.state, request);
            // The caller gets the error that interrupted the operation.
            let _ = self.state.handlers().requests.take(request);
        }
    }
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
    if !state.schedules.is_empty() {
        abandon_schedule(state, request);
    }
    match state.handlers().requests.phase(request) {
        Phase::Posted => state.handlers().requests.withdraw(request),
        Phase::Moving if !state.handlers().requests.is_receive(request) => {
            state.context.give_up(request.number());
        }
        Phase::Parts => abandon(state, request),
        Phase::ByProgram => state.handlers().requests.end(request, Some(Error::Cancelled)),
        Phase::Moving | Phase::Done | Phase::Inactive | Phase::Free => {}
    }
    state.context.wait_until_ended(|context| is_over(context, request));
}

/// Starts a receive into memory that its request holds.
pub(crate) fn start_receive<F: Fabric>(state: &mut State<F>, receive: Receive, scope: u32) -> RequestId {
    let request = state.handlers().requests.insert_of(true, scope, receive.pattern.context_id());
    start_into(&mut state.context, receive, request);
    request
}

/// Starts a receive of elements that the caller keeps for the request.
#[inline]
pub(crate) fn start_receive_data<F: Fabric>(
    state: &mut State<F>,
    pattern: Pattern,
    data: &RecvData,
    scope: u32,
) -> RequestId {
    let request = state.handlers().requests.insert_of(true, scope, pattern.context_id());
    receive_data_as(&mut state.context, pattern, data, request);
    request
}

/// As [`start_receive_data`], for a request that is there.
#[inline]
pub(crate) fn receive_data_as<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    pattern: Pattern,
    data: &RecvData,
    request: RequestId,
) {
    let room = room_for(context, data, request);
    start_into(context, Receive { pattern, room }, request);
}

/// Starts a receive into a part of what the caller keeps for the request.
pub(crate) fn receive_window_as<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    pattern: Pattern,
    window: Window,
    request: RequestId,
) {
    let room = match window {
        Window::Bytes(buffer) => Room::Bytes(buffer),
        Window::Layout(scatter) => {
            context.handlers_mut().requests.set_layout(request, scatter);
            Room::Layout
        }
    };
    start_into(context, Receive { pattern, room }, request);
}

/// Where a message for these elements goes.
#[inline]
fn room_for<F: Fabric>(context: &mut Context<F, MpiHandlers>, data: &RecvData, request: RequestId) -> Room {
    match data.as_buffer() {
        Some(buffer) => Room::Bytes(buffer),
        None => {
            context.handlers_mut().requests.set_layout(request, data.scatter());
            Room::Layout
        }
    }
}

/// Starts to receive a message that was taken out of the queue before.
pub(crate) fn start_matched<F: Fabric>(
    state: &mut State<F>,
    (envelope, message): (Envelope, EarlyMessage),
    data: &RecvData,
) -> RequestId {
    let request = state.handlers().requests.insert_of(true, 0, envelope.context_id());
    let room = room_for(&mut state.context, data, request);
    take_early(&mut state.context, room, request, envelope, message);
    request
}

/// Starts a receive: takes an early arrival, or posts.
#[inline(always)]
fn start_into<F: Fabric>(context: &mut Context<F, MpiHandlers>, receive: Receive, request: RequestId) {
    let handlers = context.handlers_mut();
    let taken = if Space::is_collective(receive.pattern.context_id()) {
        take_collective(handlers, &receive.pattern)
    } else {
        handlers.early.take_match(&receive.pattern)
    };
    match taken {
        Some((envelope, message)) => take_early(context, receive.room, request, envelope, message),
        None => handlers.requests.post(request, receive.pattern, receive.room),
    }
}

/// Apart, so that messages between two tasks choose no queue.
#[inline(never)]
fn take_collective(handlers: &mut MpiHandlers, pattern: &Pattern) -> Option<(Envelope, EarlyMessage)> {
    handlers.early_collective.take_match(pattern)
}

#[inline(never)]
fn take_early<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    room: Room,
    request: RequestId,
    envelope: Envelope,
    message: EarlyMessage,
) {
    let handlers = context.handlers_mut();
    handlers.requests.matched(request, &envelope);
    match message {
        EarlyMessage::Short { task, len, bytes } => {
            let placed = deliver_to(handlers, request, room, &bytes[..usize::from(len)]);
            handlers.budget.received(task, footprint(usize::from(len)));
            handlers.requests.delivered(request, u64::from(len), placed);
        }
        EarlyMessage::Kept { task, len, buffer } => {
            let placed = deliver_to(handlers, request, room, &buffer[..len as usize]);
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
            let (place, room) = match room {
                Room::Bytes(buffer) => (Place::Raw(buffer), buffer.len() as u64),
                Room::Layout => handlers.requests.take_layout(request),
            };
            let completion = handlers.completions.completion(request, (TaskId(task), false), (len, room));
            if let Err(error) = context.accept(ticket, place, completion) {
                context.handlers_mut().requests.end(request, Some(error.into()));
            }
        }
    }
}

/// Copies a kept message to where it was wanted all along, as much as fits; how many bytes that were.
fn deliver_to(handlers: &mut MpiHandlers, request: RequestId, room: Room, bytes: &[u8]) -> u64 {
    match room {
        Room::Bytes(buffer) => deliver(bytes, buffer),
        Room::Layout => handlers
            .requests
            .layout(request)
            .map_or(0, |scatter| scatter.place(0, Arrived::private(bytes)) as u64),
    }
}
