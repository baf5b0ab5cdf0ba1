//! Memory that a program supplies for windows and buffered sends, and access to the windows of peers.

use std::ptr::NonNull;
use std::sync::Arc;

use am_core::buffer::{BlockOwner, JobBuffer, MappedRange, RawBuffer, RawBytes, RawPieces, RemoteAddress};
use am_core::error::{Outcome, Result};
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;
use am_core::vector::Layout;
use am_core::{Context, Get, GetOptions, Put, PutOptions};
use mpi_datatype::Datatype;

use super::RecvData;

/// Memory of the program for a window (`MPI_Win_create`, `MPI_Win_attach`).
#[derive(Debug)]
pub struct WindowMemory(pub(crate) JobBuffer);

impl WindowMemory {
    /// `len` bytes at `at`. A null pointer stands for no memory.
    ///
    /// # Safety
    /// The bytes must be initialised, readable, writable and live, and the program must access them only as MPI's rules for windows allow
    /// (MPI 5.0 section 12.7), until the window is freed, or a detach has returned the memory and the returned buffer has been dropped.
    #[must_use]
    pub unsafe fn from_raw(at: *mut u8, len: usize) -> Self {
        #[derive(Debug)]
        struct TheProgram;
        impl BlockOwner for TheProgram {
            unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
        }
        match NonNull::new(at) {
            // SAFETY: the caller promises that the bytes stay initialised, accessible and live as long as the window uses them. The owner
            // never frees the memory, which belongs to the program.
            Some(at) if len > 0 => Self(unsafe { JobBuffer::new(at, len, Arc::new(TheProgram)) }),
            _ => Self(JobBuffer::zeroed(0)),
        }
    }
}

/// Memory that the program lends for buffered sends (`MPI_Buffer_attach`).
#[derive(Debug)]
pub struct LentMemory(pub(crate) RawBuffer);

impl LentMemory {
    /// `len` bytes at `at`. A null pointer stands for no memory.
    ///
    /// # Safety
    /// The bytes must be writable, and nothing else may read or write them, until a detach has returned the value and the value has been
    /// dropped: it can be attached again.
    #[must_use]
    pub unsafe fn from_raw(at: *mut u8, len: usize) -> Self {
        // SAFETY: the caller promises that the bytes are writable, and that nothing else accesses them until the value, which an attached
        // buffer holds, has been dropped.
        Self(NonNull::new(at).map_or(RawBuffer::EMPTY, |at| unsafe { RawBuffer::new(at, len) }))
    }
}

impl From<Vec<u8>> for WindowMemory {
    fn from(memory: Vec<u8>) -> Self {
        Self(JobBuffer::from(memory))
    }
}

/// [`Context::start_raw`] for a put from a range. The maker of the range has given the promise that `start_raw` requires.
///
/// # Errors
/// Those of [`Context::start_raw`].
pub(crate) fn put<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    to: RemoteAddress,
    bytes: RawBytes,
    options: PutOptions,
    request: u64,
) -> Result<Outcome> {
    // SAFETY: the maker of `bytes` has promised that they stay readable and unwritten until the operation has ended: until `start_raw`
    // returns Done or an error, or the request is reported.
    unsafe { context.start_raw(Put { to, options }, bytes, Some(request)) }
}

/// [`Context::start_raw`] for a get into a range. The maker of the range has given the promise that `start_raw` requires.
///
/// # Errors
/// Those of [`Context::start_raw`].
pub(crate) fn get<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    from: RemoteAddress,
    to: RawBuffer,
    request: u64,
) -> Result<Outcome> {
    // SAFETY: the maker of `to` has promised that it stays writable, and that nothing else accesses it, until the operation has ended:
    // until `start_raw` returns Done or an error, or the request is reported.
    unsafe { context.start_raw(Get { from, options: GetOptions::default() }, to, Some(request)) }
}

/// [`put`] to the blocks of a layout.
///
/// # Errors
/// Those of [`Context::start_raw`].
pub(crate) fn put_pieces<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    to: (RemoteAddress, &Layout),
    bytes: RawBytes,
    options: PutOptions,
    request: u64,
) -> Result<Outcome> {
    let bytes = RawPieces::list(std::iter::once(Ok(bytes)))?;
    // SAFETY: as in `put`.
    unsafe { context.start_raw(Put { to, options }, bytes, Some(request)) }
}

/// [`get`] from the blocks of a layout.
///
/// # Errors
/// Those of [`Context::start_raw`].
pub(crate) fn get_pieces<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    from: (RemoteAddress, &Layout),
    to: RawBuffer,
    request: u64,
) -> Result<Outcome> {
    let to = RawPieces::list(std::iter::once(Ok(to)))?;
    // SAFETY: as in `get`.
    unsafe { context.start_raw(Get { from, options: GetOptions::default() }, to, Some(request)) }
}

/// Calls `call` with the elements in `range`: `count` of a datatype. The span of the elements must be `low..low + range.len()`, and `call`
/// must not keep them.
#[inline(always)]
pub(crate) fn with_mapped_elements<R>(
    range: &MappedRange<'_>,
    low: i64,
    (count, datatype): (u64, &Datatype),
    call: impl FnOnce(&RecvData) -> R,
) -> R {
    // SAFETY: only `call` uses the memory, and does not keep the elements (this function's doc), so the memory is not used after the call
    // to which the range was lent.
    let memory = unsafe { range.to_raw() };
    // The caller has chosen `low..low + range.len()` as the span of the elements.
    #[expect(clippy::cast_possible_truncation, reason = "both are 64 bits wide")]
    let at = memory.at().as_ptr().wrapping_offset((low as isize).wrapping_neg());
    // SAFETY: all bytes of the elements lie inside the range, which is writable while it is lent; the program orders accesses by other
    // tasks (MPI 5.0 section 12.7).
    call(&unsafe { RecvData::new(at, count, datatype) })
}

/// Copies bytes to mapped memory of a peer, if the region has been looked up before; returns whether the bytes were copied.
#[inline(always)]
pub(crate) fn put_mapped<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    to: RemoteAddress,
    bytes: RawBytes,
) -> bool {
    let copied = context.try_with_mapped(to, bytes.len() as u64, |range| {
        // SAFETY: the copy of the range is not used after the closure returns, and so not after the call to which the range was lent.
        bytes.copy_to_buffer(unsafe { range.to_raw() });
    });
    copied.is_some()
}

/// Like [`put_mapped`], but copies from the peer's memory.
#[inline(always)]
pub(crate) fn get_mapped<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    from: RemoteAddress,
    to: RawBuffer,
) -> bool {
    let copied = context.try_with_mapped(from, to.len() as u64, |range| {
        // SAFETY: the copy of the range is not used after the closure returns, and so not after the call to which the range was lent.
        unsafe { range.to_raw() }.as_bytes().copy_to_buffer(to);
    });
    copied.is_some()
}
