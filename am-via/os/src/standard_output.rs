//! Whether this process was started with its standard output closed, as `program >&-` does. Before `main`, Rust's runtime opens /dev/null
//! in its place, and after that a program cannot notice that its output is lost.

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
