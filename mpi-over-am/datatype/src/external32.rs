//! The representation external32 (MPI 5.0 section 14.5.2): packed, big-endian, in sizes that do not depend on the machine.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are u64 in messages and usize in memory, which is the same here (am-core asserts it)"
)]

use super::predefined::{Kind, Predefined};
use super::{Datatype, construct};
use crate::error::{Error, Result};

impl Datatype {
    /// Size in bytes of `count` elements in external32 (`MPI_Pack_external_size`).
    ///
    /// # Errors
    /// More than 2^63 bytes.
    pub fn external32_len(&self, count: u64) -> Result<u64> {
        construct::bytes_in_all(self.bytes_in_file(&Predefined::external32_size), count)
    }

    /// Converts the packed bytes of whole elements to external32 and appends them to `to`.
    ///
    /// # Errors
    /// [`Error::Conversion`]: a number does not fit into its external form. `to` then holds the numbers before it.
    pub fn to_external32(&self, packed: &[u8], to: &mut Vec<u8>) -> Result<()> {
        let mut rest = packed;
        self.each_element(packed.len() as u64, self.size(), |basic| {
            let (element, behind) = rest.split_at(basic.size() as usize);
            rest = behind;
            element_out(basic, element, to)
        })
    }

    /// Converts the packed bytes of elements from external32 and appends them to `to`. The last element may end behind any number.
    ///
    /// # Errors
    /// None on this machine: every number in external32 fits into its type.
    pub fn from_external32(&self, external: &[u8], to: &mut Vec<u8>) -> Result<()> {
        let mut rest = external;
        let mut is_over = self.elements() == 0;
        while !is_over {
            self.signature().try_each_run(&mut |basic, count| {
                for _ in 0..count {
                    let number = rest.split_at_checked(basic.external32_size() as usize);
                    let Some((number, behind)) = number.filter(|_| !is_over && !rest.is_empty()) else {
                        is_over = true;
                        break;
                    };
                    rest = behind;
                    element_in(basic, number, to)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Calls `each` with the basic types of each whole element in `len` bytes. An element has `size` bytes.
    fn each_element(
        &self,
        len: u64,
        size: u64,
        mut each: impl FnMut(Predefined) -> Result<()>,
    ) -> Result<()> {
        let count = len.checked_div(size).unwrap_or(0);
        (0..count).try_for_each(|_| {
            self.signature().try_each_run(&mut |basic, count| (0..count).try_for_each(|_| each(basic)))
        })
    }
}

fn element_out(basic: Predefined, native: &[u8], to: &mut Vec<u8>) -> Result<()> {
    match (basic.kind(), basic) {
        (Kind::Bytes, _) => to.extend_from_slice(native),
        (Kind::Complex, _) => {
            let (real, imaginary) = native.split_at(native.len() / 2);
            float_out(is_extended(basic), real, to);
            float_out(is_extended(basic), imaginary, to);
        }
        (Kind::Float, _) => float_out(is_extended(basic), native, to),
        (kind, _) => {
            let external_len = basic.external32_size() as usize;
            let (kept, cut) = native.split_at(external_len.min(native.len()));
            let fill =
                if kind == Kind::Signed && kept.last().is_some_and(|last| last >> 7 == 1) { 0xff } else { 0 };
            if cut.iter().any(|&byte| byte != fill) {
                return Err(Error::Conversion { datatype: basic.name(), bytes: external_len });
            }
            to.extend(kept.iter().rev());
        }
    }
    Ok(())
}

fn element_in(basic: Predefined, external: &[u8], to: &mut Vec<u8>) -> Result<()> {
    match (basic.kind(), basic) {
        (Kind::Bytes, _) => to.extend_from_slice(external),
        (Kind::Complex, _) => {
            let (real, imaginary) = external.split_at(external.len() / 2);
            float_in(is_extended(basic), real, to);
            float_in(is_extended(basic), imaginary, to);
        }
        (Kind::Float, _) => float_in(is_extended(basic), external, to),
        (kind, _) => {
            let fill = if kind == Kind::Signed && external.first().is_some_and(|first| first >> 7 == 1) {
                0xff
            } else {
                0
            };
            to.extend(external.iter().rev());
            to.extend(std::iter::repeat_n(fill, basic.size() as usize - external.len()));
        }
    }
    Ok(())
}

/// Whether the type is x86's long double: 64 bits of mantissa in 16 bytes. On other machines, long double is IEEE's binary128, as in
/// external32.
fn is_extended(basic: Predefined) -> bool {
    use Predefined::{CxxLongDoubleComplex, LongDouble, LongDoubleComplex};
    cfg!(target_arch = "x86_64") && matches!(basic, LongDouble | LongDoubleComplex | CxxLongDoubleComplex)
}

fn float_out(is_extended: bool, native: &[u8], to: &mut Vec<u8>) {
    match <[u8; 16]>::try_from(native) {
        Ok(native) if is_extended => to.extend(quad_of_extended(u128::from_le_bytes(native)).to_be_bytes()),
        _ => to.extend(native.iter().rev()),
    }
}

fn float_in(is_extended: bool, external: &[u8], to: &mut Vec<u8>) {
    match <[u8; 16]>::try_from(external) {
        Ok(external) if is_extended => {
            to.extend(extended_of_quad(u128::from_be_bytes(external)).to_le_bytes())
        }
        _ => to.extend(external.iter().rev()),
    }
}

/// By how many bits the fraction of binary128 is longer than that of the extended format. (The extended format also stores the leading one,
/// which is no fraction bit.)
const SHIFT: u32 = 112 - 63;
const EXPONENT_MAX: u128 = 0x7fff;

/// Converts exactly: both formats have 15 bits of exponent with the same bias, and binary128 has the longer fraction.
fn quad_of_extended(bits: u128) -> u128 {
    let mantissa = bits & u128::from(u64::MAX);
    let (sign, exponent) = (bits >> 79 & 1, bits >> 64 & EXPONENT_MAX);
    // A number with exponent 0 whose integer bit is set (a pseudo-denormal) has the value that it would have with exponent 1, the smallest
    // of a normal number.
    let exponent = if exponent == 0 { mantissa >> 63 } else { exponent };
    let fraction = (mantissa & (u128::from(u64::MAX) >> 1)) << SHIFT;
    sign << 127 | exponent << 112 | fraction
}

/// Rounds to the nearest extended number, ties to even.
fn extended_of_quad(bits: u128) -> u128 {
    let (sign, exponent) = (bits >> 127, bits >> 112 & EXPONENT_MAX);
    let fraction = bits & ((1 << 112) - 1);
    let leading = u128::from(exponent != 0) << 63;
    let mut mantissa = leading | fraction >> SHIFT;
    let mut exponent = exponent;
    if exponent == EXPONENT_MAX {
        // A NaN stays a NaN when low bits of its fraction are lost.
        mantissa |= u128::from(fraction != 0) << 62;
    } else {
        let (rest, half) = (fraction & ((1 << SHIFT) - 1), 1 << (SHIFT - 1));
        mantissa += u128::from(rest > half || rest == half && mantissa & 1 == 1);
        if mantissa >> 64 == 1 {
            (mantissa, exponent) = (1 << 63, exponent + 1);
        } else if exponent == 0 && mantissa >> 63 == 1 {
            exponent = 1;
        }
    }
    sign << 79 | exponent << 64 | mantissa
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(datatype: &Datatype, packed: &[u8]) -> Vec<u8> {
        let (mut external, mut back) = (Vec::new(), Vec::new());
        datatype.to_external32(packed, &mut external).unwrap();
        let count = packed.len() as u64 / datatype.size();
        assert_eq!(external.len() as u64, datatype.external32_len(count).unwrap());
        datatype.from_external32(&external, &mut back).unwrap();
        assert_eq!(back, packed, "{datatype:?}");
        external
    }

    #[test]
    fn numbers_have_their_most_significant_byte_first() {
        let int = Datatype::predefined(Predefined::Int);
        assert_eq!(there_and_back(&int, &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 3, 2, 1, 8, 7, 6, 5]);
        let complex = Datatype::predefined(Predefined::FloatComplex);
        assert_eq!(there_and_back(&complex, &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 3, 2, 1, 8, 7, 6, 5]);
        let pair = Datatype::predefined(Predefined::ShortInt);
        assert_eq!(there_and_back(&pair, &[1, 2, 3, 4, 5, 6]), [2, 1, 6, 5, 4, 3]);
        let bytes = Datatype::predefined(Predefined::Byte);
        assert_eq!(there_and_back(&bytes, &[1, 2, 3]), [1, 2, 3]);
    }

    #[test]
    fn a_long_has_four_bytes_outside_and_what_does_not_fit_is_an_error() {
        let long = Datatype::predefined(Predefined::Long);
        assert_eq!(there_and_back(&long, &(-2i64).to_le_bytes()), (-2i32).to_be_bytes());
        let error = long.to_external32(&(1i64 << 31).to_le_bytes(), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::Conversion { .. }));
        let unsigned = Datatype::predefined(Predefined::UnsignedLong);
        assert_eq!(there_and_back(&unsigned, &(u64::from(u32::MAX)).to_le_bytes()), [255; 4]);
    }

    #[test]
    fn every_predefined_type_comes_back() {
        for predefined in Predefined::ALL {
            let datatype = Datatype::predefined(predefined);
            let small: Vec<u8> = (0..predefined.size()).map(|byte| u8::from(byte == 0) * 77).collect();
            there_and_back(&datatype, &small);
        }
    }

    #[test]
    fn long_doubles_become_binary128_and_back() {
        // The number one: the exponent is the bias, the fraction zero.
        let one = 0x3fff_u128 << 64 | 1 << 63;
        assert_eq!(quad_of_extended(one), 0x3fff_u128 << 112);
        let smallest_normal = 1_u128 << 64 | 1 << 63;
        let infinity = EXPONENT_MAX << 64 | 1 << 63;
        let not_a_number = EXPONENT_MAX << 64 | 3 << 62;
        for bits in
            [one, one + 12345, 1 << 79 | one, 0, 1, (1 << 63) - 1, smallest_normal, infinity, not_a_number]
        {
            assert_eq!(extended_of_quad(quad_of_extended(bits)), bits, "{bits:#x}");
        }
        // The number just below 2 rounds up to 2.
        let two = 0x4000_u128 << 64 | 1 << 63;
        assert_eq!(extended_of_quad((0x4000_u128 << 112) - 1), two);
    }
}
