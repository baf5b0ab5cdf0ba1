//! The watcher: a process that owns the files of one host's part of a job started by a launcher of another project, and watches the tasks
//! there. Like `amrun` for its tasks, the watcher records deaths, and keeps open the files that tasks look for.
//!
//! The first task of the host starts the watcher ([`start`]) as a detached process, so that the watcher outlives that task. A watcher ends
//! with the last task of its host; the first host's watcher ends with the last task of all.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use am_via_os::process::{Ended, PidFd};
use am_via_os::{apart, poll};

use crate::lines::{Lines, say};
use crate::mesh::{Heard, Mesh};
use crate::news::{News, OwnNews};
use crate::settings::{Settings, Table};
use crate::{Cause, JobOwner, JobPlan, Record, TaskState, variables_of_this_process};

/// How long a task waits for the watcher's answers. The files of a job are created in milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Interval at which the watcher looks for news if the job has other hosts.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long to wait for the cause of a death. The system may report it only after the launcher has reaped the process.
const REAPED_WITHIN: Duration = Duration::from_millis(200);

/// The part of a job that a watcher owns.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// The host of each task of the job.
    pub(super) hosts: Vec<u32>,
    /// The number of this host.
    pub(super) host: u32,
    /// The tasks of this part, with their processes.
    pub(super) processes: BTreeMap<u32, u32>,
}

impl Part {
    fn has_other_hosts(&self) -> bool {
        self.hosts.iter().any(|&host| host != self.host)
    }
}

/// The watcher's results.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Made {
    /// `AM_JOB` of the host's first task.
    pub(super) job: String,
    /// The address for the watchers of other hosts, if they need it.
    pub(super) hub: Option<String>,
}

/// The connection to the watcher, for the task that has started the watcher.
pub(super) struct Watcher(Lines<UnixStream>);

/// Starts the watcher of this host, which creates the files.
pub(super) fn start(part: &Part) -> io::Result<(Watcher, Made)> {
    // SAFETY: `watch` uses only the file that it gets, and its own memory.
    let link = unsafe { apart::start(watch) }?;
    link.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut link = Lines::new(link);
    say(link.stream(), part)?;
    let made = link.hear::<Result<Made, String>>()?.map_err(io::Error::other)?;
    Ok((Watcher(link), made))
}

impl Watcher {
    /// Makes the watcher connect to the first host's watcher.
    pub(super) fn join(mut self, hub: &str) -> io::Result<()> {
        say(self.0.stream(), &hub)?;
        self.0.hear::<Result<(), String>>()?.map_err(io::Error::other)
    }
}

/// The main function of the watcher's process.
fn watch(link: UnixStream) {
    // The name in the list of processes.
    let _ = std::fs::write("/proc/self/comm", "am-watcher");
    let mut link = Lines::new(link);
    // If the task that has started the watcher has ended already, the job has not begun, and there is nothing to watch.
    let Ok(part) = link.hear::<Part>() else { return };
    let begun = Watch::begin(&part).map_err(|error| error.to_string());
    let (begun, answer) = match begun {
        Ok((watch, made)) => (Some(watch), Ok(made)),
        Err(error) => (None, Err(error)),
    };
    if say(link.stream(), &answer).is_err() {
        return;
    }
    let Some(mut watch) = begun else { return };
    if part.has_other_hosts() && part.host != 0 {
        let Ok(hub) = link.hear::<String>() else { return };
        let joined = Mesh::join(&hub, part.host, watch.silence_max).map(|mesh| watch.mesh = Some(mesh));
        let joined = joined.map_err(|error| format!("reaching the watcher of the first host: {error}"));
        if say(link.stream(), &joined).is_err() || joined.is_err() {
            return;
        }
    }
    watch.run();
}

/// A task of this host whose process runs, or whose end has not been recorded.
struct Watched {
    task: u32,
    process: PidFd,
    /// The time at which the end of the process was noticed.
    ended_at: Option<Instant>,
}

