//! Blocking calls: a start, and a wait in the call's turn.

mod buffered;

use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::data::buffer::{self, RecvData, SendData};
use crate::error::{Error, Result};
use crate::matching::Pattern;
use crate::message::progress::{end, receive_in_line, receive_pieces};
use crate::message::protocol::{
    Borrowed, send, send_bytes_or_start, send_or_start, start_into, start_receive, start_receive_data,
    try_send, try_send_again,
};
use crate::message::request_id::RequestId;
use crate::message::route::{Mode, Receive, ReceiveBuffer, Route};
use crate::message::state::State;
use crate::message::status::Status;
use crate::message::turn::Turn;
use crate::policy::LockPolicy;

pub(crate) use buffered::{detach, flush, send_buffered, send_buffered_data};

/// Sends elements in any mode but the buffered one. When the call returns or unwinds, nothing uses the elements any more.
///
/// # Errors
/// An error of am-core, or an error while making progress.
#[inline]
pub(crate) fn send_data<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    mode: Mode,
    route: &Route,
    data: &SendData,
) -> Result<()> {
    match data.as_bytes() {
        Some(bytes) => buffer::with_slice(bytes, |bytes| send_bytes(state, mode, route, bytes)),
        None => {
            let request = send_or_start(state, mode, route, data)?;
            wait_for_send(state, request)
        }
    }
}

/// Like [`send`], for bytes that are lent for this call: their memory may be reused when the call returns. If other threads or collectives
/// must proceed meanwhile, a send that waits gives up its turn.
///
/// # Errors
/// Those of [`send`].
#[inline(always)]
pub(crate) fn send_bytes<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    mode: Mode,
    route: &Route,
    bytes: &[u8],
) -> Result<()> {
    if gives_turn_up(state, mode) {
        return buffer::lend_raw(bytes, |bytes| {
            let request = send_bytes_or_start(state, mode, route, bytes)?;
            wait_for_send(state, request)
        });
    }
    if mode == Mode::Standard && try_send_again(state, route, bytes) {
        return Ok(());
    }
    send(state, mode, route, Borrowed(bytes)).map(|_| ())
}

/// Whether the send needs a request: other threads or collectives must proceed while it waits, which am-core's own wait would prevent; the
/// mode is synchronous, in which the acknowledgement ends a request; or the communicator may be revoked meanwhile, which ends requests.
#[inline(always)]
fn gives_turn_up<F: Fabric, L: LockPolicy>(state: &Turn<'_, F, L>, mode: Mode) -> bool {
    L::takes_turns() || mode == Mode::Synchronous || !state.schedules.is_empty() || state.goes_on
}

/// Receives, and returns when the message has arrived. `source` is the only possible sender, if it is known.
///
/// # Errors
/// The operation's error; an error while making progress.
#[inline(always)]
pub(crate) fn receive<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    source: Option<TaskId>,
    pattern: Pattern,
    buffer: RawBuffer,
) -> Result<Status> {
    if L::takes_turns() {
        // A receive in line ends soon, so it may delay a thread that begins to wait for a turn meanwhile.
        if let Some(source) = source
            && !state.is_wanted()
            && let Some(status) = receive_in_line(state, source, &pattern, buffer)
        {
            return Ok(status);
        }
        // Several threads may be in a blocking receive, so each needs a request of its own.
        let request = start_receive(state, Receive { pattern, buffer: ReceiveBuffer::Bytes(buffer) });
        return wait_here(state, request);
    }
    receive_in_one_turn(state, source, pattern, buffer).map_err(|error| *error)
}

/// Like [`receive`], in a turn that no other thread wants. The error is boxed, so that the status stays in registers.
///
/// # Errors
/// Those of [`receive`].
#[inline(always)]
pub(crate) fn receive_in_one_turn<F: Fabric>(
    state: &mut State<F>,
    source: Option<TaskId>,
    pattern: Pattern,
    buffer: RawBuffer,
) -> std::result::Result<Status, Box<Error>> {
    // Not a closure: the compiler would not inline it, and the status would go through memory.
    if let Some(source) = source
        && let Some(status) = receive_in_line(state, source, &pattern, buffer)
    {
        return Ok(status);
    }
    post_and_wait(state, source, pattern, buffer)
}

/// Posts the receive, and waits. Not inlined, to leave the registers to the receive in line.
#[inline(never)]
fn post_and_wait<F: Fabric>(
    state: &mut State<F>,
    source: Option<TaskId>,
    pattern: Pattern,
    buffer: RawBuffer,
) -> std::result::Result<Status, Box<Error>> {
    if let Some(source) = source {
        state.learn_peer(source);
        if buffer.len() > state.eager_limits.unsplit
            && let Some(status) = receive_pieces(state, source, &pattern, buffer)
        {
            return Ok(status);
        }
    }
    let ending = Ending::start(state, Receive { pattern, buffer: ReceiveBuffer::Bytes(buffer) });
    match ending.state.wait_receive_over() {
        None => ending.end(),
        Some(error) => Err(error),
    }
}

