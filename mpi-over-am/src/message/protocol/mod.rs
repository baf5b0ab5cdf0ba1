//! Maps communication modes to protocols (MPI-LAPI paper, table 2 and figures 5 to 9).
//!
//! | mode | up to the eager limit | beyond |
//! | --- | --- | --- |
//! | standard | eager, within the budget of early arrivals | in pieces up to 256 KiB, if all have credits or may wait; else rendezvous |
//! | buffered | eager, within the budget | rendezvous |
//! | ready | eager | eager; data too long for a packet are fetched by the receiver |
//! | synchronous | eager, acknowledged when matched, or rendezvous: a setting decides | rendezvous |
//!
//! Messages to one receiver are matched in the order of the calls, whichever protocol carries them: header handlers match, and they run in
//! the order in which the messages were passed to am-core.

mod charge;
mod eager;
mod in_pieces;
mod ready;
mod receive;
mod rendezvous;
mod selection;
mod synchronous;

use am_core::buffer::RawBytes;
use am_core::error::Outcome;
use am_core::fabric::Fabric;
use am_core::handler::HandlerId;
use am_core::transfer::Gatherer;
use am_core::{AmOptions, Amsend, AmsendInPieces};

use crate::data::buffer::{self, Gather, SendData};
use crate::error::Result;
use crate::message::envelope;
use crate::message::handlers::EAGER;
use crate::message::request_id::RequestId;
use crate::message::route::{Mode, Route};
use crate::message::state::State;

pub(crate) use eager::{try_send, try_send_again, try_send_packet};
pub(crate) use receive::{
    receive_data_as, receive_window_as, start_into, start_matched, start_receive, start_receive_data,
};
pub(crate) use synchronous::give_up;

/// The data of a message, and how the caller of the send learns that the data were sent.
pub(crate) trait Load {
    /// Bytes of the message.
    fn len(&self) -> usize;

    /// Passes the message to am-core. `Done`: the data may be reused. `Posted`: am-core reports the end of the request.
    ///
    /// # Errors
    /// An error of am-core; the data may be reused then.
    fn send<F: Fabric>(
        self,
        state: &mut State<F>,
        route: &Route,
        handler: HandlerId,
        options: AmOptions,
    ) -> Result<Outcome>;

    /// Sends the message as one packet, if that is possible at once; the send's request is then under way until the receiver acknowledges
    /// the match. `Retry`: nothing was sent.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    fn try_synchronous<F: Fabric>(&mut self, _state: &mut State<F>, _route: &Route) -> Result<Outcome> {
        Ok(Outcome::Retry)
    }

    /// Sends the message in pieces, if all of them can be sent at once. Returns whether the message was sent; if so, the data may be
    /// reused.
    ///
    /// # Errors
    /// An error while making progress; nothing was sent then.
    fn try_in_pieces<F: Fabric>(&self, _state: &mut State<F>, _route: &Route) -> Result<bool> {
        Ok(false)
    }

    /// Sends the message in pieces, which may have to wait for credits; the send's request is then under way (`Posted`). `Retry`: the load
    /// cannot wait, and nothing was sent.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    fn send_in_pieces<F: Fabric>(
        &mut self,
        _state: &mut State<F>,
        _route: &Route,
        _piece_bytes: u32,
    ) -> Result<Outcome> {
        Ok(Outcome::Retry)
    }
}

/// Borrowed data: the send waits until they may be reused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Borrowed<'a>(pub(crate) &'a [u8]);

impl Load for Borrowed<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn send<F: Fabric>(
        self,
        state: &mut State<F>,
        route: &Route,
        handler: HandlerId,
        options: AmOptions,
    ) -> Result<Outcome> {
        let header = envelope::to_bytes(&route.envelope, route.destination);
        state.context.amsend(route.task, handler, &header, self.0, options)?;
        Ok(Outcome::Done)
    }

    fn try_in_pieces<F: Fabric>(&self, state: &mut State<F>, route: &Route) -> Result<bool> {
        in_pieces::send_soon(state, *route, self.0)
    }
}

/// Data that a request holds: the send does not wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) bytes: RawBytes,
    pub(crate) request: RequestId,
}

impl Load for Held {
    #[inline(always)]
    fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn send<F: Fabric>(
        self,
        state: &mut State<F>,
        route: &Route,
        handler: HandlerId,
        options: AmOptions,
    ) -> Result<Outcome> {
        let header = envelope::to_bytes(&route.envelope, route.destination);
        let number = Some(self.request.number());
        Ok(buffer::amsend(&mut state.context, route.task, (handler, &header), self.bytes, options, number)?)
    }

