//! The end of one operation: waiting, testing, cancelling, freeing (MPI 5.0 sections 3.7.3 and 3.8.4).

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::data::buffer::KeptVec;
use crate::error::Result;
use crate::message::progress::{abandon, end, release};
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::request_table::Phase;
use crate::message::state::State;
use crate::message::status::Status;
use crate::message::turn::Turn;
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Waits until the operation is complete, and returns its status. The request then no longer exists, unless it is persistent.
    ///
    /// # Errors
    /// The operation's error; a request that does not exist; an error while making progress, after which the operation is still under way.
    pub fn wait(&self, request: RequestId) -> Result<Status> {
        let mut state = self.state()?;
        if let Some(status) = state.handlers().requests.take_plain(request) {
            return state.waited_for_nothing().map(|()| status);
        }
        state.handlers().requests.check(request)?;
        state.wait_over(request)?;
        let requests = &mut state.handlers().requests;
        match requests.take_plain(request) {
            Some(status) => Ok(status),
            None => requests.take_by_number(request),
        }
    }

    /// Makes progress. If the operation is complete, does the same as [`wait`](Self::wait).
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub fn test(&self, request: RequestId) -> Result<Option<Status>> {
        let mut state = self.state()?;
        if let Some(status) = state.handlers().requests.take_plain(request) {
            return state.waited_for_nothing().map(|()| Some(status));
        }
        state.handlers().requests.check(request)?;
        if !state.is_over_after_progress(request)? {
            return Ok(None);
        }
        let requests = &mut state.handlers().requests;
        match requests.take_plain(request) {
            Some(status) => Ok(Some(status)),
            None => requests.take_by_number(request).map(Some),
        }
    }

    /// Cancels an operation that has not been matched (`MPI_Cancel`): it ends with [`Error::Cancelled`](crate::Error::Cancelled). Returns
    /// whether the operation is known to be cancelled, as an unmatched receive always is. For a send, the receiver may have matched the
    /// message first; the wait returns the outcome, for which the receiver may have to make progress. Collective and partitioned operations
    /// cannot be cancelled.
    ///
    /// # Errors
    /// A request that does not exist.
    pub fn cancel(&self, request: RequestId) -> Result<bool> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        Ok(cancel(&mut *state, request))
    }

    /// Ends an operation that no call will wait for, whatever its state. An unmatched operation is withdrawn, and transfers under way are
    /// waited for. Nothing uses the operation's memory when the call returns. Does nothing if the result was already taken.
    pub fn abandon(&self, request: RequestId) {
        let Some(mut state) = self.state_to_end() else { return };
        state.wait_for_operator(request);
        if state.handlers().requests.check(request).is_err() {
            return;
        }
        match state.handlers().requests.phase(request) {
            Phase::Inactive => free(&mut state, request),
            _ => {
                end(&mut state, request);
                // The caller has the error that led to this call.
                let _ = state.handlers().requests.take(request);
            }
        }
    }

    /// Lets calls by number find a request that is held, and returns its number.
    pub(crate) fn numbered(&self, request: RequestId) -> RequestId {
        if let Some(mut state) = self.state_to_end() {
            state.handlers().requests.give_number(request);
        }
        request
    }

    /// Whether the operation may be under way. A persistent request is not under way before its start or after its wait.
    pub(crate) fn is_under_way(&self, request: RequestId) -> bool {
        self.state_to_end().is_none_or(|mut state| state.handlers().requests.is_active(request))
    }

    /// Frees a persistent request and its memory. If the operation is under way, the memory is freed when the operation ends. Inside
    /// another call of the environment the memory is leaked, since the operation may be under way.
    pub(crate) fn free_with(&self, request: RequestId, memory: KeptVec) {
        match self.state_to_end() {
            Some(mut state) => {
                state.handlers().requests.keep(request, memory);
                free(&mut state, request);
            }
            None => std::mem::forget(memory),
        }
    }

    /// Frees the request; the operation completes without a wait (`MPI_Request_free`).
    ///
    /// # Errors
    /// A request that does not exist.
    pub fn free(&self, request: RequestId) -> Result<()> {
        let mut state = self.state()?;
        state.handlers().requests.check(request)?;
        free(&mut state, request);
        Ok(())
    }
}

/// Waits for a request that a typed object holds. The result is taken under the same lock under which the operation was found complete.
///
/// # Errors
/// Those of [`Communicator::wait`].
pub(super) fn wait<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    request: RequestId,
) -> Result<Status> {
    state.wait_over(request)?;
    state.handlers().requests.take(request)
}

/// Like [`wait`], but does not wait: `None` if the operation is not complete after progress.
///
/// # Errors
/// Those of [`Communicator::wait`].
pub(super) fn test<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    request: RequestId,
) -> Result<Option<Status>> {
    if !state.is_over_after_progress(request)? {
        return Ok(None);
    }
    state.handlers().requests.take(request).map(Some)
}

/// See [`Communicator::cancel`].
pub(super) fn cancel<F: Fabric>(state: &mut State<F>, request: RequestId) -> bool {
    match state.handlers().requests.phase(request) {
        Phase::Posted => end(state, request),
        Phase::Moving if !state.handlers().requests.is_receive(request) => {
            protocol::give_up(state, request);
        }
        _ => {}
    }
    state.handlers().requests.was_cancelled(request)
}

/// Frees a request. If its operation is under way, the operation completes without a wait.
pub(super) fn free<F: Fabric>(state: &mut State<F>, request: RequestId) {
    match state.handlers().requests.phase(request) {
        Phase::Inactive => abandon(state, request),
        Phase::Parts => release(state, request),
        _ => {}
    }
    state.handlers().requests.detach(request);
}
