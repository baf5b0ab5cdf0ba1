//! The Fortran interface: `mpi_x_` and `pmpi_x_` for the routines of `mpif.h` and of the module `mpi` (MPI 5.0 chapter 19).
//!
//! The build script generates the routines, `mpif.h` and the module's source from the prototypes in `include/mpi.h`. This module has what
//! the routines call: conversions of handles (the same numbers in both languages, integers in Fortran), arrays, strings and special
//! addresses, and the callbacks. Routines that only programs for MPI-1 call are in [`old_names`].

pub(crate) mod callbacks;
pub(crate) mod convert;
mod old_names;
#[cfg(face = "standard")]
mod sections;
pub(crate) mod sentinels;
pub(crate) mod text;

pub(crate) use callbacks::OwnedState;
