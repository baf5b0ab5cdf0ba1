//! The other threads of this process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// Whether another thread of this process may act before this thread does anything. A thread that waits on a private futex without a time
/// limit (for a lock, a condition, or work in a pool) acts only after a thread of the same process has woken it.
#[must_use]
pub fn others_may_act() -> bool {
    // Threads that hand work to each other may each be found waiting, one after the other. If no thread has run between two inspections,
    // all of them waited at once.
    match (waits_of_others(), waits_of_others()) {
        (Some(before), Some(after)) => before != after,
        _ => true,
    }
}

/// The id of this thread. By the call's number, because older C libraries have no function for it (glibc 2.28, RHEL 8).
fn own_id() -> libc::c_long {
    // SAFETY: gettid takes no arguments and only returns the thread's number.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// For each other thread, its id and the number of its waits so far; `None` if a thread may act, or this is unknown.
fn waits_of_others() -> Option<Waits> {
    let own = own_id().to_string();
    waits_in(Path::new("/proc/self/task"), |thread| thread != own.as_str())
}

/// The id of each thread of a process, and the number of its waits so far.
pub type Waits = Vec<(OsString, u64)>;

/// The waits of all threads of a process, each of which acts only after another thread of the process has woken it. `None` if a thread may
/// act, or this is unknown. If it is the same later, nothing but a signal lets the process go on.
#[must_use]
pub fn waits_of_process(pid: u32) -> Option<Waits> {
    waits_in(Path::new(&format!("/proc/{pid}/task")), |_| true).filter(|waits| !waits.is_empty())
}

fn waits_in(folder: &Path, is_of_interest: impl Fn(&OsStr) -> bool) -> Option<Waits> {
    let mut waits = Vec::new();
    for thread in fs::read_dir(folder).ok()? {
        let thread = thread.ok()?;
        let (name, path) = (thread.file_name(), thread.path());
        if !is_of_interest(&name) {
            continue;
        }
        match waits_of(&path) {
            Some(number) => waits.push((name, number)),
            // A thread that has ended has no folder.
            None if !path.exists() => {}
            None => return None,
        }
    }
    Some(waits)
}

/// The number of times that a thread has begun to wait, if it waits for its own process now.
fn waits_of(thread: &Path) -> Option<u64> {
    let begun = || {
        let status = fs::read_to_string(thread.join("status")).ok()?;
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse().ok()
    };
    let number: u64 = begun()?;
    let call = fs::read_to_string(thread.join("syscall")).ok()?;
    // The same number before and after: this is the wait that has begun last.
    (waits_for_own_process(&call) && begun()? == number).then_some(number)
}

/// Whether a line of `/proc/PID/task/TID/syscall` is a wait without a time limit on a private futex. The line has the call's number, in
/// decimal, and its arguments: of a futex the address, the operation, the value and the time limit. Or it says that the thread runs.
fn waits_for_own_process(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    if fields.next().and_then(|number| number.parse().ok()) != Some(libc::SYS_futex) {
        return false;
    }
    let mut arguments =
        fields.map(|argument| argument.strip_prefix("0x").and_then(|hex| i64::from_str_radix(hex, 16).ok()));
    let (Some(Some(operation)), Some(Some(limit))) = (arguments.nth(1), arguments.nth(1)) else {
        return false;
    };
    let waits = [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET].map(|wait| wait | libc::FUTEX_PRIVATE_FLAG);
    let operation = operation & !i64::from(libc::FUTEX_CLOCK_REALTIME);
    waits.map(i64::from).contains(&operation) && limit == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_private_futex_without_a_time_limit_is_a_wait_for_this_process() {
        let line = |operation: i32, limit: u64| {
            format!("{} 0x7ffd0 {operation:#x} 0x2 {limit:#x} 0x0 0xffffffff 0x7f 0x7f", libc::SYS_futex)
        };
        let private = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
        assert!(waits_for_own_process(&line(private, 0)));
        assert!(waits_for_own_process(&line(private | libc::FUTEX_CLOCK_REALTIME, 0)));
        assert!(!waits_for_own_process(&line(private, 0x7ffd)), "with a time limit");
        assert!(!waits_for_own_process(&line(libc::FUTEX_WAIT, 0)), "another process may wake it");
        let others = ["running", "", "230 0x0 0x0 0x7ffd 0x0 0x0 0x0 0x7f 0x7f"];
        assert!(others.into_iter().all(|line| !waits_for_own_process(line)));
    }

    #[test]
    fn a_process_with_a_thread_that_runs_does_not_wait_for_itself() {
        assert_eq!(waits_of_process(std::process::id()), None);
        assert_eq!(waits_of_process(u32::MAX), None);
    }

    #[test]
    fn a_thread_that_waits_for_its_process_does_not_act_and_one_that_sleeps_or_computes_may() {
        use std::sync::{Barrier, mpsc};
        use std::time::Duration;
        let (begun, wait) = (Barrier::new(2), Duration::from_millis(1));
        let waits = |path: &Path| waits_of(path).is_some();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let (release, released) = mpsc::channel::<()>();
            let (begun, tell) = (&begun, &tell);
            let tell = tell.clone();
            scope.spawn(move || {
                let _ = tell.send(own_id());
                begun.wait();
                let _ = released.recv();
                let _ = tell.send(own_id());
                let _ = released.recv_timeout(Duration::from_secs(3600));
            });
            let thread = std::path::PathBuf::from(format!("/proc/self/task/{}", told.recv().unwrap()));
            begun.wait();
            while !waits(&thread) {
                std::thread::sleep(wait);
            }
            release.send(()).unwrap();
            told.recv().unwrap();
            // Running, or in a wait with a time limit.
            for _ in 0..50 {
                assert!(!waits(&thread));
                std::thread::sleep(wait);
            }
            drop(release);
        });
    }
}
