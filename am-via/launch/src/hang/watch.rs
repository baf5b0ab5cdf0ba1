//! The times at which hang reports are printed, and their destination.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{HangReport, all_quiet, look_at_all};
use am_via_job::{JobOwner, TaskState};
use am_via_os::complain;
use am_via_os::threads::{self, Waits};

/// If nothing has reached any task for this long, a report is printed once even if none was requested.
const QUIET_MAX: Duration = Duration::from_secs(5);
/// Interval at which the tasks' notes are read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HangFormat {
    /// Text for people.
    #[default]
    Text,
    /// One line of JSON.
    Json,
}

/// When the launcher prints hang reports to its standard error.
///
/// Whatever the fields say, the launcher prints a report on SIGUSR2, if it has a process of its own; before a time limit ends the job; and
/// once when nothing has reached any task for five seconds and only messages can end the tasks' waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct HangReports {
    /// Also prints a report whenever a task has waited this long and nothing arrived, and repeats it at this interval.
    pub every: Option<Duration>,
    /// The format of reports.
    pub format: HangFormat,
}

/// Watches the waits of a job's tasks.
#[derive(Debug)]
pub(crate) struct HangWatch {
    wanted: HangReports,
    looked_at: Instant,
    printed_at: Option<Instant>,
    has_told: bool,
    /// The tasks whose threads all wait for each other: since when, and the waits.
    stuck: BTreeMap<u32, (Instant, Waits)>,
}

impl HangWatch {
    pub(crate) fn new(wanted: HangReports) -> Self {
        Self { wanted, looked_at: Instant::now(), printed_at: None, has_told: false, stuck: BTreeMap::new() }
    }

    /// The time at which the next inspection is due.
    pub(crate) fn next_look(&self) -> Instant {
        self.looked_at + LOOK_EVERY
    }

    /// Puts the next inspection off: the job was stopped, and what has waited all that time may get its message at once.
    pub(crate) fn put_off(&mut self) {
        self.looked_at = Instant::now() + QUIET_MAX;
    }

    /// Whether an inspection is due. If so, the next interval begins now.
    pub(crate) fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let is_time = now >= self.next_look();
        if is_time {
            self.looked_at = now;
        }
        is_time
    }

    /// Whether a report is due. `quiet`: for each task that runs, how long it has waited without an arrival, if it waits. `only_messages`:
    /// whether only a message can end each wait. If no reports were asked for, one report is due.
    pub(crate) fn is_due(
        &mut self,
        quiet: &[Option<Duration>],
        only_messages: impl FnOnce() -> bool,
    ) -> bool {
        let waits = |quiet: &Option<Duration>, least| quiet.is_some_and(|quiet| quiet >= least);
        if let Some(every) = self.wanted.every
            && self.printed_at.is_none_or(|at| at.elapsed() >= every)
            && quiet.iter().any(|quiet| waits(quiet, every))
        {
            self.has_told = true;
            return true;
        }
        let all_wait = !quiet.is_empty() && quiet.iter().all(|quiet| waits(quiet, QUIET_MAX));
        let is_due = all_wait && !self.has_told && only_messages();
        self.has_told |= is_due;
        is_due
    }

    /// Inspects the tasks of a job of one host if it is time, and prints a report if one is due.
    pub(crate) fn look(&mut self, job: &JobOwner) {
        if !self.is_time() {
            return;
        }
        let running = job.tasks().filter(|&task| job.state(task) == TaskState::Running);
        let quiet: Vec<Option<Duration>> = running.map(|task| self.quiet_of(job, task)).collect();
        if self.is_due(&quiet, || all_quiet(&look_at_all(job, 0..job.tasks_end(), None)).is_some()) {
            self.report(job);
        }
    }

    /// How long nothing has reached a task that waits, or that cannot go on because each of its threads waits for another one.
    fn quiet_of(&mut self, job: &JobOwner, task: u32) -> Option<Duration> {
        if let Some(noted) = job.wait_of(task).filter(|noted| noted.is_fresh()) {
            self.stuck.remove(&task);
            return Some(noted.quiet);
        }
        let Some(waits) = job.pid(task).and_then(threads::waits_of_process) else {
            self.stuck.remove(&task);
            return None;
        };
        let stuck = self.stuck.entry(task).or_insert_with(|| (Instant::now(), Vec::new()));
        if stuck.1 != waits {
            *stuck = (Instant::now(), waits);
        }
        Some(stuck.0.elapsed())
    }

    /// Prints what the tasks of a job of one host do.
    pub(crate) fn report(&mut self, job: &JobOwner) {
        self.print(&HangReport::of(job));
    }

    /// Prints a report to standard error.
    pub(crate) fn print(&mut self, report: &HangReport) {
        self.printed_at = Some(Instant::now());
        match self.wanted.format {
            HangFormat::Text => complain!("amrun: what the tasks do:\n{report}"),
            HangFormat::Json => match serde_json::to_string(report) {
                Ok(line) => complain!("{line}"),
                Err(error) => complain!("amrun: the report can't be written as JSON: {error}\n{report}"),
            },
        }
    }

    /// This watch with an inspection due.
    #[cfg(test)]
    pub(crate) fn due(mut self) -> Self {
        self.looked_at -= LOOK_EVERY;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_was_asked_for_does_not_replace_the_one_that_nobody_asks_for() {
        let mut watch = HangWatch::new(HangReports::default());
        watch.print(&HangReport::new(Vec::new(), Vec::new()));
        assert!(watch.is_due(&[Some(QUIET_MAX)], || true));
        assert!(!watch.is_due(&[Some(QUIET_MAX)], || true), "once");
    }
}
