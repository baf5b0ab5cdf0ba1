//! Packing (MPI 5.0 section 5.2): elements into a buffer of bytes and back, in the machine's form or in external32.
//!
//! SAFETY: each `mpi_*` function here is called under the contract that the standard gives it: pointers are valid for the accesses that the
//! standard specifies, and buffers are not used until their operation has ended. One thread at a time uses the state of MPI (`state`).

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the functions store results and read arrays at the program's pointers; blocks that do more have a note"
)]

use std::ffi::{CStr, c_char, c_int, c_void};

use mpi_over_am::ErrorClass;

use crate::data::{count_of, datatype_of, to_receive, to_send};
use crate::errors::{on_communicator, on_process};
use crate::failure::{Failure, Outcome, not_null};
use crate::types::{MPI_Comm, MPI_Datatype, RecvElements, SendElements};

fn refused(what: impl Into<String>) -> Failure {
    Failure::new(ErrorClass::Argument, what)
}

/// The bytes of a buffer of packed data from the program's position on.
struct Rest {
    at: *mut u8,
    len: usize,
    position: *mut i64,
}

impl Rest {
    /// # Errors
    /// A negative size, a null `position`, a position outside the buffer, or a null buffer with bytes from the position on.
    fn new(buffer: *const c_void, size: i64, position: *mut i64) -> Outcome<Self> {
        let (whole, position) = (count_of(size)?, not_null(position)?);
        let before = unsafe { *position };
        let len = u64::try_from(before).ok().and_then(|before| whole.checked_sub(before));
        let what = || refused(format!("the position {before} is outside the buffer of {size} bytes"));
        let len = len.ok_or_else(what)? as usize;
        if buffer.is_null() && len > 0 {
            return Err(Failure::new(ErrorClass::Buffer, "the buffer of packed bytes is null"));
        }
        Ok(Self { at: buffer.cast_mut().cast::<u8>().wrapping_offset(before as isize), len, position })
    }

    /// The next bytes, for writing.
    ///
    /// # Errors
    /// The buffer is too short.
    unsafe fn take_mut<'a>(&self, len: u64) -> Outcome<&'a mut [u8]> {
        self.check(len)?;
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: the program lends the buffer for the duration of the call; the buffer has these bytes, as was checked.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.at, len as usize) })
    }

    /// The next bytes, for reading.
    ///
    /// # Errors
    /// The buffer is too short.
    unsafe fn take<'a>(&self, len: u64) -> Outcome<&'a [u8]> {
        self.check(len)?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the program lends the buffer for the duration of the call; the buffer has these bytes, as was checked.
        Ok(unsafe { std::slice::from_raw_parts(self.at, len as usize) })
    }

    fn check(&self, len: u64) -> Outcome<()> {
        if len <= self.len as u64 {
            return Ok(());
        }
        let what = format!("the elements have {len} bytes, and the rest of the buffer {}", self.len);
        Err(Failure::new(ErrorClass::Truncate, what))
    }

    fn advance(&self, by: u64) {
        unsafe { *self.position += by as i64 };
    }
}

pub(crate) unsafe fn mpi_pack_c(
    elements: SendElements,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
    comm: MPI_Comm,
) -> c_int {
    on_communicator("MPI_Pack", comm, |mpi, _| {
        let data = unsafe { to_send(mpi, elements) }?;
        let rest = Rest::new(outbuf, outsize, position)?;
        let bytes = unsafe { rest.take_mut(data.packed_len()) }?;
        data.pack(0, bytes);
        rest.advance(data.packed_len());
        Ok(())
    })
}

pub(crate) unsafe fn mpi_unpack_c(
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    elements: RecvElements,
    comm: MPI_Comm,
) -> c_int {
    on_communicator("MPI_Unpack", comm, |mpi, _| {
        let data = unsafe { to_receive(mpi, elements) }?;
        let rest = Rest::new(inbuf, insize, position)?;
        let bytes = unsafe { rest.take(data.packed_len()) }?;
        data.unpack(0, bytes);
        rest.advance(data.packed_len());
        Ok(())
    })
}

pub(crate) unsafe fn mpi_pack_size_c(
    incount: i64,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: *mut i64,
) -> c_int {
    on_communicator("MPI_Pack_size", comm, |mpi, _| {
        let bytes = datatype_of(mpi, datatype)?.packed_len(count_of(incount)?)?;
        unsafe { *not_null(size)? = bytes as i64 };
        Ok(())
    })
}

/// Refuses every data representation but external32, the only one that the standard defines for these calls.
unsafe fn check_representation(name: *const c_char) -> Outcome<()> {
    // SAFETY: not null, and a NUL-terminated string of the program.
    let name = unsafe { CStr::from_ptr(not_null(name.cast_mut())?) };
    if name == c"external32" {
        return Ok(());
    }
    let what = format!("unknown representation {name:?}: only \"external32\" exists");
    Err(Failure::new(ErrorClass::UnsupportedDatarep, what))
}

pub(crate) unsafe fn mpi_pack_external_c(
    datarep: *const c_char,
    elements: SendElements,
    outbuf: *mut c_void,
    outsize: i64,
    position: *mut i64,
) -> c_int {
    on_process("MPI_Pack_external", |mpi| {
        unsafe { check_representation(datarep) }?;
        let data = unsafe { to_send(mpi, elements) }?;
        let rest = Rest::new(outbuf, outsize, position)?;
        let len = data.datatype().external32_len(data.count())?;
        let bytes = unsafe { rest.take_mut(len) }?;
        bytes.copy_from_slice(&data.pack_external32()?);
        rest.advance(len);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_unpack_external_c(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: i64,
    position: *mut i64,
    elements: RecvElements,
) -> c_int {
    on_process("MPI_Unpack_external", |mpi| {
        unsafe { check_representation(datarep) }?;
        let data = unsafe { to_receive(mpi, elements) }?;
        let rest = Rest::new(inbuf, insize, position)?;
        let len = data.datatype().external32_len(data.count())?;
        data.unpack_external32(unsafe { rest.take(len) }?)?;
        rest.advance(len);
        Ok(())
    })
}

pub(crate) unsafe fn mpi_pack_external_size_c(
    datarep: *const c_char,
    incount: i64,
    datatype: MPI_Datatype,
    size: *mut i64,
) -> c_int {
    on_process("MPI_Pack_external_size", |mpi| {
        unsafe { check_representation(datarep) }?;
        let bytes = datatype_of(mpi, datatype)?.external32_len(count_of(incount)?)?;
        unsafe { *not_null(size)? = bytes as i64 };
        Ok(())
    })
}
