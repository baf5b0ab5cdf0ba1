//! The command line of a program that runs as several tasks.

use std::process::ExitCode;

use am_via::Task;
use clap::{Command, FromArgMatches, Parser};

use crate::Failure;
use crate::failure::exit_code;

/// The main function of `program`: joins the job, parses the command line, and runs `run`, whose failure it reports.
pub fn main<A: Parser>(program: &str, run: impl FnOnce(&Task, &A) -> Result<(), Failure>) -> ExitCode {
    main_with(program, A::command(), run)
}

/// Like [`main`], for a command line that `command` describes.
pub fn main_with<A: FromArgMatches>(
    program: &str,
    command: Command,
    run: impl FnOnce(&Task, &A) -> Result<(), Failure>,
) -> ExitCode {
    let task = match Task::join() {
        Ok(task) => task,
        Err(error) => return Failure::from(error).report(program),
    };
    match parse_with(task.number(), command) {
        Ok(arguments) => exit_code(program, &run(&task, &arguments)),
        Err(code) => code,
    }
}

/// Parses the command line. It is the same in all tasks, so only the first task prints an error or the help.
///
/// # Errors
/// The exit code with which the task should end: 0 after help, 2 after an error.
pub fn parse<A: Parser>(task: u32) -> Result<A, ExitCode> {
    parse_with(task, A::command())
}

fn parse_with<A: FromArgMatches>(task: u32, command: Command) -> Result<A, ExitCode> {
    let parsed = command.try_get_matches().and_then(|matches| A::from_arg_matches(&matches));
    parsed.map_err(|error| {
        if task == 0 && error.print().is_err() {
            // If the output is closed, the exit code is the only report.
        }
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}
