//! The suite over a hostile network, with tasks that run in turn: equal seeds give equal runs, and different seeds give different runs.

use am_core_conform::turns::{record_checks, same_seed_same_run};
use am_double::{Config, network};

fn two_runs_alike(tasks: u32, seed: u64) {
    same_seed_same_run(seed, seed + 1000, |turns| {
        record_checks("", turns, || network(Config::hostile(tasks, seed)).1)
    });
}

#[test]
fn the_same_seed_is_the_same_run_of_two_tasks() {
    two_runs_alike(2, 1);
}

#[test]
#[ignore = "long"]
fn the_same_seed_is_the_same_run_of_three_tasks() {
    two_runs_alike(3, 2);
}
