//! The command line of a program that runs as several tasks.

use std::process::ExitCode;

use clap::Parser;

/// Parses the command line. It is the same in all tasks, so only the first task prints an error or the help.
///
/// # Errors
/// The exit code with which the task should end: 0 after help, 2 after an error.
pub fn parse<A: Parser>(task: u32) -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        if task == 0 && error.print().is_err() {
            // If the output is closed, the exit code is the only report.
        }
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}
