//! Operations on ranges without a lifetime, for layers that have promises of their own: the C interface.
//!
//! These calls are safe because the making of a [`RawBytes`] or [`RawBuffer`] is not: whoever made it has promised to leave the
//! memory alone until the operation has ended.

use am_core::buffer::{RawBuffer, RawBytes};
use am_core::fabric::Fabric;

use super::slab::{Phase, RequestId};
use crate::buffer::with_slice;
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::protocol::{self, Borrowed, Mode, Receive, Room};
use crate::rank::Source;
use crate::status::Status;
use crate::tag::Tag;

impl<F: Fabric> Communicator<F> {
    /// Starts a send in any mode. In buffered mode the bytes are free again when this returns, and the request is over.
    ///
    /// # Errors
    /// As the typed sends.
    pub fn isend_raw(&self, mode: Mode, bytes: RawBytes, dest: u32, tag: i32) -> Result<RequestId> {
        let route = self.route(Space::PointToPoint, dest, tag)?;
        let mut state = self.state()?;
        if mode != Mode::Buffered {
            return protocol::start_send(&mut state, mode, &route, bytes, 0);
        }
        with_slice(bytes, |bytes| protocol::send_buffered(&mut state, &route, bytes))?;
        let request = state.handlers().requests.insert(false, 0);
        state.handlers().requests.end(request, None);
        Ok(request)
    }

    /// Starts a receive.
    ///
    /// # Errors
    /// As the typed receives.
    pub fn irecv_raw(
        &self,
        buffer: RawBuffer,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<RequestId> {
        let pattern = self.pattern(Space::PointToPoint, source.into(), tag.into())?;
        let mut state = self.state()?;
        Ok(protocol::start_receive(&mut state, Receive { pattern, room: Room::Bytes(buffer) }, 0))
    }

    /// Receives, and returns when the message is there.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_raw(
        &self,
        buffer: RawBuffer,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let pattern = self.pattern(Space::PointToPoint, source.into(), tag.into())?;
        protocol::receive(&mut *self.state()?, Receive { pattern, room: Room::Bytes(buffer) })
    }

    /// Waits until the operation is over.
    ///
    /// # Errors
    /// Its own error; a request that does not exist; what progress reports, and then the operation is still under way.
    pub fn wait(&self, request: RequestId) -> Result<Status> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        state.wait_over(request)?;
        state.handlers().requests.take(request)
    }

    /// Makes progress; the status if the operation is over, and then the request is gone.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(&self, request: RequestId) -> Result<Option<Status>> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        if !state.is_over_after_progress(request)? {
            return Ok(None);
        }
        state.handlers().requests.take(request).map(Some)
    }

    /// Waits until all are over. `ended` gets each result, in the order of the requests.
    ///
    /// # Errors
    /// A request that does not exist; what progress reports.
    pub fn wait_all(
        &self,
        requests: &[RequestId],
        mut ended: impl FnMut(usize, Result<Status>),
    ) -> Result<()> {
        let mut state = self.state()?;
        for &request in requests {
            state.handlers().requests.check(request)?;
        }
        for (index, &request) in requests.iter().enumerate() {
            state.wait_over(request)?;
            ended(index, state.handlers().requests.take(request));
        }
        Ok(())
    }

    /// Waits until one of them is over: its index and its result. `None` if there is no request.
    ///
    /// # Errors
    /// As for [`wait_all`](Self::wait_all).
    pub fn wait_any(&self, requests: &[RequestId]) -> Result<Option<(usize, Result<Status>)>> {
        let mut state = self.state()?;
        for &request in requests {
            state.handlers().requests.check(request)?;
        }
        if requests.is_empty() {
            return Ok(None);
        }
        let index = state.wait_any_over(requests.iter().copied())?;
        let result = state.handlers().requests.take(requests[index]);
        Ok(Some((index, result)))
    }

    /// Withdraws a receive that has not met its message (`MPI_Cancel`): it is over then, with
    /// [`Error::Cancelled`](crate::Error::Cancelled). Anything else goes on. Whether it was withdrawn.
    ///
    /// # Errors
    /// A request that does not exist.
    pub fn cancel(&self, request: RequestId) -> Result<bool> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        let is_posted = matches!(state.handlers().requests.phase(request), Phase::Posted(_));
        if is_posted {
            protocol::end(&mut state, request);
        }
        Ok(is_posted)
    }

    /// Lets the operation go on without a wait (`MPI_Request_free`).
    ///
    /// # Errors
    /// A request that does not exist.
    pub fn free(&self, request: RequestId) -> Result<()> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        state.handlers().requests.detach(request);
        Ok(())
    }

    /// Sends in any mode and returns when the bytes are free again.
    ///
    /// # Errors
    /// As the typed sends.
    pub fn send_raw(&self, mode: Mode, bytes: &[u8], dest: u32, tag: i32) -> Result<()> {
        let route = self.route(Space::PointToPoint, dest, tag)?;
        let mut state = self.state()?;
        match mode {
            Mode::Buffered => protocol::send_buffered(&mut state, &route, bytes),
            _ => protocol::send(&mut state, mode, &route, Borrowed(bytes)),
        }
    }
}
