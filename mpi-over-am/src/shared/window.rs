//! Windows of several threads (MPI 5.0 chapter 12): any thread puts, gets and updates; epochs are those of the task.
//!
//! A wait for another task (a fence, a start, a lock, bytes under way) lets the other threads have their turns. An update is done in
//! one turn: where the target's memory cannot be reached directly, it waits for the target's library, and for no call of the target.

use std::sync::Arc;

use am_core::Context;
use am_core::buffer::{JobBuffer, RawBuffer};
use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::communicator::Handle;
use super::{Inner, SharedCommunicator, SharedRequest, Waiting};
use crate::attribute::Keyval;
use crate::buffer::{
    WindowMemory, buffer_to_keep, bytes_of, bytes_to_keep, lend_elements, lend_elements_mut, lend_to_receive,
    lend_to_send,
};
use crate::collective::{Collective, slices};
use crate::communicator::Communicator;
use crate::datatype::{Datatype, Predefined};
use crate::environment::JobFabric;
use crate::error::{Error, Result};
use crate::error_handler::ErrorHandler;
use crate::group::Group;
use crate::handlers::MpiHandlers;
use crate::info::Info;
use crate::notes::Key;
use crate::op::{self, Op, PredefinedOp};
use crate::request::RequestId;
use crate::state::is_over;
use crate::window::{
    Assertion, Flavor, Lock, NewWindow, Number, Sized, Started, TargetData, Window, check_new, end_started,
    packed,
};

/// A window that any thread may use at any time. Clones are handles on the same one.
///
/// Epochs belong to the task: after a [`fence`](Self::fence) or a [`lock_all`](Self::lock_all) of one thread, all threads put and get.
/// Two threads that lock the same rank at once are refused, as one is that does it twice; the calls that begin and end epochs are
/// otherwise one thread's at a time. When the last handle goes without [`free`](Self::free), the window stays until MPI ends.
///
/// ```
/// # use mpi_over_am::{Info, SharedEnvironment, op::PredefinedOp, window::Assertion};
/// # fn main() -> mpi_over_am::Result<()> {
/// # let environment = SharedEnvironment::init()?;
/// # let world = environment.world()?;
/// let window = world.allocate_window(8, 8, &Info::new())?;
/// window.lock_all(Assertion::NONE)?;
/// std::thread::scope(|threads| {
///     for _ in 0..4 {
///         threads.spawn(|| window.fetch_and_op(1u64, 0, 0, PredefinedOp::Sum));
///     }
/// });
/// window.unlock_all()?;
/// world.barrier()?;
/// let mut count = [0u64];
/// window.read(0, &mut count)?;
/// assert_eq!(count[0], if world.rank() == 0 { 4 * u64::from(world.size()) } else { 0 });
/// window.free()?;
/// # environment.finalize()
/// # }
/// ```
///
/// What is put is not changed meanwhile, by whatever thread:
///
/// ```compile_fail,E0502
/// # fn f(window: mpi_over_am::ThreadedWindow) {
/// let mut data = vec![1u8; 1000];
/// std::thread::scope(|threads| {
///     threads.spawn(|| window.put(&data, 0, 0));
///     data[0] = 2;
/// });
/// # }
/// ```
#[derive(Debug)]
pub struct ThreadedWindow<F: Fabric = JobFabric> {
    /// Of the window's own communicator.
    handle: Arc<Handle<F>>,
    number: usize,
}

impl<F: Fabric> Clone for ThreadedWindow<F> {
    fn clone(&self) -> Self {
        Self { handle: Arc::clone(&self.handle), number: self.number }
    }
}

impl<F: Fabric> SharedCommunicator<F> {
    /// As [`Communicator::create_window`].
    ///
    /// # Errors
    /// As there.
    pub fn create_window(
        &self,
        memory: impl Into<WindowMemory>,
        unit: u32,
        info: &Info,
    ) -> Result<ThreadedWindow<F>> {
        let memory = memory.into();
        self.new_window(Flavor::Created, |_| Ok(Some(memory.into())), unit, info)
    }

