//! The conformance suite of fabrics over the device `wire`: tasks are threads, with and without faults of the wire.

use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core_conform::turns::{record_checks, same_seed_same_run};
use am_core_conform::{conformance, threads};
use am_double::wire::{Reach, Wire, WireFaults, WireNetwork, WireOptions, WireStatistics};
use am_via::fabric::{CreditPlan, ViaFabric};

/// Every fault except death, at a rate at which each check meets some.
fn faults(seed: u64) -> WireFaults {
    WireFaults {
        seed,
        drop: 30,
        duplicate: 30,
        reorder: 60,
        delay: 30,
        refuse: 40,
        hold_back: 40,
        overrun: 20,
        apart: 200,
        cut: 0,
        kill: None,
    }
}

fn with_faults(num_tasks: u32, reach: Reach, seed: u64) -> WireOptions {
    WireOptions { faults: faults(seed), ..WireOptions::new(num_tasks) }.with_reach(reach)
}

/// Runs the suite; `AM_CHECK` in the environment selects checks by a part of their name.
fn run(options: WireOptions, plan: CreditPlan) -> WireStatistics {
    println!("{options:?} {plan:?}");
    let filter = std::env::var("AM_CHECK").unwrap_or_default();
    let network = WireNetwork::new(options);
    threads::run(fabrics_of(&network, options, plan), |context| conformance::run_all(&filter, context));
    network.statistics()
}

fn fabrics_of(network: &WireNetwork, options: WireOptions, plan: CreditPlan) -> Vec<ViaFabric<Wire>> {
    let open = |task| {
        let device =
            network.open(Endpoint::new(TaskId(task), ContextNumber(0))).expect("each NIC is opened once");
        ViaFabric::new(device, plan)
    };
    (0..options.num_tasks).map(open).collect()
}

const PLENTY: CreditPlan = CreditPlan { credits: 60, answers: 60 };
const ONE: CreditPlan = CreditPlan { credits: 1, answers: 1 };

#[test]
fn one_task() {
    run(WireOptions::new(1), PLENTY);
}

#[test]
pub(crate) fn two_tasks() {
    run(WireOptions::new(2), PLENTY);
}

#[test]
#[ignore = "long"]
fn three_tasks_staged_one_credit() {
    run(WireOptions::new(3).with_reach(Reach::Staged), ONE);
}

#[test]
fn three_tasks_small_slots() {
    small_slots(3);
}

#[test]
#[ignore = "long"]
fn eight_tasks_small_slots() {
    small_slots(8);
}

fn small_slots(num_tasks: u32) {
    let options = WireOptions { slot_bytes: 1200, ..WireOptions::new(num_tasks) };
    run(options, CreditPlan { credits: 4, answers: 2 });
}

#[test]
fn two_tasks_with_faults() {
    let counts = run(WireOptions { faults: faults(2), ..WireOptions::new(2) }, PLENTY);
    assert!(counts.retransmitted > 0 && counts.duplicates_suppressed > 0, "{counts:?}");
}

#[test]
fn two_tasks_staged_with_faults_and_one_credit() {
    faults_and_one_credit(2, Reach::Staged);
}

#[test]
#[ignore = "long"]
fn three_and_eight_tasks_with_faults_and_one_credit() {
    faults_and_one_credit(3, Reach::Staged);
    faults_and_one_credit(8, Reach::Posted);
}

fn faults_and_one_credit(num_tasks: u32, reach: Reach) {
    let options = with_faults(num_tasks, reach, num_tasks.into());
    let counts = run(options, ONE);
    assert!(counts.retransmitted > 0 && counts.refused > 0, "{counts:?}");
}

/// Tasks that run one at a time, over a wire with every fault: the two seeds determine everything that happens.
fn two_runs_alike(num_tasks: u32, reach: Reach) {
    same_seed_same_run(1, 2, |seed| {
        let options = with_faults(num_tasks, reach, seed);
        record_checks("", 7, || fabrics_of(&WireNetwork::new(options), options, PLENTY))
    });
}

#[test]
fn the_same_seed_is_the_same_run_of_two_tasks() {
    two_runs_alike(2, Reach::Posted);
}

#[test]
#[ignore = "long"]
fn the_same_seed_is_the_same_run_of_three_tasks_staged() {
    two_runs_alike(3, Reach::Staged);
}
