//! Counts the words of k letters in the reads of a genome, in a hash table that is distributed over all tasks.
//!
//! What it teaches: a distributed hash table in two ways. One-sided, a task finds the slot itself: it reads slots in the owner's memory,
//! claims a free slot by compare-and-swap, and adds to the count of the slot; each step is a remote operation. With active messages the
//! task sends the word, and the owner's handler does these steps in its own memory: the table may be of any kind and may grow, and needs no
//! lock and no atomic operation. The example also shows what is gained if one message carries many words.
//!
//! ```text
//! cargo amrun -n 4 --example kmer_count
//! cargo amrun -n 4 --example kmer_count -- --by aggregated --bases 4000000 -k 21
//! ```
//!
//! You should see a line for each way with millions of k-mers a second, of all tasks together, how many distinct k-mers there are and how
//! often they occur, and as the last line `verified`: each task has drawn all reads again, and has counted the words that it owns without
//! the other tasks.
//!
//! A word and its reverse complement, which is the same position read from the other strand, count as one.

#![expect(clippy::cast_possible_truncation, reason = "numbers of tasks, which have 32 bits")]

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use am_core::handler::{Answer, HandlerId};
use am_core::pgas::{self, Aggregator, Segment};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_examples::failure::agree;
use am_examples::kmers::{self, K_MAX, KmerTable, Reads};
use am_examples::progress::Progress;
use am_examples::user_header;
use am_examples::{Failure, arguments, kernel, random};
use am_via::{ShmFabric, Task};
use clap::{Parser, ValueEnum};

/// Counts the words of k letters in the reads of a genome, in a hash table that is distributed over all tasks.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// How a word gets into the table.
    #[arg(long, value_enum, default_value_t = By::All)]
    by: By,
    /// Letters of a word.
    #[arg(short, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=i64::from(K_MAX)))]
    k: u32,
    /// Number of letters of the genome, which is drawn at random.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(100..=1 << 36))]
    bases: u64,
    /// Average number of reads that cover a letter. A read has 100 letters.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1 << 16))]
    coverage: u64,
    /// Seed of the genome.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// By remote reads, compare-and-swap and addition.
    Rmw,
    /// By a message for each word.
    Amsend,
    /// By messages of many words.
    Aggregated,
    /// All ways, one after the other.
    All,
}

const PROGRAM: &str = "kmer_count";
const READ_BASES: u64 = 100;
/// Maximum number of words in a message.
const BATCH: usize = 1024;
/// Number of reads between two updates of the progress bar.
const SHOWN_EVERY: u64 = 64;
/// Number of counts that are shown.
const SHOWN: usize = 5;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let Arguments { k, bases, coverage, seed, .. } = *arguments;
    let reads = Reads {
        genome_bases: bases,
        read_bases: READ_BASES,
        count: (bases * coverage).div_ceil(READ_BASES),
        seed,
    };
    let own = task.number();
    if own == 0 {
        let (tasks, count) = (context.num_tasks(), reads.count);
        println!("tasks: {tasks}, genome: {bases} letters, reads: {count} of {READ_BASES} letters, k: {k}");
    }
    let table = Arc::new(Mutex::new(KmerTable::default()));
    let handlers = register(&mut context, &table)?;
    // The number of slots is more than twice the largest possible number of words.
    let words_max = reads.kmers(k).min(bases).max(1);
    let slots = words_max.div_ceil(u64::from(context.num_tasks())).saturating_mul(2) + 64;
    let remote = if matches!(arguments.by, By::Rmw | By::All) {
        let remote = RemoteTable::new(&mut context, slots).map_err(Failure::from);
        Some(agree(&mut context, PROGRAM, remote)?)
    } else {
        None
    };
    let expected = count_own(&context, reads, k);
    for (by, name) in [(By::Rmw, "rmw"), (By::Amsend, "amsend"), (By::Aggregated, "aggregated")] {
        if arguments.by != by && arguments.by != By::All {
            continue;
        }
        let mut way = match (by, &remote) {
            (By::Rmw, Some(remote)) => Way::Rmw(remote),
            (By::Amsend, _) => Way::Amsend(handlers),
            _ => Way::Aggregated(Aggregator::new(&context, handlers[1], BATCH)?),
        };
        let (result, seconds) =
            kernel::timed(&mut context, |context| Ok(count(context, reads, k, &mut way)))?;
        agree(&mut context, PROGRAM, result)?;
        let found = match &way {
            Way::Rmw(remote) => remote.own()?,
            Way::Amsend(_) | Way::Aggregated(_) => {
                std::mem::take(&mut *table.lock().unwrap_or_else(PoisonError::into_inner)).iter().collect()
            }
        };
        check(&mut context, &found, &expected, name)?;
        if own == 0 {
            let millions = reads.kmers(k) as f64 / seconds / 1e6;
            println!("by {name}: {millions:.2} M k-mers/s, {seconds:.4} s");
        }
    }
    report(&mut context, reads, k, &expected)
}

