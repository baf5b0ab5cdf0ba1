//! Random numbers that any task can compute for any other task: number `n` of a seed, without the numbers before it.

/// Number `number` of the sequence that `seed` begins (SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// 2014).
#[inline(always)]
#[must_use]
pub fn at(seed: u64, number: u64) -> u64 {
    mix(seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The seed of stream `stream` of `seed`, far from the seeds of other streams.
#[must_use]
pub fn stream(seed: u64, stream: u64) -> u64 {
    mix(seed ^ mix(stream.wrapping_add(0x6a09_e667_f3bc_c909)))
}

/// A bijection of 64 bits in which every bit of the result depends on every bit of `value`.
#[inline(always)]
#[must_use]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// A number below `bound`, in proportion to `random`. There is no division, and the bias is too small to matter in these programs.
#[inline(always)]
#[must_use]
pub fn below(random: u64, bound: u64) -> u64 {
    let product = u128::from(random) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_over_the_range() {
        let mut hits = [0; 10];
        for number in 0..10_000 {
            let value = below(at(stream(7, 3), number), 10);
            hits[usize::try_from(value).unwrap()] += 1;
        }
        assert!(hits.iter().all(|count| (900..1100).contains(count)), "{hits:?}");
    }

    #[test]
    fn the_known_beginning() {
        // The first outputs for seed 0, as published.
        assert_eq!([at(0, 0), at(0, 1)], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }
}
