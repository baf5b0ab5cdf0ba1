//! Which combinations of two lists a test runs.

/// Whether the long forms of tests are wanted: `TESTS_LONG` is in the environment. `.ci/run long` sets it.
#[must_use]
pub fn is_long() -> bool {
    std::env::var_os("TESTS_LONG").is_some()
}

/// Pairs of the two lists in which each item occurs at least once; all pairs if [`is_long`].
#[must_use]
pub fn pairs<A: Clone, B: Clone>(first: &[A], second: &[B]) -> Vec<(A, B)> {
    if is_long() {
        let with = |a: &A| second.iter().map(|b| (a.clone(), b.clone())).collect::<Vec<_>>();
        return first.iter().flat_map(with).collect();
    }
    let count = first.len().max(second.len());
    first.iter().cycle().zip(second.iter().cycle()).take(count).map(|(a, b)| (a.clone(), b.clone())).collect()
}
