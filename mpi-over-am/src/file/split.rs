//! Collective accesses that are begun by one call and ended by another (MPI 5.0 section 14.4.5). Data that aggregators move are
//! moved when the access is begun; otherwise the helper thread moves the data of its task.

use std::fmt;

use am_core::fabric::Fabric;

use super::collective::Met;
use super::{File, Place};
use crate::data::buffer::{RecvData, SendData};
use crate::error::{Error, ErrorClass, Result};
use crate::message::request_id::RequestId;
use crate::message::status::Status;
use crate::policy::{Field, LockPolicy};

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

impl SplitCall {
    /// Where the access begins; `at` counts only for calls with an offset.
    fn place(self, at: Place) -> Place {
        match self {
            Self::ReadAt | Self::WriteAt => at,
            Self::Read | Self::Write => Place::Pointer,
            Self::ReadOrdered | Self::WriteOrdered => Place::Shared,
        }
    }
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

/// An access that was begun: the call, and what it has come to.
#[derive(Debug)]
pub(super) struct Begun {
    call: SplitCall,
    access: Result<Access>,
}

#[derive(Debug)]
enum Access {
    Over(Status),
    /// The helper thread carries it out.
    Started(RequestId),
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
        self.begin(call, || {
            let met = match call {
                SplitCall::WriteAt | SplitCall::Write => self.meet_to_write(call.place(place), data)?,
                SplitCall::WriteOrdered => self.meet_to_write_ordered(data)?,
                SplitCall::ReadAt | SplitCall::Read | SplitCall::ReadOrdered => {
                    return Err(self.no_such_call(call));
                }
            };
            match met {
                Met::Over(status) => Ok(Access::Over(status)),
                Met::Own(source, span) => {
                    self.start_write(call.place(place), source, span).map(Access::Started)
                }
            }
        })
    }

    /// Begins a collective read; `place` counts only for [`SplitCall::ReadAt`].
    ///
    /// # Errors
    /// Another access was begun. All other errors are returned by the [end](Self::end).
    pub fn begin_read(&self, call: SplitCall, place: Place, data: &RecvData) -> Result<()> {
        self.begin(call, || {
            let met = match call {
                SplitCall::ReadAt | SplitCall::Read => self.meet_to_read(call.place(place), data)?,
                SplitCall::ReadOrdered => self.meet_to_read_ordered(data)?,
                SplitCall::WriteAt | SplitCall::Write | SplitCall::WriteOrdered => {
                    return Err(self.no_such_call(call));
                }
            };
            match met {
                Met::Over(status) => Ok(Access::Over(status)),
                Met::Own(target, span) => {
                    self.start_read(call.place(place), target, span).map(Access::Started)
                }
            }
        })
    }

    fn no_such_call(&self, call: SplitCall) -> Error {
        self.opened.refused(ErrorClass::Argument, format!("{call} moves data in the other direction"))
    }

    fn begin(&self, call: SplitCall, access: impl FnOnce() -> Result<Access>) -> Result<()> {
        if let Some(other) = self.split.with(|begun| begun.as_ref().map(Begun::call)) {
            let what = format!("{other} was not ended: a file has one such access at a time");
            return Err(self.opened.refused(ErrorClass::Other, what));
        }
        let access = access();
        self.split.set(Some(Begun { call, access }));
        Ok(())
    }

    /// Ends an access that was begun (`MPI_File_write_all_end` and the like); returns its status.
    ///
    /// # Errors
    /// No such access was begun; the error of the access.
    pub fn end(&self, call: SplitCall) -> Result<Status> {
        match self.split.with(|begun| begun.take_if(|begun| begun.call == call)) {
            Some(Begun { access: Ok(Access::Started(request)), .. }) => self.communicator.wait(request),
            Some(Begun { access: Ok(Access::Over(status)), .. }) => Ok(status),
            Some(Begun { access: Err(error), .. }) => Err(error),
            None => {
                Err(self.opened.refused(ErrorClass::Other, format!("{call} was not called before its end")))
            }
        }
    }
}
