//! Arithmetic on the floating-point formats without a Rust type: half, x87's extended, and quadruple precision.
//!
//! Numbers are decomposed, computed as integers, and rounded once, to nearest with ties to even (IEEE 754-2019 section 4.3.1). Three guard
//! bits are enough for that, if the lowest one records whether any lost bit was set.

use std::cmp::Ordering;

/// A binary format of up to 16 bytes, in the byte order of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
    /// Whether the leading bit of the significand is stored.
    has_integer_bit: bool,
}

/// IEEE binary16.
pub(super) const HALF: Format = Format { exponent_bits: 5, fraction_bits: 10, has_integer_bit: false };
/// IEEE binary128.
pub(super) const QUADRUPLE: Format = Format { exponent_bits: 15, fraction_bits: 112, has_integer_bit: false };
/// C's `long double`.
#[cfg(target_arch = "x86_64")]
pub(super) const LONG_DOUBLE: Format = Format { exponent_bits: 15, fraction_bits: 63, has_integer_bit: true };
/// C's `long double`.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const LONG_DOUBLE: Format = QUADRUPLE;

/// Number of bits kept below the last bit of the result.
const GUARD_BITS: u32 = 3;

/// A decomposed number.
#[derive(Clone, Copy, Debug)]
struct Number {
    is_negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, Debug)]
enum Magnitude {
    Zero,
    /// The significand, whose highest bit has the value 2^exponent.
    Finite {
        exponent: i32,
        significand: u128,
    },
    Infinite,
    NotANumber,
}

use Magnitude::{Finite, Infinite, NotANumber, Zero};

