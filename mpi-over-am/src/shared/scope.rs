//! Operations of several threads that do not wait, on borrowed buffers, inside a closure that waits: as
//! [`Communicator::scope`], for any number of threads.

mod collectives;

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use am_core::Context;
use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::{SharedCommunicator, Waiting};
use crate::buffer::{
    Equivalence, RecvData, SendData, buffer_to_keep, bytes_to_keep, field_room_to_keep, fields_to_keep,
    layout_room_to_keep, layout_to_keep,
};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::handlers::MpiHandlers;
use crate::protocol::Mode;
use crate::rank::Source;
use crate::request::RequestId;
use crate::state::is_over;
use crate::status::Status;
use crate::tag::Tag;
use mpi_datatype::Datatype;

/// Where the non-blocking operations of several threads live. Made by [`SharedCommunicator::scope`].
///
/// `'scope` is the life of the operations, as for [`Scope`](crate::Scope).
#[derive(Debug)]
pub struct SharedScope<'scope, 'env: 'scope, F: Fabric> {
    communicator: &'env SharedCommunicator<F>,
    /// What has not been waited for. Locked for a moment only, and inside of a turn where both are wanted.
    open: Mutex<Vec<RequestId>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// An operation of a [`SharedScope`]. What becomes of this value does not matter to memory: the scope knows of the operation.
///
/// As for [`Request`](crate::Request), only the scope that started the operation can wait for it.
#[must_use = "an operation is over only after a wait, by itself or at the end of its scope"]
#[derive(Debug)]
pub struct ScopedRequest<'scope> {
    id: RequestId,
    _scope: PhantomData<&'scope mut &'scope ()>,
}

impl<F: Fabric> SharedCommunicator<F> {
    /// Runs `body` with a scope for non-blocking operations, and returns when all of them are over. Threads that `body` starts, in a
    /// [`std::thread::scope`] of its own, may use it too.
    ///
    /// If `body` succeeds, what it has not waited for is waited for. If it fails or unwinds, messages that have not met their
    /// receive and receives that have not met their message are withdrawn; bytes in motion are waited for. If it unwinds, the task
    /// is marked as failed as well.
    ///
    /// ```
    /// # use mpi_over_am::SharedEnvironment;
    /// # fn main() -> mpi_over_am::Result<()> {
    /// # let environment = SharedEnvironment::init()?;
    /// # let world = environment.world()?;
    /// # let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    /// let (out, mut into) = ([world.rank(); 1000], [[0u32; 250]; 4]);
    /// world.scope(|s| {
    ///     std::thread::scope(|threads| {
    ///         for ((part, room), tag) in out.chunks(250).zip(&mut into).zip(0..) {
    ///             threads.spawn(move || -> mpi_over_am::Result<()> {
    ///                 let arriving = s.irecv(room, left, tag)?;
    ///                 let leaving = s.isend(part, right, tag)?;
    ///                 s.wait_all([arriving, leaving]).map(|_| ())
    ///             });
    ///         }
    ///     });
    ///     Ok(())
    /// })?;
    /// assert_eq!(into, [[left; 250]; 4]);
    /// # environment.finalize()
    /// # }
    /// ```
    ///
    /// A buffer must live longer than the scope, and is out of reach inside it:
    ///
    /// ```compile_fail,E0597
    /// # fn f(world: &mpi_over_am::SharedCommunicator) -> mpi_over_am::Result<()> {
    /// world.scope(|s| {
    ///     let mut buffer = [0u8; 8];
    ///     let request = s.irecv(&mut buffer, 0, 0)?;
    ///     s.wait(request)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// ```compile_fail,E0503
    /// # fn f(world: &mpi_over_am::SharedCommunicator) -> mpi_over_am::Result<()> {
    /// let mut buffer = [0u8; 8];
    /// world.scope(|s| {
    ///     let request = s.irecv(&mut buffer, 0, 0)?;
    ///     let too_early = buffer[0] + 1;
    ///     s.wait(request)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// Nor may a thread that outlives the scope have it:
    ///
    /// ```compile_fail,E0521
    /// # fn f(world: &mpi_over_am::SharedCommunicator) -> mpi_over_am::Result<()> {
    /// let mut buffer = [0u8; 8];
    /// std::thread::scope(|threads| {
    ///     world.scope(|s| {
    ///         threads.spawn(|| s.irecv(&mut buffer, 0, 0).map(|_| ()));
    ///         Ok(())
    ///     })
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// What `body` returns; otherwise the first error of the operations that it has not waited for.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope SharedScope<'scope, 'env, F>) -> Result<R>,
    ) -> Result<R> {
        let scope = SharedScope {
            communicator: self,
            open: Mutex::default(),
            _scope: PhantomData,
            _env: PhantomData,
        };
        let guard = Guard { communicator: self, open: &scope.open };
        let value = body(&scope)?;
        guard.wait_for_rest()?;
        Ok(value)
    }
}

