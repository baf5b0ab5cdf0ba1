//! This library beside other MPI libraries: the same C program, built by each one's compiler wrapper and run by each one's
//! launcher, in turn on the same cores.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p am-benches --bin compare
//! cargo run --release -p am-benches --bin compare -- --tasks 4 --rounds 5 --json rows.json
//! cargo run --release -p am-benches --bin compare -- --tasks 16 --only barrier
//! cargo run --release -p am-benches --bin compare -- --with "mine=/opt/mpi/bin/mpicc,/opt/mpi/bin/mpiexec --bind-to core"
//! ```
//!
//! Open MPI and MPICH are taken where Debian's names for them are found (`apt-get install openmpi-bin libopenmpi-dev mpich
//! libmpich-dev`); others by `--with`. Each round runs every library once, so that what else the machine does meets all of
//! them; a row is the median of the rounds, and beside it the ratio to ours: above 1, the other one is slower. Tasks are bound to
//! cores where there is one for each.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use am_examples::Failure;
use am_examples::failure::exit_code;
use am_examples::statistics::median;
use clap::Parser;

const PROGRAM: &str = "compare";
const SOURCE: &str = include_str!("../../c/compare.c");
/// The name of this library's rows: the one that the others are compared with.
const OURS: &str = "am-via";

/// This library beside other MPI libraries, by one C program.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Tasks of each run.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=1024))]
    tasks: u32,
    /// How often each library runs.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Only this measurement: ping_pong, same_data, stream, barrier, allreduce, broadcast or alltoall.
    #[arg(long, value_name = "NAME", value_parser = ["ping_pong", "same_data", "stream", "barrier", "allreduce", "broadcast", "alltoall"])]
    only: Option<String>,
    /// Another library: a name, its compiler wrapper, its launcher with arguments (`NAME=MPICC,MPIEXEC ARGS`).
    #[arg(long, value_name = "NAME=MPICC,MPIEXEC ARGS", value_parser = other)]
    with: Vec<Library>,
    /// Also write the rows to this file, as a JSON array.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// An MPI library: how a program is built for it and started.
#[derive(Clone, Debug)]
struct Library {
    name: String,
    compiler: String,
    launcher: Vec<String>,
}

impl Library {
    fn new(name: &str, compiler: impl Into<String>, launcher: &[&str]) -> Self {
        let launcher = launcher.iter().copied().map(str::to_owned).collect();
        Self { name: name.to_owned(), compiler: compiler.into(), launcher }
    }

    /// Builds the program into `folder`.
    fn build(&self, folder: &Path) -> Result<PathBuf, Failure> {
        let (source, program) = (folder.join("compare.c"), folder.join(format!("compare-{}", self.name)));
        let arguments = ["-O2".as_ref(), source.as_os_str(), "-o".as_ref(), program.as_os_str()];
        said(Command::new(&self.compiler).args(arguments), &self.compiler)?;
        Ok(program)
    }

    /// Runs the program once: nanoseconds by measurement and bytes.
    fn run(&self, program: &Path, tasks: u32, only: Option<&str>) -> Result<Vec<(Row, f64)>, Failure> {
        let [launcher, arguments @ ..] = self.launcher.as_slice() else {
            return Err(Failure::Input(format!("{}: no launcher is given", self.name)));
        };
        let mut command = Command::new(launcher);
        command.args(arguments).args(["-n", &tasks.to_string()]).arg(program).args(only).stdin(Stdio::null());
        let output = said(&mut command, launcher)?;
        let rows: Vec<_> = output.lines().filter_map(row).collect();
        if rows.is_empty() {
            return Err(Failure::Wrong(format!("{} measured nothing; it said:\n{output}", self.name)));
        }
        Ok(rows)
    }
}

/// What is measured, and with how many bytes.
type Row = (String, u64);

fn row(line: &str) -> Option<(Row, f64)> {
    let mut words = line.split_whitespace();
    let row = (words.next()?.to_owned(), words.next()?.parse().ok()?);
    Some((row, words.next()?.parse().ok()?))
}

