//! The face of the library: handles, statuses and special addresses as the programs of one binary interface see them.
//!
//! Each interface is a library of its own over the same sources: the standard's (`libmpi_abi.so.1`), MPICH's and Intel MPI's
//! (`libmpi.so.12`), Open MPI's (`libmpi.so.40`). The numbers of an interface are [constants](crate::constants), made from `mpi.h` and from
//! its table in `faces`. The exported functions, which the build script makes, convert handles at the border: behind it, handles have the
//! standard's numbers in every library. Requests and statuses have the interface's own form everywhere.

use std::ffi::c_int;

#[cfg(face = "mpich")]
mod mpich;
#[cfg(face = "openmpi")]
mod openmpi;
#[cfg(face = "standard")]
mod standard;

#[cfg(face = "mpich")]
pub(crate) use mpich::*;
#[cfg(face = "openmpi")]
pub(crate) use openmpi::*;
#[cfg(face = "standard")]
pub(crate) use standard::*;

/// A handle, and its form in the programs of this interface.
pub(crate) trait Handle: Copy + PartialEq {
    /// The type of the handle in the program.
    type Raw: Copy;

    /// The program's handle. A value that the interface does not know becomes a number that is no handle.
    ///
    /// # Safety
    /// The value must be what its type promises: if it is an address, that of an object of the interface.
    unsafe fn from_raw(raw: Self::Raw) -> Self;

    /// The handle for the program.
    fn to_raw(self) -> Self::Raw;

    /// The word with which the library passes the handle to a function of the program, or whose first bytes are the handle.
    fn to_word(self) -> usize;

    /// The integer that stands for the handle in Fortran.
    fn to_integer(self) -> c_int;

    /// The handle of an integer of Fortran.
    fn from_integer(number: c_int) -> Self;
}

/// The program's form of a handle.
pub(crate) type Raw<H> = <H as Handle>::Raw;
