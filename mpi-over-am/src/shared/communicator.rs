//! Point-to-point messages of several threads.

use std::sync::Arc;

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::{Shared, SharedRequest};
use crate::buffer::{
    Equivalence, RecvData, bytes_of, lend_elements, lend_elements_mut, lend_fields, lend_fields_mut,
    lend_to_receive, lend_to_send,
};
use crate::collective::Place;
use crate::communicator::Communicator;
use crate::environment::JobFabric;
use crate::error::Result;
use crate::protocol::Mode;
use crate::rank::Source;
use crate::status::Status;
use crate::tag::Tag;
use mpi_datatype::{Datatype, Predefined};

/// A communicator that any thread may use at any time. Clones are handles on the same one.
///
/// Calls that wait let other threads have their turn. Several threads may wait in one communicator; two collectives of one
/// communicator may not be under way at once (MPI 5.0 section 6.14): threads that need their own [duplicate](Self::dup) it.
#[derive(Debug)]
pub struct SharedCommunicator<F: Fabric = JobFabric> {
    pub(super) handle: Arc<Handle<F>>,
    pub(super) place: Place,
}

impl<F: Fabric> Clone for SharedCommunicator<F> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), ..*self }
    }
}

/// Keeps a communicator.
#[derive(Debug)]
pub(super) struct Handle<F: Fabric> {
    pub(super) shared: Arc<Shared<F>>,
    pub(super) number: usize,
}

impl<F: Fabric> Drop for Handle<F> {
    fn drop(&mut self) {
        // World and alone are always there; inside of another call, the communicator stays until the end.
        if self.number > super::ALONE
            && let Ok(mut turn) = self.shared.inner.enter()
        {
            turn.value().communicators[self.number] = None;
        }
    }
}

impl<F: Fabric> SharedCommunicator<F> {
    pub(super) fn new(shared: &Arc<Shared<F>>, number: usize) -> Result<Self> {
        let place = shared.inner.with(number, |inside| Ok(inside.place()))?;
        Ok(Self { handle: Arc::new(Handle { shared: Arc::clone(shared), number }), place })
    }

