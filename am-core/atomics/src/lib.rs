//! Atomic operations on words: described as values ([`AtomicOp`]), applied to numbers, and carried out in memory that no borrow covers.

#![no_std]
#![expect(
    clippy::cast_possible_truncation,
    reason = "words of fewer than 64 bits use the low bits of operands and result"
)]

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// An atomic operation on a word of granted memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Adds the operand (`FETCH_AND_ADD`).
    FetchAdd(u64),
    /// Bitwise or (`FETCH_AND_OR`).
    FetchOr(u64),
    /// Bitwise and.
    FetchAnd(u64),
    /// Bitwise exclusive or.
    FetchXor(u64),
    /// Minimum of two unsigned numbers.
    FetchMin(u64),
    /// Maximum of two unsigned numbers.
    FetchMax(u64),
    /// Minimum of two signed numbers (two's complement).
    FetchMinSigned(u64),
    /// Maximum of two signed numbers.
    FetchMaxSigned(u64),
    /// Adds a floating-point number, given as the bits of an `f64` or, for a 32-bit word, of an `f32`. See [`add_f64`](Self::add_f64) and
    /// [`add_f32`](Self::add_f32).
    FetchAddFloat(u64),
    /// Minimum of two floating-point numbers; if one of them is NaN, the result is the other.
    FetchMinFloat(u64),
    /// Maximum of two floating-point numbers; if one of them is NaN, the result is the other.
    FetchMaxFloat(u64),
    /// Replaces the value (`SWAP`).
    Swap(u64),
    /// Replaces the value if it equals `expected` (`COMPARE_AND_SWAP`).
    CompareSwap {
        /// The expected value.
        expected: u64,
        /// The new value.
        new: u64,
    },
}

impl AtomicOp {
    /// The operation that adds an `f64` to a 64-bit word.
    #[must_use]
    pub fn add_f64(value: f64) -> Self {
        Self::FetchAddFloat(value.to_bits())
    }

    /// The operation that adds an `f32` to a 32-bit word.
    #[must_use]
    pub fn add_f32(value: f32) -> Self {
        Self::FetchAddFloat(u64::from(value.to_bits()))
    }

    /// This operation with another operand (for a compare-and-swap, another new value).
    #[must_use]
    pub fn with_operand(self, value: u64) -> Self {
        match self {
            Self::FetchAdd(_) => Self::FetchAdd(value),
            Self::FetchOr(_) => Self::FetchOr(value),
            Self::FetchAnd(_) => Self::FetchAnd(value),
            Self::FetchXor(_) => Self::FetchXor(value),
            Self::FetchMin(_) => Self::FetchMin(value),
            Self::FetchMax(_) => Self::FetchMax(value),
            Self::FetchMinSigned(_) => Self::FetchMinSigned(value),
            Self::FetchMaxSigned(_) => Self::FetchMaxSigned(value),
            Self::FetchAddFloat(_) => Self::FetchAddFloat(value),
            Self::FetchMinFloat(_) => Self::FetchMinFloat(value),
            Self::FetchMaxFloat(_) => Self::FetchMaxFloat(value),
            Self::Swap(_) => Self::Swap(value),
            Self::CompareSwap { expected, .. } => Self::CompareSwap { expected, new: value },
        }
    }

