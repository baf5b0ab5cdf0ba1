//! The part of the heap files that a task maps.

use crate::settings::HEAP_BYTES_MIN;
use am_via_os::memory::PAGE_BYTES;

/// How many bytes of each heap to map. If the whole heaps of all tasks do not fit, the size is halved until at least half of the available
/// address space stays for the program itself, but not below [`HEAP_BYTES_MIN`].
pub(super) fn bytes_that_fit(whole: u64, num_tasks: u32, fits: impl Fn(u64) -> bool) -> u64 {
    let all = |each: u64| each.saturating_mul(u64::from(num_tasks));
    if fits(all(whole)) {
        return whole;
    }
    let halves = std::iter::successors(Some(whole / 2), |bytes| Some(bytes / 2))
        .map(|bytes| bytes / PAGE_BYTES * PAGE_BYTES)
        .take_while(|&bytes| bytes >= HEAP_BYTES_MIN);
    // If even the smallest size does not fit, the mapping reports the error.
    halves.into_iter().find(|&each| fits(all(each).saturating_mul(2))).unwrap_or(HEAP_BYTES_MIN).min(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_is_mapped_as_far_as_the_address_space_goes() {
        const GIB: u64 = 1 << 30;
        let whole = 64 * GIB + (16 << 20);
        assert_eq!(bytes_that_fit(whole, 4, |_| true), whole);
        // The program keeps half of 100 GiB, and the other half is shared by the heaps, in whole pages.
        let bytes = bytes_that_fit(whole, 2, |bytes| bytes <= 100 * GIB);
        assert_eq!(bytes, 16 * GIB + (4 << 20));
        assert_eq!(bytes_that_fit(whole, 2, |_| false), HEAP_BYTES_MIN);
    }
}
