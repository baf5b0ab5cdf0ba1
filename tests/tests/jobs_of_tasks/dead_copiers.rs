//! A task dies while it copies to a peer's memory: the peer gets its memory back, even if another process has the dead task's process id by
//! then, and even if the launcher started the task by a wrapper.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use am_core::PutOptions;
use am_core::buffer::Access;
use am_tests::harness::job;
use am_via::Task;
use am_via::job::Job;

/// Long enough that the copier is inside a copy at almost every moment.
const BYTES: usize = 64 << 20;

/// Task 1 copies into task 0's memory again and again until it aborts in the middle.
fn run() {
    let task = Task::join().expect("the launcher made a job");
    let job = Job::attach().expect("the same job");
    let mut context = task.context().expect("the job has memory");
    let memory = context.alloc(if task.number() == 0 { BYTES } else { 8 }).expect("alloc");
    let region = context.expose(memory, Access::READ_WRITE).expect("expose");
    let addresses = context.address_init(region.address(0)).expect("all tasks exchange addresses");
    // Task 0 has the addresses when it reaches the fence. The end of task 1 may end the fence for task 0.
    let fenced = context.gfence();
    if task.number() == 1 {
        fenced.expect("all tasks reach the fence");
        let bytes = vec![1; BYTES];
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            std::process::abort();
        });
        loop {
            context.put(addresses[0], &bytes, PutOptions::default()).expect("until it aborts");
            context.fence_data(None).expect("until it aborts");
        }
    }
    let pid = job.pid(1);
    while !job.has_ended(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut other = another_process(pid);
    context.unexpose(region).expect("this context has exposed the region");
    println!("\nunexposed");
    if let Some(other) = &mut other {
        other.kill().expect("it sleeps");
        other.wait().expect("it was killed");
    }
}

/// Starts a process whose process id is `pid`, if that id is visible here and this test may choose process ids.
fn another_process(pid: i32) -> Option<Child> {
    let pid = u32::try_from(pid).ok().filter(|&pid| pid != 0 && pid != u32::MAX)?;
    for _ in 0..1000 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut child =
            Command::new("sleep").arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        if child.id() == pid {
            println!("\nthe dead task's number now belongs to another process");
            return Some(child);
        }
        child.kill().expect("it sleeps");
        child.wait().expect("it was killed");
    }
    None
}

fn unexpose_ends(test: &'static str, first: &str) {
    // A core file would have gigabytes.
    let first = format!("ulimit -c 0; {first}");
    job(test).tasks(2).after(first).run_and_judge(run, |outcome| {
        assert!(outcome.tasks[0].stdout.contains("unexposed"));
        assert_eq!(outcome.failure.as_ref().map(|failure| failure.task), Some(1));
    });
}

#[test]
fn a_copier_that_dies_behind_a_shell_is_known_to_be_dead() {
    // The shell lives on, and reaps the task at once, so that the task's process id is free.
    unexpose_ends("a_copier_that_dies_behind_a_shell_is_known_to_be_dead", "\"$0\" \"$@\"; exit $?");
}

#[test]
#[cfg_attr(not(may_unshare), ignore = "namespaces may not be made here (unshare)")]
fn a_copier_that_dies_in_another_process_namespace_is_known_to_be_dead() {
    unexpose_ends(
        "a_copier_that_dies_in_another_process_namespace_is_known_to_be_dead",
        "if [ \"$AM_TASK\" = 1 ]; then exec unshare --pid --fork sh -c '\"$0\" \"$@\"; exit $?' \"$0\" \"$@\"; fi",
    );
}
