//! The index gather of bale: every task reads random elements of a table that is distributed over all tasks, in four ways.
//!
//! What it teaches: the cost of one small remote read by `get`, by a message that is answered, by aggregated messages, and by rounds of
//! MPI. A handler may answer the origin of its message with up to 32 bytes (`Completion::Reply`), and may send nothing else. So in the
//! aggregated way the handler queues the requests, and the task answers them between requests of its own.
//!
//! ```text
//! cargo amrun -n 4 --example index_gather
//! cargo amrun -n 4 --example index_gather -- --by aggregated --requests 10000000
//! ```
//!
//! You should see a line for each way with millions of reads a second, of all tasks together, and MB/s of values a task (8 bytes a read,
//! bale's unit), and as the last line `verified`: every value is the one that belongs to its index.
//!
//! After `jdevinney/bale`, application `ig`.

#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of tasks and offsets in memory that this machine has"
)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use am_core::handler::{Answer, Completion, HandlerId, Reply};
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

/// The index gather of bale: random reads of a table that is distributed over all tasks, in four ways.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// How a value reaches the task that asks for it.
    #[arg(long, value_enum, default_value_t = By::All)]
    by: By,
    /// Reads of each task.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    requests: u64,
    /// Elements of the table in each task.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    table: u64,
    /// Maximum number of reads in a message. In a round of the exchange, a task has this many reads from each task, on average.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    batch: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// By get, one at a time.
    Get,
    /// By a message for each read, and its answer.
    Amsend,
    /// By messages of many reads, and messages of many values.
    Aggregated,
    /// By MPI: rounds of two exchanges of lists.
    Alltoallv,
    /// All ways, one after the other.
    All,
}

const PROGRAM: &str = "index_gather";
const SEED: u64 = 0x6967_6967;
/// Number of reads between two updates of the progress bar.
const SHOWN_EVERY: u64 = 4096;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

/// The value of element `index` of the whole table.
fn value_of(index: u64) -> u64 {
    random::mix(index ^ SEED)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let table = Segment::<u64>::new(&mut context, arguments.table).map_err(Failure::from);
    let table = Arc::new(agree(&mut context, PROGRAM, table)?);
    let (own, tasks) = (u64::from(task.number()), u64::from(context.num_tasks()));
    for place in 0..table.count() {
        table.set(place, value_of(place * tasks + own))?;
    }
    let values = kernel::filled(&mut context, PROGRAM, arguments.requests, 0)?;
    let values = values.into_iter().map(AtomicU64::new).collect();
    let got = Arc::new(Got { values, count: AtomicU64::new(0) });
    let handlers = Handlers::register(&mut context, &table, &got)?;
    if own == 0 {
        let Arguments { requests, table, .. } = arguments;
        println!("tasks: {tasks}, reads of each: {requests}, table elements of each: {table}");
    }
    let mut way = Way {
        arguments,
        table: &table,
        handlers,
        got: &got,
        seed: random::stream(SEED, own),
        tasks,
        shown: own == 0,
    };
    for (by, name) in [(By::Get, "get"), (By::Amsend, "amsend"), (By::Aggregated, "aggregated")] {
        if arguments.by == by || arguments.by == By::All {
            let ((), seconds) = kernel::timed(&mut context, |context| match by {
                By::Get => way.get(context),
                By::Amsend => way.amsend(context),
                By::Aggregated | By::Alltoallv | By::All => way.aggregated(context),
            })?;
            way.check(&mut context, name, seconds)?;
        }
    }
    if arguments.by == By::Alltoallv || arguments.by == By::All {
        // MPI uses the second context of this task; the program uses the first.
        let environment = Environment::with_fabric(task.fabric(1)?, &Settings::default())?;
        let ((), seconds) = kernel::timed(&mut context, |_| way.exchange(&environment))?;
        way.check(&mut context, "alltoallv", seconds)?;
        environment.finalize()?;
    }
    if own == 0 {
        println!("verified");
    }
    Ok(())
}

/// The values received, each at the index of its request. Handlers and the program run in one thread, so relaxed accesses suffice.
struct Got {
    values: Vec<AtomicU64>,
    count: AtomicU64,
}

