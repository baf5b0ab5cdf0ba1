//! The clock that all processes of a machine share.

use std::time::Duration;

/// Time since a moment that is the same for all processes (`CLOCK_MONOTONIC`). `std::time::Instant` reads the same clock but does not give
/// out the number.
#[must_use]
pub fn monotonic() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the result.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // The clock exists on every Linux, and the pointer is valid, so the call cannot fail.
    debug_assert_eq!(result, 0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_as_an_instant_does() {
        let (begun, before) = (std::time::Instant::now(), monotonic());
        std::thread::sleep(Duration::from_millis(5));
        let (inner, passed) = (monotonic() - before, begun.elapsed());
        assert!(inner >= Duration::from_millis(5) && inner <= passed);
    }
}
