//! Converts address, count and datatype from C, with checks, to the types of mpi-over-am.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use mpi_over_am::datatype::{Combiner, Datatype, Predefined};
use mpi_over_am::{ErrorClass, PROC_NULL, RawBuffer, RawBytes, RecvData, SendData, Source, Tag};

use crate::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_DATATYPE_NULL, MPI_PROC_NULL};
use crate::failure::{Failure, Outcome};
use crate::state::Mpi;
use crate::types::{MPI_Datatype, RecvElements, SendElements};

/// The datatype of contiguous elements that are sent as bytes.
static BYTE: Datatype = Datatype::predefined(Predefined::Byte);

/// A count from C.
///
/// # Errors
/// The count is negative.
#[inline(always)]
pub(crate) fn count_of(count: i64) -> Outcome<u64> {
    u64::try_from(count)
        .map_err(|_| Failure::new(ErrorClass::Count, format!("the count is {count}, below zero")))
}

/// The datatype of a handle. The datatype must be committed.
///
/// # Errors
/// The handle is invalid, or the datatype is not committed.
#[inline(always)]
pub(crate) fn datatype_of(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<Datatype> {
    let datatype = any_datatype_of(mpi, handle)?;
    if datatype.is_committed() {
        return Ok(datatype);
    }
    let what = format!("the datatype 0x{:x} is not committed: call MPI_Type_commit first", handle.0);
    Err(Failure::new(ErrorClass::Type, what))
}

/// The datatype of a handle.
///
/// # Errors
/// The handle is invalid.
#[inline(always)]
pub(crate) fn any_datatype_of(mpi: &Mpi, handle: MPI_Datatype) -> Outcome<Datatype> {
    mpi.datatype(handle).ok_or_else(|| no_datatype(handle))
}

#[cold]
fn no_datatype(handle: MPI_Datatype) -> Failure {
    let what = match handle {
        MPI_DATATYPE_NULL => "the datatype is MPI_DATATYPE_NULL".to_owned(),
        MPI_Datatype(other) => format!("0x{other:x} is not a datatype: it was freed, or never was one"),
    };
    Failure::new(ErrorClass::Type, what)
}

/// The datatype of `count` elements. The datatype must be committed; if `count` is 0, it may be `MPI_DATATYPE_NULL`.
///
/// # Errors
/// Those of [`datatype_of`].
#[inline(always)]
pub(crate) fn datatype_for(mpi: &Mpi, handle: MPI_Datatype, count: i64) -> Outcome<Datatype> {
    if handle == MPI_DATATYPE_NULL && count == 0 { Ok(BYTE.clone()) } else { datatype_of(mpi, handle) }
}

/// The data of a send.
///
/// # Errors
/// A negative count, an invalid or uncommitted datatype, a buffer that is null or longer than any memory.
///
/// # Safety
/// The elements must be readable, and the program must not change them until the operation has completed.
#[inline(always)]
pub(crate) unsafe fn to_send(mpi: &Mpi, (at, count, datatype): SendElements) -> Outcome<SendData> {
    let datatype = datatype_for(mpi, datatype, count)?;
    let count = count_of(count)?;
    check_buffer(at, count, &datatype)?;
    // SAFETY: the caller promises what `SendData::new` requires.
    Ok(unsafe { SendData::new(at.cast(), count, &datatype) })
}

/// The buffer of a receive.
///
/// # Errors
/// Those of [`to_send`].
///
/// # Safety
/// The elements must be writable and must not overlap, and the program must neither read nor write them until the operation has completed.
#[inline(always)]
pub(crate) unsafe fn to_receive(mpi: &Mpi, (at, count, datatype): RecvElements) -> Outcome<RecvData> {
    let datatype = datatype_for(mpi, datatype, count)?;
    let count = count_of(count)?;
    check_buffer(at, count, &datatype)?;
    // SAFETY: the caller promises what `RecvData::new` requires.
    Ok(unsafe { RecvData::new(at.cast(), count, &datatype) })
}

/// The data of a message: contiguous elements of a predefined type are passed as bytes, which is faster.
///
/// # Errors
/// Those of [`to_send`].
///
/// # Safety
/// Those of [`to_send`].
#[inline(always)]
pub(crate) unsafe fn message_to_send(mpi: &Mpi, (at, count, datatype): SendElements) -> Outcome<SendData> {
    match mpi.dense_len(datatype, count).filter(|_| !at.is_null()) {
        // SAFETY: the caller's promise covers the bytes of these elements. They are contiguous, and their address is not null.
        Some(len) => Ok(unsafe { SendData::new(at.cast(), len as u64, &BYTE) }),
        // SAFETY: the caller promises what `to_send` requires.
        None => unsafe { to_send(mpi, (at, count, datatype)) },
    }
}

/// [`message_to_send`] for a receive.
///
/// # Errors
/// Those of [`to_send`].
///
/// # Safety
/// Those of [`to_receive`].
#[inline(always)]
pub(crate) unsafe fn message_to_receive(mpi: &Mpi, (at, count, datatype): RecvElements) -> Outcome<RecvData> {
    match mpi.dense_len(datatype, count).filter(|_| !at.is_null()) {
        // SAFETY: the caller's promise covers the bytes of these elements. They are contiguous, and their address is not null.
        Some(len) => Ok(unsafe { RecvData::new(at.cast(), len as u64, &BYTE) }),
        // SAFETY: the caller promises what `to_receive` requires.
        None => unsafe { to_receive(mpi, (at, count, datatype)) },
    }
}

/// The bytes of elements to be sent; `None` in the cases of [`Mpi::dense_len`], and if the address is null.
///
/// # Safety
/// Those of [`to_send`].
#[inline(always)]
pub(crate) unsafe fn raw_to_send(mpi: &Mpi, (at, count, datatype): SendElements) -> Option<RawBytes> {
    let len = mpi.dense_len(datatype, count)?;
    // SAFETY: the caller's promise covers the bytes of these elements. They are contiguous, and their address is not null.
    NonNull::new(at.cast_mut().cast()).map(|at| unsafe { RawBytes::new(at, len) })
}

/// [`raw_to_send`] for a receive.
///
/// # Safety
/// Those of [`to_receive`].
#[inline(always)]
pub(crate) unsafe fn raw_to_receive(mpi: &Mpi, (at, count, datatype): RecvElements) -> Option<RawBuffer> {
    let len = mpi.dense_len(datatype, count)?;
    // SAFETY: the caller's promise covers the bytes of these elements. They are contiguous, and their address is not null.
    NonNull::new(at.cast()).map(|at| unsafe { RawBuffer::new(at, len) })
}

#[cold]
fn too_many(count: u64, step: u64) -> Failure {
    let what =
        format!("{count} elements of {step} bytes exceed any memory: the count or the datatype is wrong");
    Failure::new(ErrorClass::Count, what)
}

/// Checks the length and address of a buffer. No memory is longer than `isize::MAX` bytes. Null is `MPI_BOTTOM`, which is valid for
/// datatypes with absolute addresses and for empty data.
///
/// # Errors
/// More elements than any memory has; null for contiguous elements from displacement 0 on; elements that an array section does not have.
#[inline(always)]
fn check_buffer(at: *const c_void, count: u64, datatype: &Datatype) -> Outcome<()> {
    let step = datatype.extent().unsigned_abs().max(datatype.size());
    if count.checked_mul(step).is_none_or(|bytes| bytes > isize::MAX as u64) {
        return Err(too_many(count, step));
    }
    // Null, or an address of a section.
    if at.addr().cast_signed() <= 0 {
        return check_special(at, count, datatype);
    }
    Ok(())
}

#[cold]
fn check_special(at: *const c_void, count: u64, datatype: &Datatype) -> Outcome<()> {
    if at.is_null() {
        let needs_memory =
            count > 0 && datatype.is_dense() && datatype.size() > 0 && datatype.true_lower_bound() == 0;
        let what = || Failure::new(ErrorClass::Buffer, format!("the buffer for {count} elements is null"));
        return if needs_memory { Err(what()) } else { Ok(()) };
    }
    let Some((needed, there)) = datatype.lacks(at.addr() as i64, count) else { return Ok(()) };
    let what = format!("the array section has {there} bytes, and {count} elements need {needed}");
    Err(Failure::new(ErrorClass::Buffer, what))
}

/// The destination rank of a message. The call itself finds out whether the rank exists.
///
/// # Errors
/// The rank is negative, and not a special value.
#[inline(always)]
pub(crate) fn dest_of(rank: c_int) -> Outcome<u32> {
    match u32::try_from(rank) {
        Ok(rank) => Ok(rank),
        Err(_) if rank == MPI_PROC_NULL => Ok(PROC_NULL),
        Err(_) => Err(Failure::new(ErrorClass::Rank, format!("rank {rank} does not exist"))),
    }
}

/// The source rank of a receive, or any rank.
///
/// # Errors
/// The rank is negative, and not a special value.
#[inline(always)]
pub(crate) fn source_of(rank: c_int) -> Outcome<Source> {
    if rank == MPI_ANY_SOURCE { Ok(Source::Any) } else { dest_of(rank).map(Source::Rank) }
}

/// The tag of a receive, or any tag. The receive itself checks the tag's range.
#[inline(always)]
pub(crate) fn tag_of(tag: c_int) -> Tag {
    if tag == MPI_ANY_TAG { Tag::Any } else { Tag::Is(tag) }
}

/// Whether a type is predefined without a name (`MPI_Type_create_f90_real` and the like). All calls that ask for such a type get the same
/// handle.
pub(crate) fn is_unnamed(datatype: &Datatype) -> bool {
    matches!(datatype.combiner(), Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer)
}
