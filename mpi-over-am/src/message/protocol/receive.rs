//! Starts receives: each takes a matching early arrival, or is posted (MPI-LAPI paper, figure 9).
//!
//! Progress is made only after the receive has been posted. So a message that is still in the NIC's queue finds its receive, and is copied
//! once.

use am_core::Context;
use am_core::buffer::Arrived;
use am_core::fabric::Fabric;
use am_core::handler::Destination;
use am_core::task::TaskId;

use super::synchronous;
use crate::data::buffer::{RecvData, Window};
use crate::error::{Error, Side};
use crate::matching::{Envelope, Pattern};
use crate::message::early_message::{EarlyMessage, footprint};
use crate::message::handlers::MpiHandlers;
use crate::message::request_id::RequestId;
use crate::message::route::{Receive, ReceiveBuffer};
use crate::message::state::State;

/// Starts a receive into memory that its request holds.
#[inline(always)]
pub(crate) fn start_receive<F: Fabric>(state: &mut State<F>, receive: Receive) -> RequestId {
    let Receive { pattern, buffer } = receive;
    match state.handlers().early.take_match(&pattern) {
        None => {
            let handlers = state.handlers();
            let request = handlers.requests.insert_posted(pattern, buffer);
            handlers.end_if_its_sender_is_lost(request);
            request
        }
        Some((envelope, message)) => {
            let request = state.handlers().requests.insert_of(true, pattern.context_id());
            take_early(&mut state.context, buffer, request, envelope, message);
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
        return start_receive(state, Receive { pattern, buffer: ReceiveBuffer::Bytes(buffer) });
    }
    let request = state.handlers().requests.insert_of(true, pattern.context_id());
    receive_data_as(&mut state.context, pattern, data, request);
    request
}

/// Like [`start_receive_data`], for an existing request.
#[inline(never)]
pub(crate) fn receive_data_as<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    pattern: Pattern,
    data: &RecvData,
    request: RequestId,
) {
    let buffer = receive_buffer(context, data, request);
    start_into(context, Receive { pattern, buffer }, request);
}

/// Starts a receive into a part of the memory that the caller keeps for the request.
pub(crate) fn receive_window_as<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    pattern: Pattern,
    window: Window,
    request: RequestId,
) {
    let buffer = match window {
        Window::Bytes(buffer) => ReceiveBuffer::Bytes(buffer),
        Window::Layout(scatter) => {
            context.handlers_mut().requests.set_layout(request, scatter);
            ReceiveBuffer::Layout
        }
    };
    start_into(context, Receive { pattern, buffer }, request);
}

/// The destination of a message that is received into these elements.
#[inline]
fn receive_buffer<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    data: &RecvData,
    request: RequestId,
) -> ReceiveBuffer {
    match data.as_buffer() {
        Some(buffer) => ReceiveBuffer::Bytes(buffer),
        None => {
            context.handlers_mut().requests.set_layout(request, data.scatter());
            ReceiveBuffer::Layout
        }
    }
}

/// Starts to receive a message that a matched probe took out of the queue.
pub(crate) fn start_matched<F: Fabric>(
    state: &mut State<F>,
    (envelope, message): (Envelope, EarlyMessage),
    data: &RecvData,
) -> RequestId {
    let request = state.handlers().requests.insert_of(true, envelope.context_id());
    let buffer = receive_buffer(&mut state.context, data, request);
    take_early(&mut state.context, buffer, request, envelope, message);
    request
}

/// Starts a receive: takes an early arrival, or posts the receive.
#[inline(always)]
pub(crate) fn start_into<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    receive: Receive,
    request: RequestId,
) {
    match context.handlers_mut().early.take_match(&receive.pattern) {
        Some((envelope, message)) => take_early(context, receive.buffer, request, envelope, message),
        None => {
            let handlers = context.handlers_mut();
            handlers.requests.post(request, receive.pattern, receive.buffer);
            handlers.end_if_its_sender_is_lost(request);
        }
    }
}

#[inline(never)]
fn take_early<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    buffer: ReceiveBuffer,
    request: RequestId,
    envelope: Envelope,
    message: EarlyMessage,
) {
    let handlers = context.handlers_mut();
    handlers.requests.matched(request, &envelope);
    handlers.record_match(|| message.task(), &envelope, message.len(), true);
    match message {
        EarlyMessage::Short { task, len, bytes, synchronous } => {
            let placed =
                handlers.requests.store(request, buffer, 0, Arrived::private(&bytes[..usize::from(len)]));
            handlers.requests.delivered(request, u64::from(len), placed);
            release(context, task, footprint(usize::from(len)), synchronous);
        }
        EarlyMessage::Kept { task, len, buffer: kept, synchronous } => {
            let placed = handlers.requests.store(request, buffer, 0, Arrived::private(&kept[..len as usize]));
            handlers.buffers.give_back(kept);
            handlers.requests.delivered(request, u64::from(len), placed);
            release(context, task, footprint(len as usize), synchronous);
        }
        EarlyMessage::InPieces { number, .. } => handlers.receive_arrival(number, request, buffer),
        EarlyMessage::NotReady { task, len } => {
            handlers.budget.drop_kept(task, 0);
            let error =
                Error::NotReady { side: Side::Receiver, peer: envelope.source(), tag: envelope.tag(), len };
            handlers.requests.end(request, Some(error));
        }
        EarlyMessage::Announced { ticket, task, len } => {
            handlers.budget.drop_announced(task);
            let (destination, capacity) = match buffer {
                ReceiveBuffer::Bytes(buffer) => (Destination::Raw(buffer), buffer.len() as u64),
                ReceiveBuffer::Layout => handlers.requests.take_layout(request),
            };
            let completion = handlers.completions.completion(request, (TaskId(task), false), (len, capacity));
            if let Err(error) = context.accept(ticket, destination, completion) {
                context.handlers_mut().requests.end(request, Some(error.into()));
            }
        }
    }
}

/// After an early message was received: sends the acknowledgement of a synchronous one, and returns the message's part of the budget to its
/// sender. If the acknowledgement has to wait for a credit, that part is returned later.
fn release<F: Fabric>(context: &mut Context<F, MpiHandlers>, task: u32, footprint: u64, synchronous: u32) {
    if synchronous == 0 || synchronous::acknowledge(context, (task, footprint), synchronous) {
        context.handlers_mut().budget.take(task, footprint);
    }
}
