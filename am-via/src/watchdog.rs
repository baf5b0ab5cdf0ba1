//! For tests that could hang.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Runs `test` in a thread of its own; fails if it has not ended after a time that no working machine needs.
pub(crate) fn guarded(test: impl FnOnce() + Send + 'static) {
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
