//! Non-blocking operations that own their buffer and give it back.

use std::marker::PhantomData;

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::id::RequestId;
use crate::buffer::{RecvData, SendData, buffer_to_keep, bytes_to_keep};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::protocol::Mode;
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
        let id = self.start_send_owned(Mode::Standard, data, dest, tag)?;
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

    /// Starts a send of elements that its request keeps, in any mode.
    pub(crate) fn start_send_owned<T: NoUninit>(
        &self,
        mode: Mode,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<RequestId> {
        let bytes = SendData::from_bytes(bytes_to_keep(&data));
        let id = self.isend_data(mode, &bytes, dest, tag)?;
        self.keep(id, data)
    }

    /// Starts a receive into elements that its request keeps.
    pub(crate) fn start_receive_owned<T: AnyBitPattern>(
        &self,
        mut buffer: Vec<T>,
        source: Source,
        tag: Tag,
    ) -> Result<RequestId> {
        let room = RecvData::from_buffer(buffer_to_keep(&mut buffer));
        let id = self.irecv_data(&room, source, tag)?;
        self.keep(id, buffer)
    }

    /// Gives the request the memory that its operation uses.
    pub(crate) fn keep<T: 'static>(&self, id: RequestId, memory: Vec<T>) -> Result<RequestId> {
        match self.state() {
            Ok(mut state) => {
                let requests = &mut state.handlers().requests;
                let id = requests.with_record(id);
                requests.keep(id, Box::new(memory));
                Ok(id)
            }
            Err(error) => {
                // The operation has begun, and nobody can end it: the memory must stay.
                std::mem::forget(memory);
                Err(error)
            }
        }
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