impl Got {
    fn set(&self, slot: u64, value: u64) {
        // Ignores an invalid index, because a message may hold any bytes.
        if let Some(place) = usize::try_from(slot).ok().and_then(|slot| self.values.get(slot)) {
            place.store(value, Ordering::Relaxed);
            self.count.store(self.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// Questions that wait for an answer: the asking task, the element, and the index for the answer.
type Questions = Arc<Mutex<Vec<(TaskId, u64, u64)>>>;

struct Handlers {
    ask: HandlerId,
    ask_many: HandlerId,
    tell_many: HandlerId,
    finished: HandlerId,
    questions: Questions,
    /// Number of tasks that have all their values.
    finished_tasks: Arc<AtomicU64>,
}

impl Handlers {
    fn register(
        context: &mut Context<ShmFabric>,
        table: &Arc<Segment<u64>>,
        got: &Arc<Got>,
    ) -> Result<Self, Failure> {
        let into = Arc::clone(got);
        let tell = context.register_handler(move |message| {
            let [slot, value] = user_header::words(message.uhdr);
            into.set(slot, value);
            Answer::discard()
        })?;
        let from = Arc::clone(table);
        let ask = context.register_handler(move |message| {
            let [place, slot] = user_header::words::<2>(message.uhdr);
            let answer = from.get(place).ok().map(|value| [slot.to_le_bytes(), value.to_le_bytes()].concat());
            let reply = answer.and_then(|answer| Reply::new(tell, &answer));
            reply.map_or(Answer::discard(), |reply| Answer::consumed(Completion::Reply(reply)))
        })?;
        let questions = Questions::default();
        let queue = Arc::clone(&questions);
        let ask_many = context.register_handler(move |message| {
            let source = message.source.task;
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            pgas::items(message, |[place, slot]: [u64; 2]| queue.push((source, place, slot)));
            Answer::discard()
        })?;
        let into = Arc::clone(got);
        let tell_many = context.register_handler(move |message| {
            pgas::items(message, |[slot, value]: [u64; 2]| into.set(slot, value));
            Answer::discard()
        })?;
        let finished_tasks = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&finished_tasks);
        let finished = context.register_handler(move |_| {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            Answer::discard()
        })?;
        Ok(Self { ask, ask_many, tell_many, finished, questions, finished_tasks })
    }
}

impl Handlers {
    fn questions(&self) -> MutexGuard<'_, Vec<(TaskId, u64, u64)>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_questions(&self) -> bool {
        !self.questions().is_empty()
    }

    fn all_finished(&self, tasks: u64) -> bool {
        self.finished_tasks.load(Ordering::Relaxed) == tasks
    }
}

struct Way<'a> {
    arguments: &'a Arguments,
    table: &'a Segment<u64>,
    handlers: Handlers,
    got: &'a Got,
    seed: u64,
    tasks: u64,
    shown: bool,
}

impl Way<'_> {
    /// The element that read `number` asks for.
    #[inline(always)]
    fn index(&self, number: u64) -> u64 {
        random::below(random::at(self.seed, number), self.table.total())
    }

    #[inline(always)]
    fn place(&self, number: u64) -> (TaskId, u64) {
        let index = self.index(number);
        (TaskId((index % self.tasks) as u32), index / self.tasks)
    }

