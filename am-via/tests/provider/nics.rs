//! A NIC has one user: a context, or a program written to VIA.

use am_core::error::Fault;
use am_via::Task;
use am_via_vipl::{Fault as VipFault, VipReturn, open_nic};

use crate::hostile_support::alone;

#[test]
fn a_nic_is_opened_by_name_or_by_a_context_and_once() {
    let _alone = alone();
    let task = Task::join().unwrap();
    let opened = open_nic(&task, "shm4").unwrap();
    let refusal = open_nic(&task, "shm4").unwrap_err();
    assert_eq!(refusal.vip_return(), VipReturn::ErrorResource, "{refusal}");
    let refusal = task.fabric(4).unwrap_err();
    assert!(refusal.to_string().contains("\"shm4\" of this task was already opened"), "{refusal}");
    drop(opened);
    assert!(open_nic(&task, "shm4").is_err(), "to its peers the context is closed");

    let _used = task.fabric(3).unwrap();
    let refusal = open_nic(&task, "shm3").unwrap_err();
    assert_eq!(refusal.vip_return(), VipReturn::ErrorResource, "{refusal}");
    assert!(task.fabric(99).is_err(), "there is no such context");
}

/// Two open devices of one context would share its hazard line, in which a task names the region that it copies from or to.
#[test]
fn a_context_is_open_once_at_a_time_in_its_process() {
    let _alone = alone();
    let task = Task::join().unwrap();
    let first = task.fabric(5).unwrap();
    for again in [task.clone(), Task::join().unwrap()] {
        let refusal = again.fabric(5).unwrap_err();
        assert_eq!(refusal.fault(), Fault::Caller, "{refusal}");
        assert!(refusal.to_string().contains("context 5 is open in this process"), "{refusal}");
        let refusal = open_nic(&again, "shm5").unwrap_err();
        assert_eq!(
            (refusal.vip_return(), refusal.fault()),
            (VipReturn::ErrorResource, VipFault::Caller),
            "{refusal}"
        );
    }
    let others = [again_after(&task, 6), again_after(&task, 7)];
    drop(first);
    drop(task.fabric(5).expect("it was closed"));
    drop(others);

    let named = open_nic(&task, "shm8").unwrap();
    let joined = Task::join().unwrap();
    assert!(open_nic(&joined, "shm8").is_err() && joined.fabric(8).is_err(), "it is open");
    drop(named);
    assert!(open_nic(&joined, "shm8").is_err(), "to its peers the context is closed");
}

fn again_after(task: &Task, number: u8) -> am_via::ShmFabric {
    task.fabric(number).expect("another context is open, not this one")
}

#[test]
fn a_nic_whose_opening_failed_can_be_opened_later_in_either_way() {
    let _alone = alone();
    let task = Task::join().unwrap();
    let in_the_way = task.device(9).unwrap();
    assert!(open_nic(&task, "shm9").is_err(), "the context is open");
    drop(in_the_way);
    drop(task.fabric(9).expect("nothing is open"));

    let in_the_way = task.device(10).unwrap();
    assert!(task.fabric(10).is_err(), "the context is open");
    drop(in_the_way);
    open_nic(&task, "shm10").expect("nothing is open");
}
