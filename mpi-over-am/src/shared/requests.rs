//! Operations of several threads that do not wait.

use std::marker::PhantomData;
use std::sync::Arc;

use am_core::Context;
use am_core::fabric::Fabric;

use super::Waiting;
use super::communicator::Handle;
use crate::environment::JobFabric;
use crate::error::Result;
use crate::handlers::MpiHandlers;
use crate::request::RequestId;
use crate::state::is_over;
use crate::status::Status;

/// An operation that owns its buffer, and that any thread may wait for. Dropped without a wait, it goes on by itself, and the buffer
/// is freed when it is over.
#[must_use = "the buffer comes back by a wait"]
#[derive(Debug)]
pub struct SharedRequest<T: Send + 'static, F: Fabric = JobFabric> {
    handle: Arc<Handle<F>>,
    id: Option<RequestId>,
    _buffer: PhantomData<fn() -> Vec<T>>,
}

impl<T: Send + 'static, F: Fabric> SharedRequest<T, F> {
    pub(super) fn new(handle: &Arc<Handle<F>>, id: RequestId) -> Self {
        Self { handle: Arc::clone(handle), id: Some(id), _buffer: PhantomData }
    }

    /// Waits until the operation is over: its buffer, and how it ended.
    ///
    /// # Errors
    /// What progress reports. The operation then goes on as if this value had been dropped.
    pub fn wait(mut self) -> Result<(Vec<T>, Result<Status>)> {
        let Handle { shared, number } = &*self.handle;
        let id = self.id.expect("only a wait takes it, and that consumes the value");
        let waited = shared.inner.wait_until(
            *number,
            |context| is_over(context, id),
            |inside| {
                let (result, kept) = inside.state()?.handlers().requests.take_kept(id)?;
                Ok((kept.and_then(|kept| kept.downcast::<Vec<T>>().ok()), result))
            },
        );
        let (buffer, result) = waited.map_err(Waiting::into_error)?;
        self.id = None;
        Ok((*buffer.expect("the request was given a vector of this type"), result))
    }

    /// Waits until all are over (`MPI_Waitall`): what each [`wait`](Self::wait) gives, in their order.
    ///
    /// # Errors
    /// What progress reports; those that were not waited for go on as if they had been dropped.
    pub fn wait_all(requests: impl IntoIterator<Item = Self>) -> Result<Vec<(Vec<T>, Result<Status>)>> {
        requests.into_iter().map(Self::wait).collect()
    }

    /// Withdraws an operation that has not met its other half (`MPI_Cancel`): the wait then gives
    /// [`Error::Cancelled`](crate::Error::Cancelled). Returns whether it is certain now that it was withdrawn; of a send the wait
    /// tells. See [`Communicator::cancel`](crate::Communicator::cancel).
    ///
    /// # Errors
    /// An error that an earlier call has left.
    pub fn cancel(&self) -> Result<bool> {
        let Handle { shared, number } = &*self.handle;
        let id = self.id.expect("only a wait takes it, and that consumes the value");
        shared.inner.with(*number, |inside| inside.cancel(id))
    }

    /// Makes progress, and says whether the operation is over.
    ///
    /// # Errors
    /// What progress reports.
    pub fn is_over(&self) -> Result<bool> {
        let Handle { shared, number } = &*self.handle;
        let id = self.id.expect("only a wait takes it, and that consumes the value");
        shared.inner.with(*number, |inside| inside.state()?.is_over_after_progress(id))
    }
}

impl<T: Send + 'static, F: Fabric> SharedRequest<T, F> {
    /// Waits until one of the operations is over, all of one [`SharedEnvironment`](crate::SharedEnvironment) (`MPI_Waitany`): its
    /// place in the list, for a [`wait`](Self::wait) that waits no more. `None`: the list is empty.
    ///
    /// # Errors
    /// What progress reports.
    pub fn wait_any(requests: &[Self]) -> Result<Option<usize>> {
        let Some(first) = requests.first() else { return Ok(None) };
        let Handle { shared, number } = &*first.handle;
        let mut found = None;
        let look = |context: &mut Context<F, MpiHandlers>| {
            found = requests.iter().position(|request| request.id.is_none_or(|id| is_over(context, id)));
            found.is_some()
        };
        shared.inner.wait_until(*number, look, |_| Ok(())).map_err(Waiting::into_error)?;
        Ok(found)
    }
}

impl<T: Send + 'static, F: Fabric> Drop for SharedRequest<T, F> {
    fn drop(&mut self) {
        let Handle { shared, number } = &*self.handle;
        if let Some(id) = self.id
            && let Ok(mut turn) = shared.inner.enter()
            && let Ok(inside) = turn.value().communicator(*number)
            && let Some(mut state) = inside.state_to_end()
        {
            state.handlers().requests.detach(id);
        }
    }
}
