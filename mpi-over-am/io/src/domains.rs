//! How several tasks divide a part of a file: each aggregator carries out the accesses of all tasks in its domain.

use std::ops::Range;

/// The domains of the aggregators. All tasks must make the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    bytes: Range<u64>,
    /// Length of a domain in bytes.
    domain: u64,
    /// Bytes of a domain that are handled in one round.
    window: u64,
    aggregators: u32,
}

impl Domains {
    /// Divides the bytes of a file that some tasks access among `aggregators` tasks, in rounds of `window` bytes each. The bounds of
    /// domains are multiples of `unit` bytes. `None` if there are no bytes.
    #[must_use]
    pub fn new(
        accessed: impl IntoIterator<Item = Range<u64>>,
        aggregators: u32,
        window: u64,
        unit: u64,
    ) -> Option<Self> {
        let join = |all: Range<u64>, one: Range<u64>| all.start.min(one.start)..all.end.max(one.end);
        let bytes = accessed.into_iter().filter(|one| !one.is_empty()).reduce(join)?;
        let (aggregators, unit) = (aggregators.max(1), unit.max(1));
        let start = bytes.start / unit * unit;
        let units = (bytes.end - start).div_ceil(unit);
        let domain = units.div_ceil(aggregators.into()).saturating_mul(unit);
        Some(Self { bytes: start..bytes.end, domain, window: window.max(unit).min(domain), aggregators })
    }

    /// The number of rounds.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.domain.div_ceil(self.window)
    }

    /// The bytes of the file that an aggregator handles in a round; they may be none.
    #[must_use]
    pub fn window(&self, aggregator: u32, round: u64) -> Range<u64> {
        if aggregator >= self.aggregators {
            return 0..0;
        }
        let first = self.bytes.start.saturating_add(self.domain.saturating_mul(aggregator.into()));
        let last = first.saturating_add(self.domain).min(self.bytes.end);
        let start = first.saturating_add(self.window.saturating_mul(round)).min(last.max(first));
        start..start.saturating_add(self.window).min(last).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_byte_once() {
        for (aggregators, window, unit) in
            [(1, 1 << 20, 1), (3, 100, 64), (4, 7, 1), (5, 4096, 4096), (16, 1, 1)]
        {
            let domains = Domains::new([500..901, 130..131, 7..7], aggregators, window, unit).unwrap();
            let mut seen = vec![0; 1000];
            for round in 0..domains.rounds() {
                for aggregator in 0..aggregators {
                    let bytes = domains.window(aggregator, round);
                    assert!(bytes.end - bytes.start <= window.max(unit));
                    bytes.for_each(|byte| seen[usize::try_from(byte).unwrap()] += 1);
                }
            }
            assert!((130..901).all(|byte| seen[byte] == 1), "{domains:?}");
            assert!(seen.iter().all(|&times| times <= 1));
        }
    }

    #[test]
    fn no_bytes_have_no_domains() {
        assert_eq!(Domains::new(Some(3..3), 2, 10, 1), None);
    }
}
