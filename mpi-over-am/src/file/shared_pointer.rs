//! The shared pointer (MPI 5.0 section 14.4.4): a word in the memory of rank 0, which all tasks change by atomic operations.

use am_core::fabric::Fabric;

use super::{File, Whence};
use crate::communicator::Communicator;
use crate::communicator::info::Info;
use crate::data::op::PredefinedOp;
use crate::error::Result;
use crate::policy::LockPolicy;
use crate::window::{Assertion, Window};

/// The pointer, in elementary types.
#[derive(Debug)]
pub(super) struct SharedPointer<F: Fabric, L: LockPolicy>(Window<F, L>);

impl<F: Fabric, L: LockPolicy> SharedPointer<F, L> {
    /// A pointer at 0. Collective.
    pub(super) fn new(communicator: &Communicator<F, L>) -> Result<Self> {
        const WORD: usize = size_of::<u64>();
        let bytes = if communicator.rank() == 0 { WORD } else { 0 };
        let window = communicator.allocate_window(bytes, 1, &Info::new())?;
        // No task locks the window alone.
        window.lock_all(Assertion::NO_CHECK)?;
        Ok(Self(window))
    }

    pub(super) fn get(&self) -> Result<u64> {
        self.0.fetch_and_op(0_u64, 0, 0, PredefinedOp::NoOp)
    }

    /// Moves the pointer on; returns where it was.
    pub(super) fn advance(&self, by: u64) -> Result<u64> {
        self.0.fetch_and_op(by, 0, 0, PredefinedOp::Sum)
    }

    pub(super) fn set(&self, position: u64) -> Result<()> {
        self.0.fetch_and_op(position, 0, 0, PredefinedOp::Replace).map(drop)
    }

    /// Collective: waits for all tasks.
    pub(super) fn free(self) -> Result<()> {
        self.0.unlock_all()?;
        self.0.free().map(drop)
    }
}

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Sets the shared pointer when all tasks have come here, before any of them goes on.
    pub(super) fn set_shared_pointer(&self, position: u64) -> Result<()> {
        self.communicator.barrier()?;
        if self.rank() == 0 {
            self.shared_pointer.set(position)?;
        }
        self.communicator.barrier()
    }

    /// Sets the shared pointer (`MPI_File_seek_shared`), in elementary types. Collective: all tasks must give the same position.
    ///
    /// # Errors
    /// A position before the start of the view; different positions.
    pub fn seek_shared(&self, offset: i64, whence: Whence) -> Result<()> {
        let position = self.position_from(offset, whence, || self.shared_pointer.get());
        // Also if the position is wrong here: the other tasks wait.
        let told = *position.as_ref().unwrap_or(&u64::MAX);
        let agreed = self.agree(told, "positions of the shared pointer");
        // The fault of this task comes first: that the tasks disagree follows from it.
        let position = position?;
        agreed?;
        self.set_shared_pointer(position)
    }

    /// The shared pointer (`MPI_File_get_position_shared`), in elementary types.
    ///
    /// # Errors
    /// The death of the task that has the pointer.
    pub fn shared_position(&self) -> Result<u64> {
        self.shared_pointer.get()
    }
}
