//! Size, reserved space, atomicity, what is on the disk (MPI 5.0 sections 14.2.5 to 14.2.7 and 14.6).

use std::io;

use am_core::fabric::Fabric;

use super::{File, code_of, error_of};
use crate::communicator::Communicator;
use crate::error::{ErrorClass, Result};
use crate::policy::{Field, LockPolicy};

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// The size of the file in bytes (`MPI_File_get_size`).
    ///
    /// # Errors
    /// Those of the system.
    pub fn len(&self) -> Result<u64> {
        self.opened.disk.len().map_err(|error| self.opened.failed("its size is unknown", &error))
    }

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Cuts the file, or lengthens it (`MPI_File_set_size`). Collective.
    ///
    /// # Errors
    /// The tasks give different sizes; the file is only read; what the system refuses.
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        self.change("its size cannot be set", bytes, || self.opened.disk.set_len(bytes))
    }

    /// Makes sure that the first `bytes` bytes have room on the disk (`MPI_File_preallocate`). Collective. A shorter file becomes that
    /// long.
    ///
    /// # Errors
    /// Those of [`set_len`](Self::set_len); there is no room.
    pub fn preallocate(&self, bytes: u64) -> Result<()> {
        self.change("the space cannot be reserved", bytes, || self.opened.disk.allocate(bytes))
    }

    /// Lets one task change the file, when all have come here; all get its error.
    fn change(&self, doing: &str, bytes: u64, change: impl FnOnce() -> io::Result<()>) -> Result<()> {
        self.check_written()?;
        self.agree(bytes, "sizes")?;
        let mut code = [0];
        if self.rank() == 0 {
            code[0] = code_of(change().err().as_ref());
        }
        self.communicator.broadcast_words(&mut code, 0)?;
        if code[0] == 0 { Ok(()) } else { Err(self.opened.failed(doing, &error_of(code[0]))) }
    }

    /// Checks that all tasks have the same value; waits for all of them.
    pub(super) fn agree(&self, value: u64, what: &str) -> Result<()> {
        let values = self.communicator.gather_words(&[value])?;
        match values.iter().find(|other| other[0] != value) {
            None => Ok(()),
            Some(other) => {
                let text = format!("the tasks give different {what}: {value} here, {} elsewhere", other[0]);
                Err(self.opened.refused(ErrorClass::NotSame, text))
            }
        }
    }

    /// Sets whether accesses of different tasks exclude each other (`MPI_File_set_atomicity`). Collective.
    ///
    /// # Errors
    /// The tasks give different values.
    pub fn set_atomicity(&self, is_atomic: bool) -> Result<()> {
        self.agree(is_atomic.into(), "atomicities (0: not atomic)")?;
        self.is_atomic.set(is_atomic);
        Ok(())
    }

    /// Whether accesses of different tasks exclude each other (`MPI_File_get_atomicity`).
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.is_atomic.get()
    }

    /// Waits until what all tasks have written is on the disk (`MPI_File_sync`). Collective: what one task has written before the call,
    /// the others read after it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn sync(&self) -> Result<()> {
        let synced = self.opened.disk.sync();
        let communicator: &Communicator<F, L> = &self.communicator;
        let codes = communicator.gather_words(&[code_of(synced.as_ref().err())])?;
        synced.map_err(|error| self.opened.failed("it cannot be synchronised", &error))?;
        match codes.iter().position(|code| code[0] != 0) {
            None => Ok(()),
            Some(rank) => {
                let doing = format!("rank {rank} cannot synchronise it");
                Err(self.opened.failed(&doing, &error_of(codes[rank][0])))
            }
        }
    }
}