struct Watch {
    job: Arc<JobOwner>,
    hosts: Vec<u32>,
    host: u32,
    running: Vec<Watched>,
    own: OwnNews,
    mesh: Option<Mesh>,
    /// A host that is silent for this long is lost.
    silence_max: Duration,
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
        let mut running = Vec::new();
        for (&task, &pid) in &part.processes {
            running.push(Watched { task, process: PidFd::open(pid)?, ended_at: None });
        }
        let is_hub = part.has_other_hosts() && part.host == 0;
        let (mesh, hub) =
            if is_hub { Some(Mesh::open(job.id(), silence_max)?).unzip() } else { (None, None) };
        let first = part.processes.keys().next().copied().unwrap_or(0);
        let made = Made { job: job.invitation(first), hub };
        let own = OwnNews::new(&job, &part.hosts, part.host);
        Ok((Self { job, hosts: part.hosts.clone(), host: part.host, running, own, mesh, silence_max }, made))
    }

    fn run(mut self) {
        while !self.running.is_empty() || self.mesh.as_ref().is_some_and(Mesh::is_needed) {
            // All signals are blocked, so none interrupts the call. If it fails for lack of memory, the next round checks again.
            let _ = self.wait();
            self.look_for_deaths();
            self.exchange();
        }
        if let Some(mesh) = self.mesh {
            mesh.leave();
        }
    }

    fn wait(&self) -> io::Result<()> {
        let alive = self.running.iter().filter(|watched| watched.ended_at.is_none());
        let files: Vec<BorrowedFd<'_>> = alive.map(|watched| watched.process.as_fd()).collect();
        let is_leaving = files.len() < self.running.len();
        let limit = (is_leaving || self.mesh.is_some()).then_some(LOOK_EVERY);
        poll::poll(&files, limit).map(drop)
    }

    fn look_for_deaths(&mut self) {
        let job = &self.job;
        self.running.retain_mut(|watched| {
            if !watched.process.has_ended() {
                return true;
            }
            let since = *watched.ended_at.get_or_insert_with(Instant::now);
            let ended = watched.process.ended_elsewhere();
            if ended.is_none() && since.elapsed() < REAPED_WITHIN {
                return true;
            }
            note_end(job, watched.task, ended);
            false
        });
    }

    /// Sends this host's news to the other hosts, and writes theirs into the files.
    fn exchange(&mut self) {
        let Some(mesh) = &mut self.mesh else { return };
        for news in self.own.take() {
            mesh.say(&news);
        }
        for (host, heard) in mesh.hear() {
            match heard {
                Heard::News(news) => self.job.hear(&news),
                Heard::Lost(why) => {
                    let words = format!("its host is lost: {why}");
                    for task in tasks_lost(&self.hosts, self.host, host) {
                        let news = News::failed(task, Cause::HostLost, words.clone());
                        self.job.hear(&news);
                        if self.host == 0 {
                            mesh.say(&news);
                        }
                    }
                }
            }
        }
    }
}

/// The tasks that are lost for host `own` if host `lost` is. The first host forwards all news: without it, failures of any other host would
/// not be known here.
fn tasks_lost(hosts: &[u32], own: u32, lost: u32) -> Vec<u32> {
    let is_lost = |at| at == lost || lost == 0 && at != own;
    (0..).zip(hosts).filter(|&(_, &at)| is_lost(at)).map(|(task, _)| task).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_has_lost_the_first_host_has_lost_all_others() {
        let hosts = [0, 0, 1, 2, 2];
        assert_eq!(tasks_lost(&hosts, 0, 2), [3, 4]);
        assert_eq!(tasks_lost(&hosts, 1, 2), [3, 4]);
        assert_eq!(tasks_lost(&hosts, 1, 0), [0, 1, 3, 4]);
        assert_eq!(tasks_lost(&hosts, 2, 0), [0, 1, 2]);
    }
}