impl Format {
    /// Bits of a significand.
    const fn precision(self) -> u32 {
        self.fraction_bits + 1
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn exponent_mask(self) -> u128 {
        (1 << self.exponent_bits) - 1
    }

    /// The bit at which the exponent begins.
    const fn exponent_at(self) -> u32 {
        self.fraction_bits + self.has_integer_bit as u32
    }

    fn parse(self, bits: u128) -> Number {
        let field = bits >> self.exponent_at() & self.exponent_mask();
        let is_negative = bits >> (self.exponent_at() + self.exponent_bits) & 1 == 1;
        let fraction = bits & ((1 << self.fraction_bits) - 1);
        let leading: u128 = match self.has_integer_bit {
            true => bits >> self.fraction_bits & 1,
            false => u128::from(field != 0),
        };
        let significand = leading << self.fraction_bits | fraction;
        let magnitude = if field == self.exponent_mask() {
            if fraction == 0 { Infinite } else { NotANumber }
        } else if significand == 0 {
            Zero
        } else {
            // Numbers without a leading bit (subnormals) have the smallest exponent.
            let exponent = i32::try_from(field).unwrap_or(0).max(1) - self.bias();
            let missing = self.precision() - bit_length(significand);
            Finite { exponent: exponent - missing.cast_signed(), significand: significand << missing }
        };
        Number { is_negative, magnitude }
    }

    fn compose(self, is_negative: bool, field: u128, significand: u128) -> u128 {
        let kept = self.fraction_bits + u32::from(self.has_integer_bit);
        let sign = u128::from(is_negative) << (self.exponent_at() + self.exponent_bits);
        sign | field << self.exponent_at() | significand & ((1 << kept) - 1)
    }

    fn zero(self, is_negative: bool) -> u128 {
        self.compose(is_negative, 0, 0)
    }

    fn infinity(self, is_negative: bool) -> u128 {
        self.compose(is_negative, self.exponent_mask(), 1 << self.fraction_bits)
    }

    fn not_a_number(self) -> u128 {
        self.compose(false, self.exponent_mask(), 0b11 << (self.fraction_bits - 1))
    }

    /// The number nearest to `significand`, whose bit `precision - 1 + GUARD_BITS` has the value 2^exponent.
    fn round(self, is_negative: bool, mut exponent: i32, mut significand: u128) -> u128 {
        if significand == 0 {
            return self.zero(is_negative);
        }
        let (wanted, length) = (self.precision() + GUARD_BITS, bit_length(significand));
        exponent += length.cast_signed() - wanted.cast_signed();
        if length > wanted {
            significand = shifted_right(significand, length - wanted);
        } else {
            significand <<= wanted - length;
        }
        let smallest = 1 - self.bias();
        let mut field = exponent + self.bias();
        if exponent < smallest {
            significand = shifted_right(significand, exponent.abs_diff(smallest));
            field = 0;
        }
        let below = significand & 0b111;
        significand >>= GUARD_BITS;
        if below > 0b100 || below == 0b100 && significand & 1 == 1 {
            significand += 1;
        }
        if significand >> self.precision() != 0 {
            significand >>= 1;
            field += 1;
        }
        if field == 0 && significand >> self.fraction_bits != 0 {
            field = 1;
        }
        match u128::try_from(field) {
            Ok(field) if field < self.exponent_mask() => self.compose(is_negative, field, significand),
            _ => self.infinity(is_negative),
        }
    }

    /// The sum.
    pub(super) fn add(self, a: u128, b: u128) -> u128 {
        let (x, y) = (self.parse(a), self.parse(b));
        match (x.magnitude, y.magnitude) {
            (NotANumber, _) | (_, NotANumber) => self.not_a_number(),
            (Infinite, Infinite) if x.is_negative != y.is_negative => self.not_a_number(),
            (Infinite, _) => self.infinity(x.is_negative),
            (_, Infinite) => self.infinity(y.is_negative),
            (Zero, Zero) => self.zero(x.is_negative && y.is_negative),
            (Zero, _) => b,
            (_, Zero) => a,
            (
                Finite { exponent, significand },
                Finite { exponent: other_exponent, significand: other_significand },
            ) => {
                let (mut larger, mut smaller) = (significand << GUARD_BITS, other_significand << GUARD_BITS);
                let mut is_negative = x.is_negative;
                if other_exponent > exponent {
                    std::mem::swap(&mut larger, &mut smaller);
                    is_negative = y.is_negative;
                }
                smaller = shifted_right(smaller, exponent.abs_diff(other_exponent));
                let exponent = exponent.max(other_exponent);
                if x.is_negative == y.is_negative {
                    return self.round(is_negative, exponent, larger + smaller);
                }
                match larger.cmp(&smaller) {
                    Ordering::Equal => self.zero(false),
                    Ordering::Greater => self.round(is_negative, exponent, larger - smaller),
                    Ordering::Less => self.round(!is_negative, exponent, smaller - larger),
                }
            }
        }
    }

    /// The product.
    pub(super) fn multiply(self, a: u128, b: u128) -> u128 {
        let (x, y) = (self.parse(a), self.parse(b));
        let is_negative = x.is_negative != y.is_negative;
        match (x.magnitude, y.magnitude) {
            (NotANumber, _) | (_, NotANumber) | (Infinite, Zero) | (Zero, Infinite) => self.not_a_number(),
            (Infinite, _) | (_, Infinite) => self.infinity(is_negative),
            (Zero, _) | (_, Zero) => self.zero(is_negative),
            (
                Finite { exponent, significand },
                Finite { exponent: other_exponent, significand: other_significand },
            ) => {
                let product = wide_product(significand, other_significand);
                // Bit 2 * (precision - 1) of the product has the value 2^(sum of exponents).
                let excess = (self.precision() - 1).cast_signed() - GUARD_BITS.cast_signed();
                let significand = match u32::try_from(excess) {
                    Ok(excess) => shifted_right_wide(product, excess),
                    Err(_) => product.1 << excess.unsigned_abs(),
                };
                self.round(is_negative, exponent + other_exponent, significand)
            }
        }
    }

    /// The number with the other sign.
    pub(super) fn negate(self, bits: u128) -> u128 {
        bits ^ 1 << (self.exponent_at() + self.exponent_bits)
    }

    /// Compares two numbers; `None` if one is a NaN.
    pub(super) fn compare(self, a: u128, b: u128) -> Option<Ordering> {
        // Orders magnitudes by kind, then exponent, then significand.
        fn key(magnitude: Magnitude) -> Option<(u8, i32, u128)> {
            match magnitude {
                Zero => Some((0, 0, 0)),
                Finite { exponent, significand } => Some((1, exponent, significand)),
                Infinite => Some((2, 0, 0)),
                NotANumber => None,
            }
        }
        let (x, y) = (self.parse(a), self.parse(b));
        let (of_x, of_y) = (key(x.magnitude)?, key(y.magnitude)?);
        if of_x.0 == 0 && of_y.0 == 0 {
            return Some(Ordering::Equal);
        }
        Some(match (x.is_negative, y.is_negative) {
            (false, false) => of_x.cmp(&of_y),
            (true, true) => of_y.cmp(&of_x),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        })
    }
}

const fn bit_length(value: u128) -> u32 {
    u128::BITS - value.leading_zeros()
}

/// Shifts right, and sets the lowest bit if a bit that was 1 was lost.
fn shifted_right(value: u128, by: u32) -> u128 {
    if by >= u128::BITS {
        return u128::from(value != 0);
    }
    let kept = value >> by;
    kept | u128::from(kept << by != value)
}

/// The product, as its high and its low half.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    let low_half = |value: u128| value & u128::from(u64::MAX);
    let (a_high, a_low, b_high, b_low) = (a >> 64, low_half(a), b >> 64, low_half(b));
    let lowest = a_low * b_low;
    let middle = a_high * b_low + (lowest >> 64);
    let other_middle = a_low * b_high + low_half(middle);
    let high = a_high * b_high + (middle >> 64) + (other_middle >> 64);
    (high, other_middle << 64 | low_half(lowest))
}

