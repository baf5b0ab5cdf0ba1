//! Real programs on this MPI library, unmodified: fetched, built with its wrappers, run, and listed in a table.

use std::process::ExitCode;

use am_tests::real;

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.iter().map(String::as_str).eq(["--list"]) {
        println!("{}", real::names().join("\n"));
        return ExitCode::SUCCESS;
    }
    real::run(&names)
}
