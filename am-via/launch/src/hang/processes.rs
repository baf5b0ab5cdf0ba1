//! Information about a task's process from the system.

use std::time::Duration;

use crate::members::fields_of_stat;

/// The state of a process at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    /// Whether a signal or a debugger has stopped the process.
    pub(super) is_stopped: bool,
    /// Whether the first thread of the process sleeps in a system call.
    pub(super) is_asleep: bool,
    /// Processor time of all threads of the process.
    pub(super) processor_time: Duration,
}

/// Inspects a process; `None` if there is none, or `/proc` may not be read.
pub(super) fn look_at(pid: u32) -> Option<Process> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Ticks per second in `/proc`: fixed by Linux for all programs (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

fn parse(stat: &str) -> Option<Process> {
    let mut fields = fields_of_stat(stat)?;
    let state = fields.next()?;
    // In `proc_pid_stat(5)`, the state is field 3, and the ticks in user and in system mode are fields 14 and 15.
    let mut ticks = fields.skip(10).map(str::parse::<u64>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(Process {
        is_stopped: matches!(state, "T" | "t"),
        is_asleep: matches!(state, "S" | "D"),
        processor_time: Duration::from_millis((user + system).saturating_mul(1000 / TICKS_PER_SECOND)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_system_is_read_whatever_the_name_is() {
        let line = "77 (a (b) c) T 1 77 77 0 -1 4194304 1 2 3 4 250 50 7 8 20 0 1 0 9 0 0";
        let process = parse(line).unwrap();
        assert!(process.is_stopped && !process.is_asleep);
        assert_eq!(process.processor_time, Duration::from_secs(3));
        assert!(parse("77 (x").is_none());
    }

    #[test]
    fn this_process_runs_and_one_that_is_not_there_is_none() {
        assert!(!look_at(std::process::id()).unwrap().is_stopped);
        assert!(look_at(u32::MAX).is_none());
    }
}
