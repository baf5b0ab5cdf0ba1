//! Requests to end a job from outside: their reason, and the signals that make them.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::{Mutex, PoisonError};

use super::report::EndedBy;

/// The signals that a launcher with a process of its own handles, and the launcher's guard.
pub(super) const SIGNALS: [i32; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// A handle by which any thread can request the end of the job.
#[derive(Debug)]
pub(super) struct EndRequest {
    reason: Mutex<Option<EndedBy>>,
    bell: PipeWriter,
}

impl EndRequest {
    pub(super) fn new() -> io::Result<(Self, PipeReader)> {
        let (heard, bell) = io::pipe()?;
        Ok((Self { reason: Mutex::new(None), bell }, heard))
    }

    /// Requests the end of the job. The first reason counts.
    pub(super) fn ask(&self, reason: EndedBy) {
        let mut slot = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = Some(reason);
            // If the job is already over, no thread reads the byte.
            let _ = (&self.bell).write_all(b"x");
        }
    }

    /// The reason of the first request, if there was one.
    pub(super) fn asked(&self) -> Option<EndedBy> {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
