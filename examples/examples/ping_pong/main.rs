//! Half round trips between two tasks, from 0 bytes to 4 MiB, by every available method, compared with the machine's own limit.
//!
//! What it teaches: the cost of each layer, and of each kind of completion (the three kinds of the MPI-LAPI paper: in context, by counter,
//! on the handler thread).
//!
//! ```text
//! cargo amrun -n 2 --bind core --example ping_pong
//! cargo amrun -n 2 --bind core --example ping_pong -- --json rows.json
//! ```
//!
//! You should see a row for each size: nanoseconds for one way, the median over all batches (p50), and below it the time that 99 of 100
//! batches do not exceed (p99). The best batch is not shown: on a virtual machine whose host moves its processors, two of them may share a
//! cache for some milliseconds, and a batch measured then is not typical. Every message is checked when it arrives.
//!
//! `limit` is a bare ring of lines. The payload of up to 40 bytes is in the line; the receiver copies a longer payload once, from the
//! sender's mapped buffer. Each message differs from the one before in every cache line, as a program's messages do. `--same-data` sends
//! unchanged bytes: both caches then keep them, and up to about 32 KiB the limit costs next to nothing. The target of a put looks only at
//! the last byte: the other bytes stay in the writer's cache until they are read. Every batch runs all methods in turn, so that all methods
//! see the same state of the machine. Tasks beyond the first two only take part in setting up.

#[expect(unsafe_code, reason = "copies to and from memory that the other task maps")]
mod bare_link;

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use am_core::buffer::{Access, Exposed, JobBuffer, RemoteAddress};
use am_core::counter::Counter;
use am_core::handler::{Answer, Completion, HandlerId, Message};
use am_core::task::TaskId;
use am_core::{AmOptions, Context, PutOptions};
use am_examples::failure::agree;
use am_examples::statistics::{median, percentile};
use am_examples::{Failure, arguments};
use am_via::{ShmFabric, Task};
use clap::Parser;
use mpi_over_am::{Communicator, Environment, Settings};

use bare_link::{BareLink, HalfLink};

/// Prefix of this program's messages.
const PROGRAM: &str = "ping_pong";

/// Half round trips between two tasks, by every available method, compared with the machine's own limit.
#[derive(Parser)]
struct Arguments {
    /// Also write the rows to this file, as a JSON array.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Measure only sizes up to this many bytes.
    #[arg(long, default_value_t = BYTES_MAX)]
    max_bytes: usize,
    /// Batches for each size and method.
    #[arg(long, default_value_t = 100)]
    batches: usize,
    /// Send the same bytes again and again. Both caches then keep them, unlike the data of a program that computes something.
    #[arg(long)]
    same_data: bool,
}

const BYTES_MAX: usize = 4 << 20;
/// Batches that are not counted.
const WARM_UP: usize = 2;
/// The payload of one line of the bare ring.
const LINE_BYTES: usize = 40;

/// Distance of the bytes that change from message to message: one in each cache line.
const NEW_EVERY_BYTES: usize = 64;

/// A method of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Limit,
    Put,
    PutCompletion,
    Amsend,
    AmsendCounter,
    AmsendThread,
    Mpi,
}

const WAYS: [(Way, &str); 7] = [
    (Way::Limit, "limit_ns"),
    (Way::Put, "put_ns"),
    (Way::PutCompletion, "put_completion_ns"),
    (Way::Amsend, "amsend_ns"),
    (Way::AmsendCounter, "amsend_counter_ns"),
    (Way::AmsendThread, "amsend_thread_ns"),
    (Way::Mpi, "mpi_ns"),
];

/// One of the two tasks that exchange messages.
struct Player {
    context: Context<ShmFabric>,
    peer: TaskId,
    serves: bool,
    /// Where the peer's bytes arrive, by put and by amsend.
    own: Exposed,
    theirs: RemoteAddress,
    source: JobBuffer,
    arrived: Counter,
    done: Counter,
    handlers: Handlers,
    link: BareLink,
    copy: Vec<u8>,
    world: Communicator<ShmFabric>,
    mpi_source: JobBuffer,
    mpi_target: JobBuffer,
    /// Distance of the bytes that change from message to message.
    new_every_bytes: usize,
}

