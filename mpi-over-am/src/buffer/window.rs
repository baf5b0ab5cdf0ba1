//! The memory of windows: what a program gives, and what it gets bytes of peers into.

use std::ptr::NonNull;
use std::sync::Arc;

use am_core::buffer::{BlockOwner, JobBuffer, RawBuffer, RawBytes, RemoteAddress};
use am_core::error::{Outcome, Result};
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;
use am_core::{Context, Get, GetOptions, Put, PutOptions};

/// Memory of the program that is to be a window (`MPI_Win_create`, `MPI_Win_attach`).
#[derive(Debug)]
pub struct WindowMemory(pub(crate) JobBuffer);

impl WindowMemory {
    /// `len` bytes at `at`, which may be null for none.
    ///
    /// # Safety
    /// The bytes are initialised, readable and writable, and the program reaches them in no other way than MPI's rules for
    /// windows allow (MPI 5.0 section 12.7), until the window is freed or the memory detached; until then they stay alive.
    #[must_use]
    pub unsafe fn from_raw(at: *mut u8, len: usize) -> Self {
        #[derive(Debug)]
        struct TheProgram;
        impl BlockOwner for TheProgram {
            unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
        }
        match NonNull::new(at) {
            // SAFETY: the caller's promise; the owner takes nothing back, so the program frees its memory itself.
            Some(at) if len > 0 => Self(unsafe { JobBuffer::new(at, len, Arc::new(TheProgram)) }),
            _ => Self(JobBuffer::zeroed(0)),
        }
    }
}

/// Memory of the program that is lent for buffered sends (`MPI_Buffer_attach`).
#[derive(Debug)]
pub struct LentMemory(pub(crate) RawBuffer);

impl LentMemory {
    /// `len` bytes at `at`, which may be null for none.
    ///
    /// # Safety
    /// The bytes are writable, and nobody else reads or writes them, until the buffer is detached.
    #[must_use]
    pub unsafe fn from_raw(at: *mut u8, len: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(NonNull::new(at).map_or(RawBuffer::EMPTY, |at| unsafe { RawBuffer::new(at, len) }))
    }
}

impl From<Vec<u8>> for WindowMemory {
    fn from(memory: Vec<u8>) -> Self {
        Self(JobBuffer::from(memory))
    }
}

/// [`Context::start_raw`] of a put, for ranges, which carry the promise that it asks for.
///
/// # Errors
/// As for [`Context::start_raw`].
pub(crate) fn put<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    to: RemoteAddress,
    bytes: RawBytes,
    options: PutOptions,
    request: u64,
) -> Result<Outcome> {
    // SAFETY: whoever made `bytes` has promised that they stay readable and unwritten until the operation has ended: until this
    // returns Done or an error, or the request is reported.
    unsafe { context.start_raw(Put { to, options }, bytes, Some(request)) }
}

/// [`Context::start_raw`] of a get, for ranges, which carry the promise that it asks for.
///
/// # Errors
/// As for [`Context::start_raw`].
pub(crate) fn get<F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    from: RemoteAddress,
    to: RawBuffer,
    request: u64,
) -> Result<Outcome> {
    // SAFETY: whoever made `to` has promised that it stays writable and nobody else's until the operation has ended: until
    // this returns Done or an error, or the request is reported.
    unsafe { context.start_raw(Get { from, options: GetOptions::default() }, to, Some(request)) }
}
