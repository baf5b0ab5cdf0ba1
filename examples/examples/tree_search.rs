//! All tasks search an unbalanced tree; a task without work steals from other tasks, by typed active messages.
//!
//! What it teaches: a call whose result is work (`Context::call`), state that a thief's call changes (`Local`), and termination detection
//! without a fence: a word counts the nodes that are not searched yet.
//!
//! ```text
//! cargo amrun -n 4 --example tree_search
//! ```
//!
//! You should see how many nodes each task has searched and how often it stole, millions of nodes a second, and as the last line
//! `verified`: the first task has searched the whole tree alone, and has counted as many nodes.
//!
//! Follows the Unbalanced Tree Search benchmark (UTS) with a binomial tree, but with a shorter hash.

#![expect(clippy::cast_possible_truncation, reason = "numbers of tasks")]

use std::process::ExitCode;

use am_core::prelude::*;
use am_examples::{Failure, arguments, kernel, random};
use am_via::Task;
use clap::Parser;

/// A search of an unbalanced tree, with stealing of work.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Children of the root.
    #[arg(long, default_value_t = 2000)]
    roots: u64,
    /// Seed of the tree.
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

const PROGRAM: &str = "tree_search";
/// Children of a node that has any.
const CHILDREN: u64 = 8;
/// Number of nodes in a million that have children. With slightly more, the tree would be infinite.
const PARENTS: u64 = 124_800;
/// Number of nodes searched between two polls for calls of other tasks.
const BATCH: usize = 64;

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

/// The children of a node. A node is the random number that it was given.
fn children(node: u64) -> impl Iterator<Item = u64> {
    let count = if random::below(node, 1_000_000) < PARENTS { CHILDREN } else { 0 };
    (0..count).map(move |number| random::at(node, number))
}

fn run(task: &Task, arguments: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let (me, tasks) = (context.task(), u64::from(context.num_tasks()));
    let roots = || (0..arguments.roots).map(|number| random::at(arguments.seed, number));
    let work = Local::new(Vec::new());
    let steal = context.function_on(&work, |work: &mut Vec<u64>, ()| {
        // The older half: its nodes are nearer to the root, and have more nodes below them.
        let half = work.len() / 2;
        work.drain(..half).collect::<Vec<u64>>()
    })?;
    // The number of nodes that are known and not yet searched, in the first task's memory.
    let open = Segment::<u64>::new(&mut context, 1)?.at(TaskId(0), 0)?;
    if me == TaskId(0) {
        open.fetch_add(&mut context, arguments.roots)?;
        work.with(|work| work.extend(roots()));
    }

    let ((searched, stolen), seconds) = kernel::timed(&mut context, |context| {
        let (mut searched, mut stolen, mut turn) = (0, 0, 0);
        loop {
            let batch = work.with(|work| work.split_off(work.len().saturating_sub(BATCH)));
            if batch.is_empty() {
                if open.fetch_add(context, 0)? == 0 {
                    return Ok((searched, stolen));
                }
                turn += 1;
                let victim = TaskId(random::below(random::at(me.0.into(), turn), tasks) as u32);
                let loot = if victim == me { Vec::new() } else { context.call(victim, steal, ())? };
                stolen += u64::from(!loot.is_empty());
                work.with(|work| work.extend(loot));
                continue;
            }
            let found: Vec<u64> = batch.iter().copied().flat_map(children).collect();
            searched += batch.len() as u64;
            // The nodes are counted before any task can steal and search them.
            open.fetch_add(context, (found.len() as u64).wrapping_sub(batch.len() as u64))?;
            work.with(|work| work.extend(found));
            context.probe()?;
        }
    })?;
    let (all, thefts) = (kernel::gather(&mut context, searched)?, kernel::gather(&mut context, stolen)?);
    if me == TaskId(0) {
        for (number, (searched, stolen)) in all.iter().zip(&thefts).enumerate() {
            println!("task {number}: {searched} nodes, stole {stolen} times");
        }
        let total: u64 = all.iter().sum();
        println!("{:.2} M nodes/s", total as f64 / seconds / 1e6);
        let (mut alone, mut left) = (0, roots().collect::<Vec<_>>());
        while let Some(node) = left.pop() {
            alone += 1;
            left.extend(children(node));
        }
        if alone != total {
            return Err(Failure::Wrong(format!("{total} nodes were searched, and there are {alone}")));
        }
        println!("verified");
    }
    Ok(context.gfence()?)
}
