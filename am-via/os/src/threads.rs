//! The other threads of this process.

use std::fs;
use std::path::Path;

/// Whether another thread of this process may act before this thread does anything. A thread that waits on a private futex without a time
/// limit (for a lock, a condition, or work in a pool) acts only after a thread of the same process has woken it.
#[must_use]
pub fn others_may_act() -> bool {
    // SAFETY: gettid takes no arguments and only returns the thread's number.
    let own = unsafe { libc::gettid() }.to_string();
    match fs::read_dir("/proc/self/task") {
        Ok(threads) => threads.flatten().any(|thread| thread.file_name() != *own && may_act(&thread.path())),
        // Unknown.
        Err(_) => true,
    }
}

fn may_act(thread: &Path) -> bool {
    match fs::read_to_string(thread.join("syscall")) {
        Ok(call) => !waits_for_own_process(&call),
        // A thread that has ended has no folder; of others nothing is known.
        Err(_) => thread.exists(),
    }
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
}
