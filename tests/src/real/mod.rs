//! Real programs: each is fetched from its publisher into the user's cache, built with this library's wrappers in `target/real-programs`,
//! run by this library's launcher, and listed in a table.
//!
//! One file for each program. If the machine lacks something, the table names it: nothing is left out silently. A known failure has its
//! reason in [`known`]; any other failure makes the command fail, and so does a known failure that does not occur.

use std::path::Path;
use std::process::ExitCode;

pub mod command;
pub mod fetch;
pub mod folder;
pub mod hpcc;
pub mod known;
pub mod mpi4py;
pub mod mpich;
pub mod netpipe;
pub mod own;
pub mod rsmpi;
pub mod table;
pub mod unittest;
pub mod workshop;

use table::Row;
use workshop::Workshop;

/// Why a program could not be tested at all.
#[derive(Debug)]
pub enum Problem {
    /// This machine lacks something: what, and how to get it.
    Missing(String),
    /// Fetching or building failed: the step, and the path of its output.
    Broken(String),
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// A program: its name, and the function that adds its rows to the table.
type Program = (&'static str, fn(&Workshop, &mut Vec<Row>) -> Result<(), Problem>);

const PROGRAMS: &[Program] = &[
    ("fortran", own::fortran),
    ("differential", own::differential),
    ("netpipe", netpipe::run),
    ("hpcc", hpcc::run),
    ("rsmpi", rsmpi::run),
    ("mpi4py", mpi4py::run),
];

/// The names of all programs. `mpich-` and a chapter names a chapter of MPICH's tests, `mpich-errors-spawn` the part `errors/spawn`.
#[must_use]
pub fn names() -> Vec<String> {
    let programs = PROGRAMS.iter().map(|(name, _)| (*name).to_owned());
    programs.chain(mpich::CHAPTERS.iter().map(|chapter| format!("mpich-{chapter}"))).collect()
}

fn run_program(name: &str, workshop: &Workshop, rows: &mut Vec<Row>) -> Result<(), Problem> {
    match name.strip_prefix("mpich-") {
        Some(chapter) => mpich::run(workshop, chapter, rows),
        None => {
            PROGRAMS.iter().filter(|(known, _)| *known == name).try_for_each(|(_, run)| run(workshop, rows))
        }
    }
}

/// Runs the named programs, or all of them, and prints the table. `mpich` names all chapters of MPICH's tests, and a name with a slash a
/// folder of built programs ([`folder`]). Fails if a failure is not a known one, if a known failure did not occur, or if nothing was run.
#[must_use]
pub fn run(names: &[String]) -> ExitCode {
    let all = self::names();
    let is_named = |name: &str| {
        names.is_empty()
            || names.iter().any(|asked| asked == name || (asked == "mpich" && name.starts_with("mpich-")))
    };
    if let Some(name) =
        names.iter().find(|name| !name.contains('/') && *name != "mpich" && !all.contains(name))
    {
        eprintln!("real-programs: no program is named {name}; there are: mpich, {}", all.join(", "));
        return ExitCode::from(2);
    }
    let workshop = match Workshop::open() {
        Ok(workshop) => workshop,
        Err(Problem::Missing(why) | Problem::Broken(why)) => {
            eprintln!("real-programs: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut rows = Vec::new();
    for name in all.iter().filter(|name| is_named(name)) {
        eprintln!("{name}:");
        if let Err(problem) = run_program(name, &workshop, &mut rows) {
            rows.push(Row::not_run(name, problem));
        }
    }
    for name in names.iter().filter(|name| name.contains('/')) {
        eprintln!("{name}:");
        if let Err(problem) = folder::run(&workshop, Path::new(name), name, &[], &mut rows) {
            rows.push(Row::not_run(name, problem));
        }
    }
    print!("{}", table::text(&rows));
    // `.ci/go-on` adds these up.
    println!("counted: {} cases passed", rows.iter().map(Row::passes).sum::<u64>());
    println!("counted: {} cases failed", rows.iter().map(Row::failures).sum::<u64>());
    if rows.iter().any(Row::is_bad) || rows.iter().all(Row::is_empty) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