    fn try_synchronous<F: Fabric>(&mut self, state: &mut State<F>, route: &Route) -> Result<Outcome> {
        synchronous::try_send(state, route, *self)
    }

    fn try_in_pieces<F: Fabric>(&self, state: &mut State<F>, route: &Route) -> Result<bool> {
        Ok(buffer::with_slice(self.bytes, |bytes| in_pieces::try_send(state, *route, bytes)))
    }

    fn send_in_pieces<F: Fabric>(
        &mut self,
        state: &mut State<F>,
        route: &Route,
        piece_bytes: u32,
    ) -> Result<Outcome> {
        let header = in_pieces::header(route, self.bytes.len());
        let message =
            Amsend { target: route.task, handler: EAGER, uhdr: &header, options: AmOptions::default() };
        let message = AmsendInPieces { message, piece_bytes };
        Ok(buffer::amsend_in_pieces(&mut state.context, message, self.bytes, self.request.number())?)
    }
}

/// Data of a send that gets a request only if it is not complete at once. The request's number is then stored in `request`.
#[derive(Debug)]
struct Starting<'a> {
    bytes: RawBytes,
    request: &'a mut RequestId,
}

impl Starting<'_> {
    /// Makes a request for a send that may be under way when `send` returns.
    fn start<F: Fabric>(
        &mut self,
        state: &mut State<F>,
        route: &Route,
        send: impl FnOnce(&mut State<F>, &mut Held) -> Result<Outcome>,
    ) -> Result<Outcome> {
        state.check_sends(self.bytes.len() as u64)?;
        let request = state.handlers().requests.insert_of(false, route.envelope.context_id());
        let sent = send(state, &mut Held { bytes: self.bytes, request });
        match sent {
            Ok(Outcome::Posted) => *self.request = request,
            _ => state.handlers().requests.forget(request),
        }
        sent
    }
}

impl Load for Starting<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn send<F: Fabric>(
        self,
        state: &mut State<F>,
        route: &Route,
        handler: HandlerId,
        options: AmOptions,
    ) -> Result<Outcome> {
        state.check_sends(self.bytes.len() as u64)?;
        let request = state.handlers().requests.insert_of(false, route.envelope.context_id());
        let sent = (Held { bytes: self.bytes, request }).send(state, route, handler, options);
        *self.request = ended_or_under_way(state, request, sent)?;
        Ok(Outcome::Done)
    }

    fn try_synchronous<F: Fabric>(&mut self, state: &mut State<F>, route: &Route) -> Result<Outcome> {
        self.start(state, route, |state, held| synchronous::try_send(state, route, *held))
    }

    fn send_in_pieces<F: Fabric>(
        &mut self,
        state: &mut State<F>,
        route: &Route,
        piece_bytes: u32,
    ) -> Result<Outcome> {
        self.start(state, route, |state, held| held.send_in_pieces(state, route, piece_bytes))
    }
}

/// Data that are not contiguous, held by a request.
#[derive(Debug)]
struct Scattered {
    gather: Gather,
    request: RequestId,
}

impl Load for Scattered {
    fn len(&self) -> usize {
        usize::try_from(self.gather.len()).unwrap_or(usize::MAX)
    }

    fn send<F: Fabric>(
        self,
        state: &mut State<F>,
        route: &Route,
        handler: HandlerId,
        options: AmOptions,
    ) -> Result<Outcome> {
        let header = envelope::to_bytes(&route.envelope, route.destination);
        let target = route.task;
        let number = Some(self.request.number());
        Ok(state.context.amsend_gather(
            Amsend { target, handler, uhdr: &header, options },
            self.gather,
            number,
        )?)
    }
}

/// Sends a message in any mode but the buffered one.
///
/// # Errors
/// An error of am-core.
#[inline(always)]
pub(crate) fn send<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    load: impl Load,
) -> Result<Outcome> {
    match selection::select(mode, load.len(), state.eager_limits) {
        selection::Protocol::Eager => eager::send(state, route, load),
        // Out of line, with the route by value, so that the fast path keeps the route in registers.
        selection::Protocol::InPieces => in_pieces::send(state, *route, load),
        selection::Protocol::Rendezvous => rendezvous::send(state, *route, load),
        selection::Protocol::Synchronous => synchronous::send(state, *route, load),
        selection::Protocol::Ready => ready::send(state, *route, load),
    }
}

