//! Collective accesses that are begun by one call and ended by another (MPI 5.0 section 14.4.5). The data are moved when the access is
//! begun.

use std::fmt;

use am_core::fabric::Fabric;

use super::{File, Place};
use crate::buffer::{RecvData, SendData};
use crate::error::{Error, ErrorClass, Result};
use crate::policy::{Field, LockPolicy};
use crate::status::Status;

/// The kind of a collective access that can be begun and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitCall {
    /// `MPI_File_read_at_all_begin`
    ReadAt,
    /// `MPI_File_read_all_begin`
    Read,
    /// `MPI_File_read_ordered_begin`
    ReadOrdered,
    /// `MPI_File_write_at_all_begin`
    WriteAt,
    /// `MPI_File_write_all_begin`
    Write,
    /// `MPI_File_write_ordered_begin`
    WriteOrdered,
}

impl fmt::Display for SplitCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadAt => "MPI_File_read_at_all_begin",
            Self::Read => "MPI_File_read_all_begin",
            Self::ReadOrdered => "MPI_File_read_ordered_begin",
            Self::WriteAt => "MPI_File_write_at_all_begin",
            Self::Write => "MPI_File_write_all_begin",
            Self::WriteOrdered => "MPI_File_write_ordered_begin",
        })
    }
}

/// An access that was begun: the call, and the result, which the end returns.
#[derive(Debug)]
pub(super) struct Begun {
    call: SplitCall,
    result: Result<Status>,
}

impl Begun {
    pub(super) fn call(&self) -> SplitCall {
        self.call
    }
}

impl<F: Fabric, L: LockPolicy> File<F, L> {
    /// Begins a collective write; `place` counts only for [`SplitCall::WriteAt`].
    ///
    /// # Errors
    /// Another access was begun. All other errors are returned by the [end](Self::end).
    pub fn begin_write(&self, call: SplitCall, place: Place, data: &SendData) -> Result<()> {
        self.begin(call, || match call {
            SplitCall::WriteAt => self.write_data_all(place, data),
            SplitCall::Write => self.write_data_all(Place::Pointer, data),
            SplitCall::WriteOrdered => self.write_data_ordered(data),
            SplitCall::ReadAt | SplitCall::Read | SplitCall::ReadOrdered => Err(self.no_such_call(call)),
        })
    }

    /// Begins a collective read; `place` counts only for [`SplitCall::ReadAt`].
    ///
    /// # Errors
    /// Another access was begun. All other errors are returned by the [end](Self::end).
    pub fn begin_read(&self, call: SplitCall, place: Place, data: &RecvData) -> Result<()> {
        self.begin(call, || match call {
            SplitCall::ReadAt => self.read_data_all(place, data),
            SplitCall::Read => self.read_data_all(Place::Pointer, data),
            SplitCall::ReadOrdered => self.read_data_ordered(data),
            SplitCall::WriteAt | SplitCall::Write | SplitCall::WriteOrdered => Err(self.no_such_call(call)),
        })
    }

    fn no_such_call(&self, call: SplitCall) -> Error {
        self.refused(ErrorClass::Argument, format!("{call} moves data in the other direction"))
    }

    fn begin(&self, call: SplitCall, access: impl FnOnce() -> Result<Status>) -> Result<()> {
        if let Some(other) = self.split.with(|begun| begun.as_ref().map(Begun::call)) {
            let what = format!("{other} was not ended: a file has one such access at a time");
            return Err(self.refused(ErrorClass::Other, what));
        }
        let result = access();
        self.split.set(Some(Begun { call, result }));
        Ok(())
    }

    /// Ends an access that was begun (`MPI_File_write_all_end` and the like); returns its status.
    ///
    /// # Errors
    /// No such access was begun; the error of the access.
    pub fn end(&self, call: SplitCall) -> Result<Status> {
        match self.split.with(|begun| begun.take_if(|begun| begun.call == call)) {
            Some(begun) => begun.result,
            None => Err(self.refused(ErrorClass::Other, format!("{call} was not called before its end"))),
        }
    }
}
