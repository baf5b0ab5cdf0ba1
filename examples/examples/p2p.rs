//! The pipeline of the Parallel Research Kernels (Synch_p2p): a wave of dependences runs through a grid, one word at a time.
//!
//! What it teaches: the cost of a wait for one word of a neighbour. By put, the neighbour stores the word into this task's memory and a
//! counter reports it: no receive, no matching, no answer. By MPI, each word is a message. A row can be computed when the word to its left
//! has arrived, so if rows are short, the time of a row is the latency.
//!
//! ```text
//! cargo amrun -n 4 --example p2p
//! cargo amrun -n 4 --example p2p -- --by put --columns 100 --rows 10000
//! ```
//!
//! You should see a line for each way with its speed in MFlops/s, and as the last line `verified`.
//!
//! Follows `ParRes/Kernels`, `MPI1/Synch_p2p` (Van der Wijngaart and Mattson, "The Parallel Research Kernels", HPEC 2014): the grid is cut
//! into strips of columns; A(i, j) = A(i-1, j) + A(i, j-1) - A(i-1, j-1); the first row and the first column count up. After each iteration
//! the last corner is copied to the first corner, negated, so that an iteration cannot begin before the previous one has ended. The last
//! corner is (iterations + 1) * (columns + rows - 2), exactly. The first iteration warms up and is not timed.

#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of tasks and offsets in memory that this machine has"
)]

use std::process::ExitCode;
use std::time::Instant;

use am_core::counter::Counter;
use am_core::pgas::Segment;
use am_core::task::TaskId;
use am_core::{Context, PutOptions};
use am_examples::failure::agree;
use am_examples::progress::Progress;
use am_examples::{Failure, arguments, kernel};
use am_via::{ShmFabric, Task};
use clap::{Parser, ValueEnum};
use mpi_over_am::{Communicator, Environment, Settings};

/// The pipeline of the Parallel Research Kernels, by puts with target counters and by MPI.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// How a word reaches the neighbour.
    #[arg(long, value_enum, default_value_t = By::Both)]
    by: By,
    /// Columns of the grid, over all tasks.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..=1 << 24))]
    columns: u64,
    /// Rows of the grid: words that each task gets in an iteration.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(2..=1 << 24))]
    rows: u64,
    /// Iterations that are timed.
    #[arg(long, default_value_t = 50)]
    iterations: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// By put and target counters.
    Put,
    /// By MPI.
    Mpi,
    /// Both, one after the other.
    Both,
}

const PROGRAM: &str = "p2p";
const WORD_TAG: i32 = 1;
const CORNER_TAG: i32 = 2;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let strip = Strip::of(task.number(), context.num_tasks(), arguments);
    let strip = agree(&mut context, PROGRAM, strip)?;
    let words = (strip.columns * strip.rows) as u64;
    let mut grid = kernel::filled(&mut context, PROGRAM, words, 0.0)?;
    if strip.task == 0 {
        let Arguments { columns, rows, iterations, .. } = arguments;
        println!("tasks: {}, grid: {columns} x {rows}, iterations: {iterations}", strip.tasks);
    }
    if arguments.by != By::Mpi {
        let mut put = PutPipe::new(&mut context, &strip)?;
        let outcome = iterate(&strip, arguments.iterations, &mut grid, &mut put)?;
        report(&mut context, "put", arguments, &strip, outcome)?;
    }
    if arguments.by != By::Put {
        // MPI uses the second context of this task; the program uses the first.
        let environment = Environment::with_fabric(task.fabric(1)?, &Settings::default())?;
        let mut mpi = MpiPipe { world: environment.world(), strip };
        let outcome = iterate(&strip, arguments.iterations, &mut grid, &mut mpi)?;
        report(&mut context, "mpi", arguments, &strip, outcome)?;
        environment.finalize()?;
    }
    if strip.task == 0 {
        println!("verified");
    }
    Ok(())
}

