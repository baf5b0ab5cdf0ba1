//! Waiting until one of several files can be read (`poll(2)`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of `files` can be read, has ended or is broken, at most for `timeout` (`None`: no limit). Returns one answer for each
/// file. A signal that interrupts the wait ends it early, with all answers `false`.
///
/// # Errors
/// The system's error.
pub fn poll(files: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut entries: Vec<libc::pollfd> = files
        .iter()
        .map(|file| libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let count =
        libc::nfds_t::try_from(entries.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // Rounded up: a wait that ends slightly too early would become a spin.
    let timeout_ms =
        timeout.map_or(-1, |timeout| i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
    // SAFETY: poll reads and writes `count` entries, all in `entries`, whose files are borrowed for the whole call.
    if unsafe { libc::poll(entries.as_mut_ptr(), count, timeout_ms) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; files.len()]);
    }
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}
