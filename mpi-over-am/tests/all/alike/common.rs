//! Jobs whose tasks are threads of the test, over a network in one process.

#![allow(dead_code, reason = "each test file uses its part")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use am_core::task::TaskId;
pub(crate) use am_core_conform::pattern;
use am_core_conform::watchdog::Watchdog;
use am_core_conform::{is_long, pairs};
use am_double::{Config, Double, network};
use mpi_over_am::{Check, CompletionVariant, Selection, Settings};

use super::super::Policy;

/// A task's environment.
pub(crate) type Environment = mpi_over_am::Environment<Double, Policy>;
/// A task's communicator.
pub(crate) type Communicator = mpi_over_am::Communicator<Double, Policy>;

/// Runs `task` in a job of `config.tasks` tasks, each of which finalizes afterwards.
///
/// # Panics
/// If a task panics. The task then counts as killed, so that the other tasks end.
pub(crate) fn job(config: Config, settings: Settings, task: impl Fn(&Environment, &Communicator) + Sync) {
    job_without_finalize(config, settings, |environment| {
        task(&environment, &environment.world());
        environment.finalize().expect("all tasks finalize");
    });
}

/// [`job`] without the finalization.
///
/// # Panics
/// If a task panics.
pub(crate) fn job_without_finalize(config: Config, settings: Settings, task: impl Fn(Environment) + Sync) {
    run_tasks(config, settings, &task);
}

/// Runs the tasks. Not generic over `task`, so that this function is compiled once for all tests.
fn run_tasks(config: Config, settings: Settings, task: &(dyn Fn(Environment) + Sync)) {
    let what = format!("a job of {config:?} with {settings:?}");
    let _watchdog = Watchdog::new(what.clone(), Duration::from_secs(120));
    let (network, fabrics) = network(config);
    let (network, settings) = (&network, &settings);
    let first_panic = std::thread::scope(|scope| {
        let threads: Vec<_> = (0u32..)
            .zip(fabrics)
            .map(|(number, fabric)| {
                scope.spawn(move || {
                    let run = || task(Environment::on_fabric(fabric, settings).expect("few tasks"));
                    let result = catch_unwind(AssertUnwindSafe(run));
                    if result.is_err() {
                        network.kill(TaskId(number));
                    }
                    result
                })
            })
            .collect();
        let results: Vec<_> =
            threads.into_iter().map(|thread| thread.join().and_then(|result| result)).collect();
        results.into_iter().find_map(Result::err)
    });
    if let Some(panic) = first_panic {
        eprintln!("in {what}");
        resume_unwind(panic);
    }
}

/// Packets that this task has sent so far.
pub(crate) fn packets(environment: &Environment) -> u64 {
    environment.counts().expect("no call is under way").packets_sent.iter().sum()
}

/// Number of collectives: more than a communicator carries out by messages before it gets a board.
pub(crate) const FIRST: usize = 10;

/// Makes collectives that boards of both kinds serve, until the communicator has a board if it can have one.
pub(crate) fn get_board(communicator: &Communicator) {
    let mut all = vec![0; communicator.size() as usize];
    (0..FIRST).for_each(|_| communicator.allgather(&[0_u8], &mut all).expect("all tasks are there"));
}

/// Runs `task` after the world has got a board of the kind in the settings. All memory is mapped, as a board needs.
pub(crate) fn job_with_board(
    config: Config,
    settings: Settings,
    task: impl Fn(&Environment, &Communicator) + Sync,
) {
    job(config, settings, |environment, world| {
        get_board(world);
        let before = packets(environment);
        world.allgather(&[0_u8], &mut vec![0; world.size() as usize]).expect("all tasks are there");
        assert_eq!(packets(environment), before, "there is a board");
        task(environment, world);
    });
}

