//! The processes of a job, also those that its tasks have started: how they are identified and ended.
//!
//! A process belongs to the job if its chain of parents leads to a task, or if its environment contains the job's number: its parents may
//! have ended. If the launcher has its own process, it becomes the parent of such orphans; then all its descendants belong to the job,
//! whatever they do to their environment.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::AsFd;
use std::str::SplitAsciiWhitespace;
use std::time::{Duration, Instant};

use super::LaunchError;
use am_via_os::poll;
use am_via_os::process::{self, PidFd};

/// How long killed processes may take to end before the launcher gives up (they may be in an uninterruptible sleep).
const VANISH_WITHIN: Duration = Duration::from_secs(5);
/// Number of files that this process keeps free to read `/proc`, if its limit allows no handle for each process.
const FILES_TO_READ_PROC: usize = 4;

/// The criteria by which the processes of one job are identified.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// Processes whose descendants belong to the job.
    pub(super) roots: Vec<u32>,
    /// Descendants of the roots that do not belong to the job.
    pub(super) others: Vec<u32>,
    /// The text that the environment of a member contains; `None` if descent alone decides.
    pub(super) mark: Option<String>,
}

impl Members {
    /// All living processes of the job, parents before children, without this process itself.
    pub(super) fn living(&self) -> Vec<u32> {
        self.try_living().unwrap_or_default()
    }

    /// Like [`living`](Self::living); `None` if `/proc` can't be read, perhaps because this process has no free file.
    fn try_living(&self) -> Option<Vec<u32>> {
        let own = std::process::id();
        let processes = processes();
        if !processes.contains_key(&own) {
            return None;
        }
        let mut found: Vec<(usize, u32)> = processes
            .iter()
            .filter(|&(&pid, process)| pid != own && process.is_alive)
            .filter_map(|(&pid, _)| Some((self.depth(pid, &processes)?, pid)))
            .collect();
        found.sort_unstable();
        Some(found.into_iter().map(|(_, pid)| pid).collect())
    }

    /// The distance of a process of the job from its root; `None` for other processes.
    fn depth(&self, pid: u32, processes: &HashMap<u32, Process>) -> Option<usize> {
        let mut at = pid;
        // No chain is longer than the number of processes; the limit prevents an endless loop if /proc was read inconsistently.
        for depth in 0..=processes.len() {
            if self.others.contains(&at) {
                return None;
            }
            if self.roots.contains(&at) {
                return Some(depth);
            }
            match processes.get(&at) {
                Some(process) if process.parent != 0 => at = process.parent,
                _ => break,
            }
        }
        self.is_marked(pid).then_some(usize::MAX)
    }

    fn is_marked(&self, pid: u32) -> bool {
        let Some(mark) = &self.mark else { return false };
        // If the environment is unreadable, the process is another user's or has ended, and is not a member.
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|window| window == mark.as_bytes())
    }

    /// Whether a living process of the job was started with this environment variable.
    pub(super) fn any_has(&self, name: &str, value: &str) -> bool {
        let wanted = format!("{name}={value}");
        self.living().into_iter().any(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
        })
    }

    /// Sends a signal to all living processes of the job.
    pub(super) fn signal(&self, signal: i32) {
        self.signal_those(|_| true, signal);
    }

    /// Sends a signal to `pid` if it is a process of the job.
    pub(super) fn signal_one(&self, pid: u32, signal: i32) {
        self.signal_those(|candidate| candidate == pid, signal);
    }

    /// Sends a signal to those processes of the job that have a handler for it. The signal would end the others.
    pub(super) fn signal_those_who_catch(&self, signal: i32) {
        self.signal_those(|pid| catches(pid, signal), signal);
    }

    fn signal_those(&self, wanted: impl Fn(u32) -> bool, signal: i32) {
        let candidates: Vec<u32> = self.living().into_iter().filter(|&pid| wanted(pid)).collect();
        let mut left = &candidates[..];
        while !left.is_empty() {
            let (processes, tried) = self.open(left);
            processes.iter().for_each(|process| process.signal(signal));
            left = &left[tried..];
        }
    }

    /// Kills all processes of the job, including those that start in the meantime. Returns how many are left.
    pub(super) fn kill_all(&self) -> usize {
        let deadline = Instant::now() + VANISH_WITHIN;
        loop {
            let living = self.try_living();
            let count = living.as_ref().map_or(1, Vec::len);
            if count == 0 || Instant::now() >= deadline {
                return count;
            }
            let (processes, _) = self.open(&living.unwrap_or_default());
            if processes.is_empty() {
                // This process has no free file, or the processes have just ended.
                std::thread::sleep(Duration::from_millis(1));
            }
            // Parents first: a shell whose child is killed first would run its next line.
            for process in &processes {
                process.signal(libc::SIGKILL);
            }
            for process in &processes {
                let left = deadline.saturating_duration_since(Instant::now());
                // If the wait fails, it ends early, and the next round checks again.
                let _ = poll::poll(&[process.as_fd()], Some(left));
            }
        }
    }

    /// Handles of the first of these members, as many as the limit on open files allows, and the number of members that were tried (at
    /// least one). A process may have ended, and another one may have got its number, before the handle was opened. So membership is
    /// checked again afterwards: an open handle stays with its process.
    fn open(&self, candidates: &[u32]) -> (Vec<PidFd>, usize) {
        let mut opened: Vec<(u32, PidFd)> = Vec::new();
        let mut tried = candidates.len();
        for (at, &pid) in candidates.iter().enumerate() {
            match PidFd::open(pid) {
                Ok(process) => opened.push((pid, process)),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(_) => {
                    opened.truncate(opened.len().saturating_sub(FILES_TO_READ_PROC));
                    tried = opened
                        .last()
                        .and_then(|(last, _)| candidates.iter().position(|pid| pid == last))
                        .unwrap_or(at)
                        + 1;
                    break;
                }
            }
        }
        let still: HashSet<u32> =
            if opened.is_empty() { HashSet::new() } else { self.living().into_iter().collect() };
        let found = opened.into_iter().filter(|(pid, _)| still.contains(pid)).map(|(_, process)| process);
        (found.collect(), tried)
    }
}

