//! Prints on standard output, and reports if that fails.

use std::io::{self, Write as _};
use std::process::ExitCode;

use mpi_over_am::output_was_closed;

/// Prints a line. If it cannot be written, prints a message on standard error and returns a failure.
#[must_use]
pub fn say(name: &str, text: &str) -> ExitCode {
    let written = if output_was_closed() {
        Err(io::Error::from_raw_os_error(libc::EBADF))
    } else {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush())
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: standard output cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
