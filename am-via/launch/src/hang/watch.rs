//! When a report of what the tasks do is printed, and where.

use std::time::{Duration, Instant};

use super::HangReport;
use am_via_job::{JobOwner, TaskState};

/// Nothing has come to any task for so long: then the job is reported once, without being asked.
const QUIET_MAX: Duration = Duration::from_secs(5);
/// How often the tasks' notes are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HangFormat {
    /// For a person.
    #[default]
    Text,
    /// One line of JSON.
    Json,
}

/// When the launcher says what the tasks of a job do, on its standard error.
///
/// In any case on SIGUSR2, where the launcher has a process of its own; before a time limit ends the job; and once when nothing has come to any task
/// for five seconds and nothing but a message can end their waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct HangReports {
    /// And whenever a task has waited for so long without anything coming, again after as long.
    pub every: Option<Duration>,
    /// How it is written.
    pub format: HangFormat,
}

/// The launcher's watch over waits.
#[derive(Debug)]
pub(crate) struct HangWatch {
    wanted: HangReports,
    looked_at: Instant,
    printed_at: Option<Instant>,
    has_told: bool,
}

impl HangWatch {
    pub(crate) fn new(wanted: HangReports) -> Self {
        Self { wanted, looked_at: Instant::now(), printed_at: None, has_told: false }
    }

    /// When to look again.
    pub(crate) fn next_look(&self) -> Instant {
        self.looked_at + LOOK_EVERY
    }

    /// Looks at the tasks, if it is time to, and reports what is to be reported.
    pub(crate) fn look(&mut self, job: &JobOwner) {
        let now = Instant::now();
        if now < self.next_look() {
            return;
        }
        self.looked_at = now;
        let quiet = |task| job.wait_of(task).filter(|noted| noted.is_fresh()).map(|noted| noted.quiet);
        let running: Vec<u32> =
            (0..job.num_tasks()).filter(|&task| job.state(task) == TaskState::Running).collect();
        if let Some(every) = self.wanted.every {
            let is_due = self.printed_at.is_none_or(|at| now.duration_since(at) >= every);
            if is_due && running.iter().any(|&task| quiet(task).is_some_and(|quiet| quiet >= every)) {
                self.report(job);
                return;
            }
        }
        let all_wait = !running.is_empty()
            && running.iter().all(|&task| quiet(task).is_some_and(|quiet| quiet >= QUIET_MAX));
        if all_wait && !self.has_told && HangReport::of(job, false).all_quiet().is_some() {
            self.report(job);
        }
    }

    /// Says on the standard error what the tasks do.
    pub(crate) fn report(&mut self, job: &JobOwner) {
        self.printed_at = Some(Instant::now());
        self.has_told = true;
        let report = HangReport::of(job, true);
        match self.wanted.format {
            HangFormat::Text => eprintln!("amrun: what the tasks do:\n{report}"),
            HangFormat::Json => match serde_json::to_string(&report) {
                Ok(line) => eprintln!("{line}"),
                Err(error) => eprintln!("amrun: the report can't be written as JSON: {error}\n{report}"),
            },
        }
    }
}
