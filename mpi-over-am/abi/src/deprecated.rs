//! Functions of MPI-1 that the standard keeps beside newer ones (MPI 5.0 section 16.1): they are those, by other names.
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for.

use std::ffi::{c_int, c_void};

use crate::attributes::{
    mpi_comm_create_keyval, mpi_comm_delete_attr, mpi_comm_free_keyval, mpi_comm_get_attr, mpi_comm_set_attr,
};
use crate::types::{Callback, MPI_Comm};

pub(crate) unsafe fn mpi_keyval_create(
    copy: Callback,
    delete: Callback,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    unsafe { mpi_comm_create_keyval(copy, delete, keyval, extra_state) }
}

pub(crate) unsafe fn mpi_keyval_free(keyval: *mut c_int) -> c_int {
    unsafe { mpi_comm_free_keyval(keyval) }
}

pub(crate) unsafe fn mpi_attr_put(comm: MPI_Comm, keyval: c_int, value: *mut c_void) -> c_int {
    unsafe { mpi_comm_set_attr(comm, keyval, value) }
}

pub(crate) unsafe fn mpi_attr_get(
    comm: MPI_Comm,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    unsafe { mpi_comm_get_attr(comm, keyval, value, flag) }
}

pub(crate) unsafe fn mpi_attr_delete(comm: MPI_Comm, keyval: c_int) -> c_int {
    unsafe { mpi_comm_delete_attr(comm, keyval) }
}
