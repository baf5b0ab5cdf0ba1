//! A job started by a launcher of another project, created by its tasks from that launcher's information.
//!
//! Each task publishes its host and process. The first task of each host starts a watcher ([`watcher`]), which creates the host's files and
//! publishes their location. This happens when a task attaches for the first time, and all tasks of the job must do so.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};

use am_via_pmi::Launcher;

use crate::invitation::Invitation;
use crate::watcher::{self, Part};
use crate::{JobError, pid_namespace};

/// The names of the values that tasks publish.
const HOST: &str = "host";
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
    let host = this_host();
    launcher.put(HOST, &format!("{}:{host}", std::process::id()))?;
    launcher.fence()?;
    let mut first = own;
    for task in 0..own {
        if at(launcher, task)?.1 == host {
            first = task;
            break;
        }
    }
    if first == own {
        return lead(launcher);
    }
    launcher.fence()?;
    let job = launcher.get(first, JOB)?;
    Ok(Invitation { task: own, ..Invitation::parse(&job).map_err(io::Error::other)? })
}

/// What the first task of a host does: it starts the watcher.
fn lead(launcher: &mut dyn Launcher) -> io::Result<Invitation> {
    let mut numbers = BTreeMap::new();
    let (mut hosts, mut processes) = (Vec::new(), Vec::new());
    for task in 0..launcher.num_tasks() {
        let (pid, host) = at(launcher, task)?;
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        hosts.push(*numbers.entry(host).or_insert(next));
        processes.push((task, pid));
    }
    let host = hosts[launcher.task() as usize];
    let part = Part {
        processes: processes.into_iter().filter(|&(task, _)| hosts[task as usize] == host).collect(),
        hosts,
        host,
    };
    let (watcher, made) = watcher::start(&part)?;
    launcher.put(JOB, &made.job)?;
    if let Some(hub) = &made.hub {
        launcher.put(HUB, hub)?;
    }
    launcher.fence()?;
    if host != 0 {
        // Task 0 is the first task of the first host.
        watcher.join(&launcher.get(0, HUB)?)?;
    }
    Invitation::parse(&made.job).map_err(io::Error::other)
}

/// The process and the host of a task.
fn at(launcher: &mut dyn Launcher, task: u32) -> io::Result<(u32, String)> {
    let told = launcher.get(task, HOST)?;
    let parts = told.split_once(':').and_then(|(pid, host)| Some((pid.parse().ok()?, host.to_owned())));
    parts.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("task {task} has published {told:?}, which is not a process number and a host"),
        )
    })
}

/// Identifies tasks that share memory: the host's name, its boot id, and the PID namespace, since processes find each other by number
/// (`/proc`).
fn this_host() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default().trim().replace([' ', '\t'], "_");
    let (name, boot) = (read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id"));
    format!("{name}/{boot}/{}", pid_namespace())
}