/// One header handler for each of the paper's completions.
#[derive(Clone, Copy)]
struct Handlers {
    in_context: HandlerId,
    by_counter: HandlerId,
    on_thread: HandlerId,
}

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    if task.job().num_tasks() < 2 {
        let how =
            "ping_pong needs two tasks: start it with `cargo amrun -n 2 --bind core --example ping_pong`";
        return Err(Failure::Input(how.to_owned()));
    }
    let mut context = task.context()?;
    // Opens the file before the measurement, whose results would be lost if this failed later.
    let json = agree(&mut context, PROGRAM, open_json(task, arguments))?;
    let settings = Settings::try_from(task.job().variables())?;
    let environment = Environment::with_fabric(task.fabric(1)?, &settings)?;
    let own = context.alloc(BYTES_MAX)?;
    let own = context.expose(own, Access::READ_WRITE)?;
    let addresses = context.address_init(own.address(0))?;
    let arrived = context.counter()?;
    let done = context.counter()?;
    let handlers = register(&mut context, &own, arrived)?;
    context.gfence()?;
    if task.number() < 2 {
        let peer = TaskId(1 - task.number());
        let player = Player {
            peer,
            serves: task.number() == 0,
            theirs: addresses[peer.index()],
            own,
            source: context.alloc(BYTES_MAX)?,
            mpi_source: context.alloc(BYTES_MAX)?,
            mpi_target: context.alloc(BYTES_MAX)?,
            context,
            arrived,
            done,
            handlers,
            link: bare_link(&environment.world(), peer)?,
            copy: vec![0; BYTES_MAX],
            world: environment.world(),
            new_every_bytes: if arguments.same_data { BYTES_MAX } else { NEW_EVERY_BYTES },
        };
        let pinned = std::env::var("AM_PINNED").is_ok_and(|value| value == "1");
        play(player, arguments, json, pinned)?;
    }
    environment.finalize()?;
    Ok(())
}

fn register(context: &mut Context<ShmFabric>, own: &Exposed, arrived: Counter) -> Result<Handlers, Failure> {
    let place = own.range(0, BYTES_MAX as u64)?;
    let part = move |message: &Message<'_>| am_core::buffer::ExposedRange { len: message.len, ..place };
    Ok(Handlers {
        in_context: context
            .register_handler(move |message| Answer::exposed(part(message), Completion::Bump(arrived)))?,
        by_counter: context
            .register_handler(move |message| Answer::exposed(part(message), Completion::None))?,
        on_thread: context.register_handler(move |message| {
            let finish = Completion::Thread(Box::new(move |_delivered, deferred| deferred.bump(arrived)));
            Answer::exposed(part(message), finish)
        })?,
    })
}

/// Opens the bare link between the two tasks, which exchange the names of their files.
fn bare_link(world: &Communicator<ShmFabric>, peer: TaskId) -> Result<BareLink, Failure> {
    let failed = |error| {
        Failure::Input(format!(
            "tasks 0 and 1 cannot share memory: {error}; start them on one host, as processes of one user"
        ))
    };
    let half = HalfLink::new().map_err(failed)?;
    let mut theirs = [0; 3];
    world.sendrecv(&half.name(), peer.0, 0, &mut theirs, peer.0, 0)?;
    let link = half.join(theirs).map_err(failed)?;
    // From here on, both tasks have both files.
    world.sendrecv(&[0_u8; 0], peer.0, 0, &mut [0_u8; 0], peer.0, 0)?;
    Ok(link)
}

/// The file for the rows, if the user named one; only the first task writes it.
fn open_json(task: &Task, arguments: &Arguments) -> Result<Option<File>, Failure> {
    let Some(path) = arguments.json.as_ref().filter(|_| task.number() == 0) else { return Ok(None) };
    let refused = |error| {
        let path = path.display();
        Failure::Input(format!(
            "cannot write {path}: {error}; name a file in a folder where this user may write"
        ))
    };
    File::create(path).map(Some).map_err(refused)
}

fn play(mut player: Player, arguments: &Arguments, json: Option<File>, pinned: bool) -> Result<(), Failure> {
    if player.serves {
        print!("{:>9}", "bytes");
        WAYS.iter().for_each(|(_, name)| print!(" {name:>18}"));
        println!();
    }
    let mut rows = Vec::new();
    for bytes in sizes().filter(|&bytes| bytes <= arguments.max_bytes) {
        let mut times = vec![Vec::new(); WAYS.len()];
        // The first batches warm up and are not counted.
        for batch in 0..arguments.batches + WARM_UP {
            for ((way, _), times) in WAYS.iter().zip(&mut times) {
                let time = player.batch(*way, bytes)?;
                if batch >= WARM_UP {
                    times.push(time);
                }
            }
        }
        if player.serves {
            rows.push(report(bytes, &times, pinned));
        }
    }
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &rows)
            .map_err(|error| Failure::Input(format!("the rows cannot be written: {error}")))?;
    }
    Ok(())
}

