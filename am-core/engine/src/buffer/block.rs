//! Blocks of memory.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::raw::RawBuffer;

/// The owner of blocks, which takes a block back when its last user drops it.
pub trait BlockOwner: Send + Sync + fmt::Debug {
    /// Takes back the block at `at`. Called once for each block, by [`JobBuffer`]'s drop.
    ///
    /// # Safety
    /// The block must belong to a [`JobBuffer`] with this owner, must not be used any more, and must not have been taken back before.
    unsafe fn take_back(&self, at: NonNull<u8>, len: usize);
}

/// A block of memory that belongs to the program and dereferences to `[u8]`. A block that the fabric allocates lies in job memory if
/// possible: operations of peers copy directly from and to job memory. Blocks of the fabric and of [`zeroed`](Self::zeroed) are filled with
/// zeroes.
#[derive(Debug)]
pub struct JobBuffer {
    pub(super) at: NonNull<u8>,
    pub(super) len: usize,
    owner: Arc<dyn BlockOwner>,
}

// SAFETY: the block is owned exclusively, as a Box would be, and its owner is Send and Sync.
unsafe impl Send for JobBuffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for JobBuffer {}

impl JobBuffer {
    /// A block of `len` initialised bytes at `at` that `owner` takes back.
    ///
    /// # Safety
    /// `at..at + len` must be initialised, readable and writable, and nothing else may touch it until `owner.take_back(at, len)`.
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize, owner: Arc<dyn BlockOwner>) -> Self {
        Self { at, len, owner }
    }

    /// The block as memory to receive into. The operation that gets the memory must hold this buffer until the operation has ended.
    pub(crate) fn raw(&self) -> RawBuffer {
        // SAFETY: the block lives as long as `self`; the caller keeps `self` inside the operation.
        unsafe { RawBuffer::new(self.at, self.len) }
    }

    /// The block as memory that an operation sends from or receives into.
    ///
    /// # Safety
    /// The caller must give the buffer to the operation that gets the value, or keep it live and unused until that operation has ended.
    #[inline]
    #[must_use]
    pub unsafe fn to_raw(&self) -> RawBuffer {
        self.raw()
    }
}

impl JobBuffer {
    /// A block of zeros in private memory, aligned to a cache line: usable for atomic words, unlike the bytes of a `Vec`.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        #[derive(Clone, Copy)]
        #[repr(C, align(64))]
        struct Line([u8; 64]);
        #[derive(Debug)]
        struct Lines;
        impl BlockOwner for Lines {
            unsafe fn take_back(&self, at: NonNull<u8>, len: usize) {
                let lines = NonNull::slice_from_raw_parts(at.cast::<Line>(), len.div_ceil(64));
                // SAFETY: `at` came from a boxed slice of this many lines, leaked below and not yet freed.
                drop(unsafe { Box::from_raw(lines.as_ptr()) });
            }
        }
        let lines = Box::leak(vec![Line([0; 64]); len.div_ceil(64)].into_boxed_slice());
        Self { at: NonNull::from(&mut *lines).cast(), len, owner: Arc::new(Lines) }
    }
}

impl JobBuffer {
    /// The first `len` bytes, or all of a shorter block. The rest stays unused until the whole block is dropped.
    #[must_use]
    pub fn shortened(self, len: usize) -> Self {
        #[derive(Debug)]
        struct Whole {
            _block: JobBuffer,
        }
        impl BlockOwner for Whole {
            /// Nothing to do: dropping the owner, which follows, returns the block.
            unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
        }
        if len >= self.len {
            return self;
        }
        Self { at: self.at, len, owner: Arc::new(Whole { _block: self }) }
    }
}

impl From<Vec<u8>> for JobBuffer {
    /// A block in private memory. Peers cannot access it directly: the kernel copies the data, or they are sent in pieces.
    fn from(bytes: Vec<u8>) -> Self {
        #[derive(Debug)]
        struct Private;
        impl BlockOwner for Private {
            unsafe fn take_back(&self, at: NonNull<u8>, len: usize) {
                // SAFETY: `at` and `len` came from a boxed slice of this length, leaked below and not yet freed.
                drop(unsafe { Box::from_raw(NonNull::slice_from_raw_parts(at, len).as_ptr()) });
            }
        }
        let bytes = Box::leak(bytes.into_boxed_slice());
        Self { at: NonNull::from(&mut *bytes).cast(), len: bytes.len(), owner: Arc::new(Private) }
    }
}

impl Drop for JobBuffer {
    fn drop(&mut self) {
        // SAFETY: the block belongs to `owner` (every constructor), and this drop ends its only user.
        unsafe { self.owner.take_back(self.at, self.len) };
    }
}

impl Deref for JobBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is initialised, live and exclusively owned (`new`).
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for JobBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block is initialised and live (`new`), and `self` is exclusively borrowed.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}
