//! The Fortran interface: `mpi_x_` and `pmpi_x_` for the routines of `mpif.h` and of the module `mpi` (MPI 5.0 chapter 19).
//!
//! The build script makes the routines from the prototypes in `include/mpi.h`, and `mpif.h` and the module's source with them; this module
//! has the functions that they call: conversions of handles and arrays, of characters and of special addresses, and the callbacks. Handles
//! are the same numbers in both languages. Routines that only programs for MPI-1 call are in [`old_names`].

pub(crate) mod callbacks;
pub(crate) mod convert;
mod old_names;
pub(crate) mod sentinels;
pub(crate) mod text;