/// [`shifted_right`] for a number of two halves. `by` must be less than 128, and the result must fit into one half.
fn shifted_right_wide((high, low): (u128, u128), by: u32) -> u128 {
    if by == 0 {
        return low;
    }
    high << (u128::BITS - by) | shifted_right(low, by)
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the low bits of random words are meant")]
mod tests {
    use super::*;

    /// The format of `f64`, for which the machine has arithmetic.
    const DOUBLE: Format = Format { exponent_bits: 11, fraction_bits: 52, has_integer_bit: false };
    const SINGLE: Format = Format { exponent_bits: 8, fraction_bits: 23, has_integer_bit: false };

    fn bits_of(value: f64) -> u128 {
        u128::from(value.to_bits())
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    #[test]
    fn doubles_come_out_as_the_machine_makes_them() {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            -5e-324,
            f64::INFINITY,
            -f64::INFINITY,
        ];
        let (mut state, mut checked) = (7, 0);
        let mut values: Vec<f64> = special.into_iter().chain([f64::NAN]).collect();
        for _ in 0..200 {
            values.push(f64::from_bits(random(&mut state)));
            // Values near each other, so that sums cancel and products have a moderate size.
            values.push(
                f64::from_bits(random(&mut state) >> 12 | 0x3ff << 52)
                    * 2f64.powi((values.len() % 60) as i32 - 30),
            );
            // Values near the smallest numbers.
            values.push(f64::from_bits(random(&mut state) >> 10));
        }
        let same = |ours: u128, theirs: f64| {
            if theirs.is_nan() { f64::from_bits(ours as u64).is_nan() } else { ours == bits_of(theirs) }
        };
        for &a in &values {
            for &b in &values {
                let (x, y) = (bits_of(a), bits_of(b));
                assert!(same(DOUBLE.add(x, y), a + b), "{a:e} + {b:e}");
                assert!(same(DOUBLE.multiply(x, y), a * b), "{a:e} * {b:e}");
                assert_eq!(DOUBLE.compare(x, y), a.partial_cmp(&b), "{a:e} and {b:e}");
                checked += 1;
            }
        }
        assert!(checked > 100_000);
    }

    #[test]
    fn singles_come_out_as_the_machine_makes_them() {
        let mut state = 3;
        for _ in 0..200_000 {
            let (a, b) = (random(&mut state) as u32, random(&mut state) as u32);
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            for (ours, theirs) in
                [(SINGLE.add(a.into(), b.into()), x + y), (SINGLE.multiply(a.into(), b.into()), x * y)]
            {
                let ours = f32::from_bits(ours as u32);
                assert!(
                    ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                    "{x:e}, {y:e}"
                );
            }
        }
    }

    /// Small integers are exact in every format.
    #[test]
    fn integers_are_exact_in_the_formats_without_a_type() {
        let of = |format: Format, value: i64| {
            let length = 64 - value.unsigned_abs().leading_zeros();
            let exponent = length.cast_signed() - 1;
            let shifted = u128::from(value.unsigned_abs()) << (format.precision() + GUARD_BITS - length);
            format.round(value < 0, exponent, shifted)
        };
        for format in [HALF, QUADRUPLE, LONG_DOUBLE] {
            for a in (-20..20).filter(|&a| a != 0) {
                for b in (-20..20).filter(|&b| b != 0) {
                    assert_eq!(format.multiply(of(format, a), of(format, b)), of(format, a * b));
                    if a + b != 0 {
                        assert_eq!(format.add(of(format, a), of(format, b)), of(format, a + b));
                    }
                    assert_eq!(format.compare(of(format, a), of(format, b)), Some(a.cmp(&b)));
                }
            }
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(of(LONG_DOUBLE, 1), 0x3fff_8000_0000_0000_0000, "as x87 stores 1");
        assert_eq!(of(QUADRUPLE, 1), 0x3fff << 112);
        assert_eq!(of(HALF, -2), 0xc000);
    }
}
