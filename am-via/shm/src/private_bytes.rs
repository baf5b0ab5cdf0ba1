//! Private memory of this process.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

use crate::copy::CheckedRange;

/// Bytes that are zero at first, aligned to a cache line, and freed with this value. Only one thread at a time can copy to and from them:
/// the copies are plain ones.
#[derive(Debug)]
pub struct PrivateBytes {
    at: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: an address, a length and a layout of memory that any thread may free; the bytes are accessed only by copies through a
// CheckedRange.
unsafe impl Send for PrivateBytes {}

impl PrivateBytes {
    /// `len` zeroed bytes; `None` if there is no memory for them.
    #[must_use]
    pub fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), 64).ok()?;
        // SAFETY: the layout has a size of at least 1.
        let at = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        Some(Self { at, len, layout })
    }

    /// All bytes.
    #[inline]
    #[must_use]
    pub fn range(&self) -> CheckedRange<'_> {
        // SAFETY: `len` live bytes (`new`), freed when `self` is dropped, so after the range.
        unsafe { CheckedRange::new(self.at, self.len) }
    }
}

impl Drop for PrivateBytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; the ranges have ended, since they borrow `self`.
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}