    /// Whether the operand is a floating-point number. Words of 8 and 16 bits have no such operations.
    #[inline]
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::FetchAddFloat(_) | Self::FetchMinFloat(_) | Self::FetchMaxFloat(_))
    }

    /// The new value of a 64-bit word that holds `old`.
    #[must_use]
    pub fn on_u64(self, old: u64) -> u64 {
        let float = |combine: fn(f64, f64) -> f64, value| {
            combine(f64::from_bits(old), f64::from_bits(value)).to_bits()
        };
        match self {
            Self::FetchAdd(value) => old.wrapping_add(value),
            Self::FetchOr(value) => old | value,
            Self::FetchAnd(value) => old & value,
            Self::FetchXor(value) => old ^ value,
            Self::FetchMin(value) => old.min(value),
            Self::FetchMax(value) => old.max(value),
            Self::FetchMinSigned(value) => old.cast_signed().min(value.cast_signed()).cast_unsigned(),
            Self::FetchMaxSigned(value) => old.cast_signed().max(value.cast_signed()).cast_unsigned(),
            Self::FetchAddFloat(value) => float(|a, b| a + b, value),
            Self::FetchMinFloat(value) => float(f64::min, value),
            Self::FetchMaxFloat(value) => float(f64::max, value),
            Self::Swap(value) => value,
            Self::CompareSwap { expected, new } => {
                if old == expected {
                    new
                } else {
                    old
                }
            }
        }
    }

    /// The new value of a 32-bit word that holds `old`. The low halves of the operands are used.
    #[must_use]
    pub fn on_u32(self, old: u32) -> u32 {
        let float = |combine: fn(f32, f32) -> f32, value: u64| {
            combine(f32::from_bits(old), f32::from_bits(value as u32)).to_bits()
        };
        match self {
            Self::FetchMin(value) => old.min(value as u32),
            Self::FetchMax(value) => old.max(value as u32),
            Self::FetchMinSigned(value) => {
                old.cast_signed().min((value as u32).cast_signed()).cast_unsigned()
            }
            Self::FetchMaxSigned(value) => {
                old.cast_signed().max((value as u32).cast_signed()).cast_unsigned()
            }
            Self::FetchAddFloat(value) => float(|a, b| a + b, value),
            Self::FetchMinFloat(value) => float(f32::min, value),
            Self::FetchMaxFloat(value) => float(f32::max, value),
            Self::CompareSwap { expected, new } => {
                if old == expected as u32 {
                    new as u32
                } else {
                    old
                }
            }
            // For all other operations, the low half of the result depends only on the low halves of the operands.
            operation => operation.on_u64(u64::from(old)) as u32,
        }
    }

    /// The new value of a word of 8 or 16 bits that holds `old`. The low bits of the operands are used. Floating-point operations change
    /// nothing.
    #[must_use]
    pub fn on_small(self, width: Width, old: u16) -> u16 {
        let shift = 64 - 8 * width.bytes() as u32;
        // Shifted to the upper end of 64 bits, numbers compare as they do in their own width, signed or unsigned.
        let up = |value: u64| value << shift;
        let old = up(u64::from(old));
        let new = match self {
            Self::FetchAdd(value) => Self::FetchAdd(up(value)).on_u64(old),
            Self::FetchOr(value) => old | up(value),
            Self::FetchAnd(value) => old & up(value),
            Self::FetchXor(value) => old ^ up(value),
            Self::FetchMin(value) => Self::FetchMin(up(value)).on_u64(old),
            Self::FetchMax(value) => Self::FetchMax(up(value)).on_u64(old),
            Self::FetchMinSigned(value) => Self::FetchMinSigned(up(value)).on_u64(old),
            Self::FetchMaxSigned(value) => Self::FetchMaxSigned(up(value)).on_u64(old),
            Self::FetchAddFloat(_) | Self::FetchMinFloat(_) | Self::FetchMaxFloat(_) => old,
            Self::Swap(value) => up(value),
            Self::CompareSwap { expected, new } => {
                Self::CompareSwap { expected: up(expected), new: up(new) }.on_u64(old)
            }
        };
        (new >> shift) as u16
    }
}

/// Size of the word of an atomic operation. Words of fewer than 64 bits use the low bits of operands and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 8 bits; no floating-point operations.
    Bits8,
    /// 16 bits; no floating-point operations.
    Bits16,
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
}

impl Width {
    /// Size of the word in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bits8 => 1,
            Self::Bits16 => 2,
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }

    /// The width of a word of this number of bytes, if there is one.
    #[inline]
    #[must_use]
    pub fn of_bytes(bytes: usize) -> Option<Self> {
        match bytes {
            1 => Some(Self::Bits8),
            2 => Some(Self::Bits16),
            4 => Some(Self::Bits32),
            8 => Some(Self::Bits64),
            _ => None,
        }
    }
}

