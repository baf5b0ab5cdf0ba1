//! Copies between private memory and memory that another task may write.
//!
//! The other side is bound by a grant not to touch the range meanwhile; a task that breaks its word can spoil the bytes,
//! and nothing else: no reference to them is ever made, and nobody decides anything by reading them twice.

use std::marker::PhantomData;
use std::ptr::NonNull;

/// What becomes of a copy that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All bytes were copied.
    Done,
    /// There is no way into that memory from here.
    NoWay,
    /// A part was copied through a pipe, and of the rest the sender has staged nothing yet: ask for the same again.
    NotYet,
}

/// A range of memory that may be read and written as long as `'a` lasts: it was checked to lie inside one mapping or one
/// buffer that is alive so long.
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
    /// During `'a`, `at..at + len` stays inside one live mapping or buffer, and no reference to it is in use but by whoever
    /// promised to leave it to this range.
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

    /// The same, whose accesses a model sees.
    #[cfg(loom)]
    pub(crate) fn seen_as(self, seen_as: &'a am_via_os::atomics::Plain) -> Self {
        Self { seen_as: Some(seen_as), ..self }
    }

    /// The bytes are about to be read. Nothing, but in a model.
    #[inline(always)]
    fn note_read(&self) {
        #[cfg(loom)]
        self.seen_as.inspect(|plain| plain.read());
    }

    /// The bytes are about to be written. Nothing, but in a model.
    #[inline(always)]
    fn note_write(&self) {
        #[cfg(loom)]
        self.seen_as.inspect(|plain| plain.write());
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

    /// Asks the processor for the range's lines as their next writer, where it has such an instruction; changes nothing else.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self) {
        #[cfg(target_arch = "x86_64")]
        for offset in (0..self.len).step_by(64) {
            // SAFETY: `offset` is within the range, so the sum stays inside one allocation (`new`). A prefetch changes no memory and
            // no flag, and never faults; processors that do not know this one do nothing.
            unsafe {
                let at = self.at.as_ptr().add(offset);
                std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly));
            }
        }
    }

    /// Asks the processor for the range's lines as one of their readers; changes nothing else.
    #[inline(always)]
    pub(crate) fn prefetch_to_read(&self) {
        #[cfg(target_arch = "x86_64")]
        for offset in (0..self.len).step_by(64) {
            // SAFETY: `offset` is within the range, so the sum stays inside one allocation (`new`). A prefetch never faults.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.at.as_ptr().add(offset).cast());
            }
        }
    }

    /// The part `offset..offset + len`, or `None` if it does not lie inside.
    #[inline(always)]
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset <= self.len && len <= self.len - offset {
            // SAFETY: the sum stays inside the range (just checked), which lies inside one allocation (`new`).
            Some(Self { at: unsafe { self.at.add(offset) }, len, ..*self })
        } else {
            None
        }
    }

    /// Copies the whole of `from` to the start of this range; whether it fitted.
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

    /// Like [`copy_from`](Self::copy_from), of memory elsewhere, with stores that go past this processor's cache where it has them: another
    /// one that reads the bytes next finds none of them modified in a foreign cache. Ordered before any later store.
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

    /// Copies the first bytes to `to`. Panics if the range is shorter: callers ask for as much as they need.
    #[inline]
    pub fn copy_to_slice(&self, to: &mut [u8]) {
        assert!(to.len() <= self.len, "{} bytes were asked of a range of {}", to.len(), self.len);
        self.note_read();
        // SAFETY: source: `to.len()` live bytes (`new`, and the assertion). Destination: an exclusive borrow, elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr(), to.as_mut_ptr(), to.len()) };
    }

    /// Copies `from` to the start of the range. Panics if it is shorter: callers ask for as much as they need.
    #[inline]
    pub fn copy_from_slice(&self, from: &[u8]) {
        assert!(from.len() <= self.len, "{} bytes were given to a range of {}", from.len(), self.len);
        self.note_write();
        // SAFETY: as in `copy_to_slice`, with the roles exchanged.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at.as_ptr(), from.len()) };
    }

    /// No bytes.
    #[must_use]
    pub fn empty() -> Self {
        // SAFETY: a range of no bytes touches none.
        unsafe { Self::new(NonNull::dangling(), 0) }
    }
}
