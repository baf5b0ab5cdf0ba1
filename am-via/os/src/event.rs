//! A file that one thread makes readable to wake another thread that waits for files (`eventfd(2)`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

/// The event. A forked copy of the process shares it with its parent.
#[derive(Debug)]
pub struct Event(File);

impl Event {
    /// An event that is not set.
    ///
    /// # Errors
    /// The system's error: no file or no memory is left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the system has just made this file, and nothing else owns it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    /// Makes the file readable until the next [`clear`](Self::clear).
    pub fn set(&self) {
        // The write adds 1 to the file's count. It fails only if the count is at its maximum, and then the event is set.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Ends the effect of all calls of [`set`](Self::set) so far.
    pub fn clear(&self) {
        // The read fails if the event is not set.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poll;

    #[test]
    fn it_is_readable_from_set_to_clear() {
        let event = Event::new().expect("a file");
        let is_set = || poll::poll(&[event.as_fd()], Some(Duration::ZERO)).expect("memory")[0];
        for sets in [0, 1, 3] {
            (0..sets).for_each(|_| event.set());
            assert_eq!(is_set(), sets > 0);
            event.clear();
            assert!(!is_set());
        }
    }
}
