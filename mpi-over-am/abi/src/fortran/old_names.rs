//! Routines of MPI-1 that the standard has removed and old programs still call, and routines that only Fortran has.
//!
//! SAFETY: Fortran calls each exported function here under the contract that the standard gave it: arguments are valid for the accesses
//! that the standard specifies.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{c_int, c_void};

use super::convert::{handles, report};
use super::sentinels;
use smallvec::SmallVec;

use crate::constants::MPI_SUCCESS;
use crate::exports::{
    PMPI_Comm_create_errhandler, PMPI_Comm_get_errhandler, PMPI_Comm_set_errhandler, PMPI_Get_address,
    PMPI_Type_create_hindexed, PMPI_Type_create_hvector, PMPI_Type_create_struct, PMPI_Type_get_extent,
};
use crate::face::{Handle as _, Raw};
use crate::types::{Callback, MPI_Comm, MPI_Datatype, MPI_Errhandler};

/// Does nothing. A compiler cannot know this, so it does not move accesses to the buffer across the call (MPI 5.0 section 19.1.8).
#[unsafe(no_mangle)]
extern "C" fn mpi_f_sync_reg_(_buffer: *mut c_void) {}

/// Like [`mpi_f_sync_reg_`].
#[unsafe(no_mangle)]
extern "C" fn pmpi_f_sync_reg_(_buffer: *mut c_void) {}

/// The first members of a Fortran compiler's descriptor of an argument of any type and rank (Fortran 2018 section 18.5.3).
#[repr(C)]
struct Descriptor {
    base: *const c_void,
    element_len: usize,
}

/// MPI_SIZEOF of the module `mpi`: the size of an element in bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_sizeof_of_descriptor(x: *const Descriptor, size: *mut c_int, ierror: *mut c_int) {
    unsafe {
        *size = (*x).element_len as c_int;
        report(ierror, MPI_SUCCESS);
    }
}

/// Exports a routine under its two names.
macro_rules! routines {
    ($($(#[$doc:meta])* $name:ident $profiled:ident ($($argument:ident: $kind:ty),*) $body:block)*) => { $(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $kind),*) {
            unsafe { $body }
        }

        $(#[$doc])*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $profiled($($argument: $kind),*) {
            unsafe { $name($($argument),*) }
        }
    )* };
}

unsafe fn datatype(number: *const c_int) -> Raw<MPI_Datatype> {
    MPI_Datatype::from_integer(unsafe { *number }).to_raw()
}

/// Widens displacements that are short integers.
unsafe fn displacements(at: *const c_int, count: c_int) -> SmallVec<[i64; 16]> {
    (0..count.max(0) as usize).map(|place| i64::from(unsafe { *at.add(place) })).collect()
}

unsafe fn bounds(of: *const c_int) -> (c_int, i64, i64) {
    let (mut lower, mut extent) = (0, 0);
    let code = unsafe { PMPI_Type_get_extent(datatype(of), &raw mut lower, &raw mut extent) };
    (code, lower, extent)
}

routines! {
    /// Like MPI_GET_ADDRESS, for addresses that fit into an INTEGER. Most 64-bit addresses do not; only the differences of such addresses
    /// are usable.
    mpi_address_ pmpi_address_(location: *mut c_void, address: *mut c_int, ierror: *mut c_int) {
        let mut found = 0;
        let code = PMPI_Get_address(sentinels::buffer(location), &raw mut found);
        *address = found as c_int;
        report(ierror, code);
    }

    mpi_type_extent_ pmpi_type_extent_(of: *const c_int, extent: *mut c_int, ierror: *mut c_int) {
        let (code, _, found) = bounds(of);
        *extent = found as c_int;
        report(ierror, code);
    }

    mpi_type_lb_ pmpi_type_lb_(of: *const c_int, bound: *mut c_int, ierror: *mut c_int) {
        let (code, lower, _) = bounds(of);
        *bound = lower as c_int;
        report(ierror, code);
    }

    mpi_type_ub_ pmpi_type_ub_(of: *const c_int, bound: *mut c_int, ierror: *mut c_int) {
        let (code, lower, extent) = bounds(of);
        *bound = (lower + extent) as c_int;
        report(ierror, code);
    }

    mpi_type_hvector_ pmpi_type_hvector_(
        count: *const c_int, length: *const c_int, stride: *const c_int, old: *const c_int, new: *mut c_int, ierror: *mut c_int
    ) {
        let mut made = datatype(new);
        let code = PMPI_Type_create_hvector(*count, *length, i64::from(*stride), datatype(old), &raw mut made);
        *new = MPI_Datatype::from_raw(made).to_integer();
        report(ierror, code);
    }

    mpi_type_hindexed_ pmpi_type_hindexed_(
        count: *const c_int, lengths: *const c_int, places: *const c_int, old: *const c_int, new: *mut c_int, ierror: *mut c_int
    ) {
        let (mut made, places) = (datatype(new), displacements(places, *count));
        let code = PMPI_Type_create_hindexed(*count, lengths, places.as_ptr(), datatype(old), &raw mut made);
        *new = MPI_Datatype::from_raw(made).to_integer();
        report(ierror, code);
    }

    mpi_type_struct_ pmpi_type_struct_(
        count: *const c_int, lengths: *const c_int, places: *const c_int, old: *const c_int, new: *mut c_int, ierror: *mut c_int
    ) {
        let (mut made, places) = (datatype(new), displacements(places, *count));
        let old = handles(old, *count, |number| MPI_Datatype::from_integer(number).to_raw());
        let code = PMPI_Type_create_struct(*count, lengths, places.as_ptr(), old.as_ptr(), &raw mut made);
        *new = MPI_Datatype::from_raw(made).to_integer();
        report(ierror, code);
    }

    mpi_errhandler_create_ pmpi_errhandler_create_(function: Callback, handler: *mut c_int, ierror: *mut c_int) {
        let mut made = MPI_Errhandler::from_integer(*handler).to_raw();
        let code = PMPI_Comm_create_errhandler(function, &raw mut made);
        *handler = MPI_Errhandler::from_raw(made).to_integer();
        report(ierror, code);
    }

    mpi_errhandler_set_ pmpi_errhandler_set_(comm: *const c_int, handler: *const c_int, ierror: *mut c_int) {
        let (comm, handler) =
            (MPI_Comm::from_integer(*comm).to_raw(), MPI_Errhandler::from_integer(*handler).to_raw());
        report(ierror, PMPI_Comm_set_errhandler(comm, handler));
    }

    mpi_errhandler_get_ pmpi_errhandler_get_(comm: *const c_int, handler: *mut c_int, ierror: *mut c_int) {
        let mut found = MPI_Errhandler::from_integer(*handler).to_raw();
        let code = PMPI_Comm_get_errhandler(MPI_Comm::from_integer(*comm).to_raw(), &raw mut found);
        *handler = MPI_Errhandler::from_raw(found).to_integer();
        report(ierror, code);
    }
}
