//! A histogram over all tasks in its shortest form: random increments of a table that is distributed over all tasks.
//!
//! What it teaches: a typed segment (`am_core::pgas`) gives element i of the whole table as a global pointer, and an atomic addition to
//! that element is one call. `histogram` does the same in four ways, and measures them.
//!
//! ```text
//! cargo amrun -n 4 --example tally
//! ```
//!
//! You should see how long the updates took, and as the last line `verified`: the table has as many counts as there were updates.

use std::process::ExitCode;

use am_core::prelude::*;
use am_examples::failure::exit_code;
use am_examples::{Failure, kernel, random};
use am_via::Task;

/// Elements of the table in each task.
const TABLE: u64 = 1000;
/// Updates of each task.
const UPDATES: u64 = 100_000;

fn main() -> ExitCode {
    exit_code("tally", &count())
}

fn count() -> Result<(), Failure> {
    let mut context = Task::join()?.context()?;
    let (me, tasks) = (u64::from(context.task().0), u64::from(context.num_tasks()));
    let table = Segment::<u64>::new(&mut context, TABLE)?;
    let ((), seconds) = kernel::timed(&mut context, |context| {
        for number in 0..UPDATES {
            let index = random::below(random::at(me, number), table.total());
            table.cyclic(index)?.fetch_add(context, 1)?;
        }
        Ok(())
    })?;
    let counted = kernel::sum(&mut context, table.to_vec().iter().sum())?;
    kernel::no_errors(&mut context, counted.abs_diff(UPDATES * tasks), "updates are lost")?;
    if me == 0 {
        println!("{counted} updates in {seconds:.3} s");
        println!("verified");
    }
    Ok(context.gfence()?)
}
