//! How a writer stores the bytes that its peer reads next: through the caches, or bypassing them (non-temporal stores).
//!
//! A store through the caches fetches a line that the peer has read, and the peer then fetches it back. This is fast if both processors
//! share a cache. Otherwise each line takes two slow transfers, and stores that bypass the caches and leave the bytes in memory are two to
//! five times faster from about a kilobyte on. The right choice depends on where the two tasks run, which is not known, and which a virtual
//! machine may change at any time. So the writer measures: it times its loads of words that the peer has changed.

/// How to store the bytes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// By plain stores.
    ThroughCaches,
    /// By stores that bypass the caches, ordered before all later stores.
    PastCaches,
}

/// A load that takes at least this many cycles of the time stamp counter has fetched its line from a far cache. Measured: 50 to 110 with a
/// common cache, 310 to 360 without.
const FAR_CYCLES_A_TRANSFER: u64 = 200;

/// Decides by the time of `load` how to store the bytes that the peer reads next. The time is meaningful only if the peer has changed the
/// loaded word since the caller's last load of its line.
#[inline(always)]
pub(crate) fn timed<T>(load: impl FnOnce() -> T) -> (T, Storing) {
    let began = time_stamp();
    let value = load();
    let is_far = time_stamp_after_loads().wrapping_sub(began) >= FAR_CYCLES_A_TRANSFER;
    (value, if is_far { Storing::PastCaches } else { Storing::ThroughCaches })
}

/// How a writer stores bytes for its peer. Timed loads decide it: they show whether the two share a cache.
#[derive(Debug)]
pub(crate) struct Distance {
    /// Minimum length of a fill that bypasses the caches.
    bytes_min: usize,
    /// The decision of the last timed load.
    last: Storing,
    /// How to store a fill of at least `bytes_min`.
    long: Storing,
}

impl Distance {
    pub(crate) fn new(bytes_min: usize) -> Self {
        Self { bytes_min, last: Storing::ThroughCaches, long: Storing::ThroughCaches }
    }

    /// How to store a fill of `len` bytes.
    #[inline(always)]
    pub(crate) fn storing(&self, len: usize) -> Storing {
        if len < self.bytes_min { Storing::ThroughCaches } else { self.long }
    }

    /// Takes the decision of a [`timed`] load. The peer counts as far after two slow loads in a row, since an interrupt can make one load
    /// slow.
    #[inline(always)]
    pub(crate) fn decided(&mut self, now: Storing) {
        self.long = if self.last == now { now } else { Storing::ThroughCaches };
        self.last = now;
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

/// The time stamp counter after all earlier loads have completed.
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

    #[test]
    fn a_peer_is_far_after_two_slow_loads_in_a_row() {
        use Storing::{PastCaches, ThroughCaches};
        let mut distance = Distance::new(1000);
        assert_eq!(distance.storing(1000), ThroughCaches, "not known yet");
        for (now, long) in [
            (PastCaches, ThroughCaches),
            (ThroughCaches, ThroughCaches),
            (PastCaches, ThroughCaches),
            (PastCaches, PastCaches),
            (PastCaches, PastCaches),
            (ThroughCaches, ThroughCaches),
        ] {
            distance.decided(now);
            assert_eq!(distance.storing(1000), long);
            assert_eq!(distance.storing(999), ThroughCaches, "too short");
        }
    }

    #[test]
    fn a_slow_load_means_a_far_peer() {
        let slow = || {
            thread::sleep(Duration::from_micros(50));
            7
        };
        assert_eq!(timed(slow), (7, Storing::PastCaches));
    }
}
