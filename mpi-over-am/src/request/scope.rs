//! Non-blocking operations on borrowed buffers, inside a closure that waits for them, like `std::thread::scope`.

use std::marker::PhantomData;

use super::several::wait_any_over;
use crate::communicator::Communicator;
use crate::data::buffer::{Buffer, BufferMut, Lends};
use crate::error::{Error, Result};
use crate::message::progress::end;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::route::Mode;
use crate::message::state::State;
use crate::message::status::Status;
use crate::policy::{Field, LockPolicy};
use crate::rank::{Source, rank_or_null};
use crate::request::blocking::send_buffered_data;
use crate::tag::Tag;
use am_core::fabric::Fabric;

/// A scope for non-blocking operations, made by [`Communicator::scope`].
///
/// `'scope` is the lifetime of the operations: it begins before the closure runs and ends after the last operation is complete, and a
/// buffer must be borrowed for all of it. Both lifetimes are invariant, so that `'scope` cannot be shortened.
#[derive(Debug)]
pub struct Scope<'scope, 'env: 'scope, F: Fabric, L: LockPolicy> {
    communicator: &'env Communicator<F, L>,
    number: u32,
    /// Number of requests that have not been waited for.
    open: L::Field<usize>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

/// An operation of a scope. Memory safety does not depend on this value: the scope tracks the operation.
///
/// The lifetime of a request is invariant, so that only the scope that started the operation can wait for it.
#[must_use = "an operation ends with a wait, or at the end of its scope"]
#[derive(Debug)]
pub struct Request<'scope> {
    id: RequestId,
    _scope: PhantomData<&'scope mut &'scope ()>,
}

/// Result of [`Scope::test`].
#[must_use = "a pending request still needs a wait"]
#[derive(Debug)]
pub enum Tested<'scope> {
    /// The operation is complete.
    Done(Status),
    /// The operation is not complete: the request is returned.
    Pending(Request<'scope>),
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Runs `body` with a scope for non-blocking operations, and returns when all of them are complete.
    ///
    /// If `body` succeeds, the scope waits for the remaining operations. If it fails or unwinds, unmatched sends and receives are
    /// withdrawn, since they might never complete, and transfers under way are waited for. If it unwinds, the task is also marked as failed
    /// for its peers to see.
    ///
    /// If the environment is for several threads, threads that `body` starts in a [`std::thread::scope`] can use the scope, too:
    ///
    /// ```
    /// # use mpi_over_am::Environment;
    /// # fn main() -> mpi_over_am::Result<()> {
    /// # let environment = Environment::init_threads()?;
    /// # let world = environment.world();
    /// # let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    /// let (out, mut into) = ([world.rank(); 1000], [[0u32; 250]; 4]);
    /// world.scope(|s| {
    ///     std::thread::scope(|threads| {
    ///         for ((part, incoming), tag) in out.chunks(250).zip(&mut into).zip(0..) {
    ///             threads.spawn(move || -> mpi_over_am::Result<()> {
    ///                 let arriving = s.irecv(incoming, left, tag)?;
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
    /// A buffer must outlive the scope, and is inaccessible inside it:
    ///
    /// ```compile_fail,E0597
    /// # fn f(world: &mpi_over_am::Communicator) -> mpi_over_am::Result<()> {
    /// world.scope(|s| {
    ///     let mut buffer = [0u8; 8];
    ///     let request = s.irecv(&mut buffer, 0, 0)?;
    ///     s.wait(request)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// ```compile_fail,E0503
    /// # fn f(world: &mpi_over_am::Communicator) -> mpi_over_am::Result<()> {
    /// let mut buffer = [0u8; 8];
    /// world.scope(|s| {
    ///     let request = s.irecv(&mut buffer, 0, 0)?;
    ///     let too_early = buffer[0] + 1;
    ///     s.wait(request)
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// A thread that outlives the scope cannot use the buffer either:
    ///
    /// ```compile_fail,E0521
    /// # fn f(world: &mpi_over_am::Communicator<mpi_over_am::JobFabric, mpi_over_am::Threads>) -> mpi_over_am::Result<()> {
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
    /// The error of `body`; otherwise the first error of the remaining operations, or an error while making progress.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env, F, L>) -> Result<R>,
    ) -> Result<R> {
        let number = self.state()?.next_scope();
        let scope = Scope {
            communicator: self,
            number,
            open: L::Field::new(0),
            _scope: PhantomData,
            _env: PhantomData,
        };
        let guard = Guard { communicator: self, number, open: &scope.open };
        let value = body(&scope)?;
        guard.wait_for_rest()?;
        Ok(value)
    }
}

