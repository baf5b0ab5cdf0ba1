//! The transpose of the Parallel Research Kernels: each task sends a block to every other task, by puts and by MPI.
//!
//! What it teaches: large transfers in all directions at once. By put, a task stores each block into a buffer that the target keeps for
//! this origin, and bumps the target's counter for this origin. Two buffers for each origin, used in turn, are the only flow control: when
//! a task has received the block of iteration k from another task, that task has read this task's block of iteration k - 1. The buffer of
//! that block is then free for iteration k + 1. By MPI, each pair exchanges its blocks by `sendrecv`.
//!
//! ```text
//! cargo amrun -n 4 --example transpose
//! cargo amrun -n 4 --example transpose -- --by put --order 2000
//! ```
//!
//! You should see a line for each way with its speed in MB/s, and as the last line `verified`: every element of the result is compared with
//! the one that belongs there, without tolerance.
//!
//! Follows `ParRes/Kernels`, `MPI1/Transpose` (Van der Wijngaart and Mattson, "The Parallel Research Kernels", HPEC 2014): matrices of
//! double precision, cut into blocks of columns; in each iteration B += A^T and A += 1, so that a stale block would be noticed. The rate
//! counts 16 bytes for each element. The first iteration warms up and is not timed.

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

/// The transpose of the Parallel Research Kernels, by puts with target counters and by MPI.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// How a block reaches its task.
    #[arg(long, value_enum, default_value_t = By::Both)]
    by: By,
    /// Rows and columns of the matrix.
    #[arg(long, default_value_t = 1200, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    order: u64,
    /// Iterations that are timed.
    #[arg(long, default_value_t = 20)]
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

const PROGRAM: &str = "transpose";
/// Rows and columns that are transposed together, so that both matrices stay in the level 1 cache.
const TILE: usize = 32;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let blocks = Blocks::of(task.number(), context.num_tasks(), arguments);
    let blocks = agree(&mut context, PROGRAM, blocks)?;
    let is_first = task.number() == 0;
    if is_first {
        let Arguments { order, iterations, .. } = arguments;
        println!("tasks: {}, matrix: {order} x {order}, iterations: {iterations}", blocks.tasks());
    }
    if arguments.by != By::Mpi {
        let ways = PutBlocks::new(&mut context, &blocks).map_err(Failure::from);
        let ways = agree(&mut context, PROGRAM, ways)?;
        let outcome = iterate(&mut context, &blocks, arguments.iterations, &mut Way::Put(ways))?;
        report(&mut context, "put", arguments, outcome)?;
    }
    if arguments.by != By::Put {
        // MPI uses the second context of this task; the program uses the first.
        let environment = Environment::with_fabric(task.fabric(1)?, &Settings::default())?;
        let mut way = Way::Mpi(environment.world(), Vec::new());
        let outcome = iterate(&mut context, &blocks, arguments.iterations, &mut way)?;
        report(&mut context, "mpi", arguments, outcome)?;
        drop(way);
        environment.finalize()?;
    }
    if is_first {
        println!("verified");
    }
    Ok(())
}

/// The columns of each task.
struct Blocks {
    own: usize,
    order: usize,
    /// The first column and the number of columns of each task.
    columns: Vec<(usize, usize)>,
}

impl Blocks {
    fn of(task: u32, tasks: u32, arguments: &Arguments) -> Result<Self, Failure> {
        if arguments.order < u64::from(tasks) {
            return Err(Failure::Input(format!(
                "a matrix of {0} x {0} for {tasks} tasks: ask for --order {tasks} or more, or start fewer tasks",
                arguments.order
            )));
        }
        let columns = |task| {
            let (start, columns) = kernel::share(arguments.order, u64::from(tasks), task);
            (start as usize, columns as usize)
        };
        let columns = (0..u64::from(tasks)).map(columns).collect();
        Ok(Self { own: task as usize, order: arguments.order as usize, columns })
    }

    fn tasks(&self) -> usize {
        self.columns.len()
    }

    fn own(&self) -> (usize, usize) {
        self.columns[self.own]
    }

    /// Number of elements of the largest block. No task has more columns than the first.
    fn block_max(&self) -> usize {
        self.columns[0].1 * self.columns[0].1
    }
}

/// Number of wrong elements, and the seconds of all timed iterations of the slowest task.
struct Outcome {
    wrong: u64,
    seconds: f64,
}

fn report(
    context: &mut Context<ShmFabric>,
    by: &str,
    arguments: &Arguments,
    outcome: Outcome,
) -> Result<(), Failure> {
    kernel::no_errors(
        context,
        outcome.wrong,
        &format!("elements of the matrix transposed by {by} are wrong"),
    )?;
    if context.task().0 == 0 {
        let bytes = 16.0 * arguments.order as f64 * arguments.order as f64;
        let average = outcome.seconds / f64::from(arguments.iterations.max(1));
        println!("by {by}: {:.1} MB/s, {average:.6} s an iteration", bytes / average / 1e6);
    }
    Ok(())
}

