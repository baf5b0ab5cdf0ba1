//! Communicators (MPI 5.0 chapter 7).
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::ffi::c_int;

use crate::errors::on_communicator;
use crate::types::MPI_Comm;

pub(crate) unsafe fn mpi_comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    on_communicator("MPI_Comm_rank", comm, |_, object| {
        unsafe { *rank = object.communicator.rank() as c_int };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    on_communicator("MPI_Comm_size", comm, |_, object| {
        unsafe { *size = object.communicator.size() as c_int };
        Ok(())
    })
}
