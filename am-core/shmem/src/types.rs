//! The types of the calls.

use am_atomics::Width;

/// `shmem_ctx_session_config_t`.
#[repr(C)]
pub(crate) struct SessionConfig {
    _total_ops: usize,
}

/// 128 bits at any address.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Bits128([u64; 2]);

/// C's `long double`, of which x86-64 uses 80 bits.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct LongDouble(pub(crate) [u64; 2]);

/// A complex number.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Complex<T>(pub(crate) T, pub(crate) T);

/// Types whose values are words.
pub(crate) trait Word: Copy + PartialOrd + std::fmt::Display {
    const WIDTH: Width;
    /// The bits, in the low half of the result if there are fewer than 64.
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! words {
    ($($kind:ty, $unsigned:ty, $width:ident;)*) => {$(
        impl Word for $kind {
            const WIDTH: Width = Width::$width;

            #[inline(always)]
            fn to_bits(self) -> u64 {
                <$unsigned>::from_ne_bytes(self.to_ne_bytes()).into()
            }

            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                Self::from_ne_bytes((bits as $unsigned).to_ne_bytes())
            }
        }
    )*};
}

words! {
    i16, u16, Bits16;
    u16, u16, Bits16;
    i32, u32, Bits32;
    u32, u32, Bits32;
    f32, u32, Bits32;
    i64, u64, Bits64;
    u64, u64, Bits64;
    f64, u64, Bits64;
}

macro_rules! sizes {
    ($($kind:ty, $same:ty;)*) => {$(
        impl Word for $kind {
            const WIDTH: Width = Width::Bits64;

            #[inline(always)]
            fn to_bits(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $same as Self
            }
        }
    )*};
}

sizes! {
    usize, u64;
    isize, i64;
}
