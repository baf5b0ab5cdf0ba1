//! The figures of the papers that this library is based on, measured with this library: one page for a browser.
//!
//! ```text
//! cargo run --release -p am-benches --bin paper                        # every figure, in about five minutes
//! cargo run --release -p am-benches --bin paper -- --quick             # fewer rounds and lengths: half a minute
//! cargo run --release -p am-benches --bin paper -- --only lapi15,thesis6.7 --out page.html --json figures.json
//! cargo run --release -p am-benches --bin paper -- --list              # the figures, and the jobs behind each
//! ```
//!
//! The points of each curve come from one or more jobs of the launcher, whose tasks are this program, or a NAS kernel of the examples.
//! Several figures may use the same job. Each round runs every job once (a kernel only in the first five rounds), so that other load on the
//! machine affects all curves alike. A point is the median over the rounds of the best batch of each round (for the kernels the best round,
//! as in the paper). The sentence after "Here:" below a figure is computed from these numbers.

mod curve;
mod figure;
mod figures;
mod job;
mod measure;
mod page;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use am_examples::Failure;
use am_examples::failure::exit_code;
use clap::{Parser, Subcommand};

use crate::figure::{Drawn, Figure};

const PROGRAM: &str = "paper";

/// The figures of the papers, from runs on this machine, on one page.
#[derive(Parser)]
#[command(name = PROGRAM, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Write the page to this file. Default: paper.html beside this program.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write the figures to this file, as a JSON array.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure only these figures, by the names that --list prints.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of runs of each job. Default: 7; 3 with --quick.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Measure three rounds of fewer lengths, shorter batches and the smallest kernels: half a minute.
    #[arg(long)]
    quick: bool,
    /// Print the figures and the commands of their jobs, and measure nothing.
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum Role {
    /// Runs one task of a job, which measures; task 0 prints a line for each length.
    #[command(hide = true)]
    Task(measure::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match &arguments.role {
        Some(Role::Task(task)) => exit_code(PROGRAM, &measure::run(task)),
        None => exit_code(PROGRAM, &make(&arguments)),
    }
}

fn make(arguments: &Arguments) -> Result<(), Failure> {
    let usual = if arguments.quick { job::Effort::QUICK } else { job::Effort::FULL };
    let effort = job::Effort { rounds: arguments.rounds.unwrap_or(usual.rounds), ..usual };
    let figures = wanted(&arguments.only)?;
    let jobs = figure::jobs_of(&figures);
    job::check_settings(&jobs)?;
    if arguments.list {
        figures.iter().for_each(|figure| list(figure, &effort));
        return Ok(());
    }
    let page = match &arguments.out {
        Some(file) => file.clone(),
        None => beside_this_program("paper.html")?,
    };
    // A file that can't be written is reported before the measurements.
    write(&page, "")?;
    let results = job::run_all(&jobs, &effort)?;
    let drawn: Vec<Drawn<'_>> = figures.iter().map(|figure| figure.draw(&results)).collect();
    write(&page, &page::page(&drawn, &effort)?)?;
    if let Some(file) = &arguments.json {
        let all: Vec<_> = drawn.iter().map(|figure| figure.json(&effort)).collect();
        write(file, &format!("{:#}\n", serde_json::Value::from(all)))?;
    }
    for figure in &drawn {
        println!("{}: {}", figure.figure.name, figure.here);
    }
    println!("{}", page.display());
    Ok(())
}

/// The figures of these names, in the order of the page; all, if there are no names.
fn wanted(names: &[String]) -> Result<Vec<Figure>, Failure> {
    let mut figures = figures::all();
    if let Some(unknown) = names.iter().find(|name| figures.iter().all(|figure| figure.name != *name)) {
        let known: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
        return Err(Failure::Input(format!("no figure is named {unknown}; there are {}", known.join(", "))));
    }
    if !names.is_empty() {
        figures.retain(|figure| names.iter().any(|name| name == figure.name));
    }
    Ok(figures)
}

fn list(figure: &Figure, effort: &job::Effort) {
    println!("{:<18} {}: {}", figure.name, figure.source, figure.title);
    for series in &figure.series {
        println!("    {}", series.label);
        series.jobs.iter().for_each(|job| println!("        {}", job.command(effort)));
    }
}

fn beside_this_program(name: &str) -> Result<PathBuf, Failure> {
    match std::env::current_exe() {
        Ok(program) => Ok(program.with_file_name(name)),
        Err(error) => Err(Failure::Input(format!(
            "cannot find the folder of this program: {error}; name a file with --out"
        ))),
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| {
        let file = file.display();
        Failure::Input(format!(
            "cannot write {file}: {error}; name a file in a folder where this user may write"
        ))
    })
}
