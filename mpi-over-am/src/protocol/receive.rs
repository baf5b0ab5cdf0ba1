//! Receiving: look among the early arrivals, then post (seed paper, figure 9).
//!
//! A message that lies in the NIC's queue when its receive is posted is copied once: progress is made after posting, so that
//! its header handler finds the receive.

use std::ops::DerefMut;

use am_core::Context;
use am_core::buffer::{Arrived, RawBuffer};
use am_core::fabric::Fabric;
use am_core::handler::Place;
use am_core::task::TaskId;

use super::{Mode, Route, give_up, send_data, synchronous};
use crate::buffer::{RecvData, SendData, Window};
use crate::early_message::{EarlyMessage, deliver, footprint};
use crate::error::{Error, Result, Side};
use crate::handlers::MpiHandlers;
use crate::matching::{Envelope, Pattern};
use crate::policy::LockPolicy;
use crate::request::{Phase, RequestId, abandon, abandon_schedule};
use crate::state::{State, is_over};
use crate::status::Status;
use crate::turn::Turn;

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

/// Receives, and returns when the message is there.
///
/// # Errors
/// The operation's own; what progress reports.
#[inline(always)]
pub(crate) fn receive<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    receive: Receive,
) -> Result<Status> {
    if L::takes_turns() {
        // Several threads may be in a receive that waits.
        let request = start_receive(state, receive);
        return wait_here(state, request);
    }
    receive_in_one_turn(state, receive).map_err(|error| *error)
}

/// As [`receive`], in a turn that no other thread wants. Boxed, the error leaves the status in registers.
///
/// # Errors
/// As for [`receive`].
#[inline(always)]
pub(crate) fn receive_in_one_turn<F: Fabric>(
    state: &mut State<F>,
    receive: Receive,
) -> std::result::Result<Status, Box<Error>> {
    let ending = Ending::start(state, receive);
    match ending.state.wait_receive_over() {
        None => ending.end(),
        Some(error) => Err(error),
    }
}

/// As [`receive`], of elements.
///
/// # Errors
/// As for [`receive`].
#[inline]
pub(crate) fn receive_data<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    pattern: Pattern,
    data: &RecvData,
) -> Result<Status> {
    match data.as_buffer() {
        Some(buffer) => receive(state, Receive { pattern, room: Room::Bytes(buffer) }),
        None => {
            let request = start_receive_data(state, pattern, data);
            wait_here(state, request)
        }
    }
}

/// Sends elements and receives, in whatever order the two messages go.
///
/// # Errors
/// As for both.
pub(crate) fn send_receive_data<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    route: &Route,
    out: &SendData,
    pattern: Pattern,
    data: &RecvData,
) -> Result<Status> {
    let receiving = start_receive_data(state, pattern, data);
    let mut abandon = Abandon { state, request: Some(receiving) };
    send_data(abandon.state, Mode::Standard, route, out)?;
    abandon.request = None;
    wait_here(abandon.state, receiving)
}

/// Waits for a send whose memory is lent for this call.
///
/// # Errors
/// As for [`wait_here`].
#[inline(always)]
pub(super) fn wait_for_send<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    request: RequestId,
) -> Result<()> {
    if request == RequestId::ENDED_SEND { Ok(()) } else { wait_here(state, request).map(|_| ()) }
}

/// Waits for an operation whose memory is lent for this call: nothing uses it when this returns, or unwinds.
///
/// # Errors
/// The operation's own; what progress reports.
pub(crate) fn wait_here<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    request: RequestId,
) -> Result<Status> {
    wait_here_by(state, request, Turn::wait_over)
}

/// As [`wait_here`], by a wait of the caller's.
///
/// # Errors
/// As for [`wait_here`]; what `wait` returns.
#[inline(always)]
pub(super) fn wait_here_by<F: Fabric, S: DerefMut<Target = State<F>>>(
    state: &mut S,
    request: RequestId,
    wait: impl FnOnce(&mut S, RequestId) -> Result<()>,
) -> Result<Status> {
    let mut abandon = Abandon { state, request: Some(request) };
    wait(abandon.state, request)?;
    abandon.request = None;
    let requests = &mut abandon.state.handlers().requests;
    match requests.take_plain(request) {
        Some(status) => Ok(status),
        None => requests.take(request),
    }
}

/// Ends an operation when it is dropped, if a call has not got so far.
struct Abandon<'a, F: Fabric, S: DerefMut<Target = State<F>>> {
    state: &'a mut S,
    request: Option<RequestId>,
}