/// Ends all operations of a scope, however it is left.
struct Guard<'a, F: Fabric> {
    communicator: &'a SharedCommunicator<F>,
    open: &'a Mutex<Vec<RequestId>>,
}

impl<F: Fabric> Guard<'_, F> {
    /// Waits for what has not been waited for. What progress reports leaves the rest to the drop.
    fn wait_for_rest(&self) -> Result<()> {
        let mut result = Ok(());
        while let Some(id) = last(self.open) {
            let ended = self.communicator.wait_in_scope(id, self.open)?;
            result = result.and(ended.map(|_| ()));
        }
        result
    }
}

impl<F: Fabric> Drop for Guard<'_, F> {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        if left.is_empty() {
            return;
        }
        // If this fails the program ends, as it must: buffers that are borrowed no longer would stay in use.
        let handle = &self.communicator.handle;
        let mut turn = handle.shared.inner.enter().expect("no scope ends inside of a call");
        let inside = turn.value().communicator(handle.number).expect("its handle is still there");
        left.into_iter().for_each(|id| inside.end_request(id));
        if std::thread::panicking() {
            let state = inside.state_to_end();
            state.into_iter().for_each(|mut state| {
                state.context.fail("it unwound out of a scope with operations under way")
            });
        }
    }
}

fn last(open: &Mutex<Vec<RequestId>>) -> Option<RequestId> {
    open.lock().unwrap_or_else(PoisonError::into_inner).last().copied()
}

fn close(open: &Mutex<Vec<RequestId>>, id: RequestId) {
    open.lock().unwrap_or_else(PoisonError::into_inner).retain(|&other| other != id);
}

impl<F: Fabric> SharedCommunicator<F> {
    /// Waits for an operation of a scope: its own result.
    ///
    /// # Errors
    /// What progress reports; the operation is still open then.
    fn wait_in_scope(&self, id: RequestId, open: &Mutex<Vec<RequestId>>) -> Result<Result<Status>> {
        let take = |inside: &Communicator<F>| {
            let ended = inside.take_over(id);
            close(open, id);
            Ok(ended)
        };
        let inner = &self.handle.shared.inner;
        inner
            .wait_until(self.handle.number, |context| is_over(context, id), take)
            .map_err(Waiting::into_error)
    }
}