/// Whether the lock policy is that for several threads. Both policies take the same steps, so most settings, networks and numbers of tasks
/// are tested with one of the two, unless [`is_long`].
fn for_threads() -> bool {
    std::any::TypeId::of::<Policy>() == std::any::TypeId::of::<mpi_over_am::Threads>()
}

/// The numbers of tasks of a test of collectives: 1 to 9 if [`is_long`]. Otherwise powers of two, odd numbers beside them, and an even
/// number that is not a power of two, each with one of the lock policies.
pub(crate) fn numbers_of_tasks() -> impl Iterator<Item = u32> {
    let few: &[u32] = if for_threads() { &[1, 4] } else { &[1, 2, 3, 5, 6, 8] };
    (1..10).filter(move |tasks| is_long() || few.contains(tasks))
}

/// `count` numbers from `first` on, `step` apart. A loop without calls: in an unoptimised build, iterators took most of the time of the
/// tests that compare long vectors.
pub(crate) fn numbers(first: u64, step: u64, count: usize) -> Vec<u64> {
    let mut all = vec![0; count];
    let slots = &mut all[..];
    let (mut at, mut number) = (0, first);
    while at < slots.len() {
        slots[at] = number;
        number += step;
        at += 1;
    }
    all
}

/// Combines vectors of one length element by element, in order. A loop without calls, as in [`numbers`].
///
/// # Panics
/// If there is no vector.
pub(crate) fn combined(
    mut vectors: impl Iterator<Item = Vec<u64>>,
    combine: fn(u64, u64) -> u64,
) -> Vec<u64> {
    let mut result = vectors.next().expect("there are tasks");
    for vector in vectors {
        let (slots, others) = (&mut result[..], &vector[..]);
        let mut at = 0;
        while at < slots.len() {
            slots[at] = combine(slots[at], others[at]);
            at += 1;
        }
    }
    result
}

/// The networks for a test of behaviour: a friendly one, and some with all permitted faults.
pub(crate) fn networks(tasks: u32) -> Vec<Config> {
    let hostile = (1..4).map(|seed| Config::hostile(tasks, seed));
    std::iter::once(Config::new(tasks)).chain(hostile).collect()
}

/// Jobs of several hosts, with ranks in the order of the hosts or mixed, each over a friendly and over a hostile network.
pub(crate) fn jobs_on_hosts() -> impl Iterator<Item = Config> {
    let hosts: [&[u32]; 5] =
        [&[0, 0, 1], &[4, 4, 2, 2], &[0, 1, 1, 2, 2], &[2, 0, 1, 0, 2, 1], &[0, 1, 0, 1, 1, 1, 1]];
    (0..).zip(hosts).flat_map(|(seed, hosts)| {
        let tasks = u32::try_from(hosts.len()).expect("a few tasks");
        [Config::new(tasks), Config::hostile(tasks, seed)].map(|config| Config { hosts, ..config })
    })
}

/// Settings under which a program must behave the same.
pub(crate) fn all_settings() -> Vec<Settings> {
    let base = Settings { eager_limit_bytes: 1000, ..Settings::default() };
    vec![
        base,
        Settings { eager_limit_bytes: 0, ..base },
        Settings { early_arrival_bytes_max: 0, ..base },
        Settings { early_arrival_bytes_max: 4000, ..base },
        Settings { eager_synchronous: false, ..base },
        Settings { completion: CompletionVariant::Counter, ..base },
        Settings { completion: CompletionVariant::Thread, ..base },
        Settings { collectives: Selection { check: Check::On, ..Selection::default() }, ..base },
    ]
}

/// Runs `task` over each network and with each of the settings, though not in each combination; with the lock policy for several threads,
/// over three of the networks, each with another setting.
pub(crate) fn everywhere(tasks: u32, task: impl Fn(&Environment, &Communicator) + Sync) {
    let step = if for_threads() && !is_long() { 3 } else { 1 };
    for (config, settings) in pairs(&networks(tasks), &all_settings()).into_iter().step_by(step) {
        job(config, settings, &task);
    }
}
