//! Counts the instructions of a message (for send and receive separately), of a call on a window with its flush, or of a collective. Unlike
//! a time, the count does not depend on the load of the machine.
//!
//! ```text
//! cargo build --release
//! cargo run --release -p am-benches --bin instruction_count
//! cargo run --release -p am-benches --bin instruction_count -- --check      # compares with the kept counts; fails if one differs
//! cargo run --release -p am-benches --bin instruction_count -- --write      # keeps these counts
//! cargo run --release -p am-benches --bin instruction_count -- --only MPI_  # the rows whose name begins with MPI_
//! cargo run --release -p am-benches --bin instruction_count -- --profiles FOLDER  # also keeps callgrind's profile of each row in FOLDER
//! ```
//!
//! Each row is a job of two tasks. Task 1 runs under valgrind's callgrind, which counts only inside the functions around the calls; task 0
//! is its peer. The two tasks alternate by pipes, so that a message is in the ring before the call that receives it begins, and that call
//! polls once. Work that is done once for many messages, such as returning credits, is counted in part; set-up is not counted.
//!
//! A count depends on the compiler, so the file of kept counts (`benches/instruction_counts.txt`) names its compiler, and is compared only
//! if `rustc --version` is the same. `callgrind_annotate FILE` prints the lines to which the instructions of a profile belong. A count that
//! has become smaller by more than the tolerance also fails `--check`: keep it with `--write`, or a later change may increase it again
//! unnoticed.

mod kept;
mod one_sided;
mod path;
mod paths;
mod turns;

use std::path::{Path as FilePath, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use am_examples::Failure;
use am_examples::failure::exit_code;
use clap::Parser;
use clap::ValueEnum as _;

use crate::kept::{Comparison, Kept};
use crate::path::Path;
use crate::turns::Pipes;

/// Instructions per message, for sending and receiving separately.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Also write the rows to this file, as a JSON array.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Count only the rows whose name begins with this.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Fail if a count differs from the kept one by more than the tolerance.
    #[arg(long, conflicts_with = "write")]
    check: bool,
    /// Keep these counts, in benches/instruction_counts.txt.
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// Also write callgrind's profile of each row to a file in this folder, which must exist.
    #[arg(long, value_name = "FOLDER")]
    profiles: Option<PathBuf>,
    /// Number of counted messages.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    messages: u32,
    /// Only run this path, as a task of a job: the program starts its tasks with this option.
    #[arg(long, value_enum, hide = true, requires = "turns")]
    path: Option<Path>,
    /// Bytes of a message of that path.
    #[arg(long, hide = true, default_value_t = 8)]
    bytes: usize,
    /// The pipes of that path.
    #[arg(long, hide = true)]
    turns: Option<PathBuf>,
}

const PROGRAM: &str = "instruction_count";
const SOURCE: &str = include_str!("../../../c/count.c");
const SOURCE_SHMEM: &str = include_str!("../../../c/count_shmem.c");

