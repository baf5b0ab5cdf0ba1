//! Statistics of a list of measurements.

/// The middle value; of an even number of values, the mean of the middle two. `NaN` for none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len.is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// The value that `percent` of 100 values do not exceed. `NaN` for none.
#[must_use]
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The smallest value: for times, the least disturbed one. `NaN` for none.
#[must_use]
pub fn best(values: &[f64]) -> f64 {
    values.iter().copied().min_by(f64::total_cmp).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn the_best_is_the_smallest() {
        assert_eq!(best(&[5.0, 1.0, 3.0]), 1.0);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99), 99.0);
        assert_eq!(percentile(&hundred, 50), 50.0);
        assert_eq!(percentile(&[3.0, 1.0], 99), 3.0);
    }

    #[test]
    fn of_nothing_there_is_no_number() {
        assert!(median(&[]).is_nan());
        assert!(best(&[]).is_nan());
        assert!(percentile(&[], 99).is_nan());
    }
}
