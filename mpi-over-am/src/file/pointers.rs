//! The individual pointer, and positions given by a program (MPI 5.0 sections 14.4.3 and 14.4.4).

use am_core::fabric::Fabric;
use mpi_io::AccessMode;

use super::File;
use crate::error::{ErrorClass, Result};
use crate::policy::{Field, LockPolicy};

/// The position that a seek counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start of the view (`MPI_SEEK_SET`).
    Start,
    /// The pointer's position (`MPI_SEEK_CUR`).
    Current,
    /// The first position behind the end of the file (`MPI_SEEK_END`).
    End,
}

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Sets the individual pointer (`MPI_File_seek`), in elementary types.
    ///
    /// # Errors
    /// A position before the start of the view; the file is only accessed by its shared pointer.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.check_individual()?;
        let position = self.position_from(offset, whence, || Ok(self.pointer.get()))?;
        self.pointer.set(position);
        Ok(())
    }

    /// The individual pointer (`MPI_File_get_position`), in elementary types.
    ///
    /// # Errors
    /// The file is only accessed by its shared pointer.
    pub fn position(&self) -> Result<u64> {
        self.check_individual()?;
        Ok(self.pointer.get())
    }

    /// The position that a seek leads to.
    pub(super) fn position_from(
        &self,
        offset: i64,
        whence: Whence,
        current: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let from = match whence {
            Whence::Start => 0,
            Whence::Current => current()?,
            Whence::End => self.end_of_file()?,
        };
        from.checked_add_signed(offset).ok_or_else(|| {
            let what = format!("a seek by {offset} from position {from} leads before the start of the view");
            self.opened.refused(ErrorClass::Argument, what)
        })
    }

    /// The first position behind the end of the file, in elementary types of the view.
    fn end_of_file(&self) -> Result<u64> {
        let view = self.view.get();
        Ok(view.bytes_before(self.len()?).div_ceil(view.etype_bytes()))
    }

    /// Rejects access by anything else than the shared pointer if the file was opened so.
    pub(super) fn check_individual(&self) -> Result<()> {
        if self.mode.has(AccessMode::SEQUENTIAL) {
            let what =
                "it was opened with MPI_MODE_SEQUENTIAL, so only calls with the shared pointer can access it";
            return Err(self.opened.refused(ErrorClass::UnsupportedOperation, what));
        }
        Ok(())
    }

    pub(super) fn check_written(&self) -> Result<()> {
        if self.mode.writes() {
            Ok(())
        } else {
            Err(self.opened.refused(ErrorClass::ReadOnly, "it was opened for reading only"))
        }
    }

    pub(super) fn check_read(&self) -> Result<()> {
        if self.mode.reads() {
            Ok(())
        } else {
            Err(self.opened.refused(ErrorClass::Access, "it was opened for writing only"))
        }
    }
}
