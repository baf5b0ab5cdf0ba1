//! Operations on elements of datatypes, without a lifetime: the base of the typed calls, the collectives and the C interface.
//!
//! These calls are safe because making a [`SendData`] or [`RecvData`] is unsafe: the code that made it has promised to leave the memory
//! alone until the operation has ended. Contiguous data are sent as bytes; other data are gathered into the NIC's buffers, and scattered
//! from there.

use am_core::buffer::{RawBuffer, RawBytes};
use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::context_id::Space;
use crate::data::buffer::{RecvData, SendData, with_slice};
use crate::error::{Error, Result};
use crate::matching::Pattern;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::route::{Mode, Receive, ReceiveBuffer, Route};
use crate::message::state::State;
use crate::message::status::Status;
use crate::policy::LockPolicy;
use crate::rank::{PROC_NULL, Source};
use crate::request::blocking::{self, send_buffered_data};
use crate::tag::{self, Tag};

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// The route of a message; `None` for [`PROC_NULL`], to which nothing is sent (MPI 5.0 section 3.10).
    ///
    /// # Errors
    /// Any other rank that does not exist; a tag out of range.
    #[inline(always)]
    pub(crate) fn route_or_nobody(&self, dest: u32, tag: i32) -> Result<Option<Route>> {
        match self.route(Space::PointToPoint, dest, tag) {
            Ok(route) => Ok(Some(route)),
            Err(error) => to_proc_null(dest, tag, error).map(|()| None),
        }
    }

    /// The pattern of a receive; `None` for [`PROC_NULL`], whose message is empty and arrives at once.
    ///
    /// # Errors
    /// Those of [`route_or_nobody`](Self::route_or_nobody).
    #[inline(always)]
    pub(crate) fn pattern_or_nobody(&self, source: Source, tag: Tag) -> Result<Option<Pattern>> {
        match self.pattern(Space::PointToPoint, source, tag) {
            Ok(pattern) => Ok(Some(pattern)),
            Err(error) => from_proc_null(source, tag, error).map(|()| None),
        }
    }

    /// Starts a send in any mode. Returns [`RequestId::ENDED_SEND`] if the send is complete at once: in buffered mode, to [`PROC_NULL`], or
    /// if the message could be sent at once.
    ///
    /// # Errors
    /// Those of the typed sends.
    pub fn isend_data(&self, mode: Mode, data: &SendData, dest: u32, tag: i32) -> Result<RequestId> {
        match data.as_bytes() {
            Some(bytes) => self.isend_bytes(mode, bytes, dest, tag),
            None => self.isend_by(dest, tag, |state, route| match mode {
                Mode::Buffered => send_buffered(state, route, data),
                _ => protocol::send_or_start(state, mode, route, data),
            }),
        }
    }

    /// Like [`isend_data`](Self::isend_data), for contiguous bytes.
    ///
    /// # Errors
    /// Those of [`isend_data`](Self::isend_data).
    #[inline]
    pub fn isend_bytes(&self, mode: Mode, bytes: RawBytes, dest: u32, tag: i32) -> Result<RequestId> {
        if mode == Mode::Standard && with_slice(bytes, |bytes| self.try_send(bytes, dest, tag)) {
            return Ok(RequestId::ENDED_SEND);
        }
        self.isend_bytes_slowly(mode, bytes, dest, tag)
    }

    /// Starts a send, in any mode, of bytes that [`try_send`](Self::try_send) has not sent.
    ///
    /// # Errors
    /// Those of [`isend_data`](Self::isend_data).
    #[inline(never)]
    pub fn isend_bytes_slowly(&self, mode: Mode, bytes: RawBytes, dest: u32, tag: i32) -> Result<RequestId> {
        self.isend_by(dest, tag, |state, route| match mode {
            Mode::Buffered => send_buffered(state, route, &SendData::from_bytes(bytes)),
            _ => protocol::send_bytes_or_start(state, mode, route, bytes),
        })
    }

    #[inline(always)]
    fn isend_by(
        &self,
        dest: u32,
        tag: i32,
        start: impl FnOnce(&mut State<F>, &Route) -> Result<RequestId>,
    ) -> Result<RequestId> {
        match self.route_or_nobody(dest, tag)? {
            Some(route) => start(&mut *self.state_to_start()?, &route),
            None => Ok(RequestId::ENDED_SEND),
        }
    }

    /// Starts a receive. Returns [`RequestId::RECEIVED_FROM_NOBODY`] for a receive from [`PROC_NULL`].
    ///
    /// # Errors
    /// Those of the typed receives.
    pub fn irecv_data(
        &self,
        data: &RecvData,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<RequestId> {
        let (source, tag) = (source.into(), tag.into());
        let Some(pattern) = self.pattern_or_nobody(source, tag)? else {
            return Ok(RequestId::RECEIVED_FROM_NOBODY);
        };
        let mut state = self.state_to_start()?;
        state.check_receives()?;
        Ok(protocol::start_receive_data(&mut state, pattern, data))
    }

    /// The fast path of [`irecv_data`](Self::irecv_data) for contiguous memory, used by the C interface. `None`: nothing was started; call
    /// `irecv_data`.
    #[inline(always)]
    pub fn try_irecv_bytes(&self, buffer: RawBuffer, source: Source, tag: Tag) -> Option<RequestId> {
        let pattern = self.pattern_now(source, tag)?;
        let receive = Receive { pattern, buffer: ReceiveBuffer::Bytes(buffer) };
        let mut state = self.state_briefly()?;
        if !state.may_post_receive() {
            return None;
        }
        Some(protocol::start_receive(&mut state, receive))
    }

    /// Sends in any mode, and returns when the memory may be reused.
    ///
    /// # Errors
    /// Those of the typed sends.
    pub fn send_data(&self, mode: Mode, data: &SendData, dest: u32, tag: i32) -> Result<()> {
        let Some(route) = self.route_or_nobody(dest, tag)? else { return Ok(()) };
        let mut state = self.state_to_start()?;
        match mode {
            Mode::Buffered => send_buffered_data(&mut state, &route, data),
            _ => blocking::send_data(&mut state, mode, &route, data),
        }
    }

    /// Receives, and returns when the message has arrived.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv).
    pub fn recv_data(
        &self,
        data: &RecvData,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let (source, tag) = (source.into(), tag.into());
        let Some(pattern) = self.pattern_or_nobody(source, tag)? else { return Ok(Status::OF_PROC_NULL) };
        blocking::receive_data(&mut self.state_to_start()?, self.source_task(source), pattern, data)
    }

    /// Like [`sendrecv`](Self::sendrecv), for elements of datatypes.
    ///
    /// # Errors
    /// Those of [`sendrecv`](Self::sendrecv).
    pub fn sendrecv_data(
        &self,
        (out, dest, send_tag): (&SendData, u32, i32),
        (data, source, recv_tag): (&RecvData, Source, Tag),
    ) -> Result<Status> {
        let Some(route) = self.route_or_nobody(dest, send_tag)? else {
            return self.recv_data(data, source, recv_tag);
        };
        let Some(pattern) = self.pattern_or_nobody(source, recv_tag)? else {
            return self.send_data(Mode::Standard, out, dest, send_tag).map(|()| Status::OF_PROC_NULL);
        };
        let from = (self.source_task(source), pattern);
        blocking::send_receive_data(&mut self.state_to_start()?, &route, out, from, data)
    }

    /// Sends the elements and replaces them with the received ones (`MPI_Sendrecv_replace`).
    ///
    /// # Errors
    /// Those of [`sendrecv`](Self::sendrecv).
    pub fn sendrecv_replace_data(
        &self,
        data: &RecvData,
        (dest, send_tag): (u32, i32),
        (source, recv_tag): (Source, Tag),
    ) -> Result<Status> {
        let len =
            usize::try_from(data.packed_len()).map_err(|_| Error::TooLarge { call: "sendrecv_replace" })?;
        let mut out = vec![0; len];
        data.as_send().pack(0, &mut out);
        crate::data::buffer::lend_to_send(&out, |out| {
            self.sendrecv_data((&out, dest, send_tag), (data, source, recv_tag))
        })
    }
}

/// Sends in buffered mode. The operation is complete at once.
#[cold]
#[inline(never)]
fn send_buffered<F: Fabric>(state: &mut State<F>, route: &Route, data: &SendData) -> Result<RequestId> {
    send_buffered_data(state, route, data).map(|()| RequestId::ENDED_SEND)
}

#[cold]
#[inline(never)]
fn to_proc_null(dest: u32, tag: i32, error: Error) -> Result<()> {
    if dest == PROC_NULL { tag::check(tag).map(|_| ()) } else { Err(error) }
}

#[cold]
#[inline(never)]
fn from_proc_null(source: Source, tag: Tag, error: Error) -> Result<()> {
    match tag {
        _ if source != Source::Rank(PROC_NULL) => Err(error),
        Tag::Is(tag) => tag::check(tag).map(|_| ()),
        Tag::Any => Ok(()),
    }
}