fn iterate(
    context: &mut Context<ShmFabric>,
    blocks: &Blocks,
    iterations: u32,
    way: &mut Way,
) -> Result<Outcome, Failure> {
    let (start, columns) = blocks.own();
    let order = blocks.order;
    // Stored column after column.
    let mut a = kernel::filled(context, PROGRAM, (columns * order) as u64, 0.0)?;
    a.iter_mut().zip(start * order..).for_each(|(element, at)| *element = at as f64);
    let mut b = kernel::filled(context, PROGRAM, a.len() as u64, 0.0)?;
    let mut block = Vec::new();
    let mut progress = Progress::count(u64::from(iterations), blocks.own == 0);
    let mut started = Instant::now();
    for iteration in 0..=iterations {
        if iteration == 1 {
            context.gfence()?;
            started = Instant::now();
        }
        // Starts at different targets, so that not all tasks send to the first task at once.
        for phase in 0..blocks.tasks() {
            let to = (blocks.own + blocks.tasks() - phase) % blocks.tasks();
            let from = (blocks.own + phase) % blocks.tasks();
            // Column i of the target's block is row i of this task's columns.
            cut_transposed(&a, order, blocks.columns[to], &mut block);
            let arrived = way.exchange(context, blocks, to, from, iteration, &mut block)?;
            add(&mut b, order, blocks.columns[from], arrived);
        }
        a.iter_mut().for_each(|element| *element += 1.0);
        if iteration > 0 {
            progress.advance(1);
        }
    }
    let seconds = started.elapsed().as_nanos();
    let seconds = kernel::gather(context, u64::try_from(seconds).unwrap_or(u64::MAX))?.into_iter().max();
    let rounds = f64::from(iterations) + 1.0;
    let added = rounds * f64::from(iterations) / 2.0;
    let expected = |column: usize, row: usize| (row * order + column) as f64 * rounds + added;
    let places = (start..start + columns).flat_map(|column| (0..order).map(move |row| (column, row)));
    // Integers of this size are exact in a double.
    let wrong = places.zip(&b).filter(|((column, row), found)| **found != expected(*column, *row)).count();
    Ok(Outcome { wrong: wrong as u64, seconds: seconds.unwrap_or(0) as f64 / 1e9 })
}

/// Copies the rows `start..start + rows` of all columns of this task to `block`, each row as a column.
fn cut_transposed(a: &[f64], order: usize, (start, rows): (usize, usize), block: &mut Vec<f64>) {
    let columns = a.len() / order;
    block.resize(rows * columns, 0.0);
    for first_row in (0..rows).step_by(TILE) {
        for first_column in (0..columns).step_by(TILE) {
            for row in first_row..(first_row + TILE).min(rows) {
                let to = &mut block[row * columns..(row + 1) * columns];
                for (column, to) in (first_column..).zip(to[first_column..].iter_mut().take(TILE)) {
                    *to = a[column * order + start + row];
                }
            }
        }
    }
}

/// Adds a block: its columns are this task's, its rows are the source's columns.
fn add(b: &mut [f64], order: usize, (start, rows): (usize, usize), block: &[f64]) {
    for (column, block) in b.chunks_exact_mut(order).zip(block.chunks_exact(rows)) {
        column[start..start + rows].iter_mut().zip(block).for_each(|(element, more)| *element += more);
    }
}

/// The way in which blocks get to other tasks.
enum Way {
    Put(PutBlocks),
    /// MPI, with a buffer for the received block.
    Mpi(Communicator, Vec<f64>),
}

/// Buffers for two blocks from each origin, and a counter for each origin.
struct PutBlocks {
    places: Segment<f64>,
    arrived: Vec<Counter>,
}

impl PutBlocks {
    fn new(context: &mut Context<ShmFabric>, blocks: &Blocks) -> am_core::error::Result<Self> {
        // Every task makes its counters in the same order, so the counters have the same names in all tasks.
        let arrived = blocks.columns.iter().map(|_| context.counter()).collect::<Result<_, _>>()?;
        let places = Segment::new(context, (2 * blocks.tasks() * blocks.block_max()) as u64)?;
        Ok(Self { places, arrived })
    }
}

impl Way {
    /// Sends `block` to task `to`, and returns the block received from task `from`. The received block may overwrite `block`.
    fn exchange<'a>(
        &'a mut self,
        context: &mut Context<ShmFabric>,
        blocks: &Blocks,
        to: usize,
        from: usize,
        iteration: u32,
        block: &'a mut Vec<f64>,
    ) -> Result<&'a [f64], Failure> {
        if to == blocks.own {
            return Ok(block);
        }
        let len = blocks.own().1 * blocks.columns[from].1;
        match self {
            Self::Put(PutBlocks { places, arrived }) => {
                let turn = (iteration % 2) as usize * blocks.tasks();
                let place = |source: usize| ((turn + source) * blocks.block_max()) as u64;
                let options =
                    PutOptions { target: Some(arrived[blocks.own].name()), ..PutOptions::default() };
                places.at(TaskId(to as u32), place(blocks.own))?.put(context, block, options)?;
                context.wait_counter(arrived[from], 1)?;
                block.resize(len, 0.0);
                places.read(place(from), block)?;
                Ok(block)
            }
            Self::Mpi(world, coming) => {
                coming.resize(len, 0.0);
                world.sendrecv(&block[..], to as u32, 0, &mut coming[..], from as u32, 0)?;
                Ok(coming)
            }
        }
    }
}
