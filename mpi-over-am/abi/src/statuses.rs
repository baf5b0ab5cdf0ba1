//! `MPI_Status`: what an operation returns (MPI 5.0 sections 3.2.5, 3.7.3, 3.8.4 and 13.3).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::c_int;

use mpi_over_am::{ANY_SOURCE, ANY_TAG, Error, ErrorClass, PROC_NULL, Status};

use crate::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_SUCCESS, MPI_UNDEFINED};
use crate::data::any_datatype_of;
use crate::errors::on_process;
use crate::failure::{Failure, not_null};
use crate::types::{MPI_Datatype, MPI_Status};

/// A rank as C's number.
pub(crate) fn rank_in_c(rank: u32) -> c_int {
    match rank {
        ANY_SOURCE => MPI_ANY_SOURCE,
        PROC_NULL => MPI_PROC_NULL,
        rank => rank as c_int,
    }
}

/// A tag as C's number: [`ANY_TAG`] in a status without a message.
#[inline(always)]
fn tag_in_c(tag: c_int) -> c_int {
    if tag == ANY_TAG { MPI_ANY_TAG } else { tag }
}

/// Stores a status, if the program wants it. The error field is not changed: calls that return several statuses set it themselves.
///
/// # Safety
/// `at` must be null (`MPI_STATUS_IGNORE`) or a program's status.
#[inline(always)]
pub(crate) unsafe fn store(at: *mut MPI_Status, status: &Status) {
    if !at.is_null() {
        unsafe {
            (*at).source = rank_in_c(status.source());
            (*at).tag = tag_in_c(status.tag());
            (*at).end_with(status.len());
        }
    }
}

/// Stores the status of a message that was received, or of a receive that has failed.
///
/// # Errors
/// That of the receive.
///
/// # Safety
/// Those of [`store`].
pub(crate) unsafe fn store_result(
    at: *mut MPI_Status,
    result: mpi_over_am::Result<Status>,
) -> crate::failure::Outcome<()> {
    match result {
        Ok(status) => {
            unsafe { store(at, &status) };
            Ok(())
        }
        Err(error) => Err(unsafe { store_failed(at, error) }),
    }
}

/// Stores the status of a failed operation, and returns the failure: for a message that was cut, its source and tag, and the length that
/// was received.
///
/// # Safety
/// Those of [`store`].
#[cold]
pub(crate) unsafe fn store_failed(at: *mut MPI_Status, error: Error) -> Failure {
    let known = match error {
        Error::Truncated { source_rank, tag, capacity, .. } => Status::new(source_rank, tag, capacity),
        _ => Status::default(),
    };
    unsafe { store(at, &known) };
    error.into()
}

/// Stores the empty status, which a wait on an inactive request returns; its error field is set, too (MPI 5.0 section 3.7.3).
///
/// # Safety
/// Those of [`store`].
#[inline(always)]
pub(crate) unsafe fn store_empty(at: *mut MPI_Status) {
    unsafe {
        store(at, &Status::default());
        if !at.is_null() {
            (*at).error = MPI_SUCCESS;
        }
    }
}

/// [`store`] for a cancelled operation.
///
/// # Safety
/// Those of [`store`].
pub(crate) unsafe fn store_cancelled(at: *mut MPI_Status) {
    unsafe {
        store(at, &Status::default());
        if !at.is_null() {
            (*at).set_cancelled(true);
        }
    }
}

unsafe fn load(at: *const MPI_Status) -> Status {
    let status = unsafe { &*at };
    Status::new(status.source as u32, status.tag, status.len())
}

pub(crate) unsafe fn mpi_get_count_c(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut i64,
) -> c_int {
    on_process("MPI_Get_count", |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        let elements = unsafe { load(not_null(status.cast_mut())?) }.count_of(&datatype);
        unsafe { *not_null(count)? = in_c(elements) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_get_elements_c(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut i64,
) -> c_int {
    on_process("MPI_Get_elements", |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        let elements = unsafe { load(not_null(status.cast_mut())?) }.elements_of(&datatype);
        unsafe { *not_null(count)? = in_c(elements) };
        Ok(())
    })
}

fn in_c(elements: Option<u64>) -> i64 {
    elements.and_then(|elements| i64::try_from(elements).ok()).unwrap_or(i64::from(MPI_UNDEFINED))
}

pub(crate) unsafe fn mpi_status_set_elements_c(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: i64,
) -> c_int {
    on_process("MPI_Status_set_elements", |mpi| {
        let datatype = any_datatype_of(mpi, datatype)?;
        let bytes = crate::data::count_of(count).map(|count| datatype.bytes_of_elements(count))?;
        let what =
            || Failure::new(ErrorClass::Count, format!("{count} elements are more than a status can hold"));
        unsafe { (*not_null(status)?).set_len(bytes.ok_or_else(what)?) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> c_int {
    unsafe { (*status).set_cancelled(flag != 0) };
    MPI_SUCCESS
}

pub(crate) unsafe fn mpi_test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> c_int {
    unsafe { *flag = c_int::from((*status).is_cancelled()) };
    MPI_SUCCESS
}

macro_rules! fields {
    ($($get:ident $set:ident $field:ident)*) => { $(
        pub(crate) unsafe fn $get(status: *const MPI_Status, value: *mut c_int) -> c_int {
            unsafe { *value = (*status).$field };
            MPI_SUCCESS
        }

        pub(crate) unsafe fn $set(status: *mut MPI_Status, value: c_int) -> c_int {
            unsafe { (*status).$field = value };
            MPI_SUCCESS
        }
    )* };
}

fields! {
    mpi_status_get_source mpi_status_set_source source
    mpi_status_get_tag mpi_status_set_tag tag
    mpi_status_get_error mpi_status_set_error error
}