/// Operates atomically on the word at `at`; returns the old value, or `None` if the word is not aligned to its size.
///
/// Each operation has acquire and release ordering, as a lock word needs. A compare-and-swap that changes nothing may only acquire.
///
/// # Safety
/// The bytes of the word must be readable and writable, and meanwhile other tasks and threads may access them by atomic operations only.
#[inline(always)]
#[expect(unsafe_code, reason = "the word lies in memory that no borrow covers")]
pub unsafe fn update(at: *mut u8, width: Width, operation: AtomicOp) -> Option<u64> {
    if !at.addr().is_multiple_of(width.bytes() as usize) {
        return None;
    }
    // SAFETY: in each branch, the word's bytes are live and accessed by atomic operations only (the caller's contract), and the word is
    // aligned (just checked).
    Some(unsafe {
        match width {
            Width::Bits64 => on_u64(AtomicU64::from_ptr(at.cast()), operation),
            Width::Bits32 => on_u32(AtomicU32::from_ptr(at.cast()), operation),
            Width::Bits16 => {
                let change = |old| Some(operation.on_small(width, old));
                let word = AtomicU16::from_ptr(at.cast());
                word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
                    .unwrap_or_else(|old| old)
                    .into()
            }
            Width::Bits8 => {
                let change = |old: u8| Some(operation.on_small(width, old.into()) as u8);
                let word = AtomicU8::from_ptr(at);
                word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
                    .unwrap_or_else(|old| old)
                    .into()
            }
        }
    })
}

/// Maximum number of words of a value for [`load`] and [`store`].
const WORDS_MAX: usize = 8;

/// Bytes of the words of which a value consists: its alignment, or 8 if that is more.
const fn word_bytes<T>() -> usize {
    if align_of::<T>() < 8 { align_of::<T>() } else { 8 }
}

/// Whether [`load`] and [`store`] take values of a type: those of at most 8 words, each of the size of the type's alignment (at most 8
/// bytes).
#[must_use]
pub const fn is_short<T>() -> bool {
    size_of::<T>() <= WORDS_MAX * word_bytes::<T>()
}

/// Loads a value by relaxed atomics, a word after another, so that other tasks may store there meanwhile. A value of one word is the old or
/// the new one; a longer one may have words of both.
///
/// # Safety
/// `at` must be aligned, its bytes readable, and any bytes a value of `T` without padding. While the call lasts, others must access the
/// bytes by atomics and copies only.
#[inline(always)]
#[expect(unsafe_code, reason = "the value lies in memory that no borrow covers")]
pub unsafe fn load<T: Copy>(at: *const T) -> T {
    let (at, mut value) = (at.cast_mut(), MaybeUninit::<T>::uninit());
    let to = value.as_mut_ptr();
    for word in 0..size_of::<T>() / word_bytes::<T>() {
        // SAFETY: the words of the value, which are readable and aligned (the caller's contract), and those of a local value.
        unsafe {
            match word_bytes::<T>() {
                8 => to
                    .cast::<u64>()
                    .add(word)
                    .write(AtomicU64::from_ptr(at.cast::<u64>().add(word)).load(Ordering::Relaxed)),
                4 => to
                    .cast::<u32>()
                    .add(word)
                    .write(AtomicU32::from_ptr(at.cast::<u32>().add(word)).load(Ordering::Relaxed)),
                2 => to
                    .cast::<u16>()
                    .add(word)
                    .write(AtomicU16::from_ptr(at.cast::<u16>().add(word)).load(Ordering::Relaxed)),
                _ => to
                    .cast::<u8>()
                    .add(word)
                    .write(AtomicU8::from_ptr(at.cast::<u8>().add(word)).load(Ordering::Relaxed)),
            }
        }
    }
    // SAFETY: all words were written, since the size is a multiple of the alignment, and any bytes are a value (the caller's contract).
    unsafe { value.assume_init() }
}