    /// This task's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.place.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.place.size
    }

    /// Sends in standard mode (`MPI_Send`).
    ///
    /// # Errors
    /// As for [`Communicator::send`](crate::Communicator::send).
    pub fn send<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Standard, data, dest, tag)
    }

    /// Sends in synchronous mode (`MPI_Ssend`).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn ssend<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Synchronous, data, dest, tag)
    }

    /// Sends in ready mode (`MPI_Rsend`): the receive has been posted.
    ///
    /// # Errors
    /// As for [`Communicator::rsend`](crate::Communicator::rsend).
    pub fn rsend<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Ready, data, dest, tag)
    }

    /// Sends in buffered mode (`MPI_Bsend`), from the memory that
    /// [`SharedEnvironment::attach_buffer`](crate::SharedEnvironment::attach_buffer) was given.
    ///
    /// # Errors
    /// As for [`Communicator::bsend`](crate::Communicator::bsend).
    pub fn bsend<T: NoUninit>(&self, data: &[T], dest: u32, tag: i32) -> Result<()> {
        self.send_in_mode(Mode::Buffered, data, dest, tag)
    }

    /// Sends in any mode.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_in_mode<T: NoUninit>(&self, mode: Mode, data: &[T], dest: u32, tag: i32) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        // The operation has ended when `carry_out` returns or unwinds.
        lend_to_send(bytes_of(data), |data| {
            shared.inner.carry_out(*number, |inside| inside.isend_data(mode, &data, dest, tag))
        })?;
        Ok(())
    }

    /// Receives (`MPI_Recv`).
    ///
    /// # Errors
    /// As for [`Communicator::recv`](crate::Communicator::recv).
    pub fn recv<T: AnyBitPattern>(
        &self,
        buffer: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        let (source, tag) = (source.into(), tag.into());
        // As for the send.
        lend_to_receive(buffer, |room| {
            let data = RecvData::from_buffer(room);
            shared.inner.carry_out(*number, |inside| inside.irecv_data(&data, source, tag))
        })
    }

    /// Sends a message and receives another one, in whatever order they go (`MPI_Sendrecv`).
    ///
    /// # Errors
    /// As for [`Communicator::sendrecv`](crate::Communicator::sendrecv).
    pub fn sendrecv<S: NoUninit, R: AnyBitPattern>(
        &self,
        (data, dest, send_tag): (&[S], u32, i32),
        (buffer, source, recv_tag): (&mut [R], impl Into<Source>, impl Into<Tag>),
    ) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        let (source, recv_tag) = (source.into(), recv_tag.into());
        // Both operations have ended when their `carry_out` returns or unwinds.
        lend_to_receive(buffer, |room| {
            let room = RecvData::from_buffer(room);
            let receive = |inside: &Communicator<F>| {
                inside.check_exchange((dest, send_tag), (source, recv_tag))?;
                inside.irecv_data(&room, source, recv_tag)
            };
            shared.inner.carry_out_beside(*number, receive, || self.send(data, dest, send_tag))
        })
    }

    /// Sends the fields of `values` in standard mode; see [`Equivalence`].
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_fields<T: Equivalence>(&self, values: &[T], dest: u32, tag: i32) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        lend_fields(values, |data| {
            shared.inner.carry_out(*number, |inside| inside.isend_data(Mode::Standard, &data, dest, tag))
        })?;
        Ok(())
    }

    /// Receives the fields of `values`. The status counts bytes.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn recv_fields<T: Equivalence>(
        &self,
        values: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        let (source, tag) = (source.into(), tag.into());
        lend_fields_mut(values, |data| {
            shared.inner.carry_out(*number, |inside| inside.irecv_data(&data, source, tag))
        })
    }

    /// As [`Communicator::send_layout`].
    ///
    /// # Errors
    /// As there.
    pub fn send_layout<T: NoUninit>(
        &self,
        mode: Mode,
        memory: &[T],
        elements: (u64, &Datatype),
        dest: u32,
        tag: i32,
    ) -> Result<()> {
        let Handle { shared, number } = &*self.handle;
        // The operation has ended when `carry_out` returns or unwinds; so for the next two.
        lend_elements(memory, elements, |data| {
            shared.inner.carry_out(*number, |inside| inside.isend_data(mode, &data, dest, tag)).map(|_| ())
        })
    }

    /// As [`Communicator::recv_layout`].
    ///
    /// # Errors
    /// As there.
    pub fn recv_layout<T: AnyBitPattern>(
        &self,
        memory: &mut [T],
        elements: (u64, &Datatype),
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        let (source, tag) = (source.into(), tag.into());
        lend_elements_mut(memory, elements, |data| {
            shared.inner.carry_out(*number, |inside| inside.irecv_data(&data, source, tag))
        })
    }

    /// As [`Communicator::sendrecv_replace`].
    ///
    /// # Errors
    /// As there.
    pub fn sendrecv_replace<T: NoUninit + AnyBitPattern>(
        &self,
        memory: &mut [T],
        out: (u32, i32),
        (source, tag): (impl Into<Source>, impl Into<Tag>),
    ) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        let (bytes, byte) = (size_of_val(memory) as u64, Datatype::predefined(Predefined::Byte));
        let from = (source.into(), tag.into());
        lend_elements_mut(memory, (bytes, &byte), |data| {
            shared.inner.carry_out(*number, |inside| inside.isendrecv_replace_data(&data, out, from))
        })
    }

    /// Starts a send in standard mode; the elements come back with the wait (`MPI_Isend`).
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn isend_owned<T: NoUninit + Send>(
        &self,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<SharedRequest<T, F>> {
        self.isend_owned_in_mode(Mode::Standard, data, dest, tag)
    }

    /// Starts a send in any mode (`MPI_Issend`, `MPI_Irsend`, `MPI_Ibsend`); as [`isend_owned`](Self::isend_owned). In buffered mode it
    /// is over at once.
    ///
    /// # Errors
    /// As for [`send_in_mode`](Self::send_in_mode).
    pub fn isend_owned_in_mode<T: NoUninit + Send>(
        &self,
        mode: Mode,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<SharedRequest<T, F>> {
        let Handle { shared, number } = &*self.handle;
        let id = shared.inner.with(*number, |inside| inside.start_send_owned(mode, data, dest, tag))?;
        Ok(SharedRequest::new(&self.handle, id))
    }

    /// Starts a receive into the elements of `buffer`, which comes back with the wait (`MPI_Irecv`).
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn irecv_owned<T: AnyBitPattern + Send>(
        &self,
        buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<SharedRequest<T, F>> {
        let Handle { shared, number } = &*self.handle;
        let (source, tag) = (source.into(), tag.into());
        let id = shared.inner.with(*number, |inside| inside.start_receive_owned(buffer, source, tag))?;
        Ok(SharedRequest::new(&self.handle, id))
    }
}