/// Writes `value` to the byte at every multiple of `every_bytes`, and to the last byte.
#[inline(always)]
fn renew(message: &mut [u8], every_bytes: usize, value: u8) {
    message.iter_mut().step_by(every_bytes).for_each(|byte| *byte = value);
    if let Some(last) = message.last_mut() {
        *last = value;
    }
}

fn sizes() -> impl Iterator<Item = usize> {
    [0, 1, 8, 16, 32, 40, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
        .into_iter()
        .chain((17..=22).map(|power| 1 << power))
}

fn report(bytes: usize, times: &[Vec<f64>], pinned: bool) -> serde_json::Value {
    print!("{bytes:>9}");
    times.iter().for_each(|times| print!(" {:>18.1}", median(times)));
    print!("\n{:>9}", "p99");
    times.iter().for_each(|times| print!(" {:>18.1}", percentile(times, 99)));
    println!();
    let mut row = serde_json::Map::new();
    row.insert("bytes".into(), bytes.into());
    for ((_, name), times) in WAYS.iter().zip(times) {
        row.insert((*name).into(), median(times).into());
        row.insert(name.replace("_ns", "_p99_ns"), percentile(times, 99).into());
    }
    row.insert("pinned".into(), pinned.into());
    row.into()
}

impl Player {
    /// Nanoseconds for one way, over one batch of round trips.
    fn batch(&mut self, way: Way, bytes: usize) -> Result<f64, Failure> {
        let rounds = (1_000_000 / (2_000 + bytes)).clamp(1, 500);
        let start = Instant::now();
        for round in 0..rounds {
            if self.serves {
                self.send(way, bytes, round)?;
                self.receive(way, bytes, round)?;
            } else {
                self.receive(way, bytes, round)?;
                self.send(way, bytes, round)?;
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / (2 * rounds) as f64)
    }

    #[inline(always)]
    fn send(&mut self, way: Way, bytes: usize, round: usize) -> Result<(), Failure> {
        let (target, value) = (Some(self.arrived.name()), round.to_le_bytes()[0]);
        match way {
            Way::Limit => {}
            Way::Mpi => renew(&mut self.mpi_source[..bytes], self.new_every_bytes, value),
            _ => renew(&mut self.source[..bytes], self.new_every_bytes, value),
        }
        let handler = match way {
            Way::Limit => {
                if bytes > LINE_BYTES {
                    self.link.touch(bytes, self.new_every_bytes, value);
                }
                self.link.send(&[round as u64; LINE_BYTES / 8]);
                return Ok(());
            }
            Way::Put => {
                let options = PutOptions { target, ..PutOptions::default() };
                return Ok(self.context.put(self.theirs, &self.source[..bytes], options)?);
            }
            Way::PutCompletion => {
                let options = PutOptions { target, completion: Some(self.done), ..PutOptions::default() };
                self.context.put(self.theirs, &self.source[..bytes], options)?;
                return Ok(self.context.wait_counter(self.done, 1)?);
            }
            Way::Mpi => return Ok(self.world.send(&self.mpi_source[..bytes], self.peer.0, 0)?),
            Way::Amsend => self.handlers.in_context,
            Way::AmsendCounter => self.handlers.by_counter,
            Way::AmsendThread => self.handlers.on_thread,
        };
        let target = if way == Way::AmsendCounter { target } else { None };
        // These messages are not answered, so they reserve no credit for an answer.
        let options = AmOptions { target, ..AmOptions::default() };
        Ok(self.context.amsend(self.peer, handler, &[], &self.source[..bytes], options)?)
    }

    /// Waits for the message of a round. Each message carries the round's number in its last byte; a line of the bare ring carries it in
    /// each word.
    #[inline(always)]
    fn receive(&mut self, way: Way, bytes: usize, round: usize) -> Result<(), Failure> {
        let last = bytes.saturating_sub(1);
        let is_right = match way {
            Way::Limit if bytes <= LINE_BYTES => self.link.receive() == [round as u64; LINE_BYTES / 8],
            Way::Limit => {
                self.link.receive_and_copy(&mut self.copy[..bytes]);
                self.copy[last] == round.to_le_bytes()[0]
            }
            Way::Mpi => {
                self.world.recv(&mut self.mpi_target[..bytes], self.peer.0, 0)?;
                bytes == 0 || self.mpi_target[last] == round.to_le_bytes()[0]
            }
            _ => {
                self.context.wait_counter(self.arrived, 1)?;
                let mut byte = [0];
                self.own.read(last as u64, &mut byte)?;
                bytes == 0 || byte == [round.to_le_bytes()[0]]
            }
        };
        if is_right {
            Ok(())
        } else {
            Err(Failure::Wrong(format!("{way:?}, {bytes} bytes: the message is not that of round {round}")))
        }
    }
}
