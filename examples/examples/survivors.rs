//! A stencil that loses tasks at random moments, goes on with the others, and ends with the right answer.
//!
//! What it teaches: going on after failures (ULFM). Errors of calls that need a failed task; `revoke`, which ends the calls of tasks that
//! wait for each other; `shrink`; and a copy of each block at a neighbour, from which the survivors restore what the failed task had.
//!
//! ```text
//! cargo amrun -n 6 --keep-going --example survivors            # -- SEED
//! ```
//!
//! You should see which tasks fail, when they fail, and which ones go on; the last line is `verified`. Without `--keep-going` no task
//! fails.

use std::process::ExitCode;

use am_examples::failure::exit_code;
use am_examples::{Failure, random};
use mpi_over_am::attribute::PredefinedAttribute;
use mpi_over_am::{Communicator, Environment, Error, ErrorClass, Result, op};

const POINTS: usize = 3000;
const STEPS: u32 = 400;
/// Number of steps between two copies.
const COPY_EVERY: u32 = 20;

/// A part of the line: its first point, and its points.
#[derive(Clone, Default)]
struct Block {
    first: usize,
    points: Vec<f64>,
}

/// What a task knows of the line after a number of steps: its own block, and the next rank's.
#[derive(Clone, Default)]
struct Copy {
    step: u32,
    blocks: [Block; 2],
}

fn main() -> ExitCode {
    exit_code("survivors", &run())
}

fn run() -> std::result::Result<(), Failure> {
    let seed = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| Failure::Input(format!("{text} is not a seed")))?,
        None => 1,
    };
    let environment = Environment::init()?;
    let mut world = environment.world();
    let (own, tasks) = (world.rank(), world.size());
    let goes_on = world.predefined_attribute(PredefinedAttribute::GoesOn) == Some(1);
    let fails_at =
        (goes_on && own > 0).then(|| random::below(random::at(seed, u64::from(own)), 2 * u64::from(STEPS)));
    if own == 0 && !goes_on {
        println!("no task fails: amrun --keep-going lets the others go on");
    }
    let mut copies = [Copy::default(), Copy::default()];
    let mut line = initial();
    let mut step = 0;
    // Each turn of the loop is the work of one group of tasks, up to the next failure.
    while step < STEPS {
        match work(&world, (&mut line, &mut step), &mut copies, fails_at) {
            Ok(()) => {}
            // Other tasks may wait for this one: their calls end, too.
            Err(error) if is_of_failure(&error) => world.revoke()?,
            Err(error) => return Err(error.into()),
        }
        // All tasks learn whether one has failed, even if this one has finished its work.
        let is_done = world.agree(u32::from(step == STEPS))?;
        if is_done.flags & 1 == 1 && is_done.failure.is_none() {
            break;
        }
        loop {
            world = world.shrink()?;
            let restored = restored(&world, &copies);
            // Another task may fail meanwhile: then all begin again.
            let is_done = world.agree(u32::from(restored.is_ok()))?;
            match restored {
                Ok((from, whole)) if is_done.flags & 1 == 1 && is_done.failure.is_none() => {
                    (step, line) = (from, whole);
                    break;
                }
                Err(error) if !is_of_failure(&error) => return Err(error.into()),
                _ => world.revoke()?,
            }
        }
        if world.rank() == 0 {
            println!("{} of {tasks} tasks go on from step {step}", world.size());
        }
    }
    let expected = (0..STEPS).fold(initial(), |line, _| relaxed(&line, 0, POINTS));
    if line != expected {
        return Err(Failure::Wrong(format!("task {own} has another line than one task alone")));
    }
    if world.rank() == 0 {
        println!("verified");
    }
    Ok(environment.finalize()?)
}

fn is_of_failure(error: &Error) -> bool {
    matches!(error.class(), ErrorClass::TaskFailed | ErrorClass::Revoked)
}

/// The line at the beginning.
fn initial() -> Vec<f64> {
    (0..POINTS as u64).map(|point| random::below(random::at(7, point), 1000) as f64).collect()
}

/// The points from `first` up to `end` after one more step. The ends of the line stay.
fn relaxed(line: &[f64], first: usize, end: usize) -> Vec<f64> {
    let relax = |at: usize| match at {
        0 => line[0],
        at if at + 1 == POINTS => line[at],
        at => (line[at - 1] + 2.0 * line[at] + line[at + 1]) / 4.0,
    };
    (first..end).map(relax).collect()
}

/// The block of a rank: its first point, and the point after its last.
fn block_of(rank: u32, size: u32) -> (usize, usize) {
    let at = |rank: u32| POINTS * rank as usize / size as usize;
    (at(rank), at(rank + 1))
}

/// Works until all steps are done, or a task fails. At the end all tasks have the whole line.
fn work(
    world: &Communicator,
    (line, step): (&mut Vec<f64>, &mut u32),
    copies: &mut [Copy; 2],
    fails_at: Option<u64>,
) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let (first, end) = block_of(rank, size);
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let from = *step;
    for now in from..STEPS {
        if now == from || now % COPY_EVERY == 0 {
            let next = block_of(right, size);
            let mut points = vec![0.0; next.1 - next.0];
            world.sendrecv(&line[first..end], left, 0, &mut points[..], right, 0)?;
            let own = Block { first, points: line[first..end].to_vec() };
            // The copy before stays: another task may have failed to make this one.
            copies.swap(0, 1);
            copies[1] = Copy { step: now, blocks: [own, Block { first: next.0, points }] };
        }
        if fails_at == Some(u64::from(now)) {
            println!("task {rank} of {size} fails at step {now}");
            std::process::abort();
        }
        // The neighbours' nearest points.
        let below = (rank > 0).then(|| rank - 1);
        let above = (rank + 1 < size).then_some(rank + 1);
        let mut halo = [0.0];
        if !world.sendrecv(&line[end - 1], above, 1, &mut halo[0], below, 1)?.is_empty() {
            line[first - 1] = halo[0];
        }
        if !world.sendrecv(&line[first], below, 2, &mut halo[0], above, 2)?.is_empty() {
            line[end] = halo[0];
        }
        let new = relaxed(line, first, end);
        line[first..end].copy_from_slice(&new);
    }
    let mut whole = vec![0.0; POINTS];
    whole[first..end].copy_from_slice(&line[first..end]);
    world.allreduce_in_place(&mut whole[..], op::Sum)?;
    *line = whole;
    *step = STEPS;
    Ok(())
}

/// The line after the last step of which all tasks have a copy, from the copies of all; the first step if a block is nowhere.
fn restored(world: &Communicator, copies: &[Copy; 2]) -> Result<(u32, Vec<f64>)> {
    let mut step = [copies[1].step];
    world.allreduce_in_place(&mut step, op::Min)?;
    let mut sums = vec![0.0; 2 * POINTS];
    if let Some(copy) = copies.iter().find(|copy| copy.step == step[0]) {
        for block in &copy.blocks {
            for (at, point) in (block.first..).zip(&block.points) {
                (sums[at], sums[POINTS + at]) = (*point, 1.0);
            }
        }
    }
    // Of a point that two tasks have, both have the same value.
    let (values, counts) = sums.split_at_mut(POINTS);
    world.allreduce_in_place(values, op::Max)?;
    world.allreduce_in_place(counts, op::Max)?;
    if counts.contains(&0.0) {
        return Ok((0, initial()));
    }
    Ok((step[0], values.to_vec()))
}
