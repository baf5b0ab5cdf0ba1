//! Copies between private memory and memory that another task may write.
//!
//! The other side is bound by a grant not to touch the range meanwhile; a task that breaks its word can spoil the bytes,
//! and nothing else: no reference to them is ever made, and nobody decides anything by reading them twice.

use std::ptr::NonNull;

/// A range of shared memory, already checked to lie inside a mapping that its holder keeps alive.
#[derive(Clone, Copy, Debug)]
pub struct CheckedRange {
    at: NonNull<u8>,
    len: usize,
}

impl CheckedRange {
    /// # Safety
    /// `at..at + len` stays inside one live mapping as long as the value and its copies are used.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        Self { at, len }
    }

    /// Bytes in the range.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the range holds no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the range starts.
    #[inline(always)]
    #[must_use]
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// The part `offset..offset + len`, or `None` if it does not lie inside.
    #[inline(always)]
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset <= self.len && len <= self.len - offset {
            // SAFETY: the sum stays inside the range (just checked), which lies inside one live mapping (`new`).
            Some(Self { at: unsafe { self.at.add(offset) }, len })
        } else {
            None
        }
    }

    /// Copies `bytes` to the start of the range. Panics if they do not fit: callers check first.
    #[inline]
    pub fn write(&self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.len,
            "the caller checked that {} bytes fit into {}",
            bytes.len(),
            self.len
        );
        // SAFETY: the destination holds at least `bytes.len()` (asserted) live bytes (`new`); the source is a borrowed slice,
        // which never overlaps memory that is reached only by raw pointers.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.as_ptr(), bytes.len()) }
    }

    /// Fills `bytes` from the start of the range. Panics if the range is shorter: callers check first.
    #[inline]
    pub fn read(&self, bytes: &mut [u8]) {
        assert!(bytes.len() <= self.len, "the caller checked that {} bytes are in {}", bytes.len(), self.len);
        // SAFETY: as in `write`, with the roles exchanged.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr(), bytes.as_mut_ptr(), bytes.len()) }
    }
}