/// Refuses to start a job if `/proc`, by which its processes are found, is not mounted.
pub(super) fn check_proc() -> Result<(), LaunchError> {
    if fs::exists("/proc/self/stat").unwrap_or(false) { Ok(()) } else { Err(LaunchError::NoProc) }
}

/// Reaps the ended children of this process except `kept`: the orphans that this process has inherited.
pub(super) fn reap_orphans(kept: &[u32]) {
    let own = std::process::id();
    for (pid, found) in processes() {
        if found.parent == own && !found.is_alive && !kept.contains(&pid) {
            process::reap(pid);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    is_alive: bool,
}

/// All visible processes.
fn processes() -> HashMap<u32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            Some((pid, parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect()
}

pub(super) fn children(parent: u32) -> Vec<u32> {
    processes().into_iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| pid).collect()
}

/// Processes that may hold the files of a job of which `pid` is a process: the launcher that `pid` guards, then the living processes above
/// `pid`, the nearest first, without the system's first one.
pub(super) fn near(pid: u32) -> Vec<u32> {
    let processes = processes();
    let is_launcher = |child: &u32| {
        let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
        words.get(1..3) == Some(&[b"--guarded-by", pid.to_string().as_bytes()])
    };
    let children = processes.iter().filter(|(_, process)| process.parent == pid).map(|(&child, _)| child);
    let mut found: Vec<u32> = children.filter(is_launcher).collect();
    let mut at = pid;
    while let Some(parent) = processes.get(&at).map(|process| process.parent)
        && parent > 1
        && !found.contains(&parent)
    {
        found.push(parent);
        at = parent;
    }
    found
}

/// The fields from the state on in a line like `12 (a name) S 1 ...` of `/proc`. The name may contain anything, even parentheses.
pub(crate) fn fields_of_stat(line: &str) -> Option<SplitAsciiWhitespace<'_>> {
    Some(line.rsplit_once(')')?.1.split_ascii_whitespace())
}

/// State and parent of a process, from the text of its `/proc/PID/stat`.
fn parse_stat(line: &str) -> Option<Process> {
    let mut fields = fields_of_stat(line)?;
    let state = fields.next()?;
    Some(Process { parent: fields.next()?.parse().ok()?, is_alive: !matches!(state, "Z" | "X") })
}

fn catches(pid: u32, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let process = parse_stat("12 (a) b) S 7 12 12 0").unwrap();
        assert_eq!(process, Process { parent: 7, is_alive: true });
        assert!(!parse_stat("12 (x) Z 7 12").unwrap().is_alive);
        assert_eq!(parse_stat("garbage"), None);
    }

    #[test]
    fn descendants_and_marked_processes_are_killed_and_nobody_else() {
        let mark = format!("AM_TEST_MARK=members-{}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut marked = Command::new("sleep").arg("1000").env(name, value).spawn().unwrap();
        let mut parent = Command::new("sh").args(["-c", "sleep 1000 & wait"]).spawn().unwrap();
        let members = Members { roots: vec![parent.id()], others: Vec::new(), mark: Some(mark.clone()) };
        while members.living().len() < 3 {
            std::thread::yield_now();
        }
        assert!(!members.living().contains(&bystander.id()));
        assert_eq!(members.kill_all(), 0);
        assert!(marked.wait().unwrap().code().is_none());
        assert!(parent.wait().unwrap().code().is_none());
        assert!(bystander.try_wait().unwrap().is_none());
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }
}
