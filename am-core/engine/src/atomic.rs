//! Atomic operations on words: what they do to a value.

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
    /// The smaller of two numbers without sign.
    FetchMin(u64),
    /// The larger of two numbers without sign.
    FetchMax(u64),
    /// The smaller of two numbers with sign (two's complement).
    FetchMinSigned(u64),
    /// The larger of two numbers with sign.
    FetchMaxSigned(u64),
    /// Adds a floating-point number, given by its bits: an `f64`, or in 32 bits an `f32`. Most are made by
    /// [`add_f64`](Self::add_f64) and [`add_f32`](Self::add_f32).
    FetchAddFloat(u64),
    /// The smaller of two floating-point numbers; a number wins against NaN.
    FetchMinFloat(u64),
    /// The larger of two floating-point numbers; a number wins against NaN.
    FetchMaxFloat(u64),
    /// Replaces the value (`SWAP`).
    Swap(u64),
    /// Replaces the value if it equals `expected` (`COMPARE_AND_SWAP`).
    CompareSwap {
        /// The value that must be there.
        expected: u64,
        /// The value to put there.
        new: u64,
    },
}

impl AtomicOp {
    /// Adds an `f64` to the 64-bit word.
    #[must_use]
    pub fn add_f64(value: f64) -> Self {
        Self::FetchAddFloat(value.to_bits())
    }

    /// Adds an `f32` to the 32-bit word.
    #[must_use]
    pub fn add_f32(value: f32) -> Self {
        Self::FetchAddFloat(u64::from(value.to_bits()))
    }

    /// The same operation with another operand; of a compare and swap, with another new value.
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
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::FetchAddFloat(_) | Self::FetchMinFloat(_) | Self::FetchMaxFloat(_))
    }

    /// What a 64-bit word that holds `old` holds afterwards.
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

    /// What a 32-bit word that holds `old` holds afterwards: the low halves of the operands count.
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
            // The rest work on each bit, or from the low end upwards.
            operation => operation.on_u64(u64::from(old)) as u32,
        }
    }

    /// What a word of 8 or 16 bits that holds `old` holds afterwards: the low bits of the operands count. Floating-point operations
    /// leave it as it is.
    #[must_use]
    pub fn on_small(self, width: Width, old: u16) -> u16 {
        let shift = 64 - 8 * width.bytes() as u32;
        // At the upper end of 64 bits a number compares as it does in its own width, with and without a sign.
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

/// Size of the word of an atomic operation. Of a word of fewer than 64 bits, operands and result are the low bits.
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
    /// Bytes of the word.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bits8 => 1,
            Self::Bits16 => 2,
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}