    /// As [`Communicator::allocate_window`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate_window(&self, bytes: usize, unit: u32, info: &Info) -> Result<ThreadedWindow<F>> {
        self.new_window(Flavor::Allocated, |inside| Sized::alloc(inside, bytes).map(Some), unit, info)
    }

    /// As [`Communicator::create_dynamic_window`].
    ///
    /// # Errors
    /// As there.
    pub fn create_dynamic_window(&self, info: &Info) -> Result<ThreadedWindow<F>> {
        self.new_window(Flavor::Dynamic, |_| Ok(None), 1, info)
    }

    pub(super) fn new_window(
        &self,
        flavor: Flavor,
        memory: impl FnOnce(&Communicator<F>) -> Result<Option<Sized>>,
        unit: u32,
        info: &Info,
    ) -> Result<ThreadedWindow<F>> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, |inside| check_new(inside, unit))?;
        let own = self.dup()?;
        let Handle { number, .. } = &*own.handle;
        // The same steps as those of a task of one thread.
        let (mut words, place) = {
            let mut turn = shared.inner.enter()?;
            let inside = turn.value().communicator(*number)?.clone();
            let memory = memory(&inside)?;
            let new = NewWindow::begin(inside, flavor, memory, unit, info)?;
            (new.words(), turn.value().keep_new_window(new))
        };
        let told = slices::allreduce_in_place(&mut words, Op::from_operation::<u64>(op::BitwiseOr))
            .and_then(|words| shared.inner.carry_out(*number, |inside| inside.icollective_data(&words)));
        let number = {
            let mut turn = shared.inner.enter()?;
            let new = turn.value().take_new_window(place);
            told?;
            turn.value().keep_window(new.end_with(&words))
        };
        Ok(ThreadedWindow { handle: own.handle, number })
    }
}

/// Puts and gets that are under way in the caller's memory.
struct UnderWay<'a, F: Fabric> {
    inner: &'a Inner<F>,
    number: usize,
    started: Vec<Started>,
}

impl<F: Fabric> UnderWay<'_, F> {
    fn wait(mut self) -> Result<()> {
        while let Some(&next) = self.started.last() {
            let is_there = |context: &mut Context<F, MpiHandlers>| is_over(context, next.request);
            let take = |inside: &Communicator<F>| inside.end_transfer(next);
            let waited = self.inner.wait_until(self.number, is_there, take);
            if !matches!(waited, Err(Waiting::Progress(_))) {
                self.started.pop();
            }
            waited.map_err(Waiting::into_error)?;
        }
        Ok(())
    }
}

impl<F: Fabric> Drop for UnderWay<'_, F> {
    /// After a failure: nothing may use the memory when the call returns.
    fn drop(&mut self) {
        for started in self.started.drain(..) {
            // If this fails the program ends, as it must: memory that is lent no longer would stay in use.
            let mut turn = self.inner.enter().expect("no thread waits during its own turn");
            let communicator = turn.value().communicator(self.number);
            communicator.expect("its handle is still there").abandon_transfer(started);
        }
    }
}

impl<F: Fabric> Communicator<F> {
    /// Takes the result of a put or get that is over.
    fn end_transfer(&self, started: Started) -> Result<()> {
        // Not by `state`: what another call has left must not keep this one from its result.
        let mut state = self.state_to_end().expect("a thread that has its turn is in no other call");
        end_started(&mut state, started)
    }

    /// Ends a put or get after a failure.
    fn abandon_transfer(&self, started: Started) {
        let mut state = self.state_to_end().expect("a thread that has its turn is in no other call");
        crate::protocol::end(&mut state, started.request);
        // The caller gets the error that came first.
        let _ = end_started(&mut state, started);
    }
}

impl<F: Fabric> ThreadedWindow<F> {
    fn inner(&self) -> &Inner<F> {
        &self.handle.shared.inner
    }

    /// Runs a call that waits for no call of another task.
    fn with<R>(&self, call: impl FnOnce(&Window<F>) -> Result<R>) -> Result<R> {
        call(self.inner().enter()?.value().window(self.number)?)
    }

    /// Carries out puts or gets in memory that is lent for the time of this call.
    fn transfer(&self, start: impl FnOnce(&Window<F>, &mut Vec<Started>) -> Result<()>) -> Result<()> {
        let (inner, number) = (self.inner(), self.handle.number);
        let mut under_way = UnderWay { inner, number, started: Vec::new() };
        self.with(|window| start(window, &mut under_way.started))?;
        under_way.wait()
    }

    fn put_bytes(&self, bytes: &[u8], target: TargetData<'_>) -> Result<()> {
        // All is over when `transfer` returns or unwinds.
        lend_to_send(bytes, |data| {
            let bytes = data.as_bytes().expect("bytes are in one piece");
            self.transfer(|window, started| window.start_put(bytes, target, started))
        })
    }

