//! The command line of a program that runs as many tasks at once.

use std::process::ExitCode;

use clap::Parser;

/// Reads the command line. All tasks have the same one, so only the first says what is wrong with it, or shows the help.
///
/// # Errors
/// The exit code with which the task should end: 0 after help, 2 after a mistake.
pub fn parse<A: Parser>(task: u32) -> Result<A, ExitCode> {
    A::try_parse().map_err(|error| {
        if task == 0 && error.print().is_err() {
            // Nobody reads what the program says; the exit code still tells.
        }
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}
