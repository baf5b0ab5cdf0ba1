//! Non-blocking operations that own their buffer, and return it when they are complete.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use am_core::fabric::Fabric;

use super::several::wait_any_over;
use crate::blocking::send_buffered_data;
use crate::buffer::{Equivalence, KeptVec, incoming_to_keep, outgoing_to_keep};
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::job::JobFabric;
use crate::message::Mode;
use crate::policy::{LockPolicy, OneThread};
use crate::protocol;
use crate::rank::{Source, rank_or_null};
use crate::request_id::RequestId;
use crate::state::State;
use crate::status::Status;
use crate::tag::Tag;
use crate::turn::Turn;

/// An operation that owns its buffer. Wait for it, or await it ([`Communicator::block_on`]). If it is dropped instead, the operation still
/// completes, and then frees the buffer.
#[must_use = "a wait returns the buffer"]
#[derive(Debug)]
pub struct OwnedRequest<T: Send + 'static, F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    shared: Arc<L::Cell<State<F>>>,
    pub(super) id: RequestId,
    _buffer: PhantomData<fn() -> Vec<T>>,
}

/// The error of an operation that owned its buffer, and the buffer. `?` converts it to an [`Error`].
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Returned<T> {
    /// Why the operation or its wait failed.
    pub error: Error,
    /// The buffer, if the operation has ended; `None` if it is still under way.
    pub buffer: Option<Vec<T>>,
}

impl<T> From<Error> for Returned<T> {
    fn from(error: Error) -> Self {
        Self { error, buffer: None }
    }
}

impl<T> From<Returned<T>> for Error {
    fn from(returned: Returned<T>) -> Self {
        returned.error
    }
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Starts a send of `data` in standard mode (`MPI_Isend`). The wait returns `data`.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    pub fn isend_owned<T: Equivalence + Send + 'static>(
        &self,
        data: Vec<T>,
        dest: impl Into<Option<u32>>,
        tag: i32,
    ) -> Result<OwnedRequest<T, F, L>> {
        self.isend_owned_in_mode(Mode::Standard, data, dest, tag)
    }

    /// Starts a send in any mode (`MPI_Issend`, `MPI_Irsend`, `MPI_Ibsend`); see [`isend_owned`](Self::isend_owned). In buffered mode it is
    /// complete at once.
    ///
    /// # Errors
    /// Those of [`isend_owned`](Self::isend_owned), and of a blocking send in that mode.
    pub fn isend_owned_in_mode<T: Equivalence + Send + 'static>(
        &self,
        mode: Mode,
        data: Vec<T>,
        dest: impl Into<Option<u32>>,
        tag: i32,
    ) -> Result<OwnedRequest<T, F, L>> {
        let elements = outgoing_to_keep(self, &data)?;
        let route = self.route_or_nobody(rank_or_null(dest), tag)?;
        self.own(data, |state| match route {
            None => Ok(RequestId::ENDED_SEND),
            Some(route) if mode == Mode::Buffered => {
                send_buffered_data(state, &route, &elements).map(|()| RequestId::ENDED_SEND)
            }
            Some(route) => protocol::send_or_start(state, mode, &route, &elements),
        })
    }

    /// Starts a receive into the elements of `buffer` (`MPI_Irecv`). The wait returns `buffer`.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn irecv_owned<T: Equivalence + Send + 'static>(
        &self,
        mut buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<OwnedRequest<T, F, L>> {
        let elements = incoming_to_keep(self, &mut buffer)?;
        let pattern = self.pattern_or_nobody(source.into(), tag.into())?;
        self.own(buffer, |state| {
            let Some(pattern) = pattern else { return Ok(RequestId::RECEIVED_FROM_NOBODY) };
            state.check_receives()?;
            Ok(protocol::start_receive_data(state, pattern, &elements))
        })
    }

    /// Starts an operation, and gives its request the memory that the operation uses, in one turn: no call by number finds the request.
    ///
    /// # Errors
    /// Those of every call and of `start`; no operation uses the memory then.
    pub(crate) fn own<T: Send + 'static>(
        &self,
        memory: Vec<T>,
        start: impl FnOnce(&mut Turn<'_, F, L>) -> Result<RequestId>,
    ) -> Result<OwnedRequest<T, F, L>> {
        let mut state = self.state_to_start()?;
        // Not freed if `start` unwinds.
        let memory = ManuallyDrop::new(memory);
        let started = start(&mut state);
        let memory = ManuallyDrop::into_inner(memory);
        started.map(|id| self.owned(state, id, memory))
    }

    /// Gives a request the memory that its operation uses.
    pub(crate) fn owned<T: Send + 'static>(
        &self,
        mut state: Turn<'_, F, L>,
        id: RequestId,
        memory: Vec<T>,
    ) -> OwnedRequest<T, F, L> {
        let requests = &mut state.handlers().requests;
        let id = requests.with_record(id);
        requests.keep(id, KeptVec::new(memory));
        requests.hold(id);
        drop(state);
        OwnedRequest { shared: self.handle_on_state(), id, _buffer: PhantomData }
    }
}

