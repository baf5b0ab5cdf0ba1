//! A second mapping of this PE's own part of memory of all tasks: over its static data, or at an address that suits.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;

use am_core::pgas::Common;
use am_core::{Error, Result};

/// Maps the part at `at`, in place of what is there.
///
/// # Safety
/// As many bytes as the part has, from `at` on, must be whole pages that the caller may replace.
///
/// # Errors
/// The system's error.
pub(crate) unsafe fn map(memory: &Common, at: *mut u8, doing: &'static str) -> Result<()> {
    let failed = |source: std::io::Error| Error::System { doing, source: source.into() };
    let name = memory.own_name().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    // The second word is the number of the descriptor in this process.
    let path = format!("/proc/self/fd/{}", name.0[1]);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller's contract; the file is as long as the part.
    let mapped = unsafe { libc::mmap(at.cast(), memory.len() as usize, access, flags, file.as_raw_fd(), 0) };
    if mapped == at.cast() { Ok(()) } else { Err(failed(std::io::Error::last_os_error())) }
}
