//! A block of memory, with its owner.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::copy::CheckedRange;
use crate::private_bytes::PrivateBytes;

/// Owns blocks, and keeps them alive until they are returned.
pub trait HeapOwner: Send + Sync + std::fmt::Debug {
    /// Takes back the block of `len` bytes at `at`, which nothing uses any more.
    fn take_back(&self, at: NonNull<u8>, len: usize);
}

/// A block of an owner's memory. Dropping this value returns the block to the owner.
#[derive(Debug)]
pub struct HeapBlock {
    at: NonNull<u8>,
    len: usize,
    owner: Arc<dyn HeapOwner>,
}

// SAFETY: an address, a length and an owner that is Send and Sync; the bytes are accessed by copies only.
unsafe impl Send for HeapBlock {}
// SAFETY: an address, a length and an owner that is Send and Sync; the bytes are accessed by copies only.
unsafe impl Sync for HeapBlock {}

impl HeapBlock {
    /// The block `range`, which must be zeroed and used by nothing else. `owner` must keep the range alive until the block is returned.
    #[must_use]
    pub fn new(range: CheckedRange<'_>, owner: Arc<dyn HeapOwner>) -> Self {
        Self { at: range.at(), len: range.len(), owner }
    }

    /// A block of this process's private memory; `None` if there is no memory.
    #[must_use]
    pub fn private(len: usize) -> Option<Self> {
        let bytes = Arc::new(PrivateBytes::new(len)?);
        let (at, len) = (bytes.range().at(), bytes.range().len());
        Some(Self { at, len, owner: bytes })
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
        self.owner.take_back(self.at, self.len);
    }
}

impl HeapOwner for PrivateBytes {
    /// Nothing to do: the bytes are freed with their last owner.
    fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
}