/// The columns that a task has.
#[derive(Clone, Copy)]
struct Strip {
    task: u32,
    tasks: u32,
    /// The first column.
    start: usize,
    columns: usize,
    rows: usize,
}

impl Strip {
    fn of(task: u32, tasks: u32, arguments: &Arguments) -> Result<Self, Failure> {
        if arguments.columns < u64::from(tasks) {
            return Err(Failure::Input(format!(
                "{} columns for {tasks} tasks: ask for --columns {tasks} or more, or start fewer tasks",
                arguments.columns
            )));
        }
        let (start, columns) = kernel::share(arguments.columns, u64::from(tasks), u64::from(task));
        let [start, columns, rows] = [start, columns, arguments.rows].map(|n| n as usize);
        Ok(Self { task, tasks, start, columns, rows })
    }

    fn left(&self) -> Option<u32> {
        self.task.checked_sub(1)
    }

    fn right(&self) -> Option<u32> {
        (self.task + 1 < self.tasks).then_some(self.task + 1)
    }
}

/// The last corner, in the task that computes it, and the seconds of all timed iterations.
struct Outcome {
    corner: Option<f64>,
    seconds: f64,
}

fn report(
    context: &mut Context<ShmFabric>,
    by: &str,
    arguments: &Arguments,
    strip: &Strip,
    outcome: Outcome,
) -> Result<(), Failure> {
    let expected = f64::from(arguments.iterations + 1) * (arguments.columns + arguments.rows - 2) as f64;
    let fine = match outcome.corner {
        // Integers of this size are exact in a double.
        Some(corner) if corner != expected => {
            Err(Failure::Wrong(format!("by {by}, the corner is {corner}, not {expected}")))
        }
        _ => Ok(()),
    };
    agree(context, PROGRAM, fine)?;
    if strip.task == 0 {
        let flops = 2.0 * (arguments.columns - 1) as f64 * (arguments.rows - 1) as f64;
        let average = outcome.seconds / f64::from(arguments.iterations.max(1));
        let row = average / (arguments.rows - 1) as f64 * 1e9;
        println!(
            "by {by}: {:.1} MFlops/s, {average:.6} s an iteration, {row:.0} ns a row",
            flops / average / 1e6
        );
    }
    Ok(())
}

/// How words get from strip to strip.
trait Pipe {
    /// Waits for the word to the left of this strip in `row`.
    fn receive(&mut self, row: usize) -> Result<f64, Failure>;

    /// Sends the last word of `row` to the strip on the right.
    fn send(&mut self, row: usize, word: f64) -> Result<(), Failure>;

    /// Sends the last corner to the first task, and returns it there.
    fn carry(&mut self, corner: f64) -> Result<Option<f64>, Failure>;

    fn barrier(&mut self) -> Result<(), Failure>;
}

fn iterate(
    strip: &Strip,
    iterations: u32,
    grid: &mut [f64],
    pipe: &mut impl Pipe,
) -> Result<Outcome, Failure> {
    let &Strip { start, columns, rows, .. } = strip;
    let (is_first, is_last) = (strip.left().is_none(), strip.right().is_none());
    grid.fill(0.0);
    for (row, words) in grid.chunks_exact_mut(columns).enumerate() {
        if is_first {
            words[0] = row as f64;
        }
        if row == 0 {
            words.iter_mut().zip(start..).for_each(|(word, column)| *word = column as f64);
        }
    }
    let mut progress = Progress::count(u64::from(iterations), is_first);
    let mut started = Instant::now();
    for iteration in 0..=iterations {
        if iteration == 1 {
            pipe.barrier()?;
            started = Instant::now();
        }
        // The word to the left of this strip in the row above.
        let mut above_left = start as f64 - 1.0;
        for row in 1..rows {
            let (above, words) = grid[(row - 1) * columns..(row + 1) * columns].split_at_mut(columns);
            // The first column is given: the wave begins after it.
            let (mut left, mut diagonal, from) = if is_first {
                (words[0], above[0], 1)
            } else {
                let word = pipe.receive(row)?;
                (word, std::mem::replace(&mut above_left, word), 0)
            };
            for (word, &above) in words[from..].iter_mut().zip(&above[from..]) {
                // In this order of evaluation only one addition waits for the word on the left.
                left += above - diagonal;
                *word = left;
                diagonal = above;
            }
            if !is_last {
                pipe.send(row, left)?;
            }
        }
        let corner = grid[grid.len() - 1];
        if let Some(corner) = pipe.carry(corner)? {
            grid[0] = -corner;
        }
        if iteration > 0 {
            progress.advance(1);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Outcome { corner: is_last.then(|| grid[grid.len() - 1]), seconds })
}

/// By put and target counters. No word is overwritten before it was read: an iteration begins only after the last strip has finished the
/// previous one, and the last strip finishes after all others.
struct PutPipe<'a> {
    context: &'a mut Context<ShmFabric>,
    strip: Strip,
    /// The words to the left of this strip, by row.
    left: Segment<f64>,
    /// The last corner, in the first task.
    corner: Segment<f64>,
    /// Counts the received words. Every task makes its counters in the same order, so the counters have the same names.
    words: Counter,
    corners: Counter,
}

