//! The sequence of RandomAccess of the HPC Challenge: a shift register over GF(2), which a task enters at its own position.

/// The feedback of the shift register.
const POLYNOMIAL: u64 = 7;
/// Period of the sequence.
const PERIOD: u64 = 1_317_624_576_693_539_401;

/// The number after `number` in the sequence.
#[inline(always)]
#[must_use]
pub fn next(number: u64) -> u64 {
    number << 1 ^ if number >> 63 == 1 { POLYNOMIAL } else { 0 }
}

/// Number `at` of the sequence; number 0 is 1.
#[must_use]
pub fn start(at: u64) -> u64 {
    let at = at % PERIOD;
    if at == 0 {
        return 1;
    }
    // Squaring is linear over GF(2): bit i of a number contributes x^(2i) to its square.
    let mut power = 1;
    let squares: [u64; 64] = std::array::from_fn(|_| {
        let square = power;
        power = next(next(power));
        square
    });
    let mut number = 2;
    for bit in (0..u64::BITS - 1 - at.leading_zeros()).rev() {
        number = (0..64).filter(|i| number >> i & 1 == 1).fold(0, |square, i| square ^ squares[i]);
        if at >> bit & 1 == 1 {
            number = next(number);
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_begins_where_the_one_before_it_ends() {
        let mut number = 1;
        for at in 0..1000 {
            assert_eq!(start(at), number, "number {at}");
            number = next(number);
        }
        let far = 123_456_789;
        assert_eq!(next(start(far)), start(far + 1));
    }
}
