//! The times at which hang reports are printed, and their destination.

use std::time::{Duration, Instant};

use super::HangReport;
use am_via_job::{JobOwner, TaskState};

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

/// When the launcher prints hang reports on its standard error.
///
/// In any case it prints one on SIGUSR2, if the launcher has a process of its own; before a time limit ends the job; and once when nothing
/// has reached any task for five seconds and only a message can end their waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct HangReports {
    /// Prints a report also whenever a task has waited this long without anything arriving, and again after the same time.
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
}

impl HangWatch {
    pub(crate) fn new(wanted: HangReports) -> Self {
        Self { wanted, looked_at: Instant::now(), printed_at: None, has_told: false }
    }

    /// Time of the next look.
    pub(crate) fn next_look(&self) -> Instant {
        self.looked_at + LOOK_EVERY
    }

    /// Inspects the tasks if it is time, and prints a report if one is due.
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

    /// Prints the activity of the tasks on the standard error.
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
