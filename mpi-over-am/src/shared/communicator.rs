//! Point-to-point messages of several threads.

use std::sync::Arc;

use am_core::Context;
use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::{Shared, SharedRequest, Waiting};
use crate::buffer::{RecvData, bytes_of, lend_to_receive, lend_to_send};
use crate::environment::JobFabric;
use crate::error::Result;
use crate::handlers::MpiHandlers;
use crate::protocol::Mode;
use crate::rank::Source;
use crate::status::Status;
use crate::tag::Tag;

/// A communicator that any thread may use at any time. Clones are handles on the same one.
///
/// Calls that wait let other threads have their turn. Several threads may wait in one communicator; two collectives of one
/// communicator may not be under way at once (MPI 5.0 section 6.14): threads that need their own [duplicate](Self::dup) it.
#[derive(Debug)]
pub struct SharedCommunicator<F: Fabric = JobFabric> {
    pub(super) handle: Arc<Handle<F>>,
    rank: u32,
    size: u32,
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
        let (rank, size) = shared.inner.with(number, |inside| Ok((inside.rank(), inside.size())))?;
        Ok(Self { handle: Arc::new(Handle { shared: Arc::clone(shared), number }), rank, size })
    }

    /// This task's rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// A communicator of the same tasks with a message space of its own (`MPI_Comm_dup`). Collective.
    ///
    /// # Errors
    /// As for [`Communicator::dup`](crate::Communicator::dup).
    pub fn dup(&self) -> Result<Self> {
        let Handle { shared, number } = &*self.handle;
        let (request, place) = {
            let mut turn = shared.inner.enter()?;
            let pending = turn.value().communicator(*number)?.idup()?;
            let request = pending.request();
            (request, turn.value().keep_pending(pending))
        };
        let waited = shared.inner.wait_over(*number, request);
        let made = {
            let mut turn = shared.inner.enter()?;
            let pending = turn.value().take_pending(place);
            waited.map_err(Waiting::into_error)?;
            let made = pending.begin()?;
            turn.value().keep(made)
        };
        Self::new(shared, made)
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

    /// Waits for a message that a receive would take (`MPI_Probe`). Another thread may take it first.
    ///
    /// # Errors
    /// As for [`Communicator::probe`](crate::Communicator::probe).
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        let (source, tag) = (source.into(), tag.into());
        if let Some(status) = shared.inner.with(*number, |inside| inside.iprobe(source, tag))? {
            return Ok(status);
        }
        let pattern = shared.inner.with(*number, |inside| inside.probe_pattern(source, tag))?;
        let is_there = |context: &mut Context<F, MpiHandlers>| {
            context.handlers_mut().early.peek_match(&pattern).is_some()
        };
        let found = shared.inner.wait_until(*number, is_there, |inside| inside.iprobe(source, tag));
        Ok(found.map_err(Waiting::into_error)?.expect("it was there, and this thread still has its turn"))
    }

    /// The message that a receive would take now, if there is one (`MPI_Iprobe`). Another thread may take it first.
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, |inside| inside.iprobe(source, tag))
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
        let Handle { shared, number } = &*self.handle;
        let id = shared.inner.with(*number, |inside| inside.start_send_owned(data, dest, tag))?;
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