/// Runs a command to its end; what it printed.
fn said(command: &mut Command, name: &str) -> Result<String, Failure> {
    let output = command.output().map_err(|error| {
        Failure::Input(format!("cannot run {name}: {error}; is it installed, and on the PATH?"))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Wrong(format!("{name} ended with {}; it said:\n{errors}", output.status)))
}

fn other(text: &str) -> Result<Library, String> {
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(',')?)));
    let Some((name, (compiler, launcher))) = parts else {
        return Err("write NAME=MPICC,MPIEXEC ARGS".to_owned());
    };
    let launcher: Vec<_> = launcher.split_whitespace().collect();
    if name.is_empty() || compiler.is_empty() || launcher.is_empty() {
        return Err("name, compiler and launcher must not be empty".to_owned());
    }
    Ok(Library::new(name, compiler, &launcher))
}

/// Ours, built beside this program; and what is found on the machine.
fn libraries(with: &[Library], tasks: u32) -> Result<Vec<Library>, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::Input(format!("this program cannot find its own file: {error}")))?;
    let beside = |name: &str| own.with_file_name(name);
    let (compiler, launcher) = (beside("mpicc"), beside("mpiexec"));
    if !compiler.exists() || !launcher.exists() {
        let folder = own.parent().unwrap_or(&own).display();
        return Err(Failure::Input(format!(
            "mpicc and mpiexec are not in {folder}: first run cargo build --release"
        )));
    }
    let (compiler, launcher) = (compiler.display().to_string(), launcher.display().to_string());
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let bind = if tasks as usize <= cores { "core" } else { "none" };
    let mut libraries = vec![Library::new(OURS, compiler, &[&launcher, "--bind-to", bind])];
    let openmpi = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", bind];
    let mpich = ["mpirun.mpich", "-bind-to", bind];
    for (name, compiler, launcher) in
        [("openmpi", "mpicc.openmpi", &openmpi[..]), ("mpich", "mpicc.mpich", &mpich[..])]
    {
        let found = Command::new(compiler).arg("-show").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_ok_and(|status| status.success()) {
            libraries.push(Library::new(name, compiler, launcher));
        } else {
            println!("{name} is left out: there is no {compiler} here");
        }
    }
    libraries.extend(with.iter().cloned());
    Ok(libraries)
}

fn compare(arguments: &Arguments) -> Result<(), Failure> {
    let libraries = libraries(&arguments.with, arguments.tasks)?;
    let folder = std::env::temp_dir().join(format!("am-compare-{}", std::process::id()));
    let written =
        std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("compare.c"), SOURCE));
    written.map_err(|error| Failure::Input(format!("cannot write to {}: {error}", folder.display())))?;
    let measured = measure(&libraries, &folder, arguments);
    // What is left of a temporary folder does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    let rows = measured?;
    print(&libraries, &rows);
    let Some(file) = &arguments.json else { return Ok(()) };
    let rows: Vec<_> = rows
        .iter()
        .flat_map(|((what, bytes), by_library)| {
            by_library.iter().map(move |(library, times)| {
                serde_json::json!({ "what": what, "bytes": bytes, "library": library, "ns": median(times) })
            })
        })
        .collect();
    std::fs::write(file, format!("{:#}\n", serde_json::Value::from(rows)))
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}", file.display())))
}

/// All times, by row and by library.
type Measured = BTreeMap<Row, BTreeMap<String, Vec<f64>>>;

fn measure(libraries: &[Library], folder: &Path, arguments: &Arguments) -> Result<Measured, Failure> {
    let mut programs = Vec::new();
    for library in libraries {
        programs.push((library, library.build(folder)?));
    }
    let mut measured = Measured::new();
    for round in 1..=arguments.rounds {
        for (library, program) in &programs {
            eprintln!("round {round} of {}: {}", arguments.rounds, library.name);
            for (row, nanoseconds) in library.run(program, arguments.tasks, arguments.only.as_deref())? {
                measured.entry(row).or_default().entry(library.name.clone()).or_default().push(nanoseconds);
            }
        }
    }
    Ok(measured)
}

fn print(libraries: &[Library], rows: &Measured) {
    print!("{:<10} {:>8}", "ns", "bytes");
    for library in libraries {
        print!(" {:>12}", library.name);
        if library.name != OURS {
            print!(" {:>6}", "ratio");
        }
    }
    println!();
    for ((what, bytes), by_library) in rows {
        print!("{what:<10} {bytes:>8}");
        let of = |name: &str| by_library.get(name).map_or(f64::NAN, |times| median(times));
        for library in libraries {
            print!(" {:>12.1}", of(&library.name));
            if library.name != OURS {
                print!(" {:>6.2}", of(&library.name) / of(OURS));
            }
        }
        println!();
    }
}

fn main() -> ExitCode {
    exit_code(PROGRAM, &compare(&Arguments::parse()))
}
