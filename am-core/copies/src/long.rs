//! Copies of long packets, with the widest registers that the processor has.
//!
//! One processor copies a packet into a ring, and another processor copies it out. So at each copy the lines of the ring are in the
//! other processor's cache. Whole lines stored at once, and lines fetched ahead of their loads, make such copies faster than the C
//! library's. Longer copies are left to the C library, which is faster where it writes memory that is in no cache.

use core::arch::x86_64::{
    __m256i, __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_loadu_si512,
    _mm512_storeu_si512,
};

use crate::LINE_BYTES;

/// Minimum length for which [`copy`] is faster than a plain copy; both take the same time for shorter lengths.
const BYTES_MIN: usize = 512;
/// Maximum length for which [`copy`] is used: the length of a packet of a long message. The C library copies 1 MiB between mapped memories
/// in 0.8 of the time of [`copy`].
const BYTES_MAX: usize = 16 << 10;

/// Whether [`copy`] is faster than a plain copy of this length.
#[inline(always)]
pub(crate) const fn is_long(len: usize) -> bool {
    BYTES_MIN <= len && len <= BYTES_MAX
}

// Processors with `avx512vbmi2` keep their clock rate when they use registers of 64 bytes; older ones with AVX-512 lower it.
cpufeatures::new!(registers_of_64_bytes, "avx512f", "avx512vbmi2");
cpufeatures::new!(registers_of_32_bytes, "avx");

/// Copies `len` bytes. If source and destination overlap, the destination may hold a mixture of bytes.
///
/// # Safety
/// `len` bytes at `from` must be readable, and `len` bytes at `to` writable.
#[inline(never)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's contract; each condition checks that the processor has the instructions of the copy after it.
    unsafe {
        if registers_of_64_bytes::get() {
            by_64_bytes(from, to, len);
        } else if registers_of_32_bytes::get() {
            by_32_bytes(from, to, len);
        } else {
            core::ptr::copy(from, to, len);
        }
    }
}

/// Defines a copy with registers of `$width` bytes, in blocks of four registers. The copy prefetches `$ahead` bytes ahead, inside the
/// source.
macro_rules! copy_by {
    ($name:ident, $feature:literal, $register:ty, $width:literal, $load:ident, $store:ident, $ahead:literal) => {
        /// # Safety
        /// `len` bytes at `from` must be readable, `len` bytes at `to` writable, and the processor must have the named feature.
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *const u8, to: *mut u8, len: usize) {
            const BLOCK_BYTES: usize = 4 * $width;
            // SAFETY: `from..from + len` is readable and `to..to + len` writable (the caller's contract); all accesses allow overlap and
            // need no alignment. The three parts (up to the first whole line of the destination, blocks, the rest) are `len` bytes
            // together: a block is copied only while a whole block is left. The prefetched lines begin inside the source, and a prefetch
            // never faults.
            unsafe {
                let block = |done: usize| {
                    let source = from.add(done).cast::<$register>();
                    let aligned = to.add(done).cast::<$register>();
                    let registers = [0, 1, 2, 3].map(|index| $load(source.add(index)));
                    $store(aligned, registers[0]);
                    $store(aligned.add(1), registers[1]);
                    $store(aligned.add(2), registers[2]);
                    $store(aligned.add(3), registers[3]);
                };
                let mut done = to.align_offset(LINE_BYTES).min(len);
                if done > 0 {
                    core::ptr::copy(from, to, done);
                }
                // No prefetch past the end: the other processor may be writing there.
                while len - done >= BLOCK_BYTES + $ahead {
                    for line in 0..BLOCK_BYTES / LINE_BYTES {
                        _mm_prefetch::<_MM_HINT_T0>(from.add(done + $ahead + line * LINE_BYTES).cast());
                    }
                    block(done);
                    done += BLOCK_BYTES;
                }
                while len - done >= BLOCK_BYTES {
                    block(done);
                    done += BLOCK_BYTES;
                }
                if done < len {
                    core::ptr::copy(from.add(done), to.add(done), len - done);
                }
            }
        }
    };
}

copy_by!(by_64_bytes, "avx512f", __m512i, 64, _mm512_loadu_si512, _mm512_storeu_si512, 1024);
copy_by!(by_32_bytes, "avx", __m256i, 32, _mm256_loadu_si256, _mm256_storeu_si256, 512);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::copies_every_length_from_and_to_every_alignment;

    #[test]
    fn copies_by_wide_registers_copy_every_length_from_and_to_every_alignment() {
        if registers_of_64_bytes::get() {
            copies_every_length_from_and_to_every_alignment(by_64_bytes);
        }
        if registers_of_32_bytes::get() {
            copies_every_length_from_and_to_every_alignment(by_32_bytes);
        }
        copies_every_length_from_and_to_every_alignment(copy);
    }
}