impl<'scope, F: Fabric> SharedScope<'scope, '_, F> {
    /// Starts an operation in memory that was lent for `'scope`.
    fn begin(
        &self,
        start: impl FnOnce(&Communicator<F>) -> Result<RequestId>,
    ) -> Result<ScopedRequest<'scope>> {
        let id = self.communicator.with(|inside| {
            let id = start(inside)?;
            // In the same turn, so that the end of the scope finds it.
            if id != RequestId::ENDED_SEND {
                self.open.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            }
            Ok(id)
        })?;
        Ok(ScopedRequest { id, _scope: PhantomData })
    }

    fn isend_lent(&self, mode: Mode, data: &SendData, dest: u32, tag: i32) -> Result<ScopedRequest<'scope>> {
        self.begin(|inside| inside.isend_data(mode, data, dest, tag))
    }

    fn irecv_lent(&self, data: &RecvData, source: Source, tag: Tag) -> Result<ScopedRequest<'scope>> {
        self.begin(|inside| inside.irecv_data(data, source, tag))
    }

    /// Starts a send in standard mode (`MPI_Isend`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    pub fn isend<T: NoUninit>(
        &'scope self,
        data: &'scope [T],
        dest: u32,
        tag: i32,
    ) -> Result<ScopedRequest<'scope>> {
        self.isend_in_mode(Mode::Standard, data, dest, tag)
    }

    /// Starts a send in any mode (`MPI_Issend`, `MPI_Irsend`, `MPI_Ibsend`).
    ///
    /// # Errors
    /// As for [`isend`](Self::isend), and as for the send of that mode.
    pub fn isend_in_mode<T: NoUninit>(
        &'scope self,
        mode: Mode,
        data: &'scope [T],
        dest: u32,
        tag: i32,
    ) -> Result<ScopedRequest<'scope>> {
        self.isend_lent(mode, &SendData::from_bytes(bytes_to_keep(data)), dest, tag)
    }

    /// Starts a receive (`MPI_Irecv`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn irecv<T: AnyBitPattern>(
        &'scope self,
        buffer: &'scope mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ScopedRequest<'scope>> {
        let room = RecvData::from_buffer(buffer_to_keep(buffer));
        self.irecv_lent(&room, source.into(), tag.into())
    }

    /// Starts a send of elements that a datatype picks from `memory`; see [`Communicator::send_layout`].
    ///
    /// # Errors
    /// As for [`isend`](Self::isend); elements outside of `memory`.
    pub fn isend_layout<T: NoUninit>(
        &'scope self,
        mode: Mode,
        memory: &'scope [T],
        elements: (u64, &Datatype),
        dest: u32,
        tag: i32,
    ) -> Result<ScopedRequest<'scope>> {
        self.isend_lent(mode, &layout_to_keep(memory, 0, elements)?, dest, tag)
    }

    /// Starts a receive to the places that a datatype names; see [`Communicator::recv_layout`].
    ///
    /// # Errors
    /// As for [`irecv`](Self::irecv); elements outside of `memory`.
    pub fn irecv_layout<T: AnyBitPattern>(
        &'scope self,
        memory: &'scope mut [T],
        elements: (u64, &Datatype),
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ScopedRequest<'scope>> {
        self.irecv_lent(&layout_room_to_keep(memory, 0, elements)?, source.into(), tag.into())
    }

    /// Starts a send of the fields of `values` in standard mode; see [`Communicator::send_fields`].
    ///
    /// # Errors
    /// As for [`isend`](Self::isend).
    pub fn isend_fields<T: Equivalence>(
        &'scope self,
        values: &'scope [T],
        dest: u32,
        tag: i32,
    ) -> Result<ScopedRequest<'scope>> {
        self.isend_lent(Mode::Standard, &fields_to_keep(values)?, dest, tag)
    }

    /// Starts a receive of the fields of `values`; see [`Communicator::recv_fields`].
    ///
    /// # Errors
    /// As for [`irecv`](Self::irecv).
    pub fn irecv_fields<T: Equivalence>(
        &'scope self,
        values: &'scope mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<ScopedRequest<'scope>> {
        self.irecv_lent(&field_room_to_keep(values)?, source.into(), tag.into())
    }

    /// Waits until the operation is over (`MPI_Wait`).
    ///
    /// # Errors
    /// The operation's own error; what progress reports, and then the end of the scope ends the operation.
    pub fn wait(&self, request: ScopedRequest<'scope>) -> Result<Status> {
        self.communicator.wait_in_scope(request.id, &self.open)?
    }

    /// Makes progress, and says whether the operation is over (`MPI_Test`): its status, or the request again.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn test(
        &self,
        request: ScopedRequest<'scope>,
    ) -> Result<std::result::Result<Status, ScopedRequest<'scope>>> {
        let is_over = self.communicator.with(|inside| inside.state()?.is_over_after_progress(request.id))?;
        if is_over { self.wait(request).map(Ok) } else { Ok(Err(request)) }
    }

    /// Waits until all are over (`MPI_Waitall`); their statuses, in the order of the requests.
    ///
    /// # Errors
    /// The first error of the operations, after all are over.
    pub fn wait_all(&self, requests: impl IntoIterator<Item = ScopedRequest<'scope>>) -> Result<Vec<Status>> {
        let ended: Vec<_> = requests.into_iter().map(|request| self.wait(request)).collect();
        ended.into_iter().collect()
    }

    /// Waits until one of them is over and takes it out (`MPI_Waitany`): its place in the vector, and its status; `None` if
    /// there is no request.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn wait_any(&self, requests: &mut Vec<ScopedRequest<'scope>>) -> Result<Option<(usize, Status)>> {
        if requests.is_empty() {
            return Ok(None);
        }
        let mut found = 0;
        let is_there = |context: &mut Context<F, MpiHandlers>| {
            let over = requests.iter().position(|request| is_over(context, request.id));
            found = over.unwrap_or(found);
            over.is_some()
        };
        let handle = &self.communicator.handle;
        handle.shared.inner.wait_until(handle.number, is_there, |_| Ok(())).map_err(Waiting::into_error)?;
        self.wait(requests.remove(found)).map(|status| Some((found, status)))
    }
}
