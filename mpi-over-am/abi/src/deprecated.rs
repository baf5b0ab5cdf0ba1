//! Functions of MPI-1 that the standard keeps beside newer ones (MPI 5.0 section 16.1), and functions that it has removed and old programs
//! still call (section 17.1). Each calls its newer counterpart.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_int, c_void};

use crate::attributes::{
    mpi_comm_create_keyval, mpi_comm_delete_attr, mpi_comm_free_keyval, mpi_comm_get_attr, mpi_comm_set_attr,
};
use crate::environment::mpi_get_address;
use crate::errhandlers::{mpi_comm_create_errhandler, mpi_comm_get_errhandler, mpi_comm_set_errhandler};
use crate::exports::{
    PMPI_Type_create_hindexed, PMPI_Type_create_hvector, PMPI_Type_create_struct, PMPI_Type_get_extent,
};
use crate::types::{Callback, MPI_Comm, MPI_Datatype, MPI_Errhandler};

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

pub(crate) unsafe fn mpi_address(location: *mut c_void, address: *mut i64) -> c_int {
    unsafe { mpi_get_address(location, address) }
}

pub(crate) unsafe fn mpi_errhandler_create(function: Callback, handler: *mut MPI_Errhandler) -> c_int {
    unsafe { mpi_comm_create_errhandler(function, handler) }
}

pub(crate) unsafe fn mpi_errhandler_get(comm: MPI_Comm, handler: *mut MPI_Errhandler) -> c_int {
    unsafe { mpi_comm_get_errhandler(comm, handler) }
}

pub(crate) unsafe fn mpi_errhandler_set(comm: MPI_Comm, handler: MPI_Errhandler) -> c_int {
    unsafe { mpi_comm_set_errhandler(comm, handler) }
}

pub(crate) unsafe fn mpi_type_extent(datatype: MPI_Datatype, extent: *mut i64) -> c_int {
    let mut lower = 0;
    unsafe { PMPI_Type_get_extent(datatype, &raw mut lower, extent) }
}

pub(crate) unsafe fn mpi_type_lb(datatype: MPI_Datatype, lower: *mut i64) -> c_int {
    let mut extent = 0;
    unsafe { PMPI_Type_get_extent(datatype, lower, &raw mut extent) }
}

pub(crate) unsafe fn mpi_type_ub(datatype: MPI_Datatype, upper: *mut i64) -> c_int {
    let (mut lower, mut extent) = (0, 0);
    unsafe {
        let code = PMPI_Type_get_extent(datatype, &raw mut lower, &raw mut extent);
        *upper = lower + extent;
        code
    }
}

pub(crate) unsafe fn mpi_type_hindexed(
    count: c_int,
    lengths: *const c_int,
    displacements: *const i64,
    old: MPI_Datatype,
    new: *mut MPI_Datatype,
) -> c_int {
    unsafe { PMPI_Type_create_hindexed(count, lengths, displacements, old, new) }
}

pub(crate) unsafe fn mpi_type_hvector(
    count: c_int,
    length: c_int,
    stride: i64,
    old: MPI_Datatype,
    new: *mut MPI_Datatype,
) -> c_int {
    unsafe { PMPI_Type_create_hvector(count, length, stride, old, new) }
}

pub(crate) unsafe fn mpi_type_struct(
    count: c_int,
    lengths: *const c_int,
    displacements: *const i64,
    types: *const MPI_Datatype,
    new: *mut MPI_Datatype,
) -> c_int {
    unsafe { PMPI_Type_create_struct(count, lengths, displacements, types, new) }
}