/// Ends all operations of a scope, however the scope is left.
struct Guard<'a, F: Fabric, L: LockPolicy> {
    communicator: &'a Communicator<F, L>,
    number: u32,
    open: &'a L::Field<usize>,
}

impl<F: Fabric, L: LockPolicy> Guard<'_, F, L> {
    /// Waits for the remaining operations. After an error, the drop ends the operations that are left.
    fn wait_for_rest(&self) -> Result<()> {
        if self.open.get() == 0 {
            return Ok(());
        }
        let mut state = self.communicator.state()?;
        let mut result = Ok(());
        for request in state.handlers().requests.of_scope(self.number) {
            state.wait_over(request)?;
            let ended = state.handlers().requests.take(request).map(|_| ());
            if matches!(ended, Err(Error::ReceiveInDoubt)) {
                return ended;
            }
            result = result.and(ended);
        }
        self.open.set(0);
        result
    }
}

impl<F: Fabric, L: LockPolicy> Drop for Guard<'_, F, L> {
    fn drop(&mut self) {
        if self.open.get() == 0 {
            return;
        }
        let mut state = self.communicator.state_or_abort("a scope with operations under way");
        for request in state.handlers().requests.of_scope(self.number) {
            state.wait_for_operator(request);
            end(&mut state, request);
            // The caller gets the error that ended the scope.
            let _ = state.handlers().requests.take(request);
        }
        self.open.set(0);
        if std::thread::panicking() {
            state.context.fail("it unwound out of a scope with operations under way");
        }
    }
}

/// The scope ends before `'scope` does, and waits for every operation that was started through it.
impl<'a, F: Fabric, L: LockPolicy> Lends<'a> for Scope<'a, '_, F, L> {}

