//! Discrete Fourier transforms of many sequences at a time. The length of a sequence is a power of two.
//!
//! Stockham's method: each pass copies from one array to another and leaves the result in order, so that nothing has to be permuted.
//! Elements of the same index in different sequences are adjacent; the inner loops run over these elements, and need no strides. After C.
//! Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1992, section 1.7.

use std::f64::consts::TAU;
use std::ops::{Add, Mul, Sub};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex {
    /// The real part.
    pub re: f64,
    /// The imaginary part.
    pub im: f64,
}

impl Complex {
    /// The number on the unit circle at this angle.
    #[must_use]
    pub fn at_angle(radians: f64) -> Self {
        Self { re: radians.cos(), im: radians.sin() }
    }

    /// This number, multiplied by a real factor.
    #[inline(always)]
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { re: self.re * factor, im: self.im * factor }
    }
}

impl Add for Complex {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The form of a complex number in a message.
impl From<Complex> for [f64; 2] {
    #[inline(always)]
    fn from(Complex { re, im }: Complex) -> Self {
        [re, im]
    }
}

impl From<[f64; 2]> for Complex {
    #[inline(always)]
    fn from([re, im]: [f64; 2]) -> Self {
        Self { re, im }
    }
}

/// The direction of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Uses powers of exp(-2 pi i / n).
    Forward,
    /// Uses powers of exp(2 pi i / n), and does not divide by n.
    Backward,
}

/// The precomputed roots for transforms of one length.
#[derive(Debug)]
pub struct Plan {
    /// The powers of the root of unity.
    roots: Vec<Complex>,
    direction: Direction,
}

impl Plan {
    /// Prepares transforms of sequences of `len` elements. `len` must be a power of two.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "lengths of sequences that fit into memory")]
    pub fn new(len: usize, direction: Direction) -> Self {
        assert!(len.is_power_of_two(), "a transform of {len} elements, which is not a power of two");
        let step = match direction {
            Direction::Forward => -TAU / len as f64,
            Direction::Backward => TAU / len as f64,
        };
        Self { roots: (0..len).map(|power| Complex::at_angle(step * power as f64)).collect(), direction }
    }

    /// Transforms `data` in place. With `count` sequences, element e of sequence s is at index `e * count + s`. `scratch` must have the
    /// same length; its contents are overwritten.
    pub fn transform(&self, data: &mut [Complex], scratch: &mut [Complex]) {
        let len = self.roots.len();
        let count = data.len() / len;
        assert_eq!(data.len(), count * len, "whole sequences");
        assert_eq!(data.len(), scratch.len(), "scratch memory is as long as the data");
        let (mut from, mut to) = (data, scratch);
        let (mut left, mut side) = (len, count);
        let mut is_swapped = false;
        while left > 1 {
            let radix = if left % 4 == 0 { 4 } else { 2 };
            left /= radix;
            if radix == 4 {
                self.pass_of_four(left, side, from, to)
            } else {
                self.pass_of_two(side, from, to)
            }
            side *= radix;
            (from, to) = (to, from);
            is_swapped = !is_swapped;
        }
        if is_swapped {
            to.copy_from_slice(from);
        }
    }

    /// The last pass if the length is not a power of four: the roots are 1 and -1.
    fn pass_of_two(&self, side: usize, from: &[Complex], to: &mut [Complex]) {
        let (a, b) = from.split_at(side);
        let (sums, differences) = to.split_at_mut(side);
        for (((sum, difference), a), b) in sums.iter_mut().zip(differences).zip(a).zip(b) {
            *sum = *a + *b;
            *difference = *a - *b;
        }
    }

    /// Combines four elements at distance `left`, and stores the four results next to each other.
    fn pass_of_four(&self, left: usize, side: usize, from: &[Complex], to: &mut [Complex]) {
        let stride = self.roots.len() / (4 * left);
        let (first, second) = from.split_at(2 * left * side);
        let (a, b) = first.split_at(left * side);
        let (c, d) = second.split_at(left * side);
        let parts = a.chunks_exact(side).zip(b.chunks_exact(side));
        let parts = parts.zip(c.chunks_exact(side)).zip(d.chunks_exact(side));
        for ((power, to), (((a, b), c), d)) in to.chunks_exact_mut(4 * side).enumerate().zip(parts) {
            let [w1, w2, w3] = [1, 2, 3].map(|times| self.roots[times * power * stride]);
            let (first, second) = to.split_at_mut(2 * side);
            let (to0, to1) = first.split_at_mut(side);
            let (to2, to3) = second.split_at_mut(side);
            let (a, b, c, d) = (&a[..side], &b[..side], &c[..side], &d[..side]);
            for at in 0..side {
                let (even, odd) = (a[at] + c[at], b[at] + d[at]);
                let (across, turned) = (a[at] - c[at], self.turned(b[at] - d[at]));
                to0[at] = even + odd;
                to1[at] = (across + turned) * w1;
                to2[at] = (even - odd) * w2;
                to3[at] = (across - turned) * w3;
            }
        }
    }

    /// `number` times the fourth root of unity that belongs to the direction.
    #[inline(always)]
    fn turned(&self, number: Complex) -> Complex {
        match self.direction {
            Direction::Forward => Complex { re: number.im, im: -number.re },
            Direction::Backward => Complex { re: -number.im, im: number.re },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nas::Generator;

    fn by_definition(data: &[Complex], count: usize, step: f64) -> Vec<Complex> {
        let len = data.len() / count;
        let element = |place: usize| {
            let (wave, sequence) = (place / count, place % count);
            (0..len).fold(Complex::default(), |sum, at| {
                let angle = step * ((wave * at) % len) as f64;
                sum + data[at * count + sequence] * Complex::at_angle(angle)
            })
        };
        (0..data.len()).map(element).collect()
    }

    #[test]
    fn transforms_are_as_the_definition_says() {
        let mut random = Generator::new(314_159_265);
        for len in [1, 2, 4, 8, 32, 64] {
            for count in [1, 3, 8] {
                let number = |_| Complex { re: random.next() - 0.5, im: random.next() - 0.5 };
                let data: Vec<Complex> = (0..len * count).map(number).collect();
                for (direction, sign) in [(Direction::Forward, -1.0), (Direction::Backward, 1.0)] {
                    let mut found = data.clone();
                    Plan::new(len, direction)
                        .transform(&mut found, &mut vec![Complex::default(); data.len()]);
                    for (found, expected) in
                        found.iter().zip(by_definition(&data, count, sign * TAU / len as f64))
                    {
                        let difference = *found - expected;
                        assert!(
                            difference.re.hypot(difference.im) < 1e-12,
                            "{len} elements, {count} sequences"
                        );
                    }
                }
            }
        }
    }
}
