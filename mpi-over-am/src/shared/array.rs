//! Shared windows (`MPI_Win_allocate_shared`) of several threads, as arrays of elements.

use std::marker::PhantomData;

use am_core::fabric::Fabric;

use super::{SharedCommunicator, ThreadedWindow};
use crate::buffer::Datum;
use crate::environment::JobFabric;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::op::PredefinedOp;
use crate::window::{Assertion, Flavor, Number};

/// Elements of each task of a communicator that all threads of all of them load and store: as
/// [`SharedWindow`](crate::window::SharedWindow). Clones are handles on the same ones.
#[derive(Debug)]
pub struct ThreadedArray<T, F: Fabric = JobFabric> {
    window: ThreadedWindow<F>,
    rank: u32,
    _elements: PhantomData<fn() -> T>,
}

impl<T, F: Fabric> Clone for ThreadedArray<T, F> {
    fn clone(&self) -> Self {
        Self { window: self.window.clone(), ..*self }
    }
}

impl<F: Fabric> SharedCommunicator<F> {
    /// As [`Communicator::allocate_shared_window`](crate::Communicator::allocate_shared_window).
    ///
    /// # Errors
    /// As there.
    pub fn allocate_shared_window<T: Datum>(&self, count: usize, info: &Info) -> Result<ThreadedArray<T, F>> {
        let too_large = || Error::TooLarge { call: "allocate_shared_window" };
        let bytes = count.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        let unit = u32::try_from(size_of::<T>()).map_err(|_| too_large())?;
        let memory = |own: &Self| own.share_part(bytes, info).map(Some);
        let window = self.new_window(Flavor::Shared, memory, unit, info)?;
        window.with(crate::window::Window::check_units)?;
        window.lock_all(Assertion::NO_CHECK)?;
        Ok(ThreadedArray { rank: window.rank()?, window, _elements: PhantomData })
    }
}

impl<T: Datum, F: Fabric> ThreadedArray<T, F> {
    /// Elements of a rank (`MPI_Win_shared_query`).
    ///
    /// # Errors
    /// An unknown rank.
    pub fn count(&self, rank: u32) -> Result<u64> {
        self.window.with(|window| window.units(rank))
    }

    /// The window, for its group, name, attributes and the calls of untyped windows: it is locked for all (`MPI_Win_lock_all`).
    #[must_use]
    pub fn window(&self) -> &ThreadedWindow<F> {
        &self.window
    }

    /// Copies `to.len()` elements of a rank, from `index` on.
    ///
    /// # Errors
    /// An unknown rank, elements that it does not have, the death of a task.
    pub fn read(&self, rank: u32, index: u64, to: &mut [T]) -> Result<()> {
        if rank == self.rank {
            return self.window.read(offset::<T>(index)?, to);
        }
        self.window.get(to, rank, displacement(index)?)
    }

    /// Copies elements to a rank's, from `index` on. They are in place after a [`sync`](Self::sync).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&self, rank: u32, index: u64, from: &[T]) -> Result<()> {
        if rank == self.rank {
            return self.window.write(offset::<T>(index)?, from);
        }
        self.window.put(from, rank, displacement(index)?)
    }

    /// One element of a rank.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn load(&self, rank: u32, index: u64) -> Result<T> {
        let mut element = [T::zeroed()];
        self.read(rank, index, &mut element)?;
        Ok(element[0])
    }

    /// Stores one element of a rank.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn store(&self, rank: u32, index: u64, element: T) -> Result<()> {
        self.write(rank, index, &[element])
    }

    /// What this task has stored is in place, and what it loads from now on is new (`MPI_Win_sync`).
    ///
    /// # Errors
    /// The death of a task.
    pub fn sync(&self) -> Result<()> {
        self.window.flush_all()?;
        self.window.sync()
    }

    /// Waits until one thread of each task has come here; each task then sees what the others had stored.
    ///
    /// # Errors
    /// The death of a task.
    pub fn barrier(&self) -> Result<()> {
        self.sync()?;
        self.window.meet()?;
        self.window.sync()
    }

    /// Ends the window (`MPI_Win_free`): one thread of each task calls it. Other handles refuse every call from then on.
    ///
    /// # Errors
    /// The death of a task; a callback's own.
    pub fn free(&self) -> Result<()> {
        self.window.unlock_all()?;
        self.window.free().map(|_| ())
    }
}

impl<T: Number, F: Fabric> ThreadedArray<T, F> {
    /// Makes an element what it and `operand` come to, and returns what it was (`MPI_Fetch_and_op`). No other update comes between.
    ///
    /// # Errors
    /// An operation that is not defined for the type; as for [`read`](Self::read).
    pub fn update(&self, rank: u32, index: u64, operand: T, op: PredefinedOp) -> Result<T> {
        self.window.fetch_and_op(operand, rank, displacement(index)?, op)
    }
}

fn displacement(index: u64) -> Result<i64> {
    i64::try_from(index).map_err(|_| Error::TooLarge { call: "a shared window" })
}

fn offset<T>(index: u64) -> Result<u64> {
    index.checked_mul(size_of::<T>() as u64).ok_or(Error::TooLarge { call: "a shared window" })
}
