//! A grid for a number of tasks (`MPI_Dims_create`, MPI 5.0 section 8.5.2).

use crate::error::{Error, ErrorClass, Result};

/// Replaces the dimensions that are 0, so that the product of all is `tasks` (`MPI_Dims_create`). The new dimensions do not increase, and
/// their maximum and minimum differ as little as possible; among several choices, the one with the largest minimum is used. Other
/// dimensions are unchanged.
///
/// # Errors
/// The given dimensions do not divide `tasks`, or none is 0 and their product is not `tasks`.
pub fn dimensions(tasks: u32, given: &mut [u32]) -> Result<()> {
    let refused = |what, value: u64| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        Err(Error::refused(ErrorClass::Dimensions, "dimensions", what, value))
    };
    let fixed = given.iter().filter(|&&size| size > 0).try_fold(1u64, |all, &size| {
        all.checked_mul(u64::from(size)).filter(|&all| all <= u64::from(u32::MAX))
    });
    let Some(fixed) = fixed else { return refused("the product of the dimensions is too large", u64::MAX) };
    if tasks == 0 || u64::from(tasks) % fixed != 0 {
        return refused(
            "the given dimensions do not divide the number of tasks; the value is their product",
            fixed,
        );
    }
    let free = given.iter().filter(|&&size| size == 0).count();
    let left = u32::try_from(u64::from(tasks) / fixed).expect("a divisor of a u32 fits into one");
    if free == 0 {
        let what =
            "no dimension is 0, and their product is not the number of tasks; the value is the product";
        return if left == 1 { Ok(()) } else { refused(what, fixed) };
    }
    let mut filled = balanced(left, free).into_iter();
    for size in given.iter_mut().filter(|size| **size == 0) {
        *size = filled.next().expect("the number was counted");
    }
    Ok(())
}

/// `parts` factors of `number`, largest first, with the least difference between maximum and minimum; among several choices, the one with
/// the largest minimum.
fn balanced(number: u32, parts: usize) -> Vec<u32> {
    let primes = primes_of(number);
    let mut search = Search {
        divisors: &divisors_of(number),
        primes: &primes,
        chosen: Vec::with_capacity(parts),
        best: None,
    };
    search.choose_smallest(number, parts);
    let mut found = search.best.expect("the number itself with ones is a choice");
    found.reverse();
    found
}

/// The prime factors with their multiplicity, ascending.
fn primes_of(mut number: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut prime = 2;
    while u64::from(prime) * u64::from(prime) <= u64::from(number) {
        while number.is_multiple_of(prime) {
            found.push(prime);
            number /= prime;
        }
        prime += 1;
    }
    found.extend((number > 1).then_some(number));
    found
}

fn divisors_of(number: u32) -> Vec<u32> {
    let small = (1..).take_while(|&d| u64::from(d) * u64::from(d) <= u64::from(number));
    let mut found: Vec<u32> =
        small.filter(|&d| number.is_multiple_of(d)).flat_map(|d| [d, number / d]).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether `factor` to the power of `parts` is at most `number`.
fn fits(factor: u32, parts: usize, number: u32) -> bool {
    u32::try_from(parts).ok().and_then(|parts| factor.checked_pow(parts)).is_some_and(|all| all <= number)
}

/// The search for balanced factors. The smallest factor comes first, as large as possible, so that a good choice is found early. Branches
/// that cannot improve on the best choice so far are skipped; few branches remain, even for numbers with many factors.
struct Search<'a> {
    divisors: &'a [u32],
    primes: &'a [u32],
    /// Ascending.
    chosen: Vec<u32>,
    best: Option<Vec<u32>>,
}

