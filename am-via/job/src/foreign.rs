//! A job started by a launcher of another project, created by its tasks from that launcher's information.
//!
//! Each task publishes its process, the name of its host, and the name of a memory file that it has open. A host is the set of tasks that
//! can open the memory file of the first of them: names alone do not decide, since two containers or copies of a virtual machine may have
//! the same name. The first task of each host starts a watcher ([`watcher`]), which creates the host's files and publishes their location.
//! This happens when a task attaches for the first time, and all tasks of the job must do so.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};

use am_via_os::memory;
use am_via_pmi::Launcher;

use crate::JobError;
use crate::invitation::Invitation;
use crate::owner::random;
use crate::watcher::{self, Part};

/// The names of the values that tasks publish.
const PROCESS: &str = "process";
const FIRST: &str = "first";
const JOB: &str = "job";
const HUB: &str = "hub";

#[derive(Debug)]
struct Launched {
    launcher: Box<dyn Launcher>,
    invitation: Invitation,
    pid: u32,
    /// Whether all tasks have attached.
    is_whole: bool,
}

/// The connection to the launcher, once this process has joined. It stays until the process ends, since a program may drop its job and
/// attach again.
static LAUNCHED: Mutex<Option<Launched>> = Mutex::new(None);

/// The invitation to the job in which another project's launcher has started this process; `None` if no such launcher has started it.
pub(super) fn join() -> Result<Option<Invitation>, JobError> {
    let mut launched = LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if launched.is_none() {
        let failed = |source| JobError::OtherLauncher { source };
        let Some(mut launcher) = am_via_pmi::find().map_err(failed)? else { return Ok(None) };
        let invitation = meet(&mut *launcher).map_err(failed)?;
        *launched = Some(Launched { launcher, invitation, pid: std::process::id(), is_whole: false });
    }
    Ok(launched.as_ref().map(|launched| launched.invitation.clone()))
}

/// The invitation, if this process has joined.
pub(super) fn known() -> Option<Invitation> {
    let launched = LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner);
    launched.as_ref().map(|launched| launched.invitation.clone())
}

/// Waits until all tasks have attached, so that the job file has the processors on which each task may run.
pub(super) fn wait_for_all() -> Result<(), JobError> {
    let mut launched = LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner);
    match launched.as_mut().filter(|launched| !launched.is_whole) {
        Some(launched) => {
            launched.launcher.fence().map_err(|source| JobError::OtherLauncher { source })?;
            launched.is_whole = true;
            Ok(())
        }
        None => Ok(()),
    }
}

/// Tells the launcher that this task leaves the job.
pub(super) fn leave() {
    let mut launched = LAUNCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(launched) = launched.as_mut().filter(|launched| launched.pid == std::process::id())
        && let Err(error) = launched.launcher.finalize()
    {
        tracing::debug!(%error, "the launcher was not told that this task leaves");
    }
}

/// Asks a launcher of another project, if one has started this process, to end the job with this exit code. The caller then ends this
/// process.
pub fn abort(code: i32) {
    // If the lock is taken, the launcher notices the end of the process instead.
    let Ok(mut launched) = LAUNCHED.try_lock() else { return };
    if let Some(launched) = launched.as_mut().filter(|launched| launched.pid == std::process::id()) {
        launched.launcher.abort(code);
    }
}

/// Creates the job together with the other tasks.
fn meet(launcher: &mut dyn Launcher) -> io::Result<Invitation> {
    let own = launcher.task();
    // Open until all tasks have looked for it.
    let process = Process { pid: std::process::id(), proof: random(), host_name: host_name() };
    let _proof = memory::create(&process.proof_name(), memory::PAGE_BYTES)?;
    launcher.put(PROCESS, &process.to_text())?;
    launcher.fence()?;
    let mut first = own;
    for task in 0..own {
        if Process::of(launcher, task)?.shares_memory_with(&process) {
            first = task;
            break;
        }
    }
    launcher.put(FIRST, &first.to_string())?;
    launcher.fence()?;
    if first == own || first_of(launcher, first)? != first {
        return lead(launcher);
    }
    // After the first of these fences, the watchers of other hosts than the first are started.
    launcher.fence()?;
    launcher.fence()?;
    let job = launcher.get(first, JOB)?;
    Ok(Invitation { task: own, ..Invitation::parse(&job).map_err(io::Error::other)? })
}

