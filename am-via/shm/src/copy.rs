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

    /// As [`copy_from`](Self::copy_from), of memory elsewhere, with stores that go past this processor's cache where it has them: another
    /// one that reads the bytes next finds none of them modified in a foreign cache. Ordered before any later store.
    #[inline]
    #[must_use]
    pub(crate) fn copy_from_past_cache(&self, from: CheckedRange<'_>) -> bool {
        if from.len > self.len {
            return false;
        }
        from.note_read();
        self.note_write();
        let (source, target) = (from.at.as_ptr().cast_const(), self.at.as_ptr());
        let whole = if self.at.addr().get().is_multiple_of(LINE_BYTES) {
            from.len / LINE_BYTES * LINE_BYTES
        } else {
            0
        };
        for offset in (0..whole).step_by(LINE_BYTES) {
            // SAFETY: both ranges hold at least `whole` live bytes from their start (`new`, and the check above), of which this is a
            // line; the target's lines are aligned (just checked: with other ranges `whole` is 0).
            unsafe { stream_line(source.add(offset), target.add(offset)) };
        }
        // SAFETY: the rest of both ranges, `from.len` live bytes each (as above). They may be the same memory, as in `copy_from`.
        unsafe { std::ptr::copy(source.add(whole), target.add(whole), from.len - whole) };
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: a fence touches no memory, and every x86-64 processor has it.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
        true
    }
}

/// Bytes of a line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Copies one line past the cache.
///
/// # Safety
/// 64 readable bytes at `from`, and 64 writable ones at `to`, which is a multiple of 64.
#[inline(always)]
unsafe fn stream_line(from: *const u8, to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let (from, to): (*const __m128i, *mut __m128i) = (from.cast(), to.cast());
        // SAFETY: four times 16 of the caller's 64 bytes; the stores are aligned as the caller's line is. Every x86-64 processor has
        // both instructions.
        unsafe {
            let words = [0, 1, 2, 3].map(|word| _mm_loadu_si128(from.add(word)));
            for (word, value) in words.into_iter().enumerate() {
                _mm_stream_si128(to.add(word), value);
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's 64 bytes.
    unsafe {
        std::ptr::copy(from, to, LINE_BYTES);
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