/// The task that owns a word, chosen by the high half of its hash; the low half chooses the slot.
#[inline(always)]
fn owner(kmer: u64, tasks: u32) -> TaskId {
    TaskId(random::below(random::mix(kmer), u64::from(tasks)) as u32)
}

/// Registers the handlers for one word and for many.
fn register(
    context: &mut Context<ShmFabric>,
    table: &Arc<Mutex<KmerTable>>,
) -> Result<[HandlerId; 2], Failure> {
    // Handlers run in the program's thread, inside its calls, so the lock is never contended.
    let into = Arc::clone(table);
    let one = context.register_handler(move |message| {
        let [kmer] = user_header::words(message.uhdr);
        into.lock().unwrap_or_else(PoisonError::into_inner).add(kmer);
        Answer::discard()
    })?;
    let into = Arc::clone(table);
    let many = context.register_handler(move |message| {
        let mut table = into.lock().unwrap_or_else(PoisonError::into_inner);
        pgas::items(message, |kmer| table.add(kmer));
        Answer::discard()
    })?;
    Ok([one, many])
}

/// How a word gets into the table.
enum Way<'a> {
    Rmw(&'a RemoteTable),
    Amsend([HandlerId; 2]),
    Aggregated(Aggregator<u64>),
}

/// Counts the words of this task's share of the reads.
fn count(context: &mut Context<ShmFabric>, reads: Reads, k: u32, way: &mut Way<'_>) -> Result<(), Failure> {
    let (own, tasks) = (context.task().0, context.num_tasks());
    let (start, some) = kernel::share(reads.count, u64::from(tasks), u64::from(own));
    let mut progress = Progress::count(some, own == 0);
    let mut words = Vec::new();
    for number in start..start + some {
        words.clear();
        reads.for_each_kmer(number, k, |kmer| words.push(kmer));
        for &kmer in &words {
            let target = owner(kmer, tasks);
            match way {
                Way::Rmw(table) => table.add(context, target, kmer)?,
                Way::Amsend([one, _]) => {
                    context.amsend(target, *one, &kmer.to_le_bytes(), &[], AmOptions::default())?
                }
                Way::Aggregated(aggregator) => aggregator.push(context, target, kmer)?,
            }
        }
        if number % SHOWN_EVERY == SHOWN_EVERY - 1 {
            progress.advance(SHOWN_EVERY);
        }
    }
    if let Way::Aggregated(aggregator) = way {
        aggregator.flush(context)?;
    }
    Ok(())
}

/// A table that other tasks change without the help of its owner: words and counts in exposed memory.
struct RemoteTable {
    /// A word plus 1, or 0 for a free slot.
    words: Segment<u64>,
    counts: Segment<u64>,
}

