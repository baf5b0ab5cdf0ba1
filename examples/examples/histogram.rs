//! The histogram of bale: every task adds 1 to random elements of a table that is distributed over all tasks, in four ways.
//!
//! What it teaches: the cost of one small remote update as an atomic operation on the target's memory, as a message of its own, as a part
//! of an aggregated message, and in the usual way of MPI programs, which collect updates and exchange them in rounds. The typed segment
//! (`am_core::pgas`) gives element i of the whole table as a global pointer.
//!
//! ```text
//! cargo amrun -n 4 --example histogram
//! cargo amrun -n 4 --example histogram -- --by aggregated --updates 10000000
//! ```
//!
//! You should see a line for each way with millions of updates a second, of all tasks together, and MB/s of indices a task (8 bytes an
//! update, bale's unit), and as the last line `verified`: each task has drawn all tasks' indices again, and its part of the table agrees
//! with them.
//!
//! After `jdevinney/bale`, application `histo`.

#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of tasks and offsets in memory that this machine has"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use am_core::handler::{Answer, HandlerId};
use am_core::pgas::{self, Aggregator, Segment};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_examples::alltoallv::alltoallv;
use am_examples::failure::agree;
use am_examples::progress::Progress;
use am_examples::user_header;
use am_examples::{Failure, arguments, kernel, random};
use am_via::{ShmFabric, Task};
use clap::{Parser, ValueEnum};
use mpi_over_am::{Environment, Settings};

/// The histogram of bale: random increments of a table that is distributed over all tasks, in four ways.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// How an update reaches its element.
    #[arg(long, value_enum, default_value_t = By::All)]
    by: By,
    /// Updates of each task.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    updates: u64,
    /// Elements of the table in each task.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    table: u64,
    /// Maximum number of updates in a message. In a round of the exchange, a task has this many updates for each task, on average.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    batch: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// By an atomic addition in the target's memory.
    Rmw,
    /// By a message for each update.
    Amsend,
    /// By messages of many updates.
    Aggregated,
    /// By MPI: rounds of an exchange of lists.
    Alltoallv,
    /// All ways, one after the other.
    All,
}

const PROGRAM: &str = "histogram";
const SEED: u64 = 0x6261_6c65;
/// Number of updates between two updates of the progress bar.
const SHOWN_EVERY: u64 = 4096;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let table = Segment::<u64>::new(&mut context, arguments.table).map_err(Failure::from);
    let table = Arc::new(agree(&mut context, PROGRAM, table)?);
    let handlers = Handlers::register(&mut context, &table)?;
    let is_first = task.number() == 0;
    if is_first {
        let (tasks, Arguments { updates, table, .. }) = (context.num_tasks(), arguments);
        println!("tasks: {tasks}, updates of each: {updates}, table elements of each: {table}");
    }
    let expected = expected_counts(&mut context, arguments, &table)?;
    let mut way = Way { arguments, table: &table, handlers, shown: is_first };
    for (by, name) in [(By::Rmw, "rmw"), (By::Amsend, "amsend"), (By::Aggregated, "aggregated")] {
        if arguments.by == by || arguments.by == By::All {
            let ((), seconds) = kernel::timed(&mut context, |context| way.run(context, by))?;
            check(&mut context, arguments, &table, &expected, name, seconds)?;
        }
    }
    if arguments.by == By::Alltoallv || arguments.by == By::All {
        // MPI uses the second context of this task; the program uses the first.
        let environment = Environment::with_fabric(task.fabric(1)?, &Settings::default())?;
        let ((), seconds) = kernel::timed(&mut context, |context| way.exchange(context, &environment))?;
        check(&mut context, arguments, &table, &expected, "alltoallv", seconds)?;
        environment.finalize()?;
    }
    if is_first {
        println!("verified");
    }
    Ok(())
}

/// Index of the element that update `number` of the task with this seed adds to.
#[inline(always)]
fn index(seed: u64, number: u64, total: u64) -> u64 {
    random::below(random::at(seed, number), total)
}

/// What this task's part of the table must hold in the end.
fn expected_counts(
    context: &mut Context<ShmFabric>,
    arguments: &Arguments,
    table: &Segment<u64>,
) -> Result<Vec<u64>, Failure> {
    let (own, tasks) = (u64::from(context.task().0), u64::from(context.num_tasks()));
    let mut counts = kernel::filled(context, PROGRAM, arguments.table, 0)?;
    let mut progress = Progress::count(tasks * arguments.updates, own == 0);
    for task in 0..tasks {
        let seed = random::stream(SEED, task);
        for number in 0..arguments.updates {
            let index = index(seed, number, table.total());
            if index % tasks == own {
                counts[(index / tasks) as usize] += 1;
            }
        }
        progress.advance(arguments.updates);
    }
    Ok(counts)
}

