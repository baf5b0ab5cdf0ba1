//! The conformance suite for fabrics: a list of checks that all tasks of a job run together.
//!
//! Each check is a plain function over a [`Context`]. Every task of the job calls the same checks in the same order, in threads
//! ([`super::threads`]) or in separate processes. A check fails by a panic; a [`Watchdog`] ends the process in which a check hangs. Checks
//! release all that they use, so that they can run one after the other on one context, with any number of tasks, including one.

mod amsend;
mod announced;
mod collective;
mod common;
mod completions;
mod counters;
mod errors;
mod fences;
mod flow;
mod gatherers;
mod later;
mod memory;
mod pgas;
mod purge;
mod put_get;
mod rmw;
mod vector;

use std::time::{Duration, Instant};

use super::watchdog::Watchdog;
use am_core::context::Context;
use am_core::fabric::Fabric;

/// One check.
pub type Check<F> = fn(&mut Context<F>);

/// Every check with its name.
#[must_use]
pub fn checks<F: Fabric>() -> Vec<(&'static str, Check<F>)> {
    let mut checks: Vec<(&'static str, Check<F>)> = Vec::new();
    checks.extend(collective::checks());
    checks.extend(counters::checks());
    checks.extend(amsend::checks());
    checks.extend(gatherers::checks());
    checks.extend(announced::checks());
    checks.extend(later::checks());
    checks.extend(completions::checks());
    checks.extend(put_get::checks());
    checks.extend(rmw::checks());
    checks.extend(vector::checks());
    checks.extend(purge::checks());
    checks.extend(fences::checks());
    checks.extend(memory::checks());
    checks.extend(flow::checks());
    checks.extend(pgas::checks());
    checks.extend(errors::checks());
    checks
}

/// Runs one check as this task of the job. Task 0 prints how long the check took.
///
/// # Panics
/// If the check failed.
pub fn run<F: Fabric>(name: &str, check: Check<F>, context: &mut Context<F>) {
    let what = format!("check {name} in {}", context.endpoint());
    let _watchdog = Watchdog::new(what, LIMIT);
    let begun = Instant::now();
    check(context);
    context.gfence().unwrap_or_else(|error| panic!("the fence after check {name}: {error}"));
    if context.task().0 == 0 {
        println!("check {name} took {:?}", begun.elapsed());
    }
}

/// Runs every check whose name contains `filter`, as this task of the job.
///
/// # Panics
/// If a check failed, or no check has such a name.
pub fn run_all<F: Fabric>(filter: &str, context: &mut Context<F>) {
    let mut count = 0;
    for (name, check) in checks().into_iter().filter(|(name, _)| name.contains(filter)) {
        run(name, check, context);
        count += 1;
    }
    assert!(count > 0, "no check has {filter:?} in its name");
}

/// Maximum duration of a check, far above what any check takes even on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);
