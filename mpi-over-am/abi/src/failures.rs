//! Going on after failures: the functions of `mpi-ext.h` (the extension ULFM).
//!
//! SAFETY: each `mpix_*` function here is called under the contract of the extension: pointers are valid for the accesses that it
//! specifies, and `bits` of `MPIX_Comm_iagree` is not used until the operation has ended. One thread at a time uses the state of MPI
//! (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;
use std::ptr::NonNull;

use mpi_over_am::{ErrorClass, RawBuffer, RecvData};

use crate::communicators::{make, start_pending};
use crate::errors::on_communicator;
use crate::failure::{Failure, not_null};
use crate::groups::keep_group;
use crate::requests::handle_of;
use crate::types::{MPI_Comm, MPI_Group, MPI_Request};

pub(crate) unsafe fn mpix_comm_revoke(comm: MPI_Comm) -> c_int {
    on_communicator("MPIX_Comm_revoke", comm, |_, object| Ok(object.communicator.revoke()?))
}

pub(crate) unsafe fn mpix_comm_is_revoked(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    on_communicator("MPIX_Comm_is_revoked", comm, |_, object| {
        unsafe { *not_null(flag)? = c_int::from(object.communicator.is_revoked()?) };
        Ok(())
    })
}

pub(crate) unsafe fn mpix_comm_get_failed(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    on_communicator("MPIX_Comm_get_failed", comm, |mpi, object| {
        unsafe { *not_null(group)? = keep_group(mpi, object.communicator.failed()?)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpix_comm_ack_failed(comm: MPI_Comm, count: c_int, acked: *mut c_int) -> c_int {
    on_communicator("MPIX_Comm_ack_failed", comm, |_, object| {
        let count = u32::try_from(count).map_err(|_| {
            let what = format!("the number of failures to acknowledge is {count}, below zero");
            Failure::new(ErrorClass::Argument, what)
        })?;
        let known = object.communicator.acknowledge_failures(Some(count))?;
        unsafe { *not_null(acked)? = c_int::try_from(known).unwrap_or(c_int::MAX) };
        Ok(())
    })
}

pub(crate) unsafe fn mpix_comm_failure_ack(comm: MPI_Comm) -> c_int {
    on_communicator("MPIX_Comm_failure_ack", comm, |_, object| {
        object.communicator.acknowledge_failures(None)?;
        Ok(())
    })
}

pub(crate) unsafe fn mpix_comm_failure_get_acked(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    on_communicator("MPIX_Comm_failure_get_acked", comm, |mpi, object| {
        unsafe { *not_null(group)? = keep_group(mpi, object.communicator.acknowledged_failures()?)? };
        Ok(())
    })
}

pub(crate) unsafe fn mpix_comm_agree(comm: MPI_Comm, bits: *mut c_int) -> c_int {
    on_communicator("MPIX_Comm_agree", comm, |_, object| {
        let at = not_null(bits)?;
        let agreed = object.communicator.agree(unsafe { *at }.cast_unsigned())?;
        // Also set if the call fails because of failures that were not acknowledged.
        unsafe { *at = agreed.flags.cast_signed() };
        agreed.failure.map_or(Ok(()), |failure| Err(failure.into()))
    })
}

pub(crate) unsafe fn mpix_comm_iagree(comm: MPI_Comm, bits: *mut c_int, request: *mut MPI_Request) -> c_int {
    on_communicator("MPIX_Comm_iagree", comm, |_, object| {
        let (at, request) = (NonNull::new(not_null(bits)?).ok_or_else(no_bits)?, not_null(request)?);
        // SAFETY: the extension requires that `bits` stays valid, and is not used, until the request has ended.
        let bits = RecvData::from_buffer(unsafe { RawBuffer::new(at.cast(), size_of::<c_int>()) });
        let started = object.communicator.iagree_data(&bits)?;
        unsafe { *request = handle_of(started) };
        Ok(())
    })
}

fn no_bits() -> Failure {
    Failure::new(ErrorClass::Argument, "the address of the bits is null")
}

pub(crate) unsafe fn mpix_comm_shrink(comm: MPI_Comm, new: *mut MPI_Comm) -> c_int {
    make("MPIX_Comm_shrink", comm, new, |_, communicator| Ok(Some(communicator.shrink()?)))
}

pub(crate) unsafe fn mpix_comm_ishrink(
    comm: MPI_Comm,
    new: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    start_pending("MPIX_Comm_ishrink", comm, new, request, |communicator| Ok(communicator.ishrink()?))
}
