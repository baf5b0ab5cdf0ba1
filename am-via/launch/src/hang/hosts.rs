//! What the tasks of a job of several hosts do. Each agent reports on its tasks once a second. The first launcher prints reports, and keeps
//! the last facts in a memory file, from which `amrun report` reads them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Activity, HangReport, HangReports, HangWatch};
use crate::members;
use am_via_os::memory;

/// The name of the memory file, and its size. The file is sparse: only written pages take memory.
const FILE: &str = "am-hosts";
const FILE_BYTES: u64 = 64 << 20;
/// Number of times that a reader tries: a try that meets a write under way may fail.
const TRIES: u32 = 10;
const TRY_EVERY: Duration = Duration::from_millis(5);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Told {
    tasks: Vec<Activity>,
    hosts: Vec<String>,
}

/// What the tasks of all hosts do, by the agents' last reports.
#[derive(Debug)]
pub(crate) struct HostsActivity {
    told: Told,
    watch: HangWatch,
    file: Option<File>,
}

impl HostsActivity {
    /// `hosts`: the host of each task.
    pub(crate) fn new(hosts: Vec<String>, wanted: HangReports) -> Self {
        let file = memory::create(FILE, FILE_BYTES);
        let file = file.inspect_err(|error| tracing::debug!(%error, "`amrun report` will find no facts"));
        let tasks = vec![Activity::HasNotJoined; hosts.len()];
        Self { told: Told { tasks, hosts }, watch: HangWatch::new(wanted), file: file.ok() }
    }

    /// Stores what the tasks from `first` on do.
    pub(crate) fn store(&mut self, first: u32, tasks: Vec<Activity>) {
        for (known, doing) in self.told.tasks.iter_mut().skip(first as usize).zip(tasks) {
            *known = doing;
        }
    }

    /// Once a second, updates the file, and prints a report if one is due.
    pub(crate) fn look(&mut self) {
        if !self.watch.is_time() {
            return;
        }
        if let Some(file) = &self.file {
            // Strings and numbers can always be serialized. The terminating NUL marks the end, since an earlier text may have been longer.
            let mut text = serde_json::to_vec(&self.told).unwrap_or_default();
            text.push(0);
            if let Err(error) = file.write_all_at(&text, 0) {
                tracing::debug!(%error, "the facts for `amrun report` cannot be written");
            }
        }
        let tasks = &self.told.tasks;
        let quiet: Vec<Option<Duration>> = tasks
            .iter()
            .filter(|doing| !matches!(doing, Activity::HasNotJoined | Activity::Ended))
            .map(|doing| if let Activity::Waits(wait) = doing { Some(wait.quiet) } else { None })
            .collect();
        if self.watch.is_due(&quiet, || super::all_quiet(tasks).is_some()) {
            self.print();
        }
    }

    /// Puts the next inspection off, after the job was stopped.
    pub(crate) fn put_off(&mut self) {
        self.watch.put_off();
    }

    pub(crate) fn print(&mut self) {
        let Told { tasks, hosts } = &self.told;
        self.watch.print(&HangReport::new(tasks.clone(), hosts.clone()));
    }
}

/// The facts in the memory file of the first launcher of a job of several hosts; that launcher is `pid` or a child of `pid`. `None` if
/// there is no such file, or if each try met a write under way.
pub(super) fn told(pid: u32) -> Option<HangReport> {
    let processes = std::iter::once(pid).chain(members::children(pid));
    let file = processes.filter_map(|pid| memory::open_of_process(pid, FILE).ok()?).next()?;
    (0..TRIES).find_map(|_| {
        let told = read(&file);
        if told.is_none() {
            std::thread::sleep(TRY_EVERY);
        }
        told.map(|Told { tasks, hosts }| HangReport::new(tasks, hosts))
    })
}

fn read(file: &File) -> Option<Told> {
    let mut text = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        let len = file.read_at(&mut part, text.len() as u64).ok().filter(|&len| len > 0)?;
        let end = part[..len].iter().position(|&byte| byte == 0);
        text.extend_from_slice(&part[..end.unwrap_or(len)]);
        if end.is_some() {
            return serde_json::from_slice(&text).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agents_told_last_is_read_by_another_process() {
        let mut doing = HostsActivity::new(vec!["a".into(), "b".into()], HangReports::default());
        let file = doing.file.as_ref().unwrap().try_clone().unwrap();
        assert!(read(&file).is_none(), "no report has arrived yet");
        let times = [Duration::from_secs(1000), Duration::ZERO];
        for processor_time in times {
            doing.store(1, vec![Activity::Computes { processor_time }, Activity::Ended]);
            doing.watch = HangWatch::new(HangReports::default()).due();
            doing.look();
            let told = read(&file).unwrap();
            assert_eq!(told.tasks, [Activity::HasNotJoined, Activity::Computes { processor_time }]);
            assert_eq!(told.hosts, ["a", "b"]);
        }
    }
}
