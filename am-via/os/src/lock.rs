//! Locks on single bytes of a file that belong to an open file description (`fcntl(2)`, `F_OFD_SETLK`). The system releases a lock when the
//! last reference to its description is gone: when no file descriptor and no mapping of it is left.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Locks byte `at` for the open file description of `file`, which must be open for writing. Returns `false` if another description holds
/// the byte. The byte need not exist.
///
/// # Errors
/// The system's error.
pub fn try_lock(file: BorrowedFd<'_>, at: u32) -> io::Result<bool> {
    match control(file, libc::F_OFD_SETLK, at) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether an open file description other than that of `file` holds byte `at`.
///
/// # Errors
/// The system's error.
pub fn is_locked(file: BorrowedFd<'_>, at: u32) -> io::Result<bool> {
    Ok(i32::from(control(file, libc::F_OFD_GETLK, at)?) != libc::F_UNLCK)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the constant is 1; a lock's field is shorter than the constant's type"
)]
const WRITE: libc::c_short = libc::F_WRLCK as libc::c_short;

/// Carries out a lock command. Returns the kind of the conflicting lock that the system reports; `F_OFD_SETLK` reports none.
fn control(file: BorrowedFd<'_>, command: libc::c_int, at: u32) -> io::Result<libc::c_short> {
    // SAFETY: flock is plain data, for which all zeroes are a valid value. (A zero `l_whence` is SEEK_SET: `l_start` counts from the start
    // of the file.)
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = WRITE;
    lock.l_start = libc::off_t::from(at);
    lock.l_len = 1;
    // SAFETY: both commands read and write one flock, a live local, and take a descriptor that `file` keeps open.
    if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(lock.l_type)
}