impl<F: Fabric, S: DerefMut<Target = State<F>>> Drop for Abandon<'_, F, S> {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            end(self.state, request);
            // The caller gets the error that interrupted the operation.
            let _ = self.state.handlers().requests.take(request);
        }
    }
}

/// As [`Abandon`], for the request of blocking receives.
struct Ending<'a, F: Fabric> {
    state: &'a mut State<F>,
}

impl<'a, F: Fabric> Ending<'a, F> {
    /// Starts the receive.
    #[inline(always)]
    fn start(state: &'a mut State<F>, receive: Receive) -> Self {
        state.handlers().requests.begin_blocking();
        start_into(&mut state.context, receive, RequestId::BLOCKING_RECEIVE);
        Self { state }
    }

    /// The result of the receive, which is over.
    #[inline(always)]
    fn end(self) -> std::result::Result<Status, Box<Error>> {
        let status = self.state.handlers().requests.take_blocking();
        std::mem::forget(self);
        status
    }
}

impl<F: Fabric> Drop for Ending<'_, F> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        end(self.state, RequestId::BLOCKING_RECEIVE);
        // The caller gets the error that interrupted the operation.
        let _ = self.state.handlers().requests.take_blocking();
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
            give_up(state, request);
        }
        Phase::Parts => abandon(state, request),
        Phase::ByProgram => state.handlers().requests.end(request, Some(Error::Cancelled)),
        Phase::Moving | Phase::Done | Phase::Inactive | Phase::Free => {}
    }
    state.context.wait_until_ended(|context| is_over(context, request));
}

/// Starts a receive into memory that its request holds.
#[inline(always)]
pub(crate) fn start_receive<F: Fabric>(state: &mut State<F>, receive: Receive) -> RequestId {
    let Receive { pattern, room } = receive;
    match state.handlers().early.take_match(&pattern) {
        None => state.handlers().requests.insert_posted(pattern, room),
        Some((envelope, message)) => {
            let request = state.handlers().requests.insert_of(true, pattern.context_id());
            take_early(&mut state.context, room, request, envelope, message);
            request
        }
    }
}

/// Starts a receive of elements that the caller keeps for the request.
#[inline]
pub(crate) fn start_receive_data<F: Fabric>(
    state: &mut State<F>,
    pattern: Pattern,
    data: &RecvData,
) -> RequestId {
    if let Some(buffer) = data.as_buffer() {
        return start_receive(state, Receive { pattern, room: Room::Bytes(buffer) });
    }
    let request = state.handlers().requests.insert_of(true, pattern.context_id());
    receive_data_as(&mut state.context, pattern, data, request);
    request
}

/// As [`start_receive_data`], for a request that is there.
#[inline(never)]
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
    let request = state.handlers().requests.insert_of(true, envelope.context_id());
    let room = room_for(&mut state.context, data, request);
    take_early(&mut state.context, room, request, envelope, message);
    request
}

/// Starts a receive: takes an early arrival, or posts.
#[inline(always)]
fn start_into<F: Fabric>(context: &mut Context<F, MpiHandlers>, receive: Receive, request: RequestId) {
    match context.handlers_mut().early.take_match(&receive.pattern) {
        Some((envelope, message)) => take_early(context, receive.room, request, envelope, message),
        None => context.handlers_mut().requests.post(request, receive.pattern, receive.room),
    }
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
    handlers.record_match(|| message.task(), &envelope, message.len(), true);
    match message {
        EarlyMessage::Short { task, len, bytes, synchronous } => {
            let placed = deliver_to(handlers, request, room, &bytes[..usize::from(len)]);
            handlers.budget.take(task, footprint(usize::from(len)));
            handlers.requests.delivered(request, u64::from(len), placed);
            if synchronous != 0 {
                synchronous::acknowledge(context, task, synchronous);
            }
        }
        EarlyMessage::Kept { task, len, buffer, synchronous } => {
            let placed = deliver_to(handlers, request, room, &buffer[..len as usize]);
            handlers.budget.take(task, footprint(len as usize));
            handlers.buffers.give_back(buffer);
            handlers.requests.delivered(request, u64::from(len), placed);
            if synchronous != 0 {
                synchronous::acknowledge(context, task, synchronous);
            }
        }
        EarlyMessage::NotReady { task, len } => {
            handlers.budget.drop_kept(task, 0);
            let error =
                Error::NotReady { side: Side::Receiver, peer: envelope.source(), tag: envelope.tag(), len };
            handlers.requests.end(request, Some(error));
        }
        EarlyMessage::Announced { ticket, task, len } => {
            handlers.budget.drop_announced(task);
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
