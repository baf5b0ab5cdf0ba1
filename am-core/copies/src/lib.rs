//! Copies between memory that no borrow covers: user memory that an operation holds, and memory that other tasks have mapped.
//!
//! All functions take pointers; callers express their promises about the memory in their own types. A function that is not inlined copies
//! enough bytes to make the cost of its call small.

#![no_std]
#![expect(unsafe_code, reason = "copies between pointers")]

#[cfg(target_arch = "x86_64")]
mod long;
/// On other processors, the C library copies all lengths.
#[cfg(not(target_arch = "x86_64"))]
mod long {
    pub(crate) use core::ptr::copy;

    pub(crate) const fn is_long(_len: usize) -> bool {
        false
    }
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Minimum number of words for which [`words`], where it is available (x86-64), is faster than a loop of relaxed atomics.
const WORDS_MIN: usize = 32;

/// Copies `len` bytes. Short copies are inlined, because on the message path a call costs more than copying a few words. Long packets are
/// copied with the widest registers that the processor has.
///
/// # Safety
/// `len` bytes at `from` must be readable, `len` bytes at `to` writable, and the two ranges must not overlap.
#[inline(always)]
pub unsafe fn bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: in all branches, `from..from + len` is readable and `to..to + len` writable, not overlapping (the caller's
    // contract); every access below stays inside: the second of a pair starts at `len - width`, and `len >= width`; for
    // more than 32 bytes, the second 32 start at `len - 32`; for 1 to 3 bytes, `len / 2` and `len - 1` are less than `len`.
    unsafe {
        if len >= 8 {
            if len <= 16 {
                pair::<u64>(from, to, len);
            } else if len <= 32 {
                pair::<u128>(from, to, len);
            } else if len <= 64 {
                // The first 32 bytes and the last 32, which overlap if `len` is less than 64.
                pair::<u128>(from, to, 32);
                pair::<u128>(from.add(len - 32), to.add(len - 32), 32);
            } else if long::is_long(len) {
                long::copy(from, to, len);
            } else {
                core::ptr::copy_nonoverlapping(from, to, len);
            }
        } else if len >= 4 {
            pair::<u32>(from, to, len);
        } else if len > 0 {
            let (first, middle, last) = (*from, *from.add(len / 2), *from.add(len - 1));
            *to = first;
            *to.add(len / 2) = middle;
            *to.add(len - 1) = last;
        }
    }
}

/// Copies with the widest registers that the processor has if `len` is 512 bytes to 16 KiB (the length of a long packet), and by
/// [`core::ptr::copy`] otherwise. If source and destination overlap, the destination may hold a mixture of bytes.
///
/// # Safety
/// `len` bytes at `from` must be readable, and `len` bytes at `to` writable.
#[inline]
pub unsafe fn wide(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; both copies allow overlap.
    unsafe {
        if long::is_long(len) {
            long::copy(from, to, len);
        } else {
            core::ptr::copy(from, to, len);
        }
    }
}

/// Copies the first and the last `size_of::<T>()` bytes, which together are all `len` bytes.
///
/// # Safety
/// The conditions of [`bytes`] must hold, and `size_of::<T>() <= len <= 2 * size_of::<T>()`.
#[inline(always)]
unsafe fn pair<T: Copy>(from: *const u8, to: *mut u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: both accesses lie inside `len` bytes (the caller's contract), and may be unaligned.
    unsafe {
        let front = from.cast::<T>().read_unaligned();
        let back = from.add(last).cast::<T>().read_unaligned();
        to.cast::<T>().write_unaligned(front);
        to.add(last).cast::<T>().write_unaligned(back);
    }
}

/// Copies 8 bytes from each of two addresses, one after the other, to `to`. On x86-64 this is one store: a processor loads more words in a
/// cycle than it stores.
///
/// # Safety
/// 8 bytes at `first` and at `second` must be readable, and 16 bytes at `to` writable. The destination must not overlap either source; the
/// sources may overlap each other.
#[inline(always)]
pub unsafe fn two_words(first: *const u8, second: *const u8, to: *mut u8) {
    // SAFETY: the caller's contract; all accesses allow any alignment. SSE2 is part of x86-64.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use core::arch::x86_64::{_mm_loadl_epi64, _mm_storeu_si128, _mm_unpacklo_epi64};
        let words = _mm_unpacklo_epi64(_mm_loadl_epi64(first.cast()), _mm_loadl_epi64(second.cast()));
        _mm_storeu_si128(to.cast(), words);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract.
    unsafe {
        bytes(first, to, 8);
        bytes(second, to.add(8), 8);
    }
}

/// Whether [`words`] can copy this number of words, and copies them faster than a loop.
#[inline(always)]
#[must_use]
pub fn are_many(words: usize) -> bool {
    cfg!(target_arch = "x86_64") && words >= WORDS_MIN
}

/// Copies words of 8 bytes one by one, like relaxed atomics, at the speed of a plain copy. The compiler neither splits nor joins the
/// accesses, so other threads may access the source or the destination meanwhile, if that range is aligned to 8 bytes.
///
/// # Safety
/// The conditions of [`core::ptr::copy_nonoverlapping`] must hold, except that other threads may access one of the two ranges by relaxed
/// atomics or by this function.
///
/// # Panics
/// If [`are_many`] is false for this number of words.
#[inline]
pub unsafe fn words(from: *const u8, to: *mut u8, words: usize) {
    assert!(are_many(words), "{words} words are copied by a loop");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `words` times 8 bytes are readable at `from` and writable at `to` (the caller's contract); the direction flag is clear, as
    // the ABI requires.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") words => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, to);
}

/// A copy whose stores bypass this processor's caches, if the processor has such stores. The next reader gets the lines from memory instead
/// of from these caches, and this processor does not fetch lines that it overwrites. The copy is stored before any later store of this
/// thread. If source and destination overlap, the destination may hold a mixture of bytes.
///
/// # Safety
/// `len` bytes at `from` must be readable, and `len` bytes at `to` writable.
#[inline(never)]
pub unsafe fn past_caches(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `from..from + len` is readable and `to..to + len` writable (the caller's contract); all accesses allow overlap. The three
    // parts (up to the first whole line of the destination, whole lines, the rest) are `len` bytes together. A streaming store needs a
    // destination aligned to 16: `aligned` steps by 64 from a multiple of 64. SSE2, which all of these instructions need, is part of
    // x86-64. The fence orders the streaming stores before all later stores; the compiler assumes this order of all stores.
    unsafe {
        use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        let before = to.align_offset(LINE_BYTES).min(len);
        core::ptr::copy(from, to, before);
        let mut done = before;
        while len - done >= LINE_BYTES {
            let source = from.add(done).cast::<__m128i>();
            let aligned = to.add(done).cast::<__m128i>();
            let words = [0, 1, 2, 3].map(|word| _mm_loadu_si128(source.add(word)));
            _mm_stream_si128(aligned, words[0]);
            _mm_stream_si128(aligned.add(1), words[1]);
            _mm_stream_si128(aligned.add(2), words[2]);
            _mm_stream_si128(aligned.add(3), words[3]);
            done += LINE_BYTES;
        }
        core::ptr::copy(from.add(done), to.add(done), len - done);
        _mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract; the copy allows overlap.
    unsafe {
        core::ptr::copy(from, to, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are not zero, and repeat only after 251 bytes.
    fn source<const N: usize>() -> [u8; N] {
        core::array::from_fn(|at| u8::try_from(at % 251 + 1).unwrap_or(0))
    }

    #[test]
    fn short_copies_copy_every_length() {
        let source = source::<200>();
        for len in 0..=source.len() {
            let mut to = [0u8; 201];
            // SAFETY: both arrays are live and at least `len` long.
            unsafe { bytes(source.as_ptr(), to.as_mut_ptr(), len) };
            assert_eq!(to[..len], source[..len]);
            assert_eq!(to[len], 0, "one byte too many at length {len}");
        }
    }

    /// Asserts that `copy` writes the bytes that were asked for, and no others.
    pub(crate) fn copies_every_length_from_and_to_every_alignment(
        copy: unsafe fn(*const u8, *mut u8, usize),
    ) {
        let source = source::<5200>();
        for start in 0..65 {
            for len in [0, 1, 63, 64, 65, 127, 128, 511, 512, 575, 640, 700, 1100, 2048, 2303, 5000] {
                for from in [0, 1, 8, 33] {
                    let mut to = [0u8; 5100];
                    // SAFETY: both arrays are live and long enough: `33 + 5000` and `64 + 5000` bytes.
                    unsafe { copy(source[from..].as_ptr(), to[start..].as_mut_ptr(), len) };
                    assert_eq!(
                        to[start..start + len],
                        source[from..from + len],
                        "{len} bytes from {start} on"
                    );
                    assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0));
                }
            }
        }
    }

    #[test]
    fn copies_copy_every_length_from_and_to_every_alignment() {
        copies_every_length_from_and_to_every_alignment(past_caches);
        // SAFETY: the test passes live arrays that are long enough and do not overlap.
        copies_every_length_from_and_to_every_alignment(|from, to, len| unsafe { bytes(from, to, len) });
    }

    #[test]
    fn two_words_lie_one_after_the_other() {
        let source = source::<64>();
        for (first, second, start) in [(0, 8, 0), (3, 50, 1), (40, 9, 7), (3, 5, 2), (6, 6, 3)] {
            let mut to = [0u8; 32];
            // SAFETY: both arrays are live and long enough: `50 + 8` and `7 + 16` bytes.
            unsafe {
                two_words(source[first..].as_ptr(), source[second..].as_ptr(), to[start..].as_mut_ptr());
            }
            assert_eq!(to[start..start + 8], source[first..first + 8]);
            assert_eq!(to[start + 8..start + 16], source[second..second + 8]);
            assert!(to[..start].iter().chain(&to[start + 16..]).all(|&byte| byte == 0));
        }
    }

    #[test]
    fn words_copy_as_many_as_asked_for_and_no_more() {
        let source = source::<1024>();
        for count in (WORDS_MIN..=64).filter(|&count| are_many(count)) {
            let mut to = [0u8; 1024];
            // SAFETY: both arrays are live and hold 128 words.
            unsafe { words(source.as_ptr(), to.as_mut_ptr(), count) };
            assert_eq!(to[..8 * count], source[..8 * count]);
            assert!(to[8 * count..].iter().all(|&byte| byte == 0));
        }
        assert!(!are_many(WORDS_MIN - 1));
    }
}
