//! Datatypes (MPI 5.0 chapter 5): making, asking and freeing them.
//!
//! SAFETY: every function here is called by C, under the contract that the standard gives it: pointers are good for what the
//! standard says they are for, buffers are left alone until their operation has ended, and one thread at a time is inside
//! (`state`).

use std::ffi::c_int;

use mpi_over_am::ErrorClass;
use mpi_over_am::datatype::Datatype;

use crate::data::{any_datatype_of, count_of};
use crate::errors::{Failure, Outcome, on_process};
use crate::state::Mpi;
use crate::types::MPI_Datatype;

fn give(function: &str, at: *mut MPI_Datatype, make: impl FnOnce(&Mpi) -> Outcome<Datatype>) -> c_int {
    on_process(function, |mpi| {
        let what = || Failure::new(ErrorClass::NoMemory, "a million datatypes exist");
        let handle = mpi.datatypes.insert(make(mpi)?).ok_or_else(what)?;
        unsafe { *at = MPI_Datatype(handle) };
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_contiguous_c(count: i64, old: MPI_Datatype, new: *mut MPI_Datatype) -> c_int {
    give("MPI_Type_contiguous", new, |mpi| {
        Ok(Datatype::contiguous(count_of(count)?, &any_datatype_of(mpi, old)?)?)
    })
}

pub(crate) unsafe fn mpi_type_vector_c(
    count: i64,
    block_len: i64,
    stride: i64,
    old: MPI_Datatype,
    new: *mut MPI_Datatype,
) -> c_int {
    give("MPI_Type_vector", new, |mpi| {
        let old = any_datatype_of(mpi, old)?;
        Ok(Datatype::vector(count_of(count)?, count_of(block_len)?, stride, &old)?)
    })
}

pub(crate) unsafe fn mpi_type_create_hvector_c(
    count: i64,
    block_len: i64,
    stride: i64,
    old: MPI_Datatype,
    new: *mut MPI_Datatype,
) -> c_int {
    give("MPI_Type_create_hvector", new, |mpi| {
        let old = any_datatype_of(mpi, old)?;
        Ok(Datatype::hvector(count_of(count)?, count_of(block_len)?, stride, &old)?)
    })
}

pub(crate) unsafe fn mpi_type_create_resized_c(
    old: MPI_Datatype,
    lower_bound: i64,
    extent: i64,
    new: *mut MPI_Datatype,
) -> c_int {
    give("MPI_Type_create_resized", new, |mpi| {
        Ok(Datatype::resized(&any_datatype_of(mpi, old)?, lower_bound, extent)?)
    })
}

pub(crate) unsafe fn mpi_type_commit(datatype: *mut MPI_Datatype) -> c_int {
    on_process("MPI_Type_commit", |mpi| {
        any_datatype_of(mpi, unsafe { *datatype })?.commit();
        Ok(())
    })
}

pub(crate) unsafe fn mpi_type_free(datatype: *mut MPI_Datatype) -> c_int {
    on_process("MPI_Type_free", |mpi| {
        let handle = unsafe { *datatype };
        any_datatype_of(mpi, handle)?;
        if mpi.datatypes.remove(handle.0).is_none() {
            let what = format!("datatype 0x{:x} is predefined and cannot be freed", handle.0);
            return Err(Failure::new(ErrorClass::Type, what));
        }
        unsafe { *datatype = MPI_Datatype(0x200) };
        Ok(())
    })
}
