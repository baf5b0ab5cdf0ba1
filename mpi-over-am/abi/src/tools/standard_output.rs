//! Prints on standard output, and reports if that fails.

use std::process::ExitCode;

/// Prints a line. If it cannot be written, prints a message on standard error and returns a failure.
#[must_use]
pub fn say(name: &str, text: &str) -> ExitCode {
    if mpi_over_am::say(name, &format!("{text}\n")) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