impl RemoteTable {
    fn new(context: &mut Context<ShmFabric>, slots: u64) -> am_core::error::Result<Self> {
        Ok(Self { words: Segment::new(context, slots)?, counts: Segment::new(context, slots)? })
    }

    fn add(&self, context: &mut Context<ShmFabric>, target: TaskId, kmer: u64) -> Result<(), Failure> {
        let slots = self.words.count();
        let key = kmer + 1;
        let mut at = random::below(random::mix(!kmer), slots);
        for _ in 0..slots {
            let word = self.words.at(target, at)?;
            let found = match word.read(context)? {
                // Another task may have claimed the slot first, perhaps for the same word.
                0 => word.compare_exchange(context, 0, key)?.map_or_else(|other| other, |_| key),
                other => other,
            };
            if found == key {
                self.counts.at(target, at)?.fetch_add(context, 1)?;
                return Ok(());
            }
            at = if at + 1 == slots { 0 } else { at + 1 };
        }
        Err(Failure::Wrong(format!("all {slots} slots of {target}'s part of the table are in use")))
    }

    /// The words of this task's part, with their counts.
    fn own(&self) -> Result<Vec<(u64, u64)>, Failure> {
        let (words, counts) = (self.words.to_vec(), self.counts.to_vec());
        Ok(words
            .into_iter()
            .zip(counts)
            .filter(|(word, _)| *word != 0)
            .map(|(word, n)| (word - 1, n))
            .collect())
    }
}

/// The words that this task must own at the end, with their counts: this task counts them in all reads.
fn count_own(context: &Context<ShmFabric>, reads: Reads, k: u32) -> KmerTable {
    let mut expected = KmerTable::default();
    let mut progress = Progress::count(reads.count, context.task().0 == 0);
    for number in 0..reads.count {
        reads.for_each_kmer(number, k, |kmer| {
            if owner(kmer, context.num_tasks()) == context.task() {
                expected.add(kmer);
            }
        });
        if number % SHOWN_EVERY == SHOWN_EVERY - 1 {
            progress.advance(SHOWN_EVERY);
        }
    }
    expected
}

fn check(
    context: &mut Context<ShmFabric>,
    found: &[(u64, u64)],
    expected: &KmerTable,
    by: &str,
) -> Result<(), Failure> {
    let wrong = found.iter().filter(|(kmer, count)| expected.count(*kmer) != *count).count();
    // If no word is wrong, each word of this task's part is an expected one. If the numbers are equal too, no word is missing.
    let missing = found.len().abs_diff(expected.len());
    kernel::no_errors(
        context,
        (wrong + missing) as u64,
        &format!("k-mers counted by {by} have a wrong count or none"),
    )
}

fn report(context: &mut Context<ShmFabric>, reads: Reads, k: u32, own: &KmerTable) -> Result<(), Failure> {
    let different = kernel::sum(context, own.len() as u64)?;
    let mut counts = Vec::new();
    for times in 1..=SHOWN as u64 {
        counts.push(kernel::sum(context, own.iter().filter(|(_, count)| *count == times).count() as u64)?);
    }
    // Of equally frequent words, takes the first in the alphabet, so that the output is the same for any number of tasks.
    let most = own.iter().max_by_key(|(kmer, count)| (*count, !kmer)).unwrap_or((u64::MAX, 0));
    let (most_words, most_counts) = (kernel::gather(context, most.0)?, kernel::gather(context, most.1)?);
    let most = most_words.into_iter().zip(most_counts).max_by_key(|(kmer, count)| (*count, !kmer));
    if context.task().0 == 0 {
        println!("k-mers: {}, different: {different}", reads.kmers(k));
        for (times, count) in (1..).zip(counts) {
            println!("{count:>10} seen {times} x");
        }
        if let Some((kmer, count)) = most {
            println!("most frequent, {count} x: {}", kmers::letters(kmer, k));
        }
        println!("verified");
    }
    Ok(())
}
