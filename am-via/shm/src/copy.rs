//! Copies between private memory and memory that another task may write.
//!
//! The other task must not access the range meanwhile. If it does nevertheless, it only corrupts the bytes: no reference to them is ever
//! made, and no decision depends on reading them twice.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::storing::Storing;

/// Outcome of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All bytes were copied.
    Done,
    /// This task cannot access that memory.
    Unreachable,
    /// A part was copied through a pipe, and the sender has not staged more: repeat the call.
    NotYet,
}

/// A range of memory that may be read and written during `'a`. It was checked to lie inside one mapping or buffer that lives that long.
#[derive(Clone, Copy, Debug)]
pub struct CheckedRange<'a> {
    at: NonNull<u8>,
    len: usize,
    #[cfg(loom)]
    seen_as: Option<&'a am_via_os::atomics::Plain>,
    _alive: PhantomData<&'a ()>,
}

impl<'a> CheckedRange<'a> {
    /// `len` bytes at `at`.
    ///
    /// # Safety
    /// During `'a`, `at..at + len` must stay inside one live mapping or buffer, and no reference to these bytes may be used, except by an
    /// owner that has promised to leave the bytes to this range.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        Self {
            at,
            len,
            #[cfg(loom)]
            seen_as: None,
            _alive: PhantomData,
        }
    }

    /// The same range, with accesses that a model sees.
    #[cfg(loom)]
    pub(crate) fn seen_as(self, seen_as: &'a am_via_os::atomics::Plain) -> Self {
        Self { seen_as: Some(seen_as), ..self }
    }

    /// Tells a model that the bytes are about to be read. Otherwise does nothing.
    #[inline(always)]
    fn note_read(&self) {
        #[cfg(loom)]
        self.seen_as.inspect(|plain| plain.read());
    }

    /// Tells a model that the bytes are about to be written. Otherwise does nothing.
    #[inline(always)]
    fn note_write(&self) {
        #[cfg(loom)]
        self.seen_as.inspect(|plain| plain.write());
    }

    /// Length in bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the range has 0 bytes.
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

    /// Prefetches the range's lines for writing, if the processor can.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self) {
        #[cfg(target_arch = "x86_64")]
        for offset in (0..self.len).step_by(64) {
            // SAFETY: `offset` is within the range, so the sum stays inside one allocation (`new`). A prefetch changes no memory and
            // no flag, and never faults; processors without this instruction do nothing.
            unsafe {
                let at = self.at.as_ptr().add(offset);
                std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
            }
        }
    }

    /// Prefetches the range's lines for reading.
    #[inline(always)]
    pub fn prefetch_to_read(&self) {
        #[cfg(target_arch = "x86_64")]
        for offset in (0..self.len).step_by(64) {
            // SAFETY: `offset` is within the range, so the sum stays inside one allocation (`new`). A prefetch never faults.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.at.as_ptr().add(offset).cast());
            }
        }
    }

    /// The part `offset..offset + len`, or `None` if the part does not lie inside.
    #[inline(always)]
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset <= self.len && len <= self.len - offset {
            // SAFETY: `offset` is at most the range's length (just checked), and the range lies inside one allocation (`new`).
            Some(Self { at: unsafe { self.at.add(offset) }, len, ..*self })
        } else {
            None
        }
    }

    /// The first `len` bytes; all of a shorter range.
    #[inline(always)]
    pub(crate) fn front(&self, len: usize) -> Self {
        Self { len: len.min(self.len), ..*self }
    }

    /// Copies all of `from` to the start of this range; returns whether it fits.
    #[inline]
    #[must_use]
    pub fn copy_from(&self, from: CheckedRange<'_>) -> bool {
        if from.len > self.len {
            return false;
        }
        from.note_read();
        self.note_write();
        // SAFETY: both ranges hold at least `from.len` live bytes (`new`, and the check above). They may be the same memory
        // when a task puts to itself, so the copy allows overlap.
        unsafe { std::ptr::copy(from.at.as_ptr(), self.at.as_ptr(), from.len) };
        true
    }

    /// Like [`copy_from`](Self::copy_from), but with the processor's widest registers for 512 bytes to 16 KiB (`am_copies::wide`). This is
    /// faster if the bytes are in the cache of another processor that shares a cache with this one, and slower otherwise.
    #[inline]
    #[must_use]
    pub(crate) fn copy_from_wide(&self, from: CheckedRange<'_>) -> bool {
        if from.len > self.len {
            return false;
        }
        from.note_read();
        self.note_write();
        // SAFETY: both ranges hold at least `from.len` live bytes (`new`, and the check above). They may be the same memory, as in
        // `copy_from`.
        unsafe { am_copies::wide(from.at.as_ptr(), self.at.as_ptr(), from.len) };
        true
    }

    /// Like [`copy_from`](Self::copy_from), but with non-temporal stores, if the processor has them. The next reader on another processor
    /// then finds no modified line in a foreign cache. The stores are ordered before any later store.
    #[inline]
    #[must_use]
    pub(crate) fn copy_from_past_cache(&self, from: CheckedRange<'_>) -> bool {
        if from.len > self.len {
            return false;
        }
        from.note_read();
        self.note_write();
        // SAFETY: both ranges hold at least `from.len` live bytes (`new`, and the check above). They may be the same memory, as in
        // `copy_from`.
        unsafe { am_copies::past_caches(from.at.as_ptr(), self.at.as_ptr(), from.len) };
        true
    }
}

impl CheckedRange<'_> {
    /// Sets every byte to zero.
    pub fn zero(&self) {
        self.note_write();
        // SAFETY: `len` live, writable bytes (`new`).
        unsafe { std::ptr::write_bytes(self.at.as_ptr(), 0, self.len) };
    }

    /// Copies the first bytes to `to`. Panics if the range is shorter.
    #[inline]
    pub fn copy_to_slice(&self, to: &mut [u8]) {
        assert!(to.len() <= self.len, "{} bytes were asked of a range of {}", to.len(), self.len);
        self.note_read();
        // SAFETY: source: `to.len()` live bytes (`new`, and the assertion). Destination: an exclusive borrow, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr(), to.as_mut_ptr(), to.len()) };
    }

    /// Copies `from` to the start of the range. Panics if the range is shorter.
    #[inline(always)]
    pub fn copy_from_slice(&self, from: &[u8]) {
        assert!(from.len() <= self.len, "{} bytes were given to a range of {}", from.len(), self.len);
        self.note_write();
        // SAFETY: destination: `from.len()` live bytes (`new`, and the assertion). Source: a borrow, which `new` excludes from the range,
        // so the two do not overlap.
        unsafe { am_copies::bytes(from.as_ptr(), self.at.as_ptr(), from.len()) };
    }

    /// Copies `from` to the start of the range as `storing` says. Panics if the range is shorter.
    pub(crate) fn store(&self, from: &[u8], storing: Storing) {
        match storing {
            Storing::ThroughCaches => self.copy_from_slice(from),
            Storing::PastCaches => {
                assert!(from.len() <= self.len, "{} bytes were given to a range of {}", from.len(), self.len);
                self.note_write();
                // SAFETY: destination: `from.len()` live bytes (`new`, and the assertion). Source: a borrow.
                unsafe { am_copies::past_caches(from.as_ptr(), self.at.as_ptr(), from.len()) };
            }
        }
    }

    /// No bytes.
    #[must_use]
    pub fn empty() -> Self {
        // SAFETY: a range of no bytes touches none.
        unsafe { Self::new(NonNull::dangling(), 0) }
    }
}
