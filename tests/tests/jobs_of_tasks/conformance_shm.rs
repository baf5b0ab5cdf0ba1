//! am-core's conformance suite in processes: over shared memory with every method of memory access, with one credit, and over the network
//! by libfabric. `AM_CHECK=put,get cargo test -p am-tests --test jobs_of_tasks` runs the checks with `put` or `get` in their names.
//! `.ci/run long` also runs the ignored tests, which are longer forms of the other tests.

use std::time::Duration;

use am_core::Context;
use am_core::buffer::Access;
use am_core_conform::conformance;
use am_tests::harness::{PROVIDERS, WAYS, job};
use am_via::settings::{Device, Memory};
use am_via::{ShmFabric, Task};

/// The whole suite takes seconds; eight tasks on a busy machine with two cores take longer. Each check has its own watchdog.
const TIME_LIMIT: Duration = Duration::from_secs(1000);

fn suite() {
    let filter = std::env::var("AM_CHECK").unwrap_or_default();
    let task = Task::join().expect("the launcher made a job");
    let mut context = task.context().expect("the job has memory");
    check_mapped(&task, &mut context);
    let is_wanted = |name: &str| filter.split(',').any(|part| name.contains(part));
    let checks = conformance::checks().into_iter().filter(|(name, _)| is_wanted(name));
    let mut count = 0;
    for (name, check) in checks {
        conformance::run(name, check, &mut context);
        count += 1;
    }
    assert!(count > 0, "no check has {filter:?} in its name");
}

/// Checks that tasks map each other's job memory if the settings let them, and only then. The checks of mapped memory, such as
/// `put_in_place_when_it_returns`, check nothing where memory is not mapped.
fn check_mapped(task: &Task, context: &mut Context<ShmFabric>) {
    let settings = task.job().settings();
    let expected = settings.device == Device::Shm && matches!(settings.memory, Memory::Auto | Memory::Job);
    let memory = context.alloc(1 << 20).expect("the job has memory");
    let own = context.expose(memory, Access::READ_WRITE).expect("expose");
    for at in context.address_init(own.address(0)).expect("address_init") {
        let is_mapped = context.with_mapped(at, 1 << 20, |_| ()).expect("it is exposed").is_some();
        assert_eq!(is_mapped, expected, "{at:?}, {:?}, {:?}", settings.device, settings.memory);
    }
    context.gfence().expect("gfence");
    drop(context.unexpose(own).expect("unexpose"));
}

/// The checks that move data into or out of a peer's memory, and so depend on the method of access. All methods run these checks; the other
/// checks run with two methods, and with all of them in `.ci/run long`.
const OF_MEMORY: &str = "put,get,every_length,truncated,gather,announced,vector,rmw,accumulate,memory,pgas,purge,ranges,rights,loans";

/// [`OF_MEMORY`], or the checks that the user has chosen.
fn of_memory() -> String {
    std::env::var("AM_CHECK").unwrap_or_else(|_| OF_MEMORY.to_owned())
}

/// The check in which tasks compete for a lock by sending to its owner, and the owner by sending to itself.
const LOCK: &str = "rmw_contention_loses_nothing";

fn run(test: &'static str, tasks: u32, settings: &[(&str, &str)]) {
    let job = job(test).tasks(tasks).time_limit(TIME_LIMIT);
    settings.iter().fold(job, |job, (name, value)| job.env(*name, *value)).run(suite);
}

fn run_over_the_network(test: &'static str, tasks: u32, settings: &[(&str, &str)]) {
    run(test, tasks, &[&[("AM_DEVICE", "ofi")], settings].concat());
}

#[test]
fn two_tasks_auto() {
    run("two_tasks_auto", 2, &[("AM_MEMORY", "auto")]);
}

#[test]
fn three_tasks_job_memory() {
    run("three_tasks_job_memory", 3, &[("AM_MEMORY", "job"), ("AM_CHECK", &of_memory())]);
}