/// Stores a value, as [`load`] loads it.
///
/// # Safety
/// `at` must be aligned and its bytes writable; `value` must have no padding. While the call lasts, others must access the bytes by atomics
/// and copies only.
#[inline(always)]
#[expect(unsafe_code, reason = "the value lies in memory that no borrow covers")]
pub unsafe fn store<T: Copy>(at: *mut T, value: T) {
    let from = &raw const value;
    for word in 0..size_of::<T>() / word_bytes::<T>() {
        // SAFETY: as in `load`, from a local value without padding.
        unsafe {
            match word_bytes::<T>() {
                8 => AtomicU64::from_ptr(at.cast::<u64>().add(word))
                    .store(from.cast::<u64>().add(word).read(), Ordering::Relaxed),
                4 => AtomicU32::from_ptr(at.cast::<u32>().add(word))
                    .store(from.cast::<u32>().add(word).read(), Ordering::Relaxed),
                2 => AtomicU16::from_ptr(at.cast::<u16>().add(word))
                    .store(from.cast::<u16>().add(word).read(), Ordering::Relaxed),
                _ => AtomicU8::from_ptr(at.cast::<u8>().add(word))
                    .store(from.cast::<u8>().add(word).read(), Ordering::Relaxed),
            }
        }
    }
}

/// Updates a word of 64 bits.
#[inline(always)]
fn on_u64(word: &AtomicU64, operation: AtomicOp) -> u64 {
    match operation {
        AtomicOp::FetchAdd(value) => word.fetch_add(value, Ordering::AcqRel),
        AtomicOp::FetchOr(value) => word.fetch_or(value, Ordering::AcqRel),
        AtomicOp::FetchAnd(value) => word.fetch_and(value, Ordering::AcqRel),
        AtomicOp::FetchXor(value) => word.fetch_xor(value, Ordering::AcqRel),
        AtomicOp::FetchMin(value) => word.fetch_min(value, Ordering::AcqRel),
        AtomicOp::FetchMax(value) => word.fetch_max(value, Ordering::AcqRel),
        AtomicOp::Swap(value) => word.swap(value, Ordering::AcqRel),
        AtomicOp::FetchMinSigned(_)
        | AtomicOp::FetchMaxSigned(_)
        | AtomicOp::FetchAddFloat(_)
        | AtomicOp::FetchMinFloat(_)
        | AtomicOp::FetchMaxFloat(_) => word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(operation.on_u64(old)))
            .unwrap_or_else(|found| found),
        AtomicOp::CompareSwap { expected, new } => word
            .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|found| found),
    }
}

/// Like [`on_u64`], with the low halves of the operands.
#[inline(always)]
fn on_u32(word: &AtomicU32, operation: AtomicOp) -> u64 {
    u64::from(match operation {
        AtomicOp::FetchAdd(value) => word.fetch_add(value as u32, Ordering::AcqRel),
        AtomicOp::FetchOr(value) => word.fetch_or(value as u32, Ordering::AcqRel),
        AtomicOp::FetchAnd(value) => word.fetch_and(value as u32, Ordering::AcqRel),
        AtomicOp::FetchXor(value) => word.fetch_xor(value as u32, Ordering::AcqRel),
        AtomicOp::FetchMin(value) => word.fetch_min(value as u32, Ordering::AcqRel),
        AtomicOp::FetchMax(value) => word.fetch_max(value as u32, Ordering::AcqRel),
        AtomicOp::Swap(value) => word.swap(value as u32, Ordering::AcqRel),
        AtomicOp::FetchMinSigned(_)
        | AtomicOp::FetchMaxSigned(_)
        | AtomicOp::FetchAddFloat(_)
        | AtomicOp::FetchMinFloat(_)
        | AtomicOp::FetchMaxFloat(_) => word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(operation.on_u32(old)))
            .unwrap_or_else(|found| found),
        AtomicOp::CompareSwap { expected, new } => word
            .compare_exchange(expected as u32, new as u32, Ordering::AcqRel, Ordering::Acquire)
            .unwrap_or_else(|found| found),
    })
}

#[cfg(test)]
#[expect(unsafe_code, reason = "operates on words of the test")]
mod tests {
    use super::*;

    const OPERATIONS: [AtomicOp; 13] = [
        AtomicOp::FetchAdd(0x8081_8283_8485_86f0),
        AtomicOp::FetchOr(0x0f0f_0f0f_0f0f_0f0f),
        AtomicOp::FetchAnd(0x0ff0_0ff0_0ff0_0ff0),
        AtomicOp::FetchXor(0xffff_0000_ffff_0101),
        AtomicOp::FetchMin(0x7070_7070_7070_7070),
        AtomicOp::FetchMax(0x7070_7070_7070_7070),
        AtomicOp::FetchMinSigned(0x7070_7070_7070_7070),
        AtomicOp::FetchMaxSigned(0x7070_7070_7070_7070),
        AtomicOp::FetchAddFloat(0x3ff8_0000_3fc0_0000),
        AtomicOp::FetchMinFloat(0x3ff8_0000_3fc0_0000),
        AtomicOp::FetchMaxFloat(0x3ff8_0000_3fc0_0000),
        AtomicOp::Swap(0x0102_0304_0506_0708),
        AtomicOp::CompareSwap { expected: 0xf1f2_f3f4_f5f6_f7f8, new: 0x1112_1314_1516_1718 },
    ];

