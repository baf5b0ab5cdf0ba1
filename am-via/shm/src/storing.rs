//! How a writer stores the bytes that its peer reads next: through the caches, or past them.
//!
//! A store through the caches fetches a line that the peer has read, and the peer then fetches it back. This is fast if both processors
//! share a cache. Otherwise each line takes two slow transfers, and stores past the caches, which leave the bytes in memory, are two to
//! five times faster from about a kilobyte on. The right choice depends on where the two tasks run, which is not known, and which a virtual
//! machine may change at any time. So the writer measures: occasionally it stores a long fill through the caches and times it.

use am_via_os::atomics::{AtomicU64, Ordering, fence};

/// How to store the bytes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// By plain stores.
    ThroughCaches,
    /// By stores that bypass the caches, ordered before all later stores.
    PastCaches,
}

/// One of this number of long fills is timed.
const FILLS_A_TIMING: u32 = 256;
/// The fill that is timed: later than the first fill of each slot, which the system makes slow.
const TIMED_FILL: u32 = 160;
/// Minimum cycles of the time stamp counter per line that mean the peer is far: half of the time of a store past the caches and a load from
/// memory. Measured: up to 11 on one core, 20 to 97 without a common cache.
const FAR_CYCLES_A_LINE: u64 = 16;

/// Minimum cycles of the time stamp counter for a load that mean the peer's line came from far. Measured: 50 to 110 with a common cache,
/// 310 to 360 without.
const FAR_CYCLES_A_TRANSFER: u64 = 200;

/// Loads a word (Acquire), and decides by the time of the load how to store the bytes that the peer reads next. The time is meaningful only
/// if the peer has changed the word since the caller's last load.
pub(crate) fn timed_load(word: &AtomicU64) -> (u64, Storing) {
    let began = time_stamp();
    let value = word.load(Ordering::Acquire);
    let is_far = time_stamp_after_loads().wrapping_sub(began) >= FAR_CYCLES_A_TRANSFER;
    (value, if is_far { Storing::PastCaches } else { Storing::ThroughCaches })
}

/// The distance between a writer and its peer.
#[derive(Debug)]
pub(crate) struct Distance {
    /// Minimum length of a fill past the caches.
    bytes_min: usize,
    long_fills: u32,
    is_far: bool,
}

impl Distance {
    pub(crate) fn new(bytes_min: usize) -> Self {
        Self { bytes_min, long_fills: 0, is_far: false }
    }

    /// Calls `fill`, which stores up to `len` bytes and returns their number, or `None` if it stopped.
    #[inline(always)]
    pub(crate) fn fill(&mut self, len: usize, fill: impl FnOnce(Storing) -> Option<usize>) -> Option<usize> {
        let (storing, began) =
            if len < self.bytes_min { (Storing::ThroughCaches, None) } else { self.next_long() };
        // `fill` is called at one point only, so that the compiler inlines it.
        let filled = fill(storing)?;
        if let Some(began) = began {
            self.timed(began, filled);
        }
        Some(filled)
    }

    /// How to store a long fill, and when it began if it is timed.
    #[inline(never)]
    fn next_long(&mut self) -> (Storing, Option<u64>) {
        self.long_fills = self.long_fills.wrapping_add(1);
        if self.long_fills % FILLS_A_TIMING == TIMED_FILL {
            return (Storing::ThroughCaches, Some(time_stamp()));
        }
        (if self.is_far { Storing::PastCaches } else { Storing::ThroughCaches }, None)
    }

    #[cold]
    #[inline(never)]
    fn timed(&mut self, began: u64, filled: usize) {
        // The stores are complete only when they have left the store buffer.
        fence(Ordering::SeqCst);
        let cycles = time_stamp().wrapping_sub(began);
        self.is_far = cycles >= FAR_CYCLES_A_LINE * (filled as u64).div_ceil(64);
    }
}

/// The processor's time stamp counter; 0 if there is none, so that no peer counts as far.
fn time_stamp() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and programs may execute it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The time stamp counter when all earlier loads are over.
fn time_stamp_after_loads() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction; it touches no memory.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    time_stamp()
}

#[cfg(all(test, not(loom), target_arch = "x86_64"))]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Calls `fill` until one was timed.
    fn past_a_timing(distance: &mut Distance, len: usize, fill: impl Fn() -> usize) {
        for _ in 0..FILLS_A_TIMING {
            distance.fill(len, |_| Some(fill()));
        }
    }

    fn next(distance: &mut Distance, len: usize) -> Storing {
        let mut storing = None;
        distance.fill(len, |how| {
            storing = Some(how);
            Some(len)
        });
        storing.expect("the fill was called")
    }

    #[test]
    fn a_slow_peer_is_far_until_it_is_fast() {
        let mut distance = Distance::new(1000);
        assert_eq!(next(&mut distance, 1000), Storing::ThroughCaches, "not known yet");
        past_a_timing(&mut distance, 1000, || {
            thread::sleep(Duration::from_micros(50));
            64
        });
        assert_eq!(next(&mut distance, 1000), Storing::PastCaches);
        assert_eq!(next(&mut distance, 999), Storing::ThroughCaches, "too short");
        // A claimed length this large is fast, even if the fill is interrupted.
        past_a_timing(&mut distance, 1000, || 1 << 40);
        assert_eq!(next(&mut distance, 1000), Storing::ThroughCaches);
    }

    #[test]
    fn the_timed_fill_goes_through_the_caches() {
        let mut distance = Distance { is_far: true, ..Distance::new(1) };
        let mut through = 0;
        for _ in 0..FILLS_A_TIMING {
            distance.fill(64, |how| {
                through += u32::from(how == Storing::ThroughCaches);
                // Far, whatever the clock reads.
                Some(0)
            });
        }
        assert_eq!(through, 1);
    }
}
