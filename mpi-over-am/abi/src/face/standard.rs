//! The standard's binary interface (MPI 5.0 chapter 20): every handle is its number.

use std::ffi::c_int;

use mpi_over_am::RequestId;

use super::Handle;
use crate::constants::MPI_REQUEST_NULL;
use crate::types::{
    MPI_Comm, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Message, MPI_Op, MPI_Request,
    MPI_Session, MPI_Win,
};

macro_rules! numbers {
    ($($name:ident)*) => { $(
        impl Handle for $name {
            type Raw = Self;

            #[inline(always)]
            unsafe fn from_raw(raw: Self) -> Self {
                raw
            }

            #[inline(always)]
            fn to_raw(self) -> Self {
                self
            }

            fn to_word(self) -> usize {
                self.0
            }

            #[inline(always)]
            fn to_integer(self) -> c_int {
                // Handles are below 2^31.
                self.0 as c_int
            }

            #[inline(always)]
            fn from_integer(number: c_int) -> Self {
                Self(number as u32 as usize)
            }
        }
    )* };
}

numbers! {
    MPI_Comm MPI_Datatype MPI_Errhandler MPI_File MPI_Group MPI_Info MPI_Message MPI_Op MPI_Request MPI_Session MPI_Win
}

impl MPI_Request {
    /// `MPI_REQUEST_NULL`.
    #[inline(always)]
    pub(crate) fn null() -> Self {
        MPI_REQUEST_NULL
    }

    #[inline(always)]
    pub(crate) fn of(id: RequestId) -> Self {
        Self(id.handle())
    }

    #[inline(always)]
    pub(crate) fn id(self) -> RequestId {
        RequestId::from_handle(self.0)
    }
}

/// Words behind the library's own name in `MPI_Get_library_version`, by which programs know an interface.
pub(crate) const LIKE: &str = "";

/// What this interface is.
pub(crate) const NAME: &str = "the standard's binary interface";

/// `MPI_Status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MPI_Status {
    /// The sender's rank.
    pub(crate) source: c_int,
    /// The message's tag.
    pub(crate) tag: c_int,
    /// An error code, set only by calls that return several statuses, and in empty statuses.
    pub(crate) error: c_int,
    /// Number of bytes received, in two halves; whether the operation was cancelled; two unused numbers.
    internal: [c_int; 5],
}

/// Index of the flag for cancelled operations in [`MPI_Status::internal`].
const CANCELLED: usize = 2;

impl MPI_Status {
    pub(crate) const EMPTY: Self = Self { source: 0, tag: 0, error: 0, internal: [0; 5] };

    /// Stores the number of bytes of an operation that was not cancelled.
    #[inline(always)]
    pub(crate) fn end_with(&mut self, len: u64) {
        self.set_len(len);
        self.set_cancelled(false);
    }

    #[inline(always)]
    pub(crate) fn set_len(&mut self, len: u64) {
        self.internal[0] = len as c_int;
        self.internal[1] = (len >> 32) as c_int;
    }

    pub(crate) fn len(&self) -> u64 {
        u64::from(self.internal[0] as u32) | u64::from(self.internal[1] as u32) << 32
    }

    #[inline(always)]
    pub(crate) fn set_cancelled(&mut self, is_cancelled: bool) {
        self.internal[CANCELLED] = c_int::from(is_cancelled);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.internal[CANCELLED] != 0
    }
}

/// The integer in Fortran of a handle that was passed as a word ([`Handle::to_word`]).
pub(crate) fn integer_of_word(word: usize) -> c_int {
    word as c_int
}