impl<T: Send + 'static, F: Fabric, L: LockPolicy> OwnedRequest<T, F, L> {
    pub(super) fn turn(&self) -> Result<Turn<'_, F, L>> {
        let mut turn = Turn::enter(&*self.shared)?;
        turn.attend()?;
        Ok(turn)
    }

    /// The address that identifies the request's environment.
    pub(super) fn state_address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    /// Takes the result of the operation, which is complete.
    ///
    /// # Errors
    /// The operation's error, with the buffer.
    pub(super) fn take(
        turn: &mut Turn<'_, F, L>,
        id: RequestId,
    ) -> std::result::Result<(Vec<T>, Status), Returned<T>> {
        let (result, kept) = turn.handlers().requests.take_kept(id)?;
        let buffer = kept.and_then(KeptVec::into_vec).expect("the request was given a vector of this type");
        match result {
            Ok(status) => Ok((buffer, status)),
            Err(error) => Err(Returned { error, buffer: Some(buffer) }),
        }
    }

    /// Waits until the operation is complete, and returns its buffer and its status.
    ///
    /// # Errors
    /// The operation's error, with the buffer; an error while making progress, after which the operation continues as if this value had
    /// been dropped.
    pub fn wait(self) -> std::result::Result<(Vec<T>, Status), Returned<T>> {
        let mut turn = self.turn()?;
        turn.wait_over(self.id)?;
        Self::take(&mut turn, self.id)
    }

    /// Waits until all operations are complete (`MPI_Waitall`), and returns what each [`wait`](Self::wait) would, in order.
    ///
    /// # Errors
    /// The first error of the operations, after all are complete; an error while making progress.
    pub fn wait_all(
        requests: impl IntoIterator<Item = Self>,
    ) -> std::result::Result<Vec<(Vec<T>, Status)>, Returned<T>> {
        let ended: Vec<_> = requests.into_iter().map(Self::wait).collect();
        ended.into_iter().collect()
    }

    /// Waits until one of the operations is complete (`MPI_Waitany`), and returns its index; [`wait`](Self::wait) for it then returns at
    /// once. All must belong to one [`Environment`](crate::Environment). `None`: the list is empty.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn wait_any(requests: &[Self]) -> Result<Option<usize>> {
        let Some(first) = requests.first() else { return Ok(None) };
        wait_any_over(&mut first.turn()?, requests.iter().map(|request| request.id)).map(Some)
    }

    /// Cancels an operation that has not been matched (`MPI_Cancel`): the wait then returns [`Error::Cancelled`].
    /// Returns whether the operation is known to be cancelled; for a send, only the wait may be able to tell. See [`Communicator::cancel`].
    ///
    /// # Errors
    /// The deferred error of an earlier call.
    pub fn cancel(&self) -> Result<bool> {
        Ok(super::one::cancel(&mut *self.turn()?, self.id))
    }

    /// Makes progress, and returns whether the operation is complete.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn is_over(&self) -> Result<bool> {
        self.turn()?.is_over_after_progress(self.id)
    }
}

impl<T: Send + 'static, F: Fabric, L: LockPolicy> Drop for OwnedRequest<T, F, L> {
    fn drop(&mut self) {
        if let Ok(mut turn) = Turn::<F, L>::enter(&*self.shared) {
            let handlers = turn.handlers();
            handlers.wakers.forget(self.id);
            handlers.requests.detach(self.id);
        }
    }
}
