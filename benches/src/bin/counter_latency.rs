//! The latency of each counter between two tasks, for 8 bytes, in nanoseconds.
//!
//! ```text
//! cargo build --release -p am-benches
//! cargo amrun -n 2 --bind core target/release/counter_latency
//! cargo amrun -n 2 --bind core target/release/counter_latency --json rows.json
//! ```
//!
//! Prints a row for each operation and counter: the median over all batches, and the time that 99 of 100 batches do not exceed (p99). The
//! task that started an operation waits for its origin or completion counter, so the time is from the call to the end of the wait. The
//! other task waits for a target counter, so the time is half a round trip. Expected: origin counters cost little more than the call; a
//! target counter costs one way; a completion counter costs one way if the sender stores the bytes itself, and a round trip if the target
//! has to report that its handler has run.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use am_core::buffer::{Access, RemoteAddress};
use am_core::counter::Counter;
use am_core::fabric::{AtomicOp, Width};
use am_core::handler::{Answer, Completion, HandlerId};
use am_core::task::TaskId;
use am_core::{AmOptions, Context, GetOptions, PutOptions};
use am_examples::failure::exit_code;
use am_examples::statistics::{median, percentile};
use am_examples::{Failure, arguments};
use am_via::{ShmFabric, Task};
use clap::Parser;

/// The latency of each counter between two tasks, for 8 bytes, in nanoseconds.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Also write the rows to this file, as a JSON array.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Batches for each row.
    #[arg(long, default_value_t = 100)]
    batches: usize,
    /// Operations in a batch.
    #[arg(long, default_value_t = 300)]
    rounds: u32,
}

const PROGRAM: &str = "counter_latency";
const BYTES: usize = 8;

/// An operation and the counter waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    PutOrigin,
    PutTarget,
    PutCompletion,
    AmsendOrigin,
    AmsendTarget,
    AmsendCompletion,
    GetOrigin,
    RmwOrigin,
}

const ROWS: [(Row, &str, &str); 8] = [
    (Row::PutOrigin, "put", "origin"),
    (Row::PutTarget, "put", "target"),
    (Row::PutCompletion, "put", "completion"),
    (Row::AmsendOrigin, "amsend", "origin"),
    (Row::AmsendTarget, "amsend", "target"),
    (Row::AmsendCompletion, "amsend", "completion"),
    (Row::GetOrigin, "get", "origin"),
    (Row::RmwOrigin, "rmw", "origin"),
];

fn main() -> ExitCode {
    let task = match Task::join() {
        Ok(task) => task,
        Err(error) => return Failure::from(error).report(PROGRAM),
    };
    match arguments::parse(task.number()) {
        Ok(arguments) => exit_code(PROGRAM, &run(&task, &arguments)),
        Err(code) => code,
    }
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    if context.num_tasks() < 2 {
        let what =
            "counter_latency needs two tasks: cargo amrun -n 2 --bind core target/release/counter_latency";
        return Err(Failure::Input(what.to_owned()));
    }
    let counters = [context.counter()?, context.counter()?];
    let handler = context.register_handler(|_| Answer::consumed(Completion::None))?;
    let memory = context.alloc(BYTES)?;
    let memory = context.expose(memory, Access::READ_WRITE)?;
    let addresses = context.address_init(memory.address(0))?;
    let number = task.number();
    let result = if number < 2 {
        let peer = TaskId(1 - number);
        let [own, seen_by_target] = counters;
        let there = addresses[peer.index()];
        Player { context: &mut context, is_first: number == 0, peer, there, handler, own, seen_by_target }
            .play(arguments)
    } else {
        Ok(())
    };
    context.gfence()?;
    result
}

/// One of the two tasks.
struct Player<'a> {
    context: &'a mut Context<ShmFabric>,
    is_first: bool,
    peer: TaskId,
    there: RemoteAddress,
    handler: HandlerId,
    /// The counter on which the task that starts an operation waits.
    own: Counter,
    /// The counter on which the other task waits.
    seen_by_target: Counter,
}

