//! Ends a process in which a check hangs: a hang is a failure, and has to say which check it was.

use std::io::{Write, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends the process if it lives longer than it was given. Works in threads and in processes of their own.
#[derive(Debug)]
pub struct Watchdog(#[expect(dead_code, reason = "dropping it is its message")] Sender<()>);

impl Watchdog {
    /// Gives `what` as long as `limit`.
    ///
    /// # Panics
    /// No thread can be started.
    #[must_use]
    pub fn new(what: String, limit: Duration) -> Self {
        let (alive, done) = channel::<()>();
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                if done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    // Not by `eprintln`: a test harness would keep that for itself, and die with it.
                    let _ =
                        writeln!(stderr(), "watchdog: {what} has hung for {} s: giving up", limit.as_secs());
                    std::process::abort();
                }
            })
            .expect("a test can start a thread");
        Self(alive)
    }
}