    fn get_room(&self, room: RawBuffer, target: TargetData<'_>) -> Result<()> {
        self.transfer(|window, started| window.start_get(room, target, started))
    }

    /// As [`Window::put`].
    ///
    /// # Errors
    /// As there.
    pub fn put<T: NoUninit>(&self, from: &[T], rank: u32, displacement: i64) -> Result<()> {
        let (bytes, datatype) = (bytes_of(from), byte());
        let count = bytes.len() as u64;
        self.put_bytes(bytes, TargetData { rank, displacement, count, datatype: &datatype })
    }

    /// As [`Window::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get<T: AnyBitPattern>(&self, to: &mut [T], rank: u32, displacement: i64) -> Result<()> {
        let (count, datatype) = (size_of_val(to) as u64, byte());
        let target = TargetData { rank, displacement, count, datatype: &datatype };
        // All is over when `get_room` returns or unwinds.
        lend_to_receive(to, |room| self.get_room(room, target))
    }

    /// As [`Window::put_layout`].
    ///
    /// # Errors
    /// As there.
    pub fn put_layout<T: NoUninit>(
        &self,
        memory: &[T],
        elements: (u64, &Datatype),
        target: TargetData<'_>,
    ) -> Result<()> {
        // All is over when `transfer` returns or unwinds.
        lend_elements(memory, elements, |data| match data.as_bytes() {
            Some(bytes) => self.transfer(|window, started| window.start_put(bytes, target, started)),
            None => self.put_bytes(&packed(&data)?, target),
        })
    }

    /// As [`Window::get_layout`].
    ///
    /// # Errors
    /// As there.
    pub fn get_layout<T: AnyBitPattern>(
        &self,
        memory: &mut [T],
        (count, datatype): (u64, &Datatype),
        target: TargetData<'_>,
    ) -> Result<()> {
        // All is over when `get_room` returns or unwinds.
        lend_elements_mut(memory, (count, datatype), |data| match data.as_buffer() {
            Some(room) => self.get_room(room, target),
            None => {
                let len = usize::try_from(data.packed_len());
                let mut bytes = vec![0; len.map_err(|_| Error::TooLarge { call: "a get" })?];
                lend_to_receive(&mut bytes, |room| self.get_room(room, target))?;
                data.unpack(0, &bytes);
                Ok(())
            }
        })
    }

    /// Starts a put of elements, which come back with the wait (`MPI_Rput`). They are in place after the epoch, or a flush.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn rput_owned<T: NoUninit + Send>(
        &self,
        from: Vec<T>,
        rank: u32,
        displacement: i64,
    ) -> Result<SharedRequest<T, F>> {
        let (bytes, datatype) = (bytes_to_keep(&from), byte());
        let target = TargetData { rank, displacement, count: bytes.len() as u64, datatype: &datatype };
        self.begin(from, |window, started| window.start_put(bytes, target, started))
    }

    /// Starts a get into the elements of `to`, which come back with the wait (`MPI_Rget`).
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn rget_owned<T: AnyBitPattern + Send>(
        &self,
        mut to: Vec<T>,
        rank: u32,
        displacement: i64,
    ) -> Result<SharedRequest<T, F>> {
        let (room, datatype) = (buffer_to_keep(&mut to), byte());
        let target = TargetData { rank, displacement, count: room.len() as u64, datatype: &datatype };
        self.begin(to, |window, started| window.start_get(room, target, started))
    }

    /// As [`accumulate`](Self::accumulate), as a request, which is over (`MPI_Raccumulate`).
    ///
    /// # Errors
    /// As there.
    pub fn raccumulate_owned<T: Number + Send>(
        &self,
        values: Vec<T>,
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<SharedRequest<T, F>> {
        self.accumulate(&values, rank, displacement, op)?;
        self.begin(values, |_, _| Ok(()))
    }

    /// As [`get_accumulate`](Self::get_accumulate), as a request, which is over (`MPI_Rget_accumulate`): what was there before comes
    /// with the wait.
    ///
    /// # Errors
    /// As there.
    pub fn rget_accumulate_owned<T: Number + Send>(
        &self,
        values: &[T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<SharedRequest<T, F>> {
        let before = self.get_accumulate(values, rank, displacement, op)?;
        self.begin(before, |_, _| Ok(()))
    }

    /// Starts a transfer of one piece at most, whose request keeps its memory.
    fn begin<T: Send + 'static>(
        &self,
        memory: Vec<T>,
        start: impl FnOnce(&Window<F>, &mut Vec<Started>) -> Result<()>,
    ) -> Result<SharedRequest<T, F>> {
        let id: RequestId = self.with(|window| {
            let mut started = Vec::new();
            start(window, &mut started)?;
            let id = match started.pop() {
                Some(Started { request, .. }) => request,
                None => window.request_that_is_over()?,
            };
            window.communicator().keep(id, memory)
        })?;
        Ok(SharedRequest::new(&self.handle, id))
    }

    /// As [`Window::accumulate`].
    ///
    /// # Errors
    /// As there.
    pub fn accumulate<T: Number>(
        &self,
        values: &[T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<()> {
        self.with(|window| window.accumulate(values, rank, displacement, op))
    }

    /// As [`Window::accumulate_layout`].
    ///
    /// # Errors
    /// As there.
    pub fn accumulate_layout<T: NoUninit>(
        &self,
        memory: &[T],
        elements: (u64, &Datatype),
        target: TargetData<'_>,
        op: &Op,
    ) -> Result<()> {
        self.with(|window| window.accumulate_layout(memory, elements, target, op))
    }

    /// As [`Window::get_accumulate`].
    ///
    /// # Errors
    /// As there.
    pub fn get_accumulate<T: Number>(
        &self,
        values: &[T],
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<Vec<T>> {
        self.with(|window| window.get_accumulate(values, rank, displacement, op))
    }

    /// As [`Window::fetch_and_op`].
    ///
    /// # Errors
    /// As there.
    pub fn fetch_and_op<T: Number>(
        &self,
        value: T,
        rank: u32,
        displacement: i64,
        op: PredefinedOp,
    ) -> Result<T> {
        self.with(|window| window.fetch_and_op(value, rank, displacement, op))
    }

    /// As [`Window::compare_and_swap`].
    ///
    /// # Errors
    /// As there.
    pub fn compare_and_swap<T: Number>(
        &self,
        expected: T,
        new: T,
        rank: u32,
        displacement: i64,
    ) -> Result<T> {
        self.with(|window| window.compare_and_swap(expected, new, rank, displacement))
    }

    /// As [`Window::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read<T: NoUninit + AnyBitPattern>(&self, offset: u64, to: &mut [T]) -> Result<()> {
        self.with(|window| window.read(offset, to))
    }

    /// As [`Window::write`].
    ///
    /// # Errors
    /// As there.
    pub fn write<T: NoUninit>(&self, offset: u64, from: &[T]) -> Result<()> {
        self.with(|window| window.write(offset, from))
    }
}

/// Epochs.
impl<F: Fabric> ThreadedWindow<F> {
    /// Waits until all is in place that any thread has put before.
    fn flush_puts(&self) -> Result<()> {
        let batches = self.with(Window::close_puts)?;
        if batches.is_empty() {
            return Ok(());
        }
        let are_placed =
            |context: &mut Context<F, MpiHandlers>| batches.iter().all(|batch| batch.is_placed(context));
        self.inner().wait_until(self.handle.number, are_placed, |_| Ok(())).map_err(Waiting::into_error)
    }

    /// Waits until all tasks have come here.
    pub(super) fn meet(&self) -> Result<()> {
        let start = |inside: &Communicator<F>| inside.begin_collective_data(&Collective::Barrier);
        self.inner().carry_out(self.handle.number, start).map(|_| ())
    }

    fn receive_notes(&self, notes: Vec<Key>) -> Result<()> {
        notes.into_iter().try_for_each(|key| {
            let take =
                |context: &mut Context<F, MpiHandlers>| context.handlers_mut().notes.take(key).is_some();
            self.inner().wait_until(self.handle.number, take, |_| Ok(())).map_err(Waiting::into_error)
        })
    }

    /// Tries to take a lock, and lets others have their turns, until it is taken.
    fn take_lock(&self, lock: Lock, rank: u32) -> Result<()> {
        while !self.with(|window| window.try_lock(lock, rank))? {
            self.inner().inside.give_way();
            std::thread::yield_now();
        }
        Ok(())
    }

    /// As [`Window::fence`]; one thread of each task calls it.
    ///
    /// # Errors
    /// As there.
    pub fn fence(&self, promise: Assertion) -> Result<()> {
        self.with(|window| window.check_fence(promise))?;
        self.flush_puts()?;
        self.meet()?;
        self.with(|window| {
            window.end_fence(promise);
            Ok(())
        })
    }

    /// As [`Window::post`].
    ///
    /// # Errors
    /// As there.
    pub fn post(&self, group: &Group, promise: Assertion) -> Result<()> {
        self.with(|window| window.post(group, promise))
    }

    /// As [`Window::start`].
    ///
    /// # Errors
    /// As there; another thread is about to start.
    pub fn start(&self, group: &Group, promise: Assertion) -> Result<()> {
        let (ranks, notes) = self.with(|window| window.begin_start(group, promise))?;
        let posted = self.receive_notes(notes);
        self.with(|window| {
            window.end_start(posted.is_ok().then_some(ranks));
            posted
        })
    }

    /// As [`Window::complete`].
    ///
    /// # Errors
    /// As there.
    pub fn complete(&self) -> Result<()> {
        let ranks = self.with(Window::begin_complete)?;
        self.flush_puts()?;
        self.with(|window| window.end_complete(&ranks))
    }

    /// As [`Window::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self) -> Result<()> {
        let notes = self.with(Window::begin_wait)?;
        self.receive_notes(notes)
    }

    /// As [`Window::test`].
    ///
    /// # Errors
    /// As there.
    pub fn test(&self) -> Result<bool> {
        self.with(Window::test)
    }

    /// As [`Window::lock`]. The lock is the task's: any of its threads may use the rank, and one of them unlocks it.
    ///
    /// # Errors
    /// As there; another thread has locked the rank, or is about to.
    pub fn lock(&self, lock: Lock, rank: u32, promise: Assertion) -> Result<()> {
        self.with(|window| window.begin_lock(rank, promise))?;
        let taken = if promise.has(Assertion::NO_CHECK) { Ok(()) } else { self.take_lock(lock, rank) };
        self.with(|window| {
            window.end_lock(rank, taken.is_ok().then_some((lock, promise)));
            taken
        })
    }

    /// As [`Window::unlock`].
    ///
    /// # Errors
    /// As there.
    pub fn unlock(&self, rank: u32) -> Result<()> {
        let held = self.with(|window| window.begin_unlock(rank))?;
        self.flush_puts()?;
        self.with(|window| held.map_or(Ok(()), |lock| window.give_lock(lock, rank)))
    }

    /// As [`Window::lock_all`].
    ///
    /// # Errors
    /// As there; another thread has locked a rank, or is about to.
    pub fn lock_all(&self, promise: Assertion) -> Result<()> {
        let mut ranks = self.with(|window| window.begin_lock_all(promise))?;
        let taken = ranks.try_for_each(|rank| self.take_lock(Lock::Shared, rank));
        self.with(|window| {
            window.end_lock_all(taken.is_ok().then_some(promise));
            taken
        })
    }

    /// As [`Window::unlock_all`].
    ///
    /// # Errors
    /// As there.
    pub fn unlock_all(&self) -> Result<()> {
        let mut ranks = self.with(Window::begin_unlock_all)?;
        self.flush_puts()?;
        self.with(|window| ranks.try_for_each(|rank| window.give_lock(Lock::Shared, rank)))
    }

    /// Waits until what any thread has put so far is in place (`MPI_Win_flush`), also what was put to other ranks.
    ///
    /// # Errors
    /// As for [`Window::flush`].
    pub fn flush(&self, rank: u32) -> Result<()> {
        // Of nobody nothing is checked.
        self.with(|window| window.flush_local(rank))?;
        self.flush_puts()
    }

    /// Waits until what any thread has put so far is in place (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// As for [`Window::flush_all`].
    pub fn flush_all(&self) -> Result<()> {
        self.with(|window| window.check_flush(None))?;
        self.flush_puts()
    }

    /// As [`Window::flush_local`]: of what calls have returned from, the origin's memory is free already.
    ///
    /// # Errors
    /// As there.
    pub fn flush_local(&self, rank: u32) -> Result<()> {
        self.with(|window| window.flush_local(rank))
    }

    /// As [`Window::flush_local_all`].
    ///
    /// # Errors
    /// As there.
    pub fn flush_local_all(&self) -> Result<()> {
        self.with(Window::flush_local_all)
    }

    /// As [`Window::sync`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&self) -> Result<()> {
        self.with(Window::sync)
    }

    /// As [`Window::free`]: one thread of each task calls it. Other handles refuse every call from then on.
    ///
    /// # Errors
    /// As there; the window is gone already.
    pub fn free(&self) -> Result<Option<JobBuffer>> {
        let deleted = self.with(|window| {
            let deleted = window.begin_free();
            window.check_free().map(|()| deleted)
        })?;
        self.flush_puts()?;
        self.meet()?;
        let mut turn = self.inner().enter()?;
        let memory = turn.value().take_window(self.number)?.end_free()?;
        deleted.map(|()| memory)
    }
}

/// What it is, has and remembers.
impl<F: Fabric> ThreadedWindow<F> {
    /// As [`Window::group`].
    ///
    /// # Errors
    /// The window is gone; a call inside another one.
    pub fn group(&self) -> Result<Group> {
        self.with(|window| Ok(window.group()))
    }

    /// This task's rank in it.
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn rank(&self) -> Result<u32> {
        self.with(|window| Ok(window.rank()))
    }

    /// As [`Window::flavor`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn flavor(&self) -> Result<Flavor> {
        self.with(|window| Ok(window.flavor()))
    }

    /// As [`Window::size`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn size(&self) -> Result<u64> {
        self.with(|window| Ok(window.size()))
    }

    /// As [`Window::unit`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn unit(&self) -> Result<u64> {
        self.with(|window| Ok(window.unit()))
    }

    /// As [`Window::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(&self, memory: impl Into<WindowMemory>) -> Result<u64> {
        self.with(|window| window.attach(memory))
    }

    /// As [`Window::detach`].
    ///
    /// # Errors
    /// As there.
    pub fn detach(&self, at: u64) -> Result<JobBuffer> {
        self.with(|window| window.detach(at))
    }

    /// As [`Window::name`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn name(&self) -> Result<String> {
        self.with(|window| Ok(window.name()))
    }

    /// As [`Window::set_name`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_name(&self, name: &str) -> Result<()> {
        self.with(|window| {
            window.set_name(name);
            Ok(())
        })
    }

    /// As [`Window::info`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn info(&self) -> Result<Info> {
        self.with(|window| Ok(window.info()))
    }

    /// As [`Window::set_info`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_info(&self, info: &Info) -> Result<()> {
        self.with(|window| {
            window.set_info(info);
            Ok(())
        })
    }

    /// As [`Window::error_handler`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn error_handler(&self) -> Result<ErrorHandler> {
        self.with(|window| Ok(window.error_handler()))
    }

    /// As [`Window::set_error_handler`].
    ///
    /// # Errors
    /// As for [`group`](Self::group).
    pub fn set_error_handler(&self, handler: ErrorHandler) -> Result<()> {
        self.with(|window| {
            window.set_error_handler(handler);
            Ok(())
        })
    }

    /// As [`Window::handled`]. The handler runs inside a call, and can make none.
    ///
    /// # Errors
    /// Those of `result`; as for [`group`](Self::group).
    pub fn handled<T>(&self, result: Result<T>) -> Result<T> {
        self.with(|window| window.handled(result))
    }

    /// As [`Window::attribute`].
    ///
    /// # Errors
    /// As there.
    pub fn attribute(&self, keyval: &Keyval) -> Result<Option<u64>> {
        self.with(|window| window.attribute(keyval))
    }

    /// As [`Window::set_attribute`]. Callbacks run inside this call, and can make none.
    ///
    /// # Errors
    /// As there.
    pub fn set_attribute(&self, keyval: &Keyval, value: u64) -> Result<()> {
        self.with(|window| window.set_attribute(keyval, value))
    }

    /// As [`Window::delete_attribute`]; callbacks as for [`set_attribute`](Self::set_attribute).
    ///
    /// # Errors
    /// As there.
    pub fn delete_attribute(&self, keyval: &Keyval) -> Result<()> {
        self.with(|window| window.delete_attribute(keyval))
    }

    /// Runs a call on the window, for the other forms of it.
    pub(super) fn in_turn<R>(&self, call: impl FnOnce(&Window<F>) -> Result<R>) -> Result<R> {
        self.with(call)
    }
}

fn byte() -> Datatype {
    Datatype::predefined(Predefined::Byte)
}
