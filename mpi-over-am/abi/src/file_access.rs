//! Reading and writing files (MPI 5.0 section 14.4).
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results at the program's pointers"
)]

use std::ffi::{c_int, c_void};

use mpi_over_am::file::{Place, SplitCall};

use crate::data::{to_receive, to_send};
use crate::failure::{Outcome, not_null};
use crate::files::{offset_of, on_file};
use crate::requests::handle_of;
use crate::statuses::store_result;
use crate::types::{MPI_File, MPI_Request, MPI_Status, RecvElements, SendElements};

/// The place at an offset that the program gives.
///
/// # Errors
/// The offset is negative.
fn at(offset: i64) -> Outcome<Place> {
    offset_of(offset).map(Place::At)
}

/// Accesses that are over when the call returns, at an offset of the program or at one of the pointers.
macro_rules! accesses {
    ($($function:ident $name:literal $elements:ident $data:ident $access:ident ($($offset:ident)?) ($($place:expr)?))*) => { $(
        pub(crate) unsafe fn $function(
            fh: MPI_File,
            $($offset: i64,)?
            elements: $elements,
            status: *mut MPI_Status,
        ) -> c_int {
            on_file(concat!("MPI_File_", $name), fh, |mpi, object| {
                let data = unsafe { $data(mpi, elements) }?;
                unsafe { store_result(status, object.file.$access($($place,)? &data)) }
            })
        }
    )* };
}

accesses! {
    mpi_file_read_at_c "read_at" RecvElements to_receive read_data (offset) (at(offset)?)
    mpi_file_read_at_all_c "read_at_all" RecvElements to_receive read_data_all (offset) (at(offset)?)
    mpi_file_read_c "read" RecvElements to_receive read_data () (Place::Pointer)
    mpi_file_read_all_c "read_all" RecvElements to_receive read_data_all () (Place::Pointer)
    mpi_file_read_shared_c "read_shared" RecvElements to_receive read_data () (Place::Shared)
    mpi_file_read_ordered_c "read_ordered" RecvElements to_receive read_data_ordered () ()
    mpi_file_write_at_c "write_at" SendElements to_send write_data (offset) (at(offset)?)
    mpi_file_write_at_all_c "write_at_all" SendElements to_send write_data_all (offset) (at(offset)?)
    mpi_file_write_c "write" SendElements to_send write_data () (Place::Pointer)
    mpi_file_write_all_c "write_all" SendElements to_send write_data_all () (Place::Pointer)
    mpi_file_write_shared_c "write_shared" SendElements to_send write_data () (Place::Shared)
    mpi_file_write_ordered_c "write_ordered" SendElements to_send write_data_ordered () ()
}

/// Non-blocking accesses. A collective one needs no other task.
macro_rules! started {
    ($($function:ident $name:literal $elements:ident $data:ident $access:ident ($($offset:ident)?) ($($place:expr)?))*) => { $(
        pub(crate) unsafe fn $function(
            fh: MPI_File,
            $($offset: i64,)?
            elements: $elements,
            request: *mut MPI_Request,
        ) -> c_int {
            on_file(concat!("MPI_File_", $name), fh, |mpi, object| {
                let data = unsafe { $data(mpi, elements) }?;
                let at_request = not_null(request)?;
                unsafe { *at_request = handle_of(object.file.$access($($place,)? &data)?) };
                Ok(())
            })
        }
    )* };
}

started! {
    mpi_file_iread_at_c "iread_at" RecvElements to_receive start_read_data (offset) (at(offset)?)
    mpi_file_iread_at_all_c "iread_at_all" RecvElements to_receive start_read_data (offset) (at(offset)?)
    mpi_file_iread_c "iread" RecvElements to_receive start_read_data () (Place::Pointer)
    mpi_file_iread_all_c "iread_all" RecvElements to_receive start_read_data () (Place::Pointer)
    mpi_file_iread_shared_c "iread_shared" RecvElements to_receive start_read_data () (Place::Shared)
    mpi_file_iwrite_at_c "iwrite_at" SendElements to_send start_write_data (offset) (at(offset)?)
    mpi_file_iwrite_at_all_c "iwrite_at_all" SendElements to_send start_write_data (offset) (at(offset)?)
    mpi_file_iwrite_c "iwrite" SendElements to_send start_write_data () (Place::Pointer)
    mpi_file_iwrite_all_c "iwrite_all" SendElements to_send start_write_data () (Place::Pointer)
    mpi_file_iwrite_shared_c "iwrite_shared" SendElements to_send start_write_data () (Place::Shared)
}

/// Collective accesses that begin in one call and end in another. The shared pointer needs no place.
macro_rules! split {
    ($($begin:ident $end:ident $name:literal $elements:ident $data:ident $access:ident $call:ident $buffer:ty,
        ($($offset:ident)?) ($place:expr))*) => { $(
        pub(crate) unsafe fn $begin(fh: MPI_File, $($offset: i64,)? elements: $elements) -> c_int {
            on_file(concat!("MPI_File_", $name, "_begin"), fh, |mpi, object| {
                let data = unsafe { $data(mpi, elements) }?;
                Ok(object.file.$access(SplitCall::$call, $place, &data)?)
            })
        }

        pub(crate) unsafe fn $end(fh: MPI_File, _buffer: $buffer, status: *mut MPI_Status) -> c_int {
            on_file(concat!("MPI_File_", $name, "_end"), fh, |_, object| unsafe {
                store_result(status, object.file.end(SplitCall::$call))
            })
        }
    )* };
}

split! {
    mpi_file_read_all_begin_c
    mpi_file_read_all_end "read_all" RecvElements to_receive begin_read Read *mut c_void, () (Place::Pointer)
    mpi_file_read_ordered_begin_c
    mpi_file_read_ordered_end "read_ordered" RecvElements to_receive begin_read ReadOrdered *mut c_void, () (Place::Pointer)
    mpi_file_read_at_all_begin_c
    mpi_file_read_at_all_end "read_at_all" RecvElements to_receive begin_read ReadAt *mut c_void, (offset) (at(offset)?)
    mpi_file_write_all_begin_c
    mpi_file_write_all_end "write_all" SendElements to_send begin_write Write *const c_void, () (Place::Pointer)
    mpi_file_write_ordered_begin_c
    mpi_file_write_ordered_end "write_ordered" SendElements to_send begin_write WriteOrdered *const c_void, () (Place::Pointer)
    mpi_file_write_at_all_begin_c
    mpi_file_write_at_all_end "write_at_all" SendElements to_send begin_write WriteAt *const c_void, (offset) (at(offset)?)
}