/// Like [`receive`], for elements.
///
/// # Errors
/// Those of [`receive`].
#[inline]
pub(crate) fn receive_data<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    source: Option<TaskId>,
    pattern: Pattern,
    data: &RecvData,
) -> Result<Status> {
    match data.as_buffer() {
        Some(buffer) => receive(state, source, pattern, buffer),
        None => {
            let request = start_receive_data(state, pattern, data);
            wait_here(state, request)
        }
    }
}

/// Sends elements and receives elements. Either of the two messages may be complete first.
///
/// # Errors
/// Those of [`send_data`] and [`receive_data`].
pub(crate) fn send_receive_data<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    route: &Route,
    out: &SendData,
    (source, pattern): (Option<TaskId>, Pattern),
    data: &RecvData,
) -> Result<Status> {
    // If the message can be sent at once, the send needs no request, and only the receive may have to wait.
    if let (Some(bytes), Some(buffer)) = (out.as_bytes(), data.as_buffer())
        && buffer::with_slice(bytes, |bytes| try_send(state, route, bytes))
    {
        return receive(state, source, pattern, buffer);
    }
    let receiving = start_receive_data(state, pattern, data);
    let mut abandon = Abandon { state, request: Some(receiving) };
    send_data(abandon.state, Mode::Standard, route, out)?;
    abandon.request = None;
    wait_here(abandon.state, receiving)
}

/// Waits for a send whose memory is lent for this call.
///
/// # Errors
/// Those of [`wait_here`].
#[inline(always)]
pub(crate) fn wait_for_send<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    request: RequestId,
) -> Result<()> {
    if request == RequestId::ENDED_SEND { Ok(()) } else { wait_here(state, request).map(|_| ()) }
}

/// Waits for an operation whose memory is lent for this call: nothing uses the memory when the call returns or unwinds.
///
/// # Errors
/// The operation's error; an error while making progress.
pub(crate) fn wait_here<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    request: RequestId,
) -> Result<Status> {
    let mut abandon = Abandon { state, request: Some(request) };
    abandon.state.wait_over(request)?;
    let handlers = abandon.state.handlers();
    if let Some(status) = handlers.requests.take_plain(request) {
        abandon.request = None;
        return Ok(status);
    }
    if let Some(why) = handlers.is_in_doubt(request) {
        return Err(why);
    }
    abandon.request = None;
    abandon.state.handlers().requests.take(request)
}

/// Ends an operation when this value is dropped, if the call has not completed the operation.
struct Abandon<'t, 'a, F: Fabric, L: LockPolicy> {
    state: &'t mut Turn<'a, F, L>,
    request: Option<RequestId>,
}

impl<F: Fabric, L: LockPolicy> Drop for Abandon<'_, '_, F, L> {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            end(self.state, request);
            // The caller gets the error that interrupted the operation.
            let _ = self.state.handlers().requests.take(request);
        }
    }
}

/// Like [`Abandon`], for the request of blocking receives.
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

    /// The result of the receive, which must be over.
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

#[cfg(test)]
mod tests {
    use am_double::{Config, network};

    use super::*;
    use crate::data::buffer::keep_vec;
    use crate::matching::{ContextId, Envelope};
    use crate::settings::Settings;

    /// Task 1 sends faster than the receiver receives, so that its ring never runs empty. The receiver takes these messages in line, and
    /// must sometimes poll, where it finds the message of task 2. The length of the receive's buffer decides which function takes them.
    #[test]
    fn a_source_whose_ring_never_runs_empty_does_not_starve_others() {
        for buffer_bytes in [8, 1 << 16] {
            let (_network, fabrics) = network(Config::new(3));
            let states = fabrics.into_iter().map(|fabric| State::new(fabric, &Settings::default()).unwrap());
            let [mut receiver, mut busy, mut other] =
                <[State<_>; 3]>::try_from(states.collect::<Vec<_>>()).unwrap();
            let route = |from, tag| Route {
                task: TaskId(0),
                destination: 0,
                envelope: Envelope::new(ContextId(0), from, tag),
            };
            assert!(send(&mut other, Mode::Standard, &route(2, 9), Borrowed(&[])).is_ok());
            let (_kept, buffer) = keep_vec(&receiver, vec![0; buffer_bytes]);
            let pattern = Pattern::new(ContextId(0), Some(1), Some(5));
            let mut send_one = || {
                assert!(send(&mut busy, Mode::Standard, &route(1, 5), Borrowed(&[7; 8])).is_ok());
                busy.probe().unwrap();
            };
            send_one();
            receiver.learn_peer(TaskId(1));
            let mut received = 0;
            while receiver.handlers().early.is_empty() {
                send_one();
                let status = receive_in_one_turn(&mut receiver, Some(TaskId(1)), pattern, buffer).unwrap();
                assert_eq!(status.len, 8);
                received += 1;
                assert!(
                    received < 1000,
                    "the message of task 2 is not taken; buffer of {buffer_bytes} bytes"
                );
            }
            assert!(received > 10, "the first messages are taken in line");
        }
    }
}
