//! A NIC has one user: a context, or a program written to VIA.

use am_via::Task;
use am_via::vipl::VipReturn;

use crate::hostile_support::alone;

#[test]
fn a_nic_is_opened_by_name_or_by_a_context_and_once() {
    let _alone = alone();
    let task = Task::join().unwrap();
    let opened = task.open_nic("shm4").unwrap();
    let refusal = task.open_nic("shm4").unwrap_err();
    assert_eq!(refusal.vip_return(), VipReturn::ErrorResource, "{refusal}");
    let refusal = task.fabric(4).unwrap_err();
    assert!(refusal.to_string().contains("\"shm4\" of this task was opened before"), "{refusal}");
    drop(opened);
    assert!(task.open_nic("shm4").is_err(), "its peers know it as closed");

    let _used = task.fabric(3).unwrap();
    let refusal = task.open_nic("shm3").unwrap_err();
    assert_eq!(refusal.vip_return(), VipReturn::ErrorResource, "{refusal}");
    assert!(task.fabric(99).is_err(), "there is no such context");
}
