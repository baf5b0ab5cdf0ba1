//! A block of memory, with its owner.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::copy::CheckedRange;
use crate::private_bytes::PrivateBytes;

/// Owns blocks, and keeps them alive until they are returned.
pub trait HeapOwner: Send + Sync + std::fmt::Debug {
    /// Takes back the block of `len` bytes at `at`.
    ///
    /// # Safety
    /// The block must be the owner's, not yet taken back, and nothing may use it any more.
    unsafe fn take_back(&self, at: NonNull<u8>, len: usize);
}

/// A block of an owner's memory. Dropping this value returns the block to the owner. Only one thread at a time can copy to and from it.
#[derive(Debug)]
pub struct HeapBlock {
    at: NonNull<u8>,
    len: usize,
    owner: Arc<dyn HeapOwner>,
}

// SAFETY: an address, a length and an owner that is Send and Sync; the bytes are accessed by copies only.
unsafe impl Send for HeapBlock {}

impl HeapBlock {
    /// The block `range`.
    ///
    /// # Safety
    /// The range must be zeroed and used by nothing else, and be a block that `owner` takes back. `owner` must keep it alive until then.
    #[must_use]
    pub unsafe fn new(range: CheckedRange<'_>, owner: Arc<dyn HeapOwner>) -> Self {
        Self { at: range.at(), len: range.len(), owner }
    }

    /// A block of this process's private memory; `None` if there is no memory.
    #[must_use]
    pub fn private(len: usize) -> Option<Self> {
        let bytes = PrivateBytes::new(len)?;
        let (at, len) = (bytes.range().at(), bytes.range().len());
        Some(Self { at, len, owner: Arc::new(PrivateOwner { _bytes: bytes }) })
    }

    /// Where the block starts.
    #[must_use]
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the block has 0 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole block, for copies.
    #[must_use]
    pub fn range(&self) -> CheckedRange<'_> {
        // SAFETY: `len` bytes at `at`, which `owner` keeps alive until the drop returns them (`new`, `private`).
        unsafe { CheckedRange::new(self.at, self.len) }
    }
}

impl Drop for HeapBlock {
    fn drop(&mut self) {
        // SAFETY: the owner's block (`new`, `private`), which is taken back here only; ranges of it borrow this value.
        unsafe { self.owner.take_back(self.at, self.len) };
    }
}

/// Frees a block's private bytes with the last owner.
#[derive(Debug)]
struct PrivateOwner {
    _bytes: PrivateBytes,
}

// SAFETY: no function accesses the bytes through this value, which only frees them.
unsafe impl Sync for PrivateOwner {}

impl HeapOwner for PrivateOwner {
    /// Nothing to do: the bytes are freed with their last owner.
    unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
}