/// What the first task of a host does: it starts the watcher, and publishes where the job's files are. The first host begins, so that the
/// other watchers can connect to its watcher.
fn lead(launcher: &mut dyn Launcher) -> io::Result<Invitation> {
    let firsts =
        (0..launcher.num_tasks()).map(|task| first_of(launcher, task)).collect::<io::Result<Vec<u32>>>()?;
    let hosts = hosts(&firsts);
    let host = hosts[launcher.task() as usize];
    let mut processes = BTreeMap::new();
    for task in (0..).zip(&hosts).filter(|&(_, &of)| of == host).map(|(task, _)| task) {
        processes.insert(task, Process::of(launcher, task)?.pid);
    }
    let mut part = Part { hosts, host, hub: None, processes };
    if host != 0 {
        launcher.fence()?;
        // Task 0 is the first task of the first host.
        part.hub = Some(launcher.get(0, HUB)?);
    }
    let made = watcher::start(part)?;
    launcher.put(JOB, &made.job)?;
    if let Some(hub) = &made.hub {
        launcher.put(HUB, hub)?;
    }
    if host == 0 {
        launcher.fence()?;
    }
    launcher.fence()?;
    Invitation::parse(&made.job).map_err(io::Error::other)
}

/// The host of each task. Hosts are numbered in the order of their first tasks, so task 0 is on host 0. `firsts` has, for each task, the
/// first task whose memory file that task can open, or the task itself. If task A names B, but B names another task than itself, then A and
/// B do not see the same processes, and A gets a host of its own.
fn hosts(firsts: &[u32]) -> Vec<u32> {
    let mut numbers = BTreeMap::new();
    let host_of = |(task, &first): (u32, &u32)| {
        let is_first = firsts.get(first as usize) == Some(&first);
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(if is_first { first } else { task }).or_insert(next)
    };
    (0..).zip(firsts).map(host_of).collect()
}

/// What a task publishes about itself.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    /// A random number in the name of a memory file that the task has open.
    proof: u64,
    host_name: String,
}

impl Process {
    fn to_text(&self) -> String {
        format!("{}:{:x}:{}", self.pid, self.proof, self.host_name)
    }

    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(':')?;
        let (proof, host_name) = rest.split_once(':')?;
        let proof = u64::from_str_radix(proof, 16).ok()?;
        Some(Self { pid: pid.parse().ok()?, proof, host_name: host_name.to_owned() })
    }

    fn of(launcher: &mut dyn Launcher, task: u32) -> io::Result<Self> {
        let told = launcher.get(task, PROCESS)?;
        Self::parse(&told).ok_or_else(|| is_not(task, &told, "a process"))
    }

    fn proof_name(&self) -> String {
        format!("am-host-{:x}", self.proof)
    }

    /// Whether this task, `own`, can open the memory file of the other task, `self`. Tasks whose hosts have different names do not try.
    fn shares_memory_with(&self, own: &Self) -> bool {
        let opens = || memory::open_of_process(self.pid, &self.proof_name()).is_ok_and(|file| file.is_some());
        self.host_name == own.host_name && opens()
    }
}

/// The first task whose memory file `task` can open (`task` itself if it can open none of an earlier task), as `task` has published.
fn first_of(launcher: &mut dyn Launcher, task: u32) -> io::Result<u32> {
    let told = launcher.get(task, FIRST)?;
    told.parse().map_err(|_| is_not(task, &told, "a task"))
}

fn is_not(task: u32, told: &str, what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("task {task} has published {told:?}, which is not {what}"),
    )
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().replace([' ', '\t'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_belongs_to_the_host_of_the_first_task_or_is_a_host_of_its_own() {
        assert_eq!(hosts(&[0, 0, 0]), [0, 0, 0]);
        assert_eq!(hosts(&[0, 1, 0, 1, 4]), [0, 1, 0, 1, 2]);
        // Task 2 sees task 1, which sees task 0, which task 2 does not see. Task 3 names a task that does not exist.
        assert_eq!(hosts(&[0, 0, 1, 9]), [0, 0, 1, 2]);
    }

    #[test]
    fn memory_is_shared_only_with_a_process_that_has_the_proof_open() {
        let own = || Process { pid: std::process::id(), proof: random(), host_name: "a b:c".to_owned() };
        let (one, other) = (own(), own());
        let _proof = memory::create(&one.proof_name(), memory::PAGE_BYTES).expect("a memory file");
        assert_eq!(Process::parse(&one.to_text()).as_ref(), Some(&one));
        assert!(one.shares_memory_with(&other));
        assert!(!other.shares_memory_with(&one), "there is no such file");
        assert!(!Process { pid: 1, ..own() }.shares_memory_with(&other));
        assert!(!one.shares_memory_with(&Process { host_name: "b".to_owned(), ..own() }));
        for wrong in ["", "1", "1:2", "x:2:a", "1:x:a"] {
            assert_eq!(Process::parse(wrong), None, "{wrong}");
        }
    }
}