impl Search<'_> {
    /// The difference to improve on.
    fn difference(&self) -> Option<u32> {
        self.best.as_ref().map(|best| best[best.len() - 1] - best[0])
    }

    fn choose_smallest(&mut self, number: u32, parts: usize) {
        for &smallest in self.divisors.iter().rev().filter(|&&divisor| fits(divisor, parts, number)) {
            // The largest factor is at least the `parts`-th root of `number`, so with a smaller minimum the difference only grows.
            if self.difference().is_some_and(|best| fits(smallest.saturating_add(best), parts, number)) {
                return;
            }
            self.with(smallest, number, parts);
        }
    }

    /// Continues with `factor`, the next of `parts` factors whose product is `left`.
    fn with(&mut self, factor: u32, left: u32, parts: usize) {
        self.chosen.push(factor);
        let (left, parts) = (left / factor, parts - 1);
        if parts == 0 {
            if left == 1 && self.difference().is_none_or(|best| factor - self.chosen[0] < best) {
                self.best = Some(self.chosen.clone());
            }
        } else if self.can_be_better(factor, left, parts) {
            for &next in self.divisors.iter().rev() {
                if next < factor {
                    break;
                }
                // The last factor is `left`.
                let is_next = if parts == 1 { next == left } else { fits(next, parts, left) };
                if is_next && left.is_multiple_of(next) {
                    self.with(next, left, parts);
                }
            }
        }
        self.chosen.pop();
    }

    /// Whether `parts` factors from `factor` on can have the product `left` with a smaller difference.
    fn can_be_better(&self, factor: u32, left: u32, parts: usize) -> bool {
        let enough_primes =
            || self.primes.iter().filter(|&&prime| left.is_multiple_of(prime)).count() >= parts;
        if factor > 1 && !enough_primes() {
            return false;
        }
        let Some(best) = self.difference() else { return true };
        // The largest factor that would be an improvement; if the sum exceeds a u32, there is no bound.
        let Some(largest) = (self.chosen[0]).checked_add(best).map(|above| above - 1) else { return true };
        let largest_prime = self.primes.iter().rev().find(|&&prime| left.is_multiple_of(prime));
        let reaches = u32::try_from(parts).ok().and_then(|parts| largest.checked_pow(parts));
        reaches.is_none_or(|all| all >= left) && largest_prime.is_none_or(|&prime| prime <= largest)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    fn filled<const N: usize>(tasks: u32, mut given: [u32; N]) -> Result<[u32; N]> {
        dimensions(tasks, &mut given).map(|()| given)
    }

    #[test]
    fn grids_are_as_square_as_can_be() {
        assert_eq!(filled(6, [0, 0]).unwrap(), [3, 2]);
        assert_eq!(filled(7, [0, 0]).unwrap(), [7, 1]);
        assert_eq!(filled(6, [0, 3, 0]).unwrap(), [2, 3, 1]);
        assert_eq!(filled(16, [0, 0, 0]).unwrap(), [4, 2, 2]);
        assert_eq!(filled(24, [0, 0, 0]).unwrap(), [4, 3, 2]);
        assert_eq!(filled(72, [0, 0]).unwrap(), [9, 8]);
        assert_eq!(filled(1, [0, 0, 0]).unwrap(), [1, 1, 1]);
        assert_eq!(filled(12, [3, 4]).unwrap(), [3, 4]);
        assert_eq!(filled(1 << 20, [0, 0, 0, 0]).unwrap(), [32, 32, 32, 32]);
        assert_eq!(filled(0x7fff_ffff, [0, 0]).unwrap(), [0x7fff_ffff, 1]);
        assert!(filled::<0>(1, []).is_ok());
    }

    #[test]
    fn impossible_grids_are_refused() {
        for result in [filled(7, [2, 0]), filled(6, [2, 2]), filled(0, [0, 0]), filled(4, [u32::MAX, 3])] {
            assert_eq!(result.unwrap_err().class(), ErrorClass::Dimensions);
        }
        assert_eq!(filled::<0>(2, []).unwrap_err().class(), ErrorClass::Dimensions);
    }

    /// The least difference between the largest and the smallest of `parts` ascending factors of `left`, from `from` on, and the smallest
    /// factor; found by trying all.
    fn by_force(left: u32, parts: usize, from: u32, smallest: Option<u32>) -> Option<(u32, Reverse<u32>)> {
        if parts == 1 {
            let smallest = smallest.unwrap_or(left);
            return (left >= from).then(|| (left - smallest, Reverse(smallest)));
        }
        let factors = (from..=left).filter(|&factor| left.is_multiple_of(factor));
        factors
            .filter_map(|factor| by_force(left / factor, parts - 1, factor, Some(smallest.unwrap_or(factor))))
            .min()
    }

    #[test]
    fn no_other_grid_is_more_balanced() {
        let numbers = (1..=700).chain([720, 1001, 1024, 1260, 1680, 2520, 3600, 5040, 7488]);
        for (number, parts) in numbers.flat_map(|number| (1..=5).map(move |parts| (number, parts))) {
            let found = balanced(number, parts);
            let (largest, smallest) = (found[0], found[parts - 1]);
            let best = by_force(number, parts, 1, None).unwrap();
            assert_eq!((largest - smallest, Reverse(smallest)), best, "{number} in {parts}: {found:?}");
        }
        assert_eq!(filled(34425, [0, 0, 0]).unwrap(), [51, 27, 25]);
        assert_eq!(filled(7488, [0, 0, 0]).unwrap(), [26, 18, 16]);
        assert_eq!(filled(5040, [0, 0, 0]).unwrap(), [21, 16, 15]);
    }

    /// Numbers with more factors than any lower number, powers, products of the first primes, and a prime.
    #[test]
    fn large_numbers_are_no_trouble() {
        let numbers = [
            1 << 31,
            3_486_784_401,
            4_294_967_291,
            223_092_870,
            3_234_846_615,
            3_491_888_400,
            2_205_403_200,
            735_134_400,
        ];
        for (number, parts) in
            numbers.into_iter().flat_map(|number| (1..=24).map(move |parts| (number, parts)))
        {
            let found = balanced(number, parts);
            assert_eq!(found.iter().map(|&factor| u64::from(factor)).product::<u64>(), u64::from(number));
            assert!(found.is_sorted_by(|a, b| a >= b), "{found:?}");
        }
    }

    #[test]
    fn every_number_is_the_product() {
        for tasks in 1..=300 {
            for parts in 1..5 {
                let mut sizes = vec![0; parts];
                dimensions(tasks, &mut sizes).unwrap();
                assert_eq!(sizes.iter().product::<u32>(), tasks);
                assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
            }
        }
    }
}