    /// The result of `operation` on the low bits of `old`, computed by the methods of [`AtomicOp`].
    fn on_value(width: Width, operation: AtomicOp, old: u64) -> u64 {
        match width {
            Width::Bits64 => operation.on_u64(old),
            Width::Bits32 => operation.on_u32(old as u32).into(),
            Width::Bits16 | Width::Bits8 => operation.on_small(width, old as u16).into(),
        }
    }

    #[test]
    fn a_word_changes_as_its_value_would_and_its_neighbours_stay() {
        for bytes in [1, 2, 4, 8] {
            let width = Width::of_bytes(bytes).expect("there are words of this size");
            assert_eq!(width.bytes(), bytes as u64);
            for operation in OPERATIONS {
                for old in [0, 0xf1f2_f3f4_f5f6_f7f8_u64, u64::MAX, 0x0102_0304_0506_0708] {
                    let mut words = [u64::MAX, old.to_le(), 0];
                    let old = old & u64::MAX >> (64 - 8 * bytes);
                    // SAFETY: the updated word is the first `bytes` of the 8 bytes of `words[1]`; no other thread can access the local
                    // variable `words`.
                    let found = unsafe { update((&raw mut words[1]).cast(), width, operation) };
                    assert_eq!(found, Some(old), "{operation:?} on {bytes} bytes");
                    let new = words[1].to_le() & u64::MAX >> (64 - 8 * bytes);
                    assert_eq!(
                        new,
                        on_value(width, operation, old),
                        "{operation:?} on {old:#x}, {bytes} bytes"
                    );
                    assert_eq!((words[0], words[2]), (u64::MAX, 0));
                }
            }
        }
    }

    #[test]
    fn values_of_every_size_are_stored_and_loaded_and_their_neighbours_stay() {
        fn check<T: Copy + PartialEq + core::fmt::Debug>(old: T, new: T) {
            let mut values = [old; 3];
            let middle = &raw mut values[1];
            // SAFETY: the element of a local array, of a type without padding.
            let (before, after) = unsafe {
                let before = load(middle);
                store(middle, new);
                (before, load(middle))
            };
            assert_eq!((before, after, values), (old, new, [old, new, old]));
        }
        check(1_u8, 0xfe);
        check(-2_i16, 0x7654);
        check(3.5_f32, -1e9);
        check(u64::MAX, 0x0102_0304_0506_0708);
        check(1.25_f64, f64::MIN_POSITIVE);
        check([1_u8; 8], [7; 8]);
        check([1_u32, 2, 3], [4, 5, 6]);
        check([[0.5_f64; 4]; 2], [[-2.0; 4]; 2]);
        check([1_u16, 2], [3, 4]);
        check(1_u128 << 100, 7 << 64 | 9);
        check((), ());
        assert!(is_short::<[u64; 8]>() && is_short::<[u8; 8]>() && is_short::<u128>() && is_short::<()>());
        assert!(!is_short::<[u64; 9]>() && !is_short::<[u8; 9]>() && !is_short::<[u32; 9]>());
    }

    #[test]
    fn a_word_that_is_not_aligned_stays_as_it_is() {
        let mut words = [0_u64; 2];
        for (width, offset) in [(Width::Bits64, 4), (Width::Bits32, 2), (Width::Bits16, 1)] {
            // SAFETY: the word at `offset` lies in `words`, a local variable.
            let found =
                unsafe { update((&raw mut words).cast::<u8>().add(offset), width, AtomicOp::Swap(7)) };
            assert_eq!((found, words), (None, [0; 2]));
        }
        assert_eq!([0, 3, 16].map(Width::of_bytes), [None; 3]);
    }
}
