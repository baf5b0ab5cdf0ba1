//! Non-blocking operations that own their buffer, and return it when they are complete.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use am_core::fabric::Fabric;

use super::several::wait_any_over;
use crate::communicator::Communicator;
use crate::data::buffer::{Equivalence, KeptVec, incoming_to_keep, outgoing_to_keep};
use crate::error::{Error, Result};
use crate::job::JobFabric;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::route::Mode;
use crate::message::state::State;
use crate::message::status::Status;
use crate::message::turn::Turn;
use crate::policy::{LockPolicy, OneThread};
use crate::rank::{Source, rank_or_null};
use crate::request::blocking::send_buffered_data;
use crate::tag::Tag;

/// An operation that owns its buffer. Wait for it, or await it ([`Communicator::block_on`]). If it is dropped instead, the operation still
/// completes, and then frees the buffer.
#[must_use = "a wait returns the buffer"]
pub struct OwnedRequest<T: Send + 'static, F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    shared: Arc<L::Cell<State<F>>>,
    pub(super) id: RequestId,
    _buffer: PhantomData<fn() -> Vec<T>>,
}

impl<T: Send + 'static, F: Fabric, L: LockPolicy> fmt::Debug for OwnedRequest<T, F, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedRequest").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The error of an operation that owned its buffer, and either the buffer or the request. `?` converts it to an [`Error`].
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Returned<T: Send + 'static, F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    /// Why the operation or its wait failed.
    pub error: Error,
    /// The buffer, if the operation has ended.
    pub buffer: Option<Vec<T>>,
    /// The request, if the operation is still under way: the program can wait for it again.
    pub request: Option<OwnedRequest<T, F, L>>,
}

/// The result of an operation, and the memory that it kept.
pub(super) type Taken = (Result<Status>, Option<KeptVec>);

/// What a wait for an [`OwnedRequest`] returns: the buffer and the status, or the error.
type Ended<T, F, L, R = (Vec<T>, Status)> = std::result::Result<R, Returned<T, F, L>>;

impl<T: Send + 'static, F: Fabric, L: LockPolicy> From<Returned<T, F, L>> for Error {
    fn from(returned: Returned<T, F, L>) -> Self {
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

    /// What the program gets of an operation, after its result was `taken` in the turn that has found it complete. If it is still under
    /// way, the error has the request, and this value is none any more.
    ///
    /// # Errors
    /// The operation's error, with the buffer; the error of `taken`, with the request.
    pub(super) fn ended(&mut self, taken: Result<Taken>) -> Ended<T, F, L> {
        // The slot may belong to another request from now on.
        let id = std::mem::replace(&mut self.id, RequestId::ENDED_SEND);
        match taken {
            Ok((result, kept)) => {
                let buffer =
                    kept.and_then(KeptVec::into_vec).expect("the request was given a vector of this type");
                match result {
                    Ok(status) => Ok((buffer, status)),
                    Err(error) => Err(Returned { error, buffer: Some(buffer), request: None }),
                }
            }
            Err(error) => {
                let request = Self { shared: Arc::clone(&self.shared), id, _buffer: PhantomData };
                Err(Returned { error, buffer: None, request: Some(request) })
            }
        }
    }

    /// Waits until the operation is complete, and returns its buffer and its status.
    ///
    /// # Errors
    /// The operation's error, with the buffer. With the request: an error while making progress; [`Error::ReceiveInDoubt`], after which the
    /// receive stays posted.
    pub fn wait(mut self) -> Ended<T, F, L> {
        let taken = self.turn().and_then(|mut turn| {
            turn.wait_over(self.id)?;
            turn.handlers().requests.take_kept(self.id)
        });
        self.ended(taken)
    }

    /// Waits until all operations are complete (`MPI_Waitall`), and returns what each [`wait`](Self::wait) would, in order.
    ///
    /// # Errors
    /// The first error of [`wait`](Self::wait), after all were waited for. The results of the others are dropped with it: a program that
    /// goes on after errors waits for each.
    pub fn wait_all(requests: impl IntoIterator<Item = Self>) -> Ended<T, F, L, Vec<(Vec<T>, Status)>> {
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
