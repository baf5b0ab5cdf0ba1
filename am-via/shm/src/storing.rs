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

/// The peer counts as far after this number of slow loads in a row. Between near processors, too, a load is slow at times: after an
/// interrupt, or while both processors move as many bytes as the caches can.
const SLOW_LOADS_OF_FAR: u8 = 4;

/// Whether `load` is slow. Its time is meaningful only if the peer has changed the loaded word since the caller's last load of its line.
#[inline(always)]
pub(crate) fn timed<T>(load: impl FnOnce() -> T) -> (T, bool) {
    let began = time_stamp();
    let value = load();
    (value, time_stamp_after_loads().wrapping_sub(began) >= FAR_CYCLES_A_TRANSFER)
}

/// How a writer stores bytes for its peer. Timed loads decide it: they show whether the two share a cache.
#[derive(Debug)]
pub(crate) struct Distance {
    /// Minimum length of a fill that bypasses the caches.
    bytes_min: usize,
    /// Number of slow loads since the last fast one.
    slow: u8,
}

impl Distance {
    pub(crate) fn new(bytes_min: usize) -> Self {
        Self { bytes_min, slow: 0 }
    }

    /// How to store a fill of `len` bytes.
    #[inline(always)]
    pub(crate) fn storing(&self, len: usize) -> Storing {
        if len < self.bytes_min || self.slow < SLOW_LOADS_OF_FAR {
            Storing::ThroughCaches
        } else {
            Storing::PastCaches
        }
    }

    /// Takes the outcome of a [`timed`] load.
    #[inline(always)]
    pub(crate) fn note(&mut self, is_slow: bool) {
        self.slow = if is_slow { self.slow.saturating_add(1) } else { 0 };
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
    fn a_peer_is_far_after_several_slow_loads_in_a_row_and_near_after_one_fast_load() {
        let mut distance = Distance::new(1000);
        for round in 0..3 {
            for slow in 0..300 {
                let is_far = slow >= u32::from(SLOW_LOADS_OF_FAR);
                assert_eq!(
                    distance.storing(1000) == Storing::PastCaches,
                    is_far,
                    "round {round}, {slow} slow loads"
                );
                assert_eq!(distance.storing(999), Storing::ThroughCaches, "too short");
                distance.note(true);
            }
            distance.note(false);
        }
    }

    #[test]
    fn a_load_that_takes_long_is_slow() {
        let load = || {
            thread::sleep(Duration::from_micros(50));
            7
        };
        assert_eq!(timed(load), (7, true));
    }
}
