//! The supervisor of one host's tasks: it notices the deaths of processes that others have started, and exchanges notices with the
//! supervisors of the other hosts. `amrun` and its agents have one, and so has the watcher of a job that a launcher of another project has
//! started.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use am_via_os::process::{Ended, PidFd};

use crate::bus::{Bus, BusEvent, OwnMessage};
use crate::notice::OwnNotices;
use crate::{JobNotice, JobOwner, Message};

/// Interval at which a supervisor looks for notices if the job has other hosts.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Interval at which it looks for the cause of a death.
const LOOK_EVERY_LEAVING: Duration = Duration::from_millis(1);
/// How long it waits for the cause of a death. Before Linux 6.15 the system does not report the cause after another process has reaped the
/// one that died.
const TOLD_WITHIN: Duration = Duration::from_millis(200);

/// A process whose end has not been reported.
#[derive(Debug)]
struct Watched {
    task: u32,
    /// `None` if it was gone before it could be watched.
    process: Option<PidFd>,
    /// The time at which the end of the process was noticed.
    ended_at: Option<Instant>,
}

impl Watched {
    /// How the process has ended: `None` as long as it runs, or its cause may still become known.
    fn ended(&mut self, reaped_within: Duration) -> Option<Option<Ended>> {
        let Some(process) = &self.process else { return Some(None) };
        if !process.has_ended() {
            return None;
        }
        let since = *self.ended_at.get_or_insert_with(Instant::now);
        let ended = process.ended_elsewhere();
        let patience = if process.is_unreaped() { reaped_within } else { TOLD_WITHIN };
        (ended.is_some() || since.elapsed() >= patience).then_some(ended)
    }
}

/// The supervisor of the tasks of one host.
#[derive(Debug)]
pub struct Supervisor {
    job: Arc<JobOwner>,
    watched: Vec<Watched>,
    reaped_within: Duration,
    own: OwnNotices,
}

impl Supervisor {
    /// The supervisor of the tasks of `job` on host number `host`; `hosts` has the host of each task. The
    /// supervisor waits up to `reaped_within` for a dead process to be reaped, which tells the cause of its death.
    #[must_use]
    pub fn new(job: &Arc<JobOwner>, hosts: &[u32], host: u32, reaped_within: Duration) -> Self {
        let own = OwnNotices::new(job, hosts, host);
        Self { job: Arc::clone(job), watched: Vec::new(), reaped_within, own }
    }

    /// Watches the process of a task, which is no child of this process. `None`: the process is gone already.
    pub fn watch(&mut self, task: u32, process: Option<PidFd>) {
        self.watched.push(Watched { task, process, ended_at: None });
    }

    /// Whether any process is watched.
    #[must_use]
    pub fn watches_any(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Files that can be read when a watched process ends.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let running = self.watched.iter().filter(|watched| watched.ended_at.is_none());
        running.filter_map(|watched| watched.process.as_ref().map(AsFd::as_fd))
    }

    /// The longest time that the caller may wait for [`files`](Self::files) before it looks again: for notices, if the job `has_others`,
    /// and for the cause of a death.
    #[must_use]
    pub fn wait_max(&self, has_others: bool) -> Option<Duration> {
        if self.watched.iter().any(|watched| watched.ended_at.is_some()) {
            return Some(LOOK_EVERY_LEAVING);
        }
        has_others.then_some(LOOK_EVERY)
    }

    /// The tasks whose processes have ended since the last call, and how: `None` if that is not known.
    pub fn ended(&mut self) -> Vec<(u32, Option<Ended>)> {
        let mut all = Vec::new();
        let reaped_within = self.reaped_within;
        self.watched.retain_mut(|watched| match watched.ended(reaped_within) {
            None => true,
            Some(ended) => {
                all.push((watched.task, ended));
                false
            }
        });
        all
    }

    /// Sends this host's notices to the other hosts, and writes theirs into this host's files. Returns what else was heard, with the host
    /// that has said it.
    pub fn exchange<M: OwnMessage>(&mut self, bus: &mut Bus<M>) -> Vec<(u32, BusEvent<M>)> {
        for notice in self.own.take() {
            bus.send_all(&Message::Notice(notice));
        }
        let mut others = Vec::new();
        while let Some((host, heard)) = bus.poll(Duration::ZERO) {
            match heard {
                BusEvent::Notice(notice) => self.job.apply(&notice),
                other => others.push((host, other)),
            }
        }
        others
    }

    /// Records the failures that the loss of a host means ([`Bus::lose`]).
    pub fn lose<M: OwnMessage>(&self, bus: &mut Bus<M>, host: u32, words: &str) {
        bus.lose(host, words).iter().for_each(|notice: &JobNotice| self.job.apply(notice));
    }
}
