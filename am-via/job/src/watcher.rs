//! The watcher: a process that owns the files of one host's part of a job started by a launcher of another project, and watches the tasks
//! there. Like `amrun` for its tasks, the watcher records deaths, and keeps open the files that tasks look for; but it ends no task.
//!
//! The first task of the host starts the watcher ([`start`]) as a detached process, so that the watcher outlives that task. A watcher ends
//! with the last task of its host; the first host's watcher ends with the last task of all.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use am_via_os::process::{Ended, PidFd};
use am_via_os::{detached, poll};

use crate::settings::{Settings, Table};
use crate::{
    Bus, BusEvent, Cause, JobOwner, JobPlan, Message, Record, Supervisor, TaskState,
    variables_of_this_process,
};

/// How long a task waits for the watcher's answers. The files of a job are created in milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long the cause of a death may be unknown because the launcher has not reaped the process.
const REAPED_WITHIN: Duration = Duration::from_millis(200);

/// The part of a job that a watcher owns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// The host of each task of the job.
    pub(super) hosts: Vec<u32>,
    /// The number of this host.
    pub(super) host: u32,
    /// The address of the first host's watcher, on any other host.
    pub(super) hub: Option<String>,
    /// The tasks of this part, with their processes.
    pub(super) processes: BTreeMap<u32, u32>,
}

/// The watcher's results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Made {
    /// `AM_JOB` of the host's first task.
    pub(super) job: String,
    /// The first host's address for the watchers of other hosts, if there are any.
    pub(super) hub: Option<String>,
}

/// Starts the watcher of this host, which creates the files and connects to the first host's watcher.
pub(super) fn start(part: Part) -> io::Result<Made> {
    // SAFETY: `watch` uses only the file that it gets, and its own memory.
    let mut link = unsafe { detached::start(watch) }?;
    link.set_read_timeout(Some(ANSWER_WITHIN))?;
    Message::Own(part).write(&mut link)?;
    match Message::<Result<Made, String>>::read(&mut link)? {
        Some(Message::Own(made)) => made.map_err(io::Error::other),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The main function of the watcher's process.
fn watch(mut link: UnixStream) {
    // The name in the list of processes.
    let _ = std::fs::write("/proc/self/comm", "am-watcher");
    // If the task that has started the watcher has ended already, the job has not begun, and there is nothing to watch.
    let Ok(Some(Message::Own(part))) = Message::<Part>::read(&mut link) else { return };
    let (watch, answer) = match Watch::begin(&part) {
        Ok((watch, made)) => (Some(watch), Ok(made)),
        Err(error) => (None, Err(error.to_string())),
    };
    if Message::Own(answer).write(&mut link).is_ok()
        && let Some(watch) = watch
    {
        drop(link);
        watch.run();
    }
}

struct Watch {
    job: Arc<JobOwner>,
    supervisor: Supervisor,
    bus: Option<Bus<()>>,
}

impl Watch {
    fn begin(part: &Part) -> io::Result<(Self, Made)> {
        let settings = Settings::from_env().map_err(io::Error::other)?;
        let silence_max = settings.host_silence_max();
        let job = Arc::new(JobOwner::create(&JobPlan {
            num_tasks: u32::try_from(part.hosts.len()).unwrap_or(u32::MAX),
            settings,
            others: variables_of_this_process(),
            record: Record::Nothing,
            cpus: Vec::new(),
            hosts: part.hosts.clone(),
        })?);
        job.take_masks(part.processes.iter().map(|(&task, &pid)| (task, pid)))?;
        let mut supervisor = Supervisor::new(&job, &part.hosts, part.host, REAPED_WITHIN);
        for (&task, &pid) in &part.processes {
            supervisor.watch(task, Some(PidFd::open(pid)?));
        }
        let (hosts, host) = (&part.hosts, part.host);
        let (bus, hub) = match &part.hub {
            _ if hosts.iter().all(|&at| at == host) => (None, None),
            None => {
                let centre = Bus::centre(hosts, Some(host), "its watcher", silence_max);
                let hub = centre.listen(job.id())?;
                (Some(centre), Some(hub))
            }
            Some(hub) => {
                let failed =
                    |error| io::Error::other(format!("reaching the watcher of the first host: {error}"));
                (Some(Bus::connect(hub, hosts, host, silence_max).map_err(failed)?), None)
            }
        };
        let first = part.processes.keys().next().copied().unwrap_or(0);
        let made = Made { job: job.invitation(first), hub };
        Ok((Self { job, supervisor, bus }, made))
    }

    fn run(mut self) {
        while self.supervisor.watches_any() || self.bus.as_ref().is_some_and(Bus::is_needed) {
            // All signals are blocked, so none interrupts the call. If it fails for lack of memory, the next round checks again.
            let files: Vec<BorrowedFd<'_>> = self.supervisor.files().collect();
            let _ = poll::poll(&files, self.supervisor.wait_max(self.bus.is_some()));
            for (task, ended) in self.supervisor.ended() {
                note_end(&self.job, task, ended);
            }
            let Some(bus) = &mut self.bus else { continue };
            for (host, event) in self.supervisor.exchange(bus) {
                if let BusEvent::Lost(why) = event {
                    self.supervisor.lose(bus, host, &why);
                }
            }
        }
        if let Some(bus) = self.bus {
            // A host that can't be reached any more need not be told.
            let _ = bus.leave();
        }
    }
}

/// Records the end of a task's process, unless the task has left the job successfully or has reported its failure itself.
fn note_end(job: &JobOwner, task: u32, ended: Option<Ended>) {
    let cause = match (job.state(task), ended) {
        (TaskState::Dead, _) | (TaskState::Finalized, None | Some(Ended::Exited(0))) => return,
        (TaskState::NotStarted, Some(Ended::Exited(0))) => Cause::NeverJoined,
        (_, ended) => ended.map_or(Cause::Vanished, Cause::from),
    };
    job.mark_dead(task, cause, "");
}
