//! A map that is distributed over all tasks, by typed active messages.
//!
//! What it teaches: functions that run at another task (`Context::function_on`), state that they change (`Local`), and calls as futures, of
//! which many are in flight at once, each with its result.
//!
//! ```text
//! cargo amrun -n 4 --example distributed_map
//! ```
//!
//! You should see how many insertions and searches a second all tasks did together, and as the last line `verified`: each key was found
//! with the value that another task gave it, and no other key was found.

#![expect(clippy::cast_possible_truncation, reason = "numbers of tasks, and of keys that are in memory")]

use std::collections::HashMap;
use std::process::ExitCode;

use am_core::prelude::*;
use am_examples::{Failure, arguments, kernel, random};
use am_via::Task;
use clap::Parser;

/// Inserts and looks up keys in a hash map that is distributed over all tasks, by typed active messages.
#[derive(Parser)]
#[command(name = PROGRAM)]
struct Arguments {
    /// Keys that each task inserts.
    #[arg(long, default_value_t = 100_000)]
    keys: u64,
    /// Number of calls that a task has in flight.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    at_once: u64,
}

const PROGRAM: &str = "distributed_map";

fn main() -> ExitCode {
    arguments::main(PROGRAM, run)
}

/// The key with this number. The keys of all tasks are numbered in one sequence.
fn key(number: u64) -> String {
    format!("key {:x}", random::mix(number))
}

fn run(task: &Task, Arguments { keys, at_once }: &Arguments) -> Result<(), Failure> {
    let mut context = task.context()?;
    let (me, tasks) = (u64::from(context.task().0), u64::from(context.num_tasks()));
    let part = Local::new(HashMap::<String, u64>::new());
    let insert = context.function_on(&part, |part, (key, value): (String, u64)| part.insert(key, value))?;
    let find = context.function_on(&part, |part, key: String| part.get(&key).copied())?;
    let home = |number: u64| TaskId(random::below(random::mix(!number), tasks) as u32);
    let numbers = |of: u64| (of * keys..(of + 1) * keys).collect::<Vec<_>>();

    let (known, inserting) = kernel::timed(&mut context, |context| {
        let session = Session::new(context);
        let mut known = 0;
        for some in numbers(me).chunks(*at_once as usize) {
            let calls = some.iter().map(|&number| session.call(home(number), insert, (key(number), number)));
            for before in session.block_on(join_all(calls))? {
                known += u64::from(before?.is_some());
            }
        }
        Ok(known)
    })?;
    // Looks up the keys of the next task, and the same number of keys that no task has inserted.
    let (wrong, finding) = kernel::timed(&mut context, |context| {
        let session = Session::new(context);
        let mut wrong = 0;
        for (of, is_there) in [((me + 1) % tasks, true), (tasks + me, false)] {
            for some in numbers(of).chunks(*at_once as usize) {
                let calls = some.iter().map(|&number| session.call(home(number), find, key(number)));
                for (number, found) in some.iter().zip(session.block_on(join_all(calls))?) {
                    wrong += u64::from(found? != is_there.then_some(*number));
                }
            }
        }
        Ok(wrong)
    })?;
    let held = kernel::sum(&mut context, part.with(|part| part.len() as u64))?;
    kernel::no_errors(&mut context, wrong + known + held.abs_diff(tasks * keys), "keys are wrong")?;
    if me == 0 {
        let rate = |count: u64, seconds: f64| count as f64 / seconds / 1e6;
        println!(
            "{:.3} M insertions/s, {:.3} M searches/s",
            rate(tasks * keys, inserting),
            rate(2 * tasks * keys, finding)
        );
        println!("verified");
    }
    Ok(context.gfence()?)
}
