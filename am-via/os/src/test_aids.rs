//! For tests: a watchdog, and random numbers from a seed.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Runs `test` in a thread of its own; panics if it takes more than 120 seconds, far longer than a test needs on the slowest machine.
pub fn guarded(test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        // The receiver may have given up already.
        let _ = done.send(());
    });
    let timed_out = wait.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout);
    assert!(!timed_out, "the test hangs");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Random numbers (splitmix64) from a seed, which a failing test prints.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "not an iterator: the sequence has no end, and a test draws one number at a time"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number that is often small or at a limit, which finds more errors than a uniform one.
    pub fn edgy(&mut self) -> u64 {
        match self.below(6) {
            0 => self.below(4),
            1 => self.below(300),
            2 => u64::MAX - self.below(4),
            3 => u64::from(u32::MAX) + self.below(3) - 1,
            4 => 1 << self.below(64),
            _ => self.next(),
        }
    }
}
