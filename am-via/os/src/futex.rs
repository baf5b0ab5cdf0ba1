//! Sleeping on a word that other processes can write (`futex(2)`, shared form).

use std::time::Duration;

use crate::atomics::AtomicU32;

/// Sleeps while `word` holds `expected`, at most for `timeout`. Returns on a wake-up, a changed word, a signal or the timeout; in each case
/// the caller has to look again at what it waits for.
#[cfg(not(loom))]
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
    };
    // SAFETY: FUTEX_WAIT reads one aligned 32-bit word (`word` is a live reference for the whole call) and a timespec (a live local). Each
    // outcome, errors too, only means "look again".
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
            std::ptr::null::<u32>(),
            0u32,
        );
    }
}

/// Wakes up to `count` sleepers on `word`, in any process that maps it.
#[cfg(not(loom))]
pub fn wake(word: &AtomicU32, count: u32) {
    // SAFETY: FUTEX_WAKE uses the address of `word` (a live reference) as a key and reads nothing through it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            count,
            std::ptr::null::<libc::timespec>(),
            std::ptr::null::<u32>(),
            0u32,
        );
    }
}

/// Under loom a sleeper is a yielding spinner: the model explores every point at which it may look again.
#[cfg(loom)]
pub fn wait(word: &AtomicU32, expected: u32, _timeout: Duration) {
    while word.load(crate::atomics::Ordering::Acquire) == expected {
        loom::thread::yield_now();
    }
}

/// Under loom the changed word itself is the wake-up.
#[cfg(loom)]
pub fn wake(_word: &AtomicU32, _count: u32) {}