impl<'a> PutPipe<'a> {
    fn new(context: &'a mut Context<ShmFabric>, strip: &Strip) -> Result<Self, Failure> {
        let (words, corners) = (context.counter()?, context.counter()?);
        let left = Segment::new(context, strip.rows as u64)?;
        let corner = Segment::new(context, 1)?;
        Ok(Self { context, strip: *strip, left, corner, words, corners })
    }
}

impl Pipe for PutPipe<'_> {
    fn receive(&mut self, row: usize) -> Result<f64, Failure> {
        self.context.wait_counter(self.words, 1)?;
        Ok(self.left.get(row as u64)?)
    }

    fn send(&mut self, row: usize, word: f64) -> Result<(), Failure> {
        let Some(right) = self.strip.right() else { return Ok(()) };
        let options = PutOptions { target: Some(self.words.name()), ..PutOptions::default() };
        Ok(self.left.at(TaskId(right), row as u64)?.put(self.context, &[word], options)?)
    }

    fn carry(&mut self, corner: f64) -> Result<Option<f64>, Failure> {
        if self.strip.right().is_none() {
            let options = PutOptions { target: Some(self.corners.name()), ..PutOptions::default() };
            self.corner.at(TaskId(0), 0)?.put(self.context, &[corner], options)?;
        }
        if self.strip.left().is_some() {
            return Ok(None);
        }
        self.context.wait_counter(self.corners, 1)?;
        Ok(Some(self.corner.get(0)?))
    }

    fn barrier(&mut self) -> Result<(), Failure> {
        Ok(self.context.gfence()?)
    }
}

/// By MPI.
struct MpiPipe {
    world: Communicator,
    strip: Strip,
}

impl Pipe for MpiPipe {
    fn receive(&mut self, _row: usize) -> Result<f64, Failure> {
        let mut word = [0.0];
        if let Some(left) = self.strip.left() {
            self.world.recv(&mut word, left, WORD_TAG)?;
        }
        Ok(word[0])
    }

    fn send(&mut self, _row: usize, word: f64) -> Result<(), Failure> {
        let Some(right) = self.strip.right() else { return Ok(()) };
        Ok(self.world.send(&[word], right, WORD_TAG)?)
    }

    fn carry(&mut self, corner: f64) -> Result<Option<f64>, Failure> {
        let last = self.strip.tasks - 1;
        match self.strip.task {
            0 if last == 0 => Ok(Some(corner)),
            0 => {
                let mut word = [0.0];
                self.world.recv(&mut word, last, CORNER_TAG)?;
                Ok(Some(word[0]))
            }
            task if task == last => {
                self.world.send(&[corner], 0, CORNER_TAG)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn barrier(&mut self) -> Result<(), Failure> {
        Ok(self.world.barrier()?)
    }
}
