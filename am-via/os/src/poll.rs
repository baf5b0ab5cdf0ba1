//! Waiting until one of several files can be read, or one can be written (`ppoll(2)`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

/// Waits until one of `files` can be read, has ended or is broken, at most for `timeout` (`None`: no limit). Returns one answer for each
/// file. A signal that interrupts the wait ends it early, with all answers `false`.
///
/// # Errors
/// The system's error.
pub fn poll(files: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    poll_for(libc::POLLIN, files, timeout)
}

/// Waits until `file` can be written, has no reader any more or is broken. A signal that interrupts the wait ends it early.
///
/// # Errors
/// The system's error.
pub fn wait_to_write(file: BorrowedFd<'_>) -> io::Result<()> {
    poll_for(libc::POLLOUT, &[file], None).map(drop)
}

fn poll_for(
    events: libc::c_short,
    files: &[BorrowedFd<'_>],
    timeout: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let mut entries: Vec<libc::pollfd> =
        files.iter().map(|file| libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 }).collect();
    let count =
        libc::nfds_t::try_from(entries.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: ppoll reads and writes `count` entries, all in `entries`, whose files are borrowed for the whole call. It reads the time, a
    // live local or a null pointer, and without a signal mask changes no mask.
    if unsafe { libc::ppoll(entries.as_mut_ptr(), count, timeout, ptr::null()) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        return Ok(vec![false; files.len()]);
    }
    Ok(entries.iter().map(|entry| entry.revents != 0).collect())
}
