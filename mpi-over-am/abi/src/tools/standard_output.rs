//! What the programs say on their standard output, and whether that was lost.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the system's loader: Rust's runtime opens /dev/null in the place of an output that is closed, and hides it so.
#[used]
// SAFETY: the section holds addresses of functions that the loader calls, and this is one; it makes one system call, and needs
// nothing that the runtime prepares.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD takes two integers.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    // Relaxed: there is one thread yet.
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Whether it was closed when this process began, as by `program >&-`.
#[must_use]
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Prints a line; a failure, with a message on the standard error, if it cannot be written.
#[must_use]
pub fn say(name: &str, text: &str) -> ExitCode {
    let written = if was_closed() {
        Err(io::Error::from_raw_os_error(libc::EBADF))
    } else {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush())
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: the standard output cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
