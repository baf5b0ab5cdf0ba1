//! Partitioned sends and receives (MPI 5.0 chapter 4).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results at the program's pointers"
)]

use std::ffi::{c_int, c_void};

use crate::data::{count_of, dest_of, to_receive, to_send};
use crate::errors::on_communicator;
use crate::point_to_point::give_kept;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Info, MPI_Request};

pub(crate) unsafe fn mpi_psend_init_c(
    buf: *const c_void,
    partitions: c_int,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    on_communicator("MPI_Psend_init", comm, |mpi, object| {
        let parts = (count_of(partitions.into())?, count_of(count)?);
        let elements = count.saturating_mul(partitions.into());
        let data = unsafe { to_send(mpi, (buf, elements, datatype)) }?;
        let id = object.communicator.psend_init_data(&data, parts, dest_of(dest)?, tag)?;
        unsafe { give_kept(object, id, request) }
    })
}

pub(crate) unsafe fn mpi_precv_init_c(
    buf: *mut c_void,
    partitions: c_int,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    on_communicator("MPI_Precv_init", comm, |mpi, object| {
        let parts = (count_of(partitions.into())?, count_of(count)?);
        let elements = count.saturating_mul(partitions.into());
        let data = unsafe { to_receive(mpi, (buf, elements, datatype)) }?;
        let id = object.communicator.precv_init_data(&data, parts, dest_of(source)?, tag)?;
        unsafe { give_kept(object, id, request) }
    })
}
