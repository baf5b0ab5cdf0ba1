//! Printing on standard output and standard error, which may be closed: from the start, as by `program >&-`, or later, as by
//! `program 2>&1 | head`. If standard output is closed from the start, Rust's runtime opens /dev/null in its place before `main`, so a
//! program must look before that.

use std::fmt;
use std::io::{self, Write as _};

use crate::atomics::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the system's loader, before Rust's runtime.
#[used]
// SAFETY: the section holds addresses of functions that the loader calls, and this is such a function; it makes one system call, and needs
// nothing that the runtime prepares.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: F_GETFD takes two integers.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    // Relaxed: there is only one thread at this time.
    WAS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Whether standard output was closed when this process began.
#[must_use]
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Prints a text of `program` on standard output. A reader that has closed the pipe, as `head` does, wants no more: the process ends then,
/// as quietly as one that SIGPIPE ends. Returns whether the text was written; if not, prints the reason on standard error.
#[must_use]
pub fn say(program: &str, text: &str) -> bool {
    let written = if was_closed() {
        Err(io::Error::other("it was closed when the program was started"))
    } else {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    match written {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => end_by_closed_pipe(),
        Err(error) => {
            crate::complain!("{program}: the standard output cannot be written: {error}");
            false
        }
    }
}

/// Prints a line on standard error, as `eprintln!` does, but does not panic if it cannot be written: the panic would replace the exit code
/// of a program whose reader has left, as in `program 2>&1 | head`.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {
        $crate::standard_output::print_error(::std::format_args!($($text)*))
    };
}

/// Prints a line on standard error: the function of [`complain!`].
pub fn print_error(text: fmt::Arguments<'_>) {
    // One write, so that no other process's text comes between. If it fails, there is no place left to say so.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

#[expect(clippy::exit, reason = "the program has nothing more to say")]
fn end_by_closed_pipe() -> ! {
    std::process::exit(128 + libc::SIGPIPE)
}
