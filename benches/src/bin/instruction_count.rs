//! Instructions that an 8-byte message takes: sending and receiving apart. A number that no other program disturbs.
//!
//! ```text
//! cargo run --release -p am-benches --bin instruction_count
//! cargo run --release -p am-benches --bin instruction_count -- --json rows.json
//! ```
//!
//! It runs itself under valgrind's callgrind, as a job of one that sends itself messages, and lets it count inside of one
//! function only: the one around the send, or the one around the receive. Each count is taken with N and with 2 N messages;
//! the difference over N is what one message takes in the long run, without set-up, and with its share of what happens once
//! in many messages, such as giving credits back. The entry and the exit of the function around the call are in it.
//!
//! What is to be seen: a row for each path, in instructions a message. The receive is the wait of a task whose message is
//! already there: one round of progress, and one look before and after. The numbers depend on the compiler: compare those of
//! one toolchain.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use am_core::buffer::{Access, RemoteAddress};
use am_core::counter::Counter;
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::{AmOptions, Context, PutOptions};
use am_examples::Failure;
use am_examples::failure::exit_code;
use am_via::{ShmFabric, Task};
use clap::{Parser, ValueEnum};
use mpi_over_am::{Communicator, Environment};

/// Instructions that an 8-byte message takes: sending and receiving apart.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Also write the rows to this file, as a JSON array.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Messages of the shorter run.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    messages: u32,
    /// Only runs this path, uncounted: what the program calls itself with.
    #[arg(long, value_enum, hide = true)]
    path: Option<Path>,
}

const PROGRAM: &str = "instruction_count";
const BYTES: [u8; 8] = [7; 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Path {
    Amsend,
    Put,
    Mpi,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Amsend => "amsend",
            Self::Put => "put",
            Self::Mpi => "mpi",
        })
    }
}

/// What is counted: a path, a name for the reader, and the function inside of which callgrind counts.
const ROWS: [(Path, &str, &str); 6] = [
    (Path::Amsend, "send", "counted_amsend_send"),
    (Path::Amsend, "receive", "counted_core_receive"),
    (Path::Put, "send", "counted_put_send"),
    (Path::Put, "receive", "counted_core_receive"),
    (Path::Mpi, "send", "counted_mpi_send"),
    (Path::Mpi, "receive", "counted_mpi_receive"),
];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.path {
        Some(path) => run_path(path, arguments.messages),
        None => count_all(&arguments),
    };
    exit_code(PROGRAM, &result)
}

fn count_all(arguments: &Arguments) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for (path, side, function) in ROWS {
        let once = count(path, function, arguments.messages)?;
        let twice = count(path, function, 2 * arguments.messages)?;
        let Some(difference) = twice.checked_sub(once).filter(|difference| *difference > 0) else {
            return Err(Failure::Wrong(format!(
                "{once} instructions in {function} with {n} messages, and {twice} with twice as many: the function was not counted",
                n = arguments.messages
            )));
        };
        let each = difference as f64 / f64::from(arguments.messages);
        if rows.is_empty() {
            println!("{:>8} {:>9} {:>23}", "", "", "instructions a message");
        }
        println!("{path:>8} {side:>9} {each:>23.1}");
        rows.push(serde_json::json!({
            "path": path.to_string(), "side": side, "bytes": BYTES.len(), "instructions": each,
        }));
    }
    let Some(file) = &arguments.json else { return Ok(()) };
    std::fs::write(file, format!("{:#}\n", serde_json::Value::from(rows))).map_err(|error| {
        let file = file.display();
        Failure::Input(format!("cannot write {file}: {error}; name a file in a folder that exists"))
    })
}

/// Runs this program under callgrind; the instructions inside of `function`.
fn count(path: Path, function: &str, messages: u32) -> Result<u64, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::Input(format!("this program cannot find its own file: {error}")))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(own)
        .arg(format!("--path={path}"))
        .arg(format!("--messages={messages}"))
        // A job of one, and not too much address space for valgrind.
        .env_remove("AM_JOB")
        .env("AM_HEAP_BYTES", "64M")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Failure::Input(format!(
                "cannot run valgrind: {error}; install it (Debian, Ubuntu: apt install valgrind; Fedora: dnf install valgrind) and see that it is on the PATH"
            ))
        })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said
        .lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, counts)| counts.split_whitespace().next()?.parse().ok());
    match collected {
        Some(instructions) if output.status.success() => Ok(instructions),
        _ => {
            let status = output.status;
            Err(Failure::Wrong(format!("valgrind ended with {status} and without a count; it said:\n{said}")))
        }
    }
}

/// Sends `messages` messages to this task itself, each received before the next one is sent.
fn run_path(path: Path, messages: u32) -> Result<(), Failure> {
    match path {
        Path::Amsend => {
            let mut own = Own::new(Task::join()?.context()?)?;
            for _ in 0..messages {
                counted_amsend_send(&mut own)?;
                counted_core_receive(&mut own)?;
            }
        }
        Path::Put => {
            let mut own = Own::new(Task::join()?.context()?)?;
            for _ in 0..messages {
                counted_put_send(&mut own)?;
                counted_core_receive(&mut own)?;
            }
        }
        Path::Mpi => {
            let environment = Environment::init()?;
            let world = environment.world();
            let mut bytes = [0; BYTES.len()];
            for _ in 0..messages {
                counted_mpi_send(&world)?;
                counted_mpi_receive(&world, &mut bytes)?;
            }
            environment.finalize()?;
        }
    }
    Ok(())
}

/// What an am-core message to oneself needs.
struct Own {
    context: Context<ShmFabric>,
    handler: HandlerId,
    memory: RemoteAddress,
    arrived: Counter,
}

impl Own {
    fn new(mut context: Context<ShmFabric>) -> am_core::error::Result<Self> {
        let arrived = context.counter()?;
        let handler = context.register_handler(move |_| Answer::consumed(Completion::Bump(arrived)))?;
        let memory = context.alloc(BYTES.len())?;
        // Never taken back: it is needed until the end.
        let memory = context.expose(memory, Access::WRITE)?.address(0);
        Ok(Self { context, handler, memory, arrived })
    }
}

#[inline(never)]
fn counted_amsend_send(own: &mut Own) -> am_core::error::Result<()> {
    let options = AmOptions { one_way: true, ..AmOptions::default() };
    own.context.amsend(own.context.task(), own.handler, &[], &BYTES, options)
}

#[inline(never)]
fn counted_core_receive(own: &mut Own) -> am_core::error::Result<()> {
    own.context.wait_counter(own.arrived, 1)
}

#[inline(never)]
fn counted_put_send(own: &mut Own) -> am_core::error::Result<()> {
    let options = PutOptions { target: Some(own.arrived.name()), ..PutOptions::default() };
    own.context.put(own.memory, &BYTES, options)
}

#[inline(never)]
fn counted_mpi_send(world: &Communicator) -> mpi_over_am::Result<()> {
    world.send(&BYTES, 0, 0)
}

#[inline(never)]
fn counted_mpi_receive(world: &Communicator, bytes: &mut [u8]) -> mpi_over_am::Result<()> {
    world.recv(bytes, 0, 0).map(|_| ())
}
