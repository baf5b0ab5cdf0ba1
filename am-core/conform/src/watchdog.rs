//! Ends a process in which a check hangs, and reports which check it was.

use std::io::{Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends the process unless the value is dropped in time. Works in threads and in separate processes.
#[derive(Debug)]
pub struct Watchdog(#[expect(dead_code, reason = "dropping it stops the watchdog")] Sender<()>);

impl Watchdog {
    /// Starts a watchdog for `what` with a time limit.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn new(what: String, limit: Duration) -> Self {
        let (alive, done) = channel::<()>();
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                if done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    // Not by `eprintln`: a test harness would capture it, and the text would be lost with the process.
                    let _ =
                        writeln!(stderr(), "watchdog: {what} has hung for {} s: giving up", limit.as_secs());
                    std::process::abort();
                }
            })
            .expect("a test can start a thread");
        Self(alive)
    }
}
