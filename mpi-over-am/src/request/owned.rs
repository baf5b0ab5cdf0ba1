//! Non-blocking operations that own their buffer and give it back.

use std::marker::PhantomData;

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::slab::RequestId;
use crate::buffer::{buffer_to_keep, bytes_to_keep};
use crate::communicator::{Communicator, Space};
use crate::error::Result;
use crate::protocol::{self, Mode, Receive, Room};
use crate::rank::Source;
use crate::status::Status;
use crate::tag::Tag;

/// An operation that owns its buffer. Dropped without a wait, it goes on by itself, and the buffer is freed when it is over.
#[must_use = "the buffer comes back by a wait"]
#[derive(Debug)]
pub struct OwnedRequest<'env, T: 'static, F: Fabric> {
    communicator: &'env Communicator<F>,
    id: RequestId,
    _buffer: PhantomData<Vec<T>>,
}

impl<F: Fabric> Communicator<F> {
    /// Starts a send of `data` in standard mode, which comes back with the wait.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    pub fn isend_owned<T: NoUninit>(
        &self,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<OwnedRequest<'_, T, F>> {
        let id = self.start_send_owned(data, dest, tag)?;
        Ok(OwnedRequest { communicator: self, id, _buffer: PhantomData })
    }

    /// Starts a receive into the elements of `buffer`, which comes back with the wait.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn irecv_owned<T: AnyBitPattern>(
        &self,
        buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<OwnedRequest<'_, T, F>> {
        let id = self.start_receive_owned(buffer, source.into(), tag.into())?;
        Ok(OwnedRequest { communicator: self, id, _buffer: PhantomData })
    }

    /// Starts a send of elements that its request keeps.
    pub(crate) fn start_send_owned<T: NoUninit>(
        &self,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<RequestId> {
        let route = self.route(Space::PointToPoint, dest, tag)?;
        let mut state = self.state()?;
        let bytes = bytes_to_keep(&data);
        let id = protocol::start_send(&mut state, Mode::Standard, &route, bytes, 0)?;
        state.handlers().requests.keep(id, Box::new(data));
        Ok(id)
    }

    /// Starts a receive into elements that its request keeps.
    pub(crate) fn start_receive_owned<T: AnyBitPattern>(
        &self,
        mut buffer: Vec<T>,
        source: Source,
        tag: Tag,
    ) -> Result<RequestId> {
        let pattern = self.pattern(Space::PointToPoint, source, tag)?;
        let mut state = self.state()?;
        state.check_receives()?;
        let raw = buffer_to_keep(&mut buffer);
        let id = protocol::start_receive(&mut state, Receive { pattern, room: Room::Bytes(raw) }, 0);
        state.handlers().requests.keep(id, Box::new(buffer));
        Ok(id)
    }
}

impl<T: 'static, F: Fabric> OwnedRequest<'_, T, F> {
    /// Waits until the operation is over: its buffer, and how it ended.
    ///
    /// # Errors
    /// What progress reports. The operation then goes on as if this value had been dropped.
    pub fn wait(self) -> Result<(Vec<T>, Result<Status>)> {
        let mut state = self.communicator.state()?;
        state.wait_over(self.id)?;
        let (result, kept) = state.handlers().requests.take_kept(self.id)?;
        let buffer = kept.and_then(|kept| kept.downcast::<Vec<T>>().ok());
        Ok((*buffer.expect("the request was given a vector of this type"), result))
    }

    /// Makes progress, and says whether the operation is over.
    ///
    /// # Errors
    /// What progress reports.
    pub fn is_over(&self) -> Result<bool> {
        self.communicator.state()?.is_over_after_progress(self.id)
    }
}

impl<T: 'static, F: Fabric> Drop for OwnedRequest<'_, T, F> {
    fn drop(&mut self) {
        if let Some(mut state) = self.communicator.state_to_end() {
            state.handlers().requests.detach(self.id);
        }
    }
}