/// Compares the table with the expected one, prints the speed, and clears the table for the next run.
fn check(
    context: &mut Context<ShmFabric>,
    arguments: &Arguments,
    table: &Segment<u64>,
    expected: &[u64],
    by: &str,
    seconds: f64,
) -> Result<(), Failure> {
    let wrong = table.to_vec().iter().zip(expected).filter(|(found, expected)| found != expected).count();
    kernel::no_errors(
        context,
        wrong as u64,
        &format!("elements of the table are wrong after updates by {by}"),
    )?;
    if context.task().0 == 0 {
        let updates = arguments.updates as f64;
        let all = updates * f64::from(context.num_tasks());
        let (millions, megabytes) = (all / seconds / 1e6, updates * 8.0 / seconds / 1e6);
        println!("by {by}: {millions:.2} M updates/s, {megabytes:.1} MB/s a task, {seconds:.4} s");
    }
    table.write(0, &vec![0; expected.len()])?;
    Ok(())
}

#[derive(Clone, Copy)]
struct Handlers {
    one: HandlerId,
    many: HandlerId,
}

impl Handlers {
    fn register(context: &mut Context<ShmFabric>, table: &Arc<Segment<u64>>) -> Result<Self, Failure> {
        // Ignores an invalid index, because a message may hold any bytes. Handlers of a task run one at a time and nothing else writes
        // meanwhile, so a load and a store suffice.
        let add = |table: &Segment<u64>, index| {
            if let Ok(count) = table.atomic(index) {
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        };
        let one = Arc::clone(table);
        let one = context.register_handler(move |message| {
            let [index] = user_header::words(message.uhdr);
            add(&one, index);
            Answer::discard()
        })?;
        let many = Arc::clone(table);
        let many = context.register_handler(move |message| {
            pgas::items(message, |index| add(&many, index));
            Answer::discard()
        })?;
        Ok(Self { one, many })
    }
}

struct Way<'a> {
    arguments: &'a Arguments,
    table: &'a Segment<u64>,
    handlers: Handlers,
    shown: bool,
}

impl Way<'_> {
    fn run(&mut self, context: &mut Context<ShmFabric>, by: By) -> Result<(), Failure> {
        let (own, tasks) = (u64::from(context.task().0), u64::from(context.num_tasks()));
        let seed = random::stream(SEED, own);
        let (updates, total) = (self.arguments.updates, self.table.total());
        let batch = usize::try_from(self.arguments.batch).unwrap_or(usize::MAX);
        let mut aggregator = Aggregator::new(context, self.handlers.many, batch)?;
        let mut progress = Progress::count(updates, self.shown);
        for start in (0..updates).step_by(SHOWN_EVERY as usize) {
            let end = (start + SHOWN_EVERY).min(updates);
            for number in start..end {
                let index = index(seed, number, total);
                let (target, place) = (TaskId((index % tasks) as u32), index / tasks);
                match by {
                    By::Rmw => {
                        self.table.at(target, place)?.fetch_add(context, 1)?;
                    }
                    By::Amsend => {
                        context.amsend(
                            target,
                            self.handlers.one,
                            &place.to_le_bytes(),
                            &[],
                            AmOptions::default(),
                        )?;
                    }
                    By::Aggregated => aggregator.push(context, target, place)?,
                    By::Alltoallv | By::All => {}
                }
            }
            progress.advance(end - start);
        }
        Ok(aggregator.flush(context)?)
    }

    fn exchange(&mut self, context: &mut Context<ShmFabric>, mpi: &Environment) -> Result<(), Failure> {
        let (own, tasks) = (u64::from(context.task().0), u64::from(context.num_tasks()));
        let seed = random::stream(SEED, own);
        let (updates, total) = (self.arguments.updates, self.table.total());
        let mut send: Vec<Vec<u64>> = vec![Vec::new(); tasks as usize];
        let mut receive = send.clone();
        let world = mpi.world();
        let mut progress = Progress::count(updates, self.shown);
        // All tasks have the same number of updates, and so the same number of rounds.
        let round = self.arguments.batch * tasks;
        for start in (0..updates).step_by(usize::try_from(round).unwrap_or(usize::MAX)) {
            let end = (start + round).min(updates);
            send.iter_mut().for_each(Vec::clear);
            for number in start..end {
                let index = index(seed, number, total);
                send[(index % tasks) as usize].push(index / tasks);
            }
            alltoallv(&world, &send, &mut receive)?;
            for &index in receive.iter().flatten() {
                let count = self.table.atomic(index)?;
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            progress.advance(end - start);
        }
        Ok(())
    }
}
