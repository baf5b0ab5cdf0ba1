//! RandomAccess of the HPC Challenge: every task changes random words of a table that fills the memory of all tasks.
//!
//! What it teaches: the smallest possible remote update, at the highest rate. An update combines a pseudo-random number by exclusive or
//! with the word that the number's low bits select: as an atomic operation in the target's memory, as a message of its own, or as a part of
//! an aggregated message. The rules allow a task to look at most 1024 updates ahead, so the aggregated form holds back at most that many,
//! for all targets together.
//!
//! ```text
//! cargo amrun -n 4 --example gups
//! cargo amrun -n 4 --example gups -- --log-table 24 --by aggregated
//! ```
//!
//! You should see a line for each way with GUP/s (giga-updates a second, of all tasks together), and as the last line `verified`: each task
//! has drawn the whole sequence again, has undone the updates of its own words, and has found no word wrong. The rules would allow one
//! wrong word in a hundred. Updates that are atomic, or that the owner executes, leave no wrong word.
//!
//! Follows the HPC Challenge benchmark: the number of 64-bit words of the table is a power of two, word i begins as i, there are four
//! updates for each word, and the sequence is that of the polynomial x^63 + x^2 + x + 1 over GF(2), in which each task begins at a position
//! of its own.

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
use am_examples::failure::agree;
use am_examples::progress::Progress;
use am_examples::random_access::{next, start};
use am_examples::user_header;
use am_examples::{Failure, arguments, kernel};
use am_via::{ShmFabric, Task};
use clap::{Parser, ValueEnum};

/// RandomAccess of the HPC Challenge: random updates of a table that is distributed over all tasks.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// How an update reaches its word.
    #[arg(long, value_enum, default_value_t = By::All)]
    by: By,
    /// Binary logarithm of the number of 8-byte words in the whole table.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..=40))]
    log_table: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// By an atomic exclusive or in the target's memory.
    Rmw,
    /// By a message for each update.
    Amsend,
    /// By messages of many updates.
    Aggregated,
    /// All ways, one after the other.
    All,
}

const PROGRAM: &str = "gups";
/// Maximum number of updates that a task may hold back, by the rules.
const LOOK_AHEAD: usize = 1024;
const UPDATES_A_WORD: u64 = 4;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

/// The distribution of 2^`log` words over `tasks` tasks; each task has a contiguous share.
#[derive(Clone, Copy)]
struct Layout {
    log: u32,
    tasks: u64,
}

impl Layout {
    fn words(self) -> u64 {
        1 << self.log
    }

    /// The owner of the word that a number changes, and the word's index there.
    #[inline(always)]
    fn owner(self, number: u64) -> (TaskId, u64) {
        let index = number & (self.words() - 1);
        let (task, place) = kernel::owner_of(self.words(), self.tasks, index);
        (TaskId(task as u32), place)
    }
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let layout = Layout { log: arguments.log_table, tasks: u64::from(context.num_tasks()) };
    // The first share is the longest.
    let (_, words_max) = kernel::share(layout.words(), layout.tasks, 0);
    let table = Segment::<u64>::new(&mut context, words_max).map_err(Failure::from);
    let table = Arc::new(agree(&mut context, PROGRAM, table)?);
    let own = u64::from(task.number());
    let (first_word, words) = kernel::share(layout.words(), layout.tasks, own);
    let handlers = register(&mut context, &table)?;
    if own == 0 {
        let (words, tasks) = (layout.words(), layout.tasks);
        println!("tasks: {tasks}, words: {words}, updates: {}", words * UPDATES_A_WORD);
    }
    for (by, name) in [(By::Rmw, "rmw"), (By::Amsend, "amsend"), (By::Aggregated, "aggregated")] {
        if arguments.by != by && arguments.by != By::All {
            continue;
        }
        for place in 0..words {
            table.set(place, first_word + place)?;
        }
        let ((), seconds) =
            kernel::timed(&mut context, |context| update(context, layout, &table, handlers, by))?;
        let mut found = table.to_vec();
        undo(&context, layout, &mut found);
        let wrong =
            (first_word..first_word + words).zip(&found).filter(|(index, found)| index != *found).count();
        kernel::no_errors(
            &mut context,
            wrong as u64,
            &format!("words of the table are wrong after updates by {name}"),
        )?;
        if own == 0 {
            let updates = (layout.words() * UPDATES_A_WORD) as f64;
            println!("by {name}: {:.6} GUP/s, {seconds:.4} s, 0 errors", updates / seconds / 1e9);
        }
    }
    if own == 0 {
        println!("verified");
    }
    Ok(())
}

/// Registers the handlers for one number and for many.
fn register(context: &mut Context<ShmFabric>, table: &Arc<Segment<u64>>) -> Result<[HandlerId; 2], Failure> {
    // Ignores an invalid index, because a message may hold any bytes. Handlers of a task run one at a time and nothing else writes
    // meanwhile, so a load and a store suffice.
    let change = |table: &Segment<u64>, place, number| {
        if let Ok(word) = table.atomic(place) {
            word.store(word.load(Ordering::Relaxed) ^ number, Ordering::Relaxed);
        }
    };
    let one = Arc::clone(table);
    let one = context.register_handler(move |message| {
        let [place, number] = user_header::words(message.uhdr);
        change(&one, place, number);
        Answer::discard()
    })?;
    let many = Arc::clone(table);
    let many = context.register_handler(move |message| {
        pgas::items(message, |[place, number]: [u64; 2]| change(&many, place, number));
        Answer::discard()
    })?;
    Ok([one, many])
}

/// Makes this task's share of the updates.
fn update(
    context: &mut Context<ShmFabric>,
    layout: Layout,
    table: &Segment<u64>,
    [one, many]: [HandlerId; 2],
    by: By,
) -> Result<(), Failure> {
    let own = u64::from(context.task().0);
    let (first, updates) = kernel::share(layout.words() * UPDATES_A_WORD, layout.tasks, own);
    let updates_a_message = LOOK_AHEAD / usize::try_from(layout.tasks).unwrap_or(1);
    let mut aggregator = Aggregator::new(context, many, updates_a_message)?;
    let mut progress = Progress::count(updates, own == 0);
    let mut number = start(first);
    let mut left = updates;
    while left > 0 {
        let some = left.min(LOOK_AHEAD as u64);
        for _ in 0..some {
            number = next(number);
            let (target, place) = layout.owner(number);
            match by {
                By::Rmw => {
                    table.at(target, place)?.fetch_xor(context, number)?;
                }
                By::Amsend => {
                    let mut uhdr = [0; 16];
                    uhdr[..8].copy_from_slice(&place.to_le_bytes());
                    uhdr[8..].copy_from_slice(&number.to_le_bytes());
                    context.amsend(target, one, &uhdr, &[], AmOptions::default())?;
                }
                By::Aggregated | By::All => aggregator.push(context, target, [place, number])?,
            }
        }
        left -= some;
        progress.advance(some);
    }
    Ok(aggregator.flush(context)?)
}

/// Undoes all tasks' updates of this task's words, without communication.
fn undo(context: &Context<ShmFabric>, layout: Layout, words: &mut [u64]) {
    let mut number = start(0);
    for _ in 0..layout.words() * UPDATES_A_WORD {
        number = next(number);
        let (owner, place) = layout.owner(number);
        if owner == context.task() {
            words[place as usize] ^= number;
        }
    }
}
