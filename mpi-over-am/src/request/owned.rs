//! Non-blocking operations that own their buffer and give it back.

use std::marker::PhantomData;
use std::sync::Arc;

use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::id::RequestId;
use crate::buffer::{KeptVec, RecvData, SendData, buffer_to_keep, bytes_to_keep};
use crate::communicator::Communicator;
use crate::environment::JobFabric;
use crate::error::Result;
use crate::policy::{LockPolicy, OneThread};
use crate::protocol::Mode;
use crate::rank::Source;
use crate::state::State;
use crate::status::Status;
use crate::tag::Tag;
use crate::turn::Turn;

/// An operation that owns its buffer. Dropped without a wait, it goes on by itself, and the buffer is freed when it is over.
#[must_use = "the buffer comes back by a wait"]
#[derive(Debug)]
pub struct OwnedRequest<T: Send + 'static, F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    shared: Arc<L::Cell<State<F>>>,
    id: RequestId,
    _buffer: PhantomData<fn() -> Vec<T>>,
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Starts a send of `data` in standard mode, which comes back with the wait (`MPI_Isend`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    pub fn isend_owned<T: NoUninit + Send>(
        &self,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<OwnedRequest<T, F, L>> {
        self.isend_owned_in_mode(Mode::Standard, data, dest, tag)
    }

    /// Starts a send in any mode (`MPI_Issend`, `MPI_Irsend`, `MPI_Ibsend`); as [`isend_owned`](Self::isend_owned). In buffered mode it
    /// is over at once.
    ///
    /// # Errors
    /// As for [`isend_owned`](Self::isend_owned), and as for the send of that mode.
    pub fn isend_owned_in_mode<T: NoUninit + Send>(
        &self,
        mode: Mode,
        data: Vec<T>,
        dest: u32,
        tag: i32,
    ) -> Result<OwnedRequest<T, F, L>> {
        let bytes = SendData::from_bytes(bytes_to_keep(&data));
        let id = self.isend_data(mode, &bytes, dest, tag)?;
        self.keep(id, data)
    }

    /// Starts a receive into the elements of `buffer`, which comes back with the wait (`MPI_Irecv`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn irecv_owned<T: AnyBitPattern + Send>(
        &self,
        mut buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<OwnedRequest<T, F, L>> {
        let room = RecvData::from_buffer(buffer_to_keep(&mut buffer));
        let id = self.irecv_data(&room, source, tag)?;
        self.keep(id, buffer)
    }

    /// Gives a request the memory that its operation uses.
    pub(crate) fn keep<T: Send + 'static>(
        &self,
        id: RequestId,
        memory: Vec<T>,
    ) -> Result<OwnedRequest<T, F, L>> {
        match self.state() {
            Ok(mut state) => {
                let requests = &mut state.handlers().requests;
                let id = requests.with_record(id);
                requests.keep(id, KeptVec::new(memory));
                drop(state);
                Ok(OwnedRequest { shared: self.handle_on_state(), id, _buffer: PhantomData })
            }
            Err(error) => {
                // The operation has begun, and nobody can end it: the memory must stay.
                std::mem::forget(memory);
                Err(error)
            }
        }
    }
}

impl<T: Send + 'static, F: Fabric, L: LockPolicy> OwnedRequest<T, F, L> {
    fn turn(&self) -> Result<Turn<'_, F, L>> {
        let mut turn = Turn::enter(&*self.shared)?;
        turn.attend()?;
        Ok(turn)
    }

    /// Waits until the operation is over: its buffer, and how it ended.
    ///
    /// # Errors
    /// What progress reports. The operation then goes on as if this value had been dropped.
    pub fn wait(self) -> Result<(Vec<T>, Result<Status>)> {
        let mut turn = self.turn()?;
        turn.wait_over(self.id)?;
        let (result, kept) = turn.handlers().requests.take_kept(self.id)?;
        let buffer = kept.and_then(KeptVec::into_vec);
        Ok((buffer.expect("the request was given a vector of this type"), result))
    }

    /// Waits until all are over (`MPI_Waitall`): what each [`wait`](Self::wait) gives, in their order.
    ///
    /// # Errors
    /// What progress reports; those that were not waited for go on as if they had been dropped.
    pub fn wait_all(requests: impl IntoIterator<Item = Self>) -> Result<Vec<(Vec<T>, Result<Status>)>> {
        requests.into_iter().map(Self::wait).collect()
    }

    /// Waits until one of the operations is over, all of one [`Environment`](crate::Environment) (`MPI_Waitany`): its place in the
    /// list, for a [`wait`](Self::wait) that waits no more. `None`: the list is empty.
    ///
    /// # Errors
    /// What progress reports.
    pub fn wait_any(requests: &[Self]) -> Result<Option<usize>> {
        let Some(first) = requests.first() else { return Ok(None) };
        first.turn()?.wait_any_over(requests.iter().map(|request| request.id)).map(Some)
    }

    /// Withdraws an operation that has not met its other half (`MPI_Cancel`): the wait then gives
    /// [`Error::Cancelled`](crate::Error::Cancelled). Returns whether it is certain now that it was withdrawn; of a send the wait
    /// tells. See [`Communicator::cancel`].
    ///
    /// # Errors
    /// An error that an earlier call has left.
    pub fn cancel(&self) -> Result<bool> {
        super::one::cancel(&mut *self.turn()?, self.id)
    }

    /// Makes progress, and says whether the operation is over.
    ///
    /// # Errors
    /// What progress reports.
    pub fn is_over(&self) -> Result<bool> {
        self.turn()?.is_over_after_progress(self.id)
    }
}

impl<T: Send + 'static, F: Fabric, L: LockPolicy> Drop for OwnedRequest<T, F, L> {
    fn drop(&mut self) {
        if let Ok(mut turn) = Turn::<F, L>::enter(&*self.shared) {
            turn.handlers().requests.detach(self.id);
        }
    }
}