impl Player<'_> {
    fn play(mut self, arguments: &Arguments) -> Result<(), Failure> {
        let pinned = std::env::var("AM_PINNED").is_ok_and(|value| value == "1");
        if self.is_first {
            println!("{:>8} {:>11} {:>12} {:>12}", "", "counter", "median ns", "p99 ns");
        }
        let mut rows = Vec::new();
        for (row, operation, counter) in ROWS {
            let mut times = Vec::new();
            // The first batch is a warm-up and is not counted.
            for batch in 0..=arguments.batches {
                let time = self.batch(row, arguments.rounds)?;
                if batch > 0 {
                    times.push(time);
                }
            }
            if self.is_first {
                let (median, p99) = (median(&times), percentile(&times, 99));
                println!("{operation:>8} {counter:>11} {median:>12.1} {p99:>12.1}");
                rows.push(serde_json::json!({
                    "operation": operation, "counter": counter, "bytes": BYTES,
                    "median_ns": median, "p99_ns": p99, "pinned": pinned,
                }));
            }
        }
        if !self.is_first {
            return Ok(());
        }
        if !pinned {
            println!(
                "the tasks are not bound to cores: without --bind core, or with fewer cores than tasks, the times include the scheduler's"
            );
        }
        match &arguments.json {
            Some(file) => write_rows(file, &rows),
            None => Ok(()),
        }
    }

    /// Nanoseconds for one operation, over one batch.
    fn batch(&mut self, row: Row, rounds: u32) -> Result<f64, Failure> {
        // Both tasks begin together, and the other task makes progress until the batch is over.
        self.round_trip(Row::PutTarget)?;
        let started = Instant::now();
        match row {
            Row::PutTarget | Row::AmsendTarget => {
                for _ in 0..rounds {
                    self.round_trip(row)?;
                }
                return Ok(started.elapsed().as_nanos() as f64 / f64::from(2 * rounds));
            }
            _ if self.is_first => {
                for _ in 0..rounds {
                    self.operate(row)?;
                }
            }
            _ => {}
        }
        let time = started.elapsed().as_nanos() as f64 / f64::from(rounds);
        self.round_trip(Row::PutTarget)?;
        Ok(time)
    }

    fn round_trip(&mut self, row: Row) -> Result<(), Failure> {
        if self.is_first {
            self.start(row)?;
        }
        self.context.wait_counter(self.seen_by_target, 1)?;
        if !self.is_first {
            self.start(row)?;
        }
        Ok(())
    }

    /// Starts an operation, and waits for the counter at its origin.
    #[inline(always)]
    fn operate(&mut self, row: Row) -> Result<(), Failure> {
        match row {
            Row::GetOrigin => {
                let options = GetOptions { origin: Some(self.own), ..GetOptions::default() };
                self.context.get(self.there, &mut [0; BYTES], options)?;
                self.context.wait_counter(self.own, 1)?;
            }
            Row::RmwOrigin => {
                let add = AtomicOp::FetchAdd(1);
                let begun = self.context.rmw_nonblocking(self.there, Width::Bits64, add, Some(self.own))?;
                self.context.wait_counter(self.own, 1)?;
                if self.context.rmw_result(begun)?.is_err() {
                    return Err(Failure::Wrong(
                        "the counter of an rmw changed before the result of the rmw was there".to_owned(),
                    ));
                }
            }
            _ => {
                self.start(row)?;
                self.context.wait_counter(self.own, 1)?;
            }
        }
        Ok(())
    }

    /// Starts a put or an amsend of 8 bytes, with the counter of `row`.
    #[inline(always)]
    fn start(&mut self, row: Row) -> Result<(), Failure> {
        let only = |wanted: bool, counter: Counter| wanted.then_some(counter);
        let origin = only(matches!(row, Row::PutOrigin | Row::AmsendOrigin), self.own);
        let completion = only(matches!(row, Row::PutCompletion | Row::AmsendCompletion), self.own);
        let target = only(matches!(row, Row::PutTarget | Row::AmsendTarget), self.seen_by_target);
        let target = target.map(Counter::name);
        if matches!(row, Row::PutOrigin | Row::PutTarget | Row::PutCompletion) {
            let options = PutOptions { origin, target, completion };
            return Ok(self.context.put(self.there, &[7; BYTES], options)?);
        }
        let options = AmOptions { origin, target, completion, ..AmOptions::default() };
        Ok(self.context.amsend(self.peer, self.handler, &[], &[7; BYTES], options)?)
    }
}

fn write_rows(file: &PathBuf, rows: &[serde_json::Value]) -> Result<(), Failure> {
    let text = format!("{:#}\n", serde_json::Value::from(rows));
    std::fs::write(file, text).map_err(|error| {
        let file = file.display();
        Failure::Input(format!("cannot write {file}: {error}; name a file in a folder that exists"))
    })
}