impl<'scope, F: Fabric, L: LockPolicy> Scope<'scope, '_, F, L> {
    /// Starts a send in standard mode (`MPI_Isend`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, a dead receiver.
    pub fn isend<B: Buffer + ?Sized>(
        &'scope self,
        data: &'scope B,
        dest: impl Into<Option<u32>>,
        tag: i32,
    ) -> Result<Request<'scope>> {
        self.isend_in_mode(Mode::Standard, data, dest, tag)
    }

    /// Starts a send in synchronous mode (`MPI_Issend`): it is complete when its receive has started.
    ///
    /// # Errors
    /// Those of [`isend`](Self::isend).
    pub fn issend<B: Buffer + ?Sized>(
        &'scope self,
        data: &'scope B,
        dest: impl Into<Option<u32>>,
        tag: i32,
    ) -> Result<Request<'scope>> {
        self.isend_in_mode(Mode::Synchronous, data, dest, tag)
    }

    /// Starts a send in ready mode (`MPI_Irsend`); see [`Communicator::rsend`].
    ///
    /// # Errors
    /// Those of [`isend`](Self::isend).
    pub fn irsend<B: Buffer + ?Sized>(
        &'scope self,
        data: &'scope B,
        dest: impl Into<Option<u32>>,
        tag: i32,
    ) -> Result<Request<'scope>> {
        self.isend_in_mode(Mode::Ready, data, dest, tag)
    }

    /// Starts a send in any mode (`MPI_Ibsend` and the others). In buffered mode it is complete at once.
    ///
    /// # Errors
    /// Those of [`isend`](Self::isend), and of a blocking send in that mode.
    pub fn isend_in_mode<B: Buffer + ?Sized>(
        &'scope self,
        mode: Mode,
        data: &'scope B,
        dest: impl Into<Option<u32>>,
        tag: i32,
    ) -> Result<Request<'scope>> {
        let (data, dest) = (data.outgoing()?.lend_to_scope(self), rank_or_null(dest));
        let Some(route) = self.communicator.route_or_nobody(dest, tag)? else {
            return self.over(Status::EMPTY);
        };
        let mut state = self.communicator.state_to_start()?;
        if mode == Mode::Buffered {
            send_buffered_data(&mut state, &route, &data)?;
            drop(state);
            return self.over(Status::EMPTY);
        }
        let id = protocol::start_send_data(&mut state, mode, &route, &data)?;
        Ok(self.opened(&mut state, id))
    }

    /// Starts a receive (`MPI_Irecv`).
    ///
    /// # Errors
    /// An unknown rank, a tag out of range.
    pub fn irecv<B: BufferMut + ?Sized>(
        &'scope self,
        buffer: &'scope mut B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<'scope>> {
        let (source, tag) = (source.into(), tag.into());
        let data = buffer.incoming()?.lend_to_scope(self);
        let Some(pattern) = self.communicator.pattern_or_nobody(source, tag)? else {
            return self.over(Status::OF_PROC_NULL);
        };
        let mut state = self.communicator.state_to_start()?;
        state.check_receives()?;
        let id = protocol::start_receive_data(&mut state, pattern, &data);
        Ok(self.opened(&mut state, id))
    }

    /// Waits until the operation is complete (`MPI_Wait`).
    ///
    /// # Errors
    /// The operation's error. After an error while making progress, and after [`Error::ReceiveInDoubt`], the operation stays under way, and
    /// the end of the scope waits for it, or ends it if the scope fails.
    pub fn wait(&self, request: Request<'scope>) -> Result<Status> {
        let mut state = self.communicator.state()?;
        state.wait_over(request.id)?;
        self.take(&mut state, request.id)
    }

    /// Takes the result of an operation that a wait has found complete. A receive that is in doubt stays.
    fn take(&self, state: &mut State<F>, id: RequestId) -> Result<Status> {
        let ended = state.handlers().requests.take(id);
        if !matches!(ended, Err(Error::ReceiveInDoubt)) {
            self.open.with(|open| *open -= 1);
        }
        ended
    }

    /// Makes progress, and returns whether the operation is complete (`MPI_Test`).
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub fn test(&self, request: Request<'scope>) -> Result<Tested<'scope>> {
        let mut state = self.communicator.state()?;
        if !state.is_over_after_progress(request.id)? {
            return Ok(Tested::Pending(request));
        }
        self.take(&mut state, request.id).map(Tested::Done)
    }

    /// Waits until all operations are complete (`MPI_Waitall`); returns their statuses in the order of the requests.
    ///
    /// # Errors
    /// The first error of the operations, after all are complete; an error while making progress.
    pub fn wait_all(&self, requests: impl IntoIterator<Item = Request<'scope>>) -> Result<Vec<Status>> {
        let mut first_error = None;
        let mut statuses = Vec::new();
        for request in requests {
            match self.wait(request) {
                Ok(status) => statuses.push(status),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        first_error.map_or(Ok(statuses), Err)
    }

    /// Waits until one operation is complete, and removes its request (`MPI_Waitany`); that of a receive in doubt stays. Returns its index
    /// in the vector before the removal, and its status; `None` if the vector is empty.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub fn wait_any(&self, requests: &mut Vec<Request<'scope>>) -> Result<Option<(usize, Status)>> {
        if requests.is_empty() {
            return Ok(None);
        }
        let mut state = self.communicator.state()?;
        let index = wait_any_over(&mut state, requests.iter().map(|request| request.id))?;
        let ended = self.take(&mut state, requests[index].id);
        if !matches!(ended, Err(Error::ReceiveInDoubt)) {
            drop(requests.remove(index));
        }
        ended.map(|status| Some((index, status)))
    }

    /// An operation that is complete already.
    fn over(&'scope self, status: Status) -> Result<Request<'scope>> {
        let mut state = self.communicator.state()?;
        let requests = &mut state.handlers().requests;
        let id = requests.insert(false);
        requests.set_status(id, status);
        requests.end(id, None);
        Ok(self.opened(&mut state, id))
    }

    /// The communicator of the operations.
    pub(crate) fn communicator(&self) -> &Communicator<F, L> {
        self.communicator
    }

    /// The number of the scope in the table of requests.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Records an operation that was started for the scope, in the turn of `state`.
    pub(crate) fn opened(&self, state: &mut State<F>, id: RequestId) -> Request<'scope> {
        state.handlers().requests.set_scope(id, self.number);
        self.started(id)
    }

    /// Like [`opened`](Self::opened), for an operation that was started with the scope's number.
    pub(crate) fn started(&self, id: RequestId) -> Request<'scope> {
        self.open.with(|open| *open += 1);
        Request { id, _scope: PhantomData }
    }
}
