//! Windows of several threads (MPI 5.0 chapter 12): any thread puts, gets and updates; epochs are those of the task.
//!
//! A wait for another task (a fence, a start, a lock, bytes under way) lets the other threads have their turns. An update is done in
//! one turn: where the target's memory cannot be reached directly, it waits for the target's library, and for no call of the target.

mod epochs;
mod state_of;

use std::sync::Arc;

use am_core::Context;
use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;
use bytemuck::{AnyBitPattern, NoUninit};

use super::communicator::Handle;
use super::{Inner, SharedCommunicator, SharedRequest, Waiting};
use crate::buffer::{
    WindowMemory, buffer_to_keep, bytes_of, bytes_to_keep, lend_elements, lend_elements_mut, lend_to_receive,
    lend_to_send,
};
use crate::communicator::Communicator;
use crate::environment::JobFabric;
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::info::Info;
use crate::op::{Op, PredefinedOp};
use crate::request::RequestId;
use crate::state::is_over;
use crate::window::{
    CommonMemory, Flavor, NewWindow, Number, Sized, Started, Step, TargetData, Window, check_new,
    end_started, packed,
};
use mpi_datatype::{Datatype, Predefined};

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
        self.new_window(Flavor::Allocated, |own| own.alloc_part(bytes).map(Some), unit, info)
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
        memory: impl FnOnce(&Self) -> Result<Option<Sized>>,
        unit: u32,
        info: &Info,
    ) -> Result<ThreadedWindow<F>> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, |inside| check_new(inside, unit))?;
        let own = self.dup()?;
        let memory = memory(&own)?;
        let Handle { number, .. } = &*own.handle;
        // The same steps as those of a task of one thread.
        let (mut words, place) = {
            let mut turn = shared.inner.enter()?;
            let inside = turn.value().communicator(*number)?.clone();
            let new = NewWindow::begin(inside, flavor, memory, unit, info)?;
            (new.words(), turn.value().keep_new_window(new))
        };
        let told = own.combine(&mut words);
        let number = {
            let mut turn = shared.inner.enter()?;
            let new = turn.value().take_new_window(place);
            told?;
            turn.value().keep_window(new.end_with(&words))
        };
        Ok(ThreadedWindow { handle: own.handle, number })
    }

    fn alloc_part(&self, bytes: usize) -> Result<Sized> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, |inside| Sized::alloc(inside, bytes))
    }

    /// This task's part of memory that all tasks have mapped, or that only this one has, where the fabric knows no such memory.
    pub(super) fn share_part(&self, bytes: usize, info: &Info) -> Result<Sized> {
        let Handle { shared, number } = &*self.handle;
        let gather = |own: &[u64]| {
            let mut words = shared.inner.with(*number, |inside| Ok(inside.placed_words(own)))?;
            self.combine(&mut words)?;
            Ok(words.chunks(own.len()).map(<[u64]>::to_vec).collect())
        };
        let take = |step: Step<'_>| shared.inner.with(*number, |inside| step.carry_out(inside));
        match CommonMemory::agree((bytes, self.rank(), info), gather, take)? {
            Some(common) => Ok(Sized::Common(common)),
            None => self.alloc_part(bytes),
        }
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
    pub(super) fn with<R: Send>(&self, call: impl FnOnce(&Window<F>) -> Result<R>) -> Result<R> {
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
    pub fn raccumulate_owned<T: Number>(
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
    pub fn rget_accumulate_owned<T: Number>(
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

fn byte() -> Datatype {
    Datatype::predefined(Predefined::Byte)
}
