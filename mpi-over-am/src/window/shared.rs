//! Shared windows (`MPI_Win_allocate_shared`): the parts of all tasks are in one file, which each task has mapped ([`CommonMemory`]).
//! [`SharedWindow`] offers them as arrays of elements, one per task, for loads and stores of every task.
//!
//! Other tasks may write this memory at any time, so no `&` or `&mut` ever points to it: each access is one copy by the calling task. If
//! the tasks cannot map each other's memory, the same calls use puts and gets.

use std::marker::PhantomData;

use am_core::fabric::Fabric;

use super::{Assertion, CommonMemory, Flavor, Number, Sized, Window};
use crate::communicator::Communicator;
use crate::communicator::info::Info;
use crate::data::buffer::Datum;
use crate::data::op::PredefinedOp;
use crate::error::{Error, ErrorClass, Result};
use crate::job::JobFabric;
use crate::policy::{LockPolicy, OneThread};

/// One array of elements per task of a communicator, in which all tasks load and store (`MPI_Win_allocate_shared`).
///
/// A task sees another task's stores after a [`barrier`](Self::barrier), or after any other synchronization with a [`sync`](Self::sync) on
/// both sides. If two tasks store to one element at the same time, it gets the bytes of either task, or a mixture; [updates](Self::update)
/// of an element are atomic.
#[derive(Debug)]
pub struct SharedWindow<T, F: Fabric = JobFabric, L: LockPolicy = OneThread> {
    window: Window<F, L>,
    _elements: PhantomData<fn() -> T>,
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A window with `count` new zeroed elements of this task. Tasks may have different numbers of elements. Collective.
    ///
    /// # Errors
    /// A type of size 0, or of another size than at another task; an inter-communicator; the job's memory is used up; the death of a task.
    pub fn allocate_shared_window<T: Datum>(
        &self,
        count: usize,
        info: &Info,
    ) -> Result<SharedWindow<T, F, L>> {
        let too_large = || Error::TooLarge { call: "allocate_shared_window" };
        let bytes = count.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        let unit = u32::try_from(size_of::<T>()).map_err(|_| too_large())?;
        let window = self.allocate_shared_bytes(bytes, unit, info)?;
        window.check_units()?;
        window.lock_all(Assertion::NO_CHECK)?;
        Ok(SharedWindow { window, _elements: PhantomData })
    }

    /// A window on `bytes` bytes of new, zeroed memory of each task, with displacements in units of `unit` bytes. The parts are contiguous
    /// in memory that all tasks have mapped ([`Window::mapped_part`]); with the hint `alloc_shared_noncontig`, each part has its own pages.
    /// If the tasks cannot map shared memory, each part is in its owner's own memory. Collective.
    ///
    /// # Errors
    /// Those of [`create_window`](Self::create_window); the memory cannot be made or mapped.
    pub fn allocate_shared_bytes(&self, bytes: usize, unit: u32, info: &Info) -> Result<Window<F, L>> {
        let memory = |own: &Self| {
            let gather = |words: &[u64]| own.gather_words(words);
            let agreed = CommonMemory::agree((bytes, own.rank(), info), gather, |step| step.carry_out(own))?;
            agreed.map_or_else(|| Sized::alloc(own, bytes), |common| Ok(Sized::Common(common))).map(Some)
        };
        Window::new(self, Flavor::Shared, memory, unit, info)
    }
}

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Rejects elements of different sizes.
    pub(crate) fn check_units(&self) -> Result<()> {
        let unit = self.unit();
        let Some(other) = self.peers.iter().position(|peer| peer.unit != unit) else { return Ok(()) };
        let what = "the tasks have elements of different sizes; the value is a rank that differs";
        let rank = i64::try_from(other).unwrap_or(i64::MAX);
        Err(Error::refused(ErrorClass::Displacement, "allocate_shared_window", what, rank))
    }

    /// The length of a rank's part in units.
    ///
    /// # Errors
    /// An unknown rank.
    pub(crate) fn units(&self, rank: u32) -> Result<u64> {
        self.check_rank(rank)?;
        let peer = self.peers[rank as usize];
        Ok(peer.size / peer.unit)
    }
}

impl<T: Datum, F: Fabric, L: LockPolicy> SharedWindow<T, F, L> {
    /// The number of elements of a rank (`MPI_Win_shared_query`).
    ///
    /// # Errors
    /// An unknown rank.
    pub fn count(&self, rank: u32) -> Result<u64> {
        self.window.units(rank)
    }

    /// The underlying window, for its group, name, attributes and untyped calls. All its ranks are locked ([`Window::lock_all`]).
    #[must_use]
    pub fn window(&self) -> &Window<F, L> {
        &self.window
    }

    /// Copies `to.len()` elements of a rank, starting at `index`.
    ///
    /// # Errors
    /// An unknown rank, an index out of range, the death of a task.
    pub fn read(&self, rank: u32, index: u64, to: &mut [T]) -> Result<()> {
        if rank == self.window.rank() {
            return self.window.read(self.offset(index)?, to);
        }
        self.window.get(to, rank, self.displacement(index)?)
    }

    /// Copies `from` to elements of a rank, starting at `index`. The copies are certain to be stored after a [`sync`](Self::sync).
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn write(&self, rank: u32, index: u64, from: &[T]) -> Result<()> {
        if rank == self.window.rank() {
            return self.window.write(self.offset(index)?, from);
        }
        self.window.put(from, rank, self.displacement(index)?)
    }

    /// Loads one element of a rank.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn load(&self, rank: u32, index: u64) -> Result<T> {
        let mut element = [T::zeroed()];
        self.read(rank, index, &mut element)?;
        Ok(element[0])
    }

    /// Stores one element of a rank.
    ///
    /// # Errors
    /// Those of [`write`](Self::write).
    pub fn store(&self, rank: u32, index: u64, element: T) -> Result<()> {
        self.write(rank, index, &[element])
    }

    /// Completes this task's stores, and lets later loads see stores of other tasks (`MPI_Win_sync`).
    ///
    /// # Errors
    /// The death of a task.
    pub fn sync(&self) -> Result<()> {
        self.window.flush_all()?;
        self.window.sync()
    }

    /// Waits until all tasks have called `barrier`; each task then sees the earlier stores of the others.
    ///
    /// # Errors
    /// The death of a task.
    pub fn barrier(&self) -> Result<()> {
        self.sync()?;
        self.window.communicator.barrier()?;
        self.window.sync()
    }

    /// Frees the window (`MPI_Win_free`). Collective.
    ///
    /// # Errors
    /// The death of a task; the error of a callback.
    pub fn free(self) -> Result<()> {
        self.window.unlock_all()?;
        self.window.free().map(|_| ())
    }

    fn displacement(&self, index: u64) -> Result<i64> {
        i64::try_from(index).map_err(|_| Error::TooLarge { call: "a shared window" })
    }

    fn offset(&self, index: u64) -> Result<u64> {
        index.checked_mul(self.window.unit()).ok_or(Error::TooLarge { call: "a shared window" })
    }
}

impl<T: Number, F: Fabric, L: LockPolicy> SharedWindow<T, F, L> {
    /// Replaces an element with the result of `op` on it and `operand`, atomically, and returns the old value (`MPI_Fetch_and_op`).
    ///
    /// # Errors
    /// An operation that is not defined for the type; those of [`read`](Self::read).
    pub fn update(&self, rank: u32, index: u64, operand: T, op: PredefinedOp) -> Result<T> {
        self.window.fetch_and_op(operand, rank, self.displacement(index)?, op)
    }
}