/// Starts a send of bytes that its request holds.
///
/// # Errors
/// An error of am-core; no request exists then.
pub(crate) fn start_send<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    bytes: RawBytes,
) -> Result<RequestId> {
    state.check_sends(bytes.len() as u64)?;
    let request = state.handlers().requests.insert_of(false, route.envelope.context_id());
    let sent = send(state, mode, route, Held { bytes, request });
    note_sent(state, request, sent)?;
    Ok(request)
}

/// Starts a send of elements that the caller keeps for the request, in any mode but the buffered one.
///
/// # Errors
/// An error of am-core; no request exists then.
pub(crate) fn start_send_data<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    data: &SendData,
) -> Result<RequestId> {
    state.check_sends(data.packed_len())?;
    let request = state.handlers().requests.insert_of(false, route.envelope.context_id());
    let sent = hand_over(state, mode, route, data, request);
    note_sent(state, request, sent)?;
    Ok(request)
}

/// Like [`start_send_data`], for an existing request.
///
/// # Errors
/// An error of am-core; the operation was not started then.
pub(crate) fn send_data_as<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    data: &SendData,
    request: RequestId,
) -> Result<()> {
    if hand_over(state, mode, route, data, request)? == Outcome::Done {
        state.handlers().requests.end(request, None);
    }
    Ok(())
}

/// Like [`start_send_data`], but a send that is complete at once has no record: its request is [`RequestId::ENDED_SEND`].
///
/// # Errors
/// [`Error::TooMany`](crate::Error::TooMany); an error of am-core. No request exists then.
pub(crate) fn send_or_start<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    data: &SendData,
) -> Result<RequestId> {
    match data.as_bytes() {
        Some(bytes) => send_bytes_or_start(state, mode, route, bytes),
        None => {
            state.check_sends(data.packed_len())?;
            let request = state.handlers().requests.insert_of(false, route.envelope.context_id());
            let sent = send_scattered(state, mode, route, Scattered { gather: data.gather(), request });
            ended_or_under_way(state, request, sent)
        }
    }
}

/// Like [`send_or_start`], for bytes that the caller keeps for the request.
///
/// # Errors
/// Those of [`send_or_start`].
#[inline(always)]
pub(crate) fn send_bytes_or_start<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    bytes: RawBytes,
) -> Result<RequestId> {
    let mut request = RequestId::ENDED_SEND;
    if mode == Mode::Standard && buffer::with_slice(bytes, |bytes| try_send_again(state, route, bytes)) {
        return Ok(request);
    }
    send(state, mode, route, Starting { bytes, request: &mut request }).map(|_| request)
}

/// The request of a send that is still under way; [`RequestId::ENDED_SEND`] if the send is already complete.
///
/// # Errors
/// The error of the send.
fn ended_or_under_way<F: Fabric>(
    state: &mut State<F>,
    request: RequestId,
    sent: Result<Outcome>,
) -> Result<RequestId> {
    note_sent(state, request, sent)?;
    let requests = &mut state.handlers().requests;
    if requests.is_over(request) {
        requests.take(request).map(|_| RequestId::ENDED_SEND)
    } else {
        Ok(request)
    }
}

/// Ends the request of a send that was complete at once, and drops that of a send that could not be started.
///
/// # Errors
/// The error of the send.
fn note_sent<F: Fabric>(state: &mut State<F>, request: RequestId, sent: Result<Outcome>) -> Result<()> {
    let requests = &mut state.handlers().requests;
    match sent {
        Ok(Outcome::Done) => requests.end(request, None),
        Ok(_) => {}
        Err(error) => {
            requests.forget(request);
            return Err(error);
        }
    }
    Ok(())
}

#[inline(always)]
fn hand_over<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    data: &SendData,
    request: RequestId,
) -> Result<Outcome> {
    match data.as_bytes() {
        Some(bytes) => send(state, mode, route, Held { bytes, request }),
        None => send_scattered(state, mode, route, Scattered { gather: data.gather(), request }),
    }
}

#[inline(never)]
fn send_scattered<F: Fabric>(
    state: &mut State<F>,
    mode: Mode,
    route: &Route,
    load: Scattered,
) -> Result<Outcome> {
    send(state, mode, route, load)
}