    /// The numbers of all reads; updates the progress bar from time to time.
    fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let requests = self.arguments.requests;
        let mut progress = Progress::count(requests, self.shown);
        (0..requests).inspect(move |number| {
            if number % SHOWN_EVERY == SHOWN_EVERY - 1 {
                progress.advance(SHOWN_EVERY);
            }
        })
    }

    fn get(&mut self, context: &mut Context<ShmFabric>) -> Result<(), Failure> {
        for number in self.numbers() {
            let (task, place) = self.place(number);
            let value = self.table.at(task, place)?.read(context)?;
            self.got.set(number, value);
        }
        Ok(())
    }

    fn amsend(&mut self, context: &mut Context<ShmFabric>) -> Result<(), Failure> {
        for number in self.numbers() {
            let (task, place) = self.place(number);
            let mut uhdr = [0; 16];
            uhdr[..8].copy_from_slice(&place.to_le_bytes());
            uhdr[8..].copy_from_slice(&number.to_le_bytes());
            let asked = AmOptions { answerable: true, ..AmOptions::default() };
            context.amsend(task, self.handlers.ask, &uhdr, &[], asked)?;
        }
        Ok(context.wait_until(|_| Ok(self.got.count() == self.arguments.requests))?)
    }

    fn aggregated(&mut self, context: &mut Context<ShmFabric>) -> Result<(), Failure> {
        let batch = usize::try_from(self.arguments.batch).unwrap_or(usize::MAX);
        let mut questions = Aggregator::new(context, self.handlers.ask_many, batch)?;
        let mut answers = Aggregator::new(context, self.handlers.tell_many, batch)?;
        for number in self.numbers() {
            let (task, place) = self.place(number);
            questions.push(context, task, [place, number])?;
            if number % self.arguments.batch == 0 {
                context.probe()?;
                self.answer(context, &mut answers)?;
            }
        }
        questions.flush(context)?;
        // Other tasks need answers until they have all their values, so this task answers until all tasks have finished.
        let mut told = false;
        loop {
            self.answer(context, &mut answers)?;
            answers.flush(context)?;
            let has_all = self.got.count() == self.arguments.requests;
            if has_all && !told {
                told = true;
                for task in 0..context.num_tasks() {
                    context.amsend(TaskId(task), self.handlers.finished, &[], &[], AmOptions::default())?;
                }
            }
            if self.handlers.all_finished(self.tasks) {
                return Ok(());
            }
            context.wait_until(|_| {
                let has_more = !told && self.got.count() == self.arguments.requests;
                Ok(has_more || self.handlers.has_questions() || self.handlers.all_finished(self.tasks))
            })?;
        }
    }

    /// Answers the questions received so far.
    fn answer(
        &mut self,
        context: &mut Context<ShmFabric>,
        answers: &mut Aggregator<[u64; 2]>,
    ) -> Result<(), Failure> {
        // Releases the lock before sending, because sending may run handlers.
        let questions = std::mem::take(&mut *self.handlers.questions());
        for (task, place, slot) in questions {
            answers.push(context, task, [slot, self.table.get(place)?])?;
        }
        Ok(())
    }

    fn exchange(&mut self, mpi: &Environment) -> Result<(), Failure> {
        let world = mpi.world();
        let tasks = self.tasks as usize;
        let (mut places, mut slots) = (vec![Vec::new(); tasks], vec![Vec::new(); tasks]);
        let (mut asked, mut answers, mut values) =
            (places.clone(), vec![Vec::new(); tasks], vec![Vec::new(); tasks]);
        let requests = self.arguments.requests;
        let mut progress = Progress::count(requests, self.shown);
        let round = self.arguments.batch * self.tasks;
        for start in (0..requests).step_by(usize::try_from(round).unwrap_or(usize::MAX)) {
            let end = (start + round).min(requests);
            places.iter_mut().chain(&mut slots).for_each(Vec::clear);
            for number in start..end {
                let (task, place) = self.place(number);
                places[task.index()].push(place);
                slots[task.index()].push(number);
            }
            alltoallv(&world, &places, &mut asked)?;
            for (asked, answers) in asked.iter().zip(&mut answers) {
                answers.clear();
                for &place in asked {
                    answers.push(self.table.get(place)?);
                }
            }
            alltoallv(&world, &answers, &mut values)?;
            for (slot, value) in slots.iter().flatten().zip(values.iter().flatten()) {
                self.got.set(*slot, *value);
            }
            progress.advance(end - start);
        }
        Ok(())
    }

    /// Compares each value with the expected one, prints the speed, and clears the values.
    fn check(&mut self, context: &mut Context<ShmFabric>, by: &str, seconds: f64) -> Result<(), Failure> {
        let is_wrong = |(number, value): &(u64, &AtomicU64)| {
            value.load(Ordering::Relaxed) != value_of(self.index(*number))
        };
        let wrong = (0..).zip(&self.got.values).filter(is_wrong).count() as u64;
        let missing = self.arguments.requests.abs_diff(self.got.count());
        kernel::no_errors(context, wrong.max(missing), &format!("values read by {by} are wrong or missing"))?;
        if self.shown {
            let requests = self.arguments.requests as f64;
            let (millions, megabytes) =
                (requests * self.tasks as f64 / seconds / 1e6, requests * 8.0 / seconds / 1e6);
            println!("by {by}: {millions:.2} M reads/s, {megabytes:.1} MB/s a task, {seconds:.4} s");
        }
        self.got.values.iter().for_each(|value| value.store(0, Ordering::Relaxed));
        self.got.count.store(0, Ordering::Relaxed);
        Ok(())
    }
}