#[test]
fn two_tasks_kernel_copies() {
    run("two_tasks_kernel_copies", 2, &[("AM_MEMORY", "kernel"), ("AM_CHECK", &of_memory())]);
}

#[test]
fn three_tasks_staged() {
    run("three_tasks_staged", 3, &[("AM_MEMORY", "staged")]);
}

/// A limit of registered memory that suffices for the memory that the suite exposes, but not for its long messages.
#[test]
fn two_tasks_with_little_registered_memory() {
    let settings = [("AM_REGISTERED_BYTES_MAX", "6M"), ("AM_CHECK", &*of_memory())];
    run("two_tasks_with_little_registered_memory", 2, &settings);
}

#[test]
#[ignore = "long"]
fn two_three_and_eight_tasks_by_every_way() {
    for (tasks, way) in [2, 3, 8].into_iter().flat_map(|tasks| WAYS.map(|way| (tasks, way))) {
        run("two_three_and_eight_tasks_by_every_way", tasks, &[("AM_MEMORY", way)]);
    }
}

#[test]
fn one_credit_for_what_needs_many() {
    let (credits, checks) = (("AM_CREDITS", "1"), ("AM_CHECK", "flow"));
    run("one_credit_for_what_needs_many", 3, &[credits, checks]);
}

#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn one_credit_over_the_network() {
    run_over_the_network("one_credit_over_the_network", 2, &[("AM_CREDITS", "1"), ("AM_CHECK", "flow")]);
}

#[test]
#[ignore = "long"]
fn one_credit() {
    for (tasks, memory) in [(2, "auto"), (3, "staged")] {
        run("one_credit", tasks, &[("AM_CREDITS", "1"), ("AM_MEMORY", memory)]);
    }
}

/// `hosts` has the test in which some of the tasks share memory.
#[test]
#[ignore = "long, and needs libfabric"]
fn two_tasks_over_the_network() {
    for provider in PROVIDERS {
        run_over_the_network("two_tasks_over_the_network", 2, &[("FI_PROVIDER", provider)]);
    }
}

#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn announced_messages_over_each_provider() {
    for provider in PROVIDERS {
        let settings = [("FI_PROVIDER", provider), ("AM_CHECK", "announced")];
        run_over_the_network("announced_messages_over_each_provider", 2, &settings);
    }
}

/// Over the network a purge finds reads in flight; on one host a copy has ended when its call returns.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn a_purge_over_the_network() {
    run_over_the_network("a_purge_over_the_network", 2, &[("AM_CHECK", "purge_in_the_middle")]);
}

/// Packets that the device splits into many messages of the network, because the provider loses parts of longer messages if several tasks
/// send to one task.
#[test]
#[cfg_attr(not(has_libfabric), ignore = "libfabric.so.1 was not found")]
fn packets_longer_than_messages_of_the_network() {
    let test = "packets_longer_than_messages_of_the_network";
    run_over_the_network(test, 3, &[("AM_PACKET_BYTES", "100000"), ("AM_CHECK", "announced")]);
}

/// A task that keeps sending to itself must still poll its peers, one of which holds the lock.
#[test]
fn the_owner_of_a_lock_lets_others_in() {
    for (way, tasks) in [("kernel", 8), ("staged", 3)] {
        run("the_owner_of_a_lock_lets_others_in", tasks, &[("AM_MEMORY", way), ("AM_CHECK", LOCK)]);
    }
}

#[test]
fn a_job_of_one_without_a_launcher() {
    job("a_job_of_one_without_a_launcher").without_launcher().run(suite);
}

#[test]
fn a_filter_that_fits_no_check_is_a_failure() {
    let test = "a_filter_that_fits_no_check_is_a_failure";
    job(test).env("AM_CHECK", "no such check").run_and_judge(suite, |outcome| {
        assert!(!outcome.is_success);
        assert!(outcome.line.contains("no check has"), "{}", outcome.line);
    });
}