/// The program that a row runs, with the name of its path in it.
#[derive(Clone, Copy)]
enum Counted {
    C(&'static str),
    /// A collective in a job of three tasks.
    OfThree(&'static str),
    /// A call of OpenSHMEM.
    Shmem(&'static str),
    Rust(Path),
}

/// The counted paths, with their names for the reader. In a window, 64 requests are pending at once.
const ROWS: [(&str, Counted, &[usize]); 46] = [
    ("MPI_Send", Counted::C("send"), &[8, 64, 1024]),
    ("MPI_Recv", Counted::C("receive"), &[8, 64, 1024]),
    ("MPI_Isend+Waitall/64", Counted::C("isend"), &[8]),
    ("MPI_Irecv+Waitall/64", Counted::C("irecv"), &[8]),
    // A send in synchronous mode, and its receive.
    ("MPI_Issend+Wait", Counted::C("issend"), &[8]),
    ("MPI_Recv_synchronous", Counted::C("receive_synchronous"), &[8]),
    // A message among 10 000 posted receives, or queued messages, that do not match it, and the same message without them: from a named
    // source, and from any source.
    ("posted/0", Counted::C("posted:0"), &[8]),
    ("posted/10000", Counted::C("posted:10000"), &[8]),
    ("posted_any/0", Counted::C("posted_any:0"), &[8]),
    ("posted_any/10000", Counted::C("posted_any:10000"), &[8]),
    ("early/0", Counted::C("early:0"), &[8]),
    ("early/10000", Counted::C("early:10000"), &[8]),
    ("early_any/0", Counted::C("early_any:0"), &[8]),
    ("early_any/10000", Counted::C("early_any:10000"), &[8]),
    // On a window whose memory both tasks have mapped, with a flush after each call: contiguous bytes, words at a distance of 16 bytes, and
    // updates of words.
    ("MPI_Put+flush", Counted::C("put"), &[8]),
    ("MPI_Get+flush", Counted::C("get"), &[8]),
    ("MPI_Put_strided", Counted::C("put_strided"), &[8000]),
    ("MPI_Get_strided", Counted::C("get_strided"), &[8000]),
    ("MPI_Fetch_and_op", Counted::C("fetch_and_op"), &[8]),
    ("MPI_Compare_and_swap", Counted::C("compare_and_swap"), &[8]),
    ("MPI_Accumulate", Counted::C("accumulate"), &[8, 8000]),
    ("MPI_Get_accumulate", Counted::C("get_accumulate"), &[8000]),
    // A collective of two tasks, after the other task's part has arrived. Collectives in which both tasks send are left out: their counts
    // depend on when the other task polls.
    ("MPI_Bcast", Counted::C("bcast"), &[8]),
    ("MPI_Reduce", Counted::C("reduce"), &[8]),
    ("MPI_Gather", Counted::C("gather"), &[8]),
    // Collectives of three tasks, in which each task sends. The counted task enters last.
    ("MPI_Barrier/3", Counted::OfThree("barrier"), &[8]),
    ("MPI_Allreduce/3", Counted::OfThree("allreduce"), &[8]),
    ("MPI_Alltoall/3", Counted::OfThree("alltoall"), &[8]),
    ("send", Counted::Rust(Path::Send), &[8]),
    ("recv", Counted::Rust(Path::Receive), &[8]),
    ("amsend", Counted::Rust(Path::Amsend), &[8]),
    ("amsend_target", Counted::Rust(Path::AmsendTarget), &[8]),
    ("put", Counted::Rust(Path::Put), &[8]),
    ("put_target", Counted::Rust(Path::PutTarget), &[8]),
    // On memory that both tasks have mapped.
    ("put_no_counters", Counted::Rust(Path::PutAlone), &[8]),
    ("get", Counted::Rust(Path::Get), &[8]),
    ("rmw", Counted::Rust(Path::Rmw), &[8]),
    ("pointer_write", Counted::Rust(Path::PointerWrite), &[8]),
    ("pointer_read", Counted::Rust(Path::PointerRead), &[8]),
    ("pointer_fetch_add", Counted::Rust(Path::PointerAdd), &[8]),
    // OpenSHMEM, on the heap, and on static data.
    ("shmem_long_p", Counted::Shmem("p"), &[8]),
    ("shmem_long_g", Counted::Shmem("g"), &[8]),
    ("shmem_fetch_add", Counted::Shmem("fetch_add"), &[8]),
    ("shmem_putmem", Counted::Shmem("putmem"), &[8]),
    ("shmem_getmem", Counted::Shmem("getmem"), &[8]),
    ("shmem_long_p_static", Counted::Shmem("p_static"), &[8]),
];

/// The project's marks: maximum number of instructions of a message, for rows of 8 bytes.
const MARKS: [(&str, f64); 16] = [
    ("MPI_Send", 150.0),
    ("MPI_Recv", 280.0),
    ("MPI_Isend+Waitall/64", 150.0),
    ("MPI_Irecv+Waitall/64", 200.0),
    ("amsend", 110.0),
    ("put", 110.0),
    ("put_no_counters", 60.0),
    ("get", 60.0),
    ("pointer_write", 15.0),
    ("pointer_read", 15.0),
    ("pointer_fetch_add", 15.0),
    ("shmem_long_p", 30.0),
    ("shmem_long_g", 30.0),
    ("shmem_fetch_add", 30.0),
    ("shmem_putmem", 30.0),
    ("shmem_getmem", 30.0),
];

/// The mark of a row, with the verdict on its count; an empty text for a row without a mark.
fn judged(name: &str, bytes: usize, count: f64) -> String {
    let mark = MARKS.iter().find(|(marked, _)| *marked == name && bytes == 8);
    mark.map_or_else(String::new, |(_, mark)| {
        format!("{mark} {}", if count <= *mark { "reached" } else { "short" })
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match (arguments.path, &arguments.turns) {
        (Some(path), Some(turns)) => paths::run(path, arguments.bytes, arguments.messages, turns),
        _ => count_all(&arguments),
    };
    exit_code(PROGRAM, &result)
}

fn count_all(arguments: &Arguments) -> Result<(), Failure> {
    let programs = Programs::find()?;
    let kept = Kept::read()?;
    let mut counts = Kept::of_this_compiler()?;
    let comparable = kept.is_comparable_with(&counts);
    println!("{:<22} {:>6} {:>23} {:<11} {:>9}", "", "bytes", "instructions a message", "mark", "kept");
    let mut differ = Vec::new();
    for (name, counted, lengths) in ROWS {
        if arguments.only.as_ref().is_some_and(|only| !name.starts_with(only.as_str())) {
            continue;
        }
        for &bytes in lengths {
            let profile = arguments
                .profiles
                .as_ref()
                .map(|folder| folder.join(format!("{}.{bytes}", name.replace('/', "_"))));
            let count = programs.count(counted, bytes, arguments.messages, profile.as_deref())?;
            let comparison = kept.compare(name, bytes, count);
            let judged = judged(name, bytes, count);
            println!("{name:<22} {bytes:>6} {count:>23.1} {judged:<11} {comparison}");
            if matches!(comparison, Comparison::Differs { .. } | Comparison::Missing) {
                let tolerance = kept::tolerance_percent(name);
                differ.push(format!("{name} of {bytes} bytes differs by more than {tolerance} %"));
            }
            counts.keep(name, bytes, count);
        }
    }
    if counts.is_empty() {
        return Err(Failure::Input("no row has a name that begins with this text".to_owned()));
    }
    if !comparable {
        println!(
            "not compared: the kept counts are of {}, and this compiler is {}",
            kept.compiler(),
            counts.compiler()
        );
    }
    if let Some(file) = &arguments.json {
        write(file, &format!("{:#}\n", counts.json()))?;
    }
    if arguments.write {
        return write(FilePath::new(kept::FILE), &counts.to_string());
    }
    if arguments.check && comparable && !differ.is_empty() {
        return Err(Failure::Wrong(format!(
            "{} from {}; if this is intended, keep the new counts with --write, in a commit that says why",
            differ.join(", "),
            kept::FILE
        )));
    }
    Ok(())
}

fn write(file: &FilePath, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| {
        let file = file.display();
        Failure::Input(format!("cannot write {file}: {error}; name a file in a folder that exists"))
    })
}

/// The programs of a count, and the pipes of the tasks.
struct Programs {
    own: PathBuf,
    launcher: PathBuf,
    c: PathBuf,
    shmem: PathBuf,
    pipes: Pipes,
}

impl Programs {
    fn find() -> Result<Self, Failure> {
        let own = std::env::current_exe()
            .map_err(|error| Failure::Input(format!("this program cannot find its own file: {error}")))?;
        let (compiler, launcher) = (own.with_file_name("mpicc"), own.with_file_name("mpiexec"));
        if !compiler.exists() || !launcher.exists() {
            let folder = own.parent().unwrap_or(&own).display();
            return Err(Failure::Input(format!(
                "mpicc and mpiexec are not in {folder}: first run cargo build --release"
            )));
        }
        let pipes = Pipes::make()?;
        let (source, c) = (pipes.beside("count.c"), pipes.beside("count"));
        write(&source, SOURCE)?;
        said(Command::new(&compiler).arg("-O2").arg(&source).arg("-o").arg(&c), "mpicc")?;
        let (source, shmem) = (pipes.beside("count_shmem.c"), pipes.beside("count_shmem"));
        write(&source, SOURCE_SHMEM)?;
        let oshcc = own.with_file_name("oshcc");
        said(Command::new(&oshcc).arg("-O2").arg(&source).arg("-o").arg(&shmem), "oshcc")?;
        Ok(Self { own, launcher, c, shmem, pipes })
    }

    /// Instructions per message in the counted task.
    fn count(
        &self,
        counted: Counted,
        bytes: usize,
        messages: u32,
        profile: Option<&FilePath>,
    ) -> Result<f64, Failure> {
        let turns = self.pipes.name();
        let (program, arguments) = match counted {
            Counted::C(path) | Counted::OfThree(path) => {
                (&self.c, vec![path.to_owned(), bytes.to_string(), messages.to_string()])
            }
            Counted::Shmem(call) => {
                (&self.shmem, vec![call.to_owned(), bytes.to_string(), messages.to_string()])
            }
            Counted::Rust(path) => {
                let path = path.to_possible_value().expect("each path has a name on the command line");
                let path = format!("--path={}", path.get_name());
                (
                    &self.own,
                    vec![
                        path,
                        format!("--bytes={bytes}"),
                        format!("--messages={messages}"),
                        "--turns".to_owned(),
                    ],
                )
            }
        };
        let log = self.pipes.beside("callgrind");
        let mut command = Command::new(&self.launcher);
        command.args(["--timeout", "300", "-n", "1"]).arg(program).args(&arguments).arg(&turns);
        command.args([":", "-n", "1", "valgrind", "--tool=callgrind", "--dump-instr=yes"]);
        let profile = profile.unwrap_or(FilePath::new("/dev/null"));
        command.arg(format!("--callgrind-out-file={}", profile.display()));
        command.args(["--collect-atstart=no", "--toggle-collect=*counted_*"]);
        command.arg(format!("--log-file={}", log.display())).arg(program).args(&arguments).arg(&turns);
        if matches!(counted, Counted::OfThree(_)) {
            command.args([":", "-n", "1"]).arg(program).args(&arguments).arg(&turns);
        }
        // Under valgrind, address space is scarce.
        command.env("AM_HEAP_BYTES", "64M").env("SHMEM_SYMMETRIC_SIZE", "1M");
        // Otherwise the sender would measure whether it shares a cache with the receiver, and the path of a store would depend on that.
        command.env("AM_CACHE_BYPASS_BYTES_MIN", "64T");
        said(&mut command, "mpiexec")?;
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let collected = log
            .lines()
            .find_map(|line| line.split_once("Collected :"))
            .and_then(|(_, counts)| counts.split_whitespace().next()?.parse::<u64>().ok())
            .filter(|&instructions| instructions > 0);
        match collected {
            Some(instructions) => Ok(instructions as f64 / f64::from(messages)),
            None => Err(Failure::Wrong(format!("valgrind counted nothing; its log:\n{log}"))),
        }
    }
}

/// Runs a command to its end, and reports its output if it fails.
fn said(command: &mut Command, name: &str) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        Failure::Input(format!("cannot run {name}: {error}; is it installed, and on the PATH?"))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Failure::Wrong(format!(
        "{name} ended with {}; its standard error:\n{errors}\n(callgrind is needed; Debian: apt-get install valgrind; Fedora: dnf install valgrind)",
        output.status
    )))
}
