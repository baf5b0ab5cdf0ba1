//! The conformance suite over a network in one process: friendly, hostile, and with one credit.

use am_core_conform::conformance;
use am_core_conform::threads;
use am_double::{Config, Reach, network};

fn run(config: Config) {
    println!("{config:?}");
    let filter = std::env::var("AM_CHECK").unwrap_or_default();
    let (_, endpoints) = network(config);
    threads::run(endpoints, |context| conformance::run_all(&filter, context));
}

#[test]
fn one_task() {
    run(Config::new(1));
}

#[test]
fn two_tasks_direct() {
    run(Config::new(2));
}

#[test]
fn three_tasks_posted() {
    run(Config { reach: Reach::Posted, atomics: Reach::Posted, ..Config::new(3) });
}

#[test]
fn two_tasks_staged_one_credit() {
    let one = Config { credits: 1, requests_max: 1, ..Config::new(2) };
    run(Config { reach: Reach::Staged, atomics: Reach::Staged, ..one });
}

#[test]
fn three_tasks_hostile() {
    run(Config::hostile(3, 1));
}

#[test]
#[ignore = "long"]
fn three_and_eight_tasks_hostile() {
    for seed in 2..5 {
        run(Config::hostile(3, seed));
    }
    run(Config::hostile(8, 77));
}
