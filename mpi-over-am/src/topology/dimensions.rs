//! A grid for a number of tasks (`MPI_Dims_create`, MPI 5.0 section 8.5.2).

use crate::error::{Error, ErrorClass, Result};

/// Fills the dimensions that are 0, so that all together make `tasks`, as close to each other as possible and not increasing
/// (`MPI_Dims_create`). The others stay.
///
/// # Errors
/// A task count that the given dimensions do not divide, or no dimension to fill.
pub fn dimensions(tasks: u32, given: &mut [u32]) -> Result<()> {
    let refused = |what, value: u64| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        Err(Error::refused(ErrorClass::Dimensions, "dimensions", what, value))
    };
    let fixed = given.iter().filter(|&&size| size > 0).try_fold(1u64, |all, &size| {
        all.checked_mul(u64::from(size)).filter(|&all| all <= u64::from(u32::MAX))
    });
    let Some(fixed) = fixed else { return refused("the dimensions are too large together", u64::MAX) };
    if tasks == 0 || u64::from(tasks) % fixed != 0 {
        return refused(
            "the given dimensions do not divide the number of tasks; the value is their product",
            fixed,
        );
    }
    let free = given.iter().filter(|&&size| size == 0).count();
    let left = u32::try_from(u64::from(tasks) / fixed).expect("a part of a u32");
    if free == 0 {
        let what =
            "no dimension is 0, and together they are not the number of tasks; the value is their product";
        return if left == 1 { Ok(()) } else { refused(what, fixed) };
    }
    let mut filled = balanced(left, free).into_iter();
    for size in given.iter_mut().filter(|size| **size == 0) {
        *size = filled.next().expect("as many as were counted");
    }
    Ok(())
}

/// `parts` factors of `number`, the largest first, the largest as small as possible; of equally good ones, those whose smallest
/// is larger.
fn balanced(number: u32, parts: usize) -> Vec<u32> {
    fn search(
        left: u32,
        parts: usize,
        largest: u32,
        divisors: &[u32],
        chosen: &mut Vec<u32>,
        best: &mut Option<Vec<u32>>,
    ) {
        if parts == 1 {
            chosen.push(left);
            let spread = |factors: &[u32]| factors.iter().map(|&f| u64::from(f)).sum::<u64>();
            let is_better = left <= largest
                && best.as_ref().is_none_or(|best| (chosen[0], spread(chosen)) < (best[0], spread(best)));
            if is_better {
                *best = Some(chosen.clone());
            }
            chosen.pop();
            return;
        }
        for &factor in divisors.iter().filter(|&&divisor| divisor <= largest && left.is_multiple_of(divisor))
        {
            // The rest must fit under this factor.
            let fits =
                factor.checked_pow(u32::try_from(parts).unwrap_or(u32::MAX)).is_none_or(|all| all >= left);
            if !fits || best.as_ref().is_some_and(|best| chosen.is_empty() && factor > best[0]) {
                continue;
            }
            chosen.push(factor);
            search(left / factor, parts - 1, factor, divisors, chosen, best);
            chosen.pop();
        }
    }
    let small: Vec<u32> = (1..)
        .take_while(|d| u64::from(*d) * u64::from(*d) <= u64::from(number))
        .filter(|d| number.is_multiple_of(*d))
        .collect();
    let mut divisors: Vec<u32> = small.iter().flat_map(|&d| [d, number / d]).collect();
    divisors.sort_unstable();
    divisors.dedup();
    let mut best = None;
    search(number, parts, number, &divisors, &mut Vec::new(), &mut best);
    best.expect("the number itself and ones are a choice")
}

#[cfg(test)]
mod tests {
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
