//! The result of a job.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use am_via_job::{Cause, Failure, Recorded};
use am_via_os::process::Ended;
use am_via_os::signal;

use super::other_mpi;

/// The result of a job.
#[derive(Clone, Debug)]
pub struct Report {
    /// One entry for each task that this launcher started.
    pub tasks: Vec<TaskReport>,
    /// The tasks that tasks of this host have started, by their numbers, without those whose numbers other tasks have got.
    pub later: BTreeMap<u32, TaskReport>,
    /// The number in the job of the first of `tasks`: not 0 on a host other than the first.
    pub(super) first: u32,
    /// The first failure. Its last words are the task's own, or its last line on standard error.
    pub failure: Option<Failure>,
    /// Why the launcher ended the job, if the reason is not a task's failure.
    pub ended_by: Option<EndedBy>,
    /// Whether the job continued when a task failed, because the program or the launcher's caller asked for it.
    pub went_on: bool,
    /// Number of the job's processes that could not be killed.
    pub left_behind: usize,
    /// The MPI library of another project that a task had mapped, if no task has joined: each task was a job of its own.
    pub other_mpi: Option<PathBuf>,
    /// The record of each task, task 0 first; empty if it was not requested ([`Launch::record`](crate::Launch::record)).
    pub recorded: Vec<Recorded>,
}

/// The end of one task.
#[derive(Clone, Debug)]
pub struct TaskReport {
    /// The process that the launcher started, perhaps a wrapper.
    pub pid: u32,
    /// How that process ended; `None` if it is not known.
    pub ended: Option<Ended>,
    /// Whether the launcher killed the process.
    pub killed: bool,
    /// The file with the task's standard output, if the output was captured.
    pub stdout: Option<PathBuf>,
    /// The file with the task's standard error, if the output was captured.
    pub stderr: Option<PathBuf>,
}

/// A reason other than a task's failure to end a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The time limit was reached.
    Timeout,
    /// The launcher got this signal.
    Signal(i32),
    /// The caller requested the end through the handle.
    Caller,
    /// The output can no longer be written; contains the system's error number. Often its reader has ended, as in `amrun ... | head`.
    OutputClosed(i32),
    /// The process that guards the launcher is gone.
    GuardGone,
}

impl Report {
    /// The exit code of the job.
    ///
    /// - If the launcher ended the job: 124 at the time limit, 128 plus the number of a signal to the launcher, 137 if the caller asked for
    ///   the end or the guard is gone, 141 if the output could not be written.
    /// - 0 if no task failed, or if the job went on after failures and a task exited with 0.
    /// - Otherwise the code of the first task that failed, or 128 plus the signal's number if a signal killed that task; 1 if the task has
    ///   no such code, or code 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if let Some(reason) = self.ended_by {
            return match reason {
                EndedBy::Timeout => 124,
                EndedBy::Signal(number) => of_signal(number),
                EndedBy::Caller | EndedBy::GuardGone => of_signal(libc::SIGKILL),
                EndedBy::OutputClosed(_) => of_signal(libc::SIGPIPE),
            };
        }
        let Some(failure) = &self.failure else { return 0 };
        if self.went_on && self.tasks.iter().any(|task| task.ended == Some(Ended::Exited(0))) {
            return 0;
        }
        match failure.cause {
            Cause::Exited(code) => of_ended(Ended::Exited(code)).max(1),
            Cause::Signalled(number) => of_signal(number),
            Cause::GaveUp => self.own_code(failure.task).max(1),
            Cause::Vanished | Cause::TimedOut | Cause::NotStarted | Cause::NeverJoined | Cause::HostLost => 1,
        }
    }

    /// The exit code of one task as a shell would give it; 0 for one that the launcher killed.
    fn own_code(&self, task: u32) -> u8 {
        let ended = self.task(task).filter(|task| !task.killed).and_then(|task| task.ended);
        ended.map_or(0, of_ended)
    }

    /// The report of a task, by its number in the job.
    fn task(&self, task: u32) -> Option<&TaskReport> {
        let first = task.checked_sub(self.first).and_then(|index| self.tasks.get(index as usize));
        first.or_else(|| self.later.get(&task))
    }

    /// Whether the job has failed, but its exit code is not that of a task: the first failed task exited with 0, or its end is unknown.
    fn has_code_of_nobody(&self) -> bool {
        let is_so = |cause| matches!(cause, Cause::Exited(0) | Cause::NeverJoined | Cause::Vanished);
        self.ended_by.is_none()
            && self.exit_code() == 1
            && self.failure.as_ref().is_some_and(|failure| is_so(failure.cause))
    }

    /// Whether every task exited with code 0, no task reported a failure, and the launcher did not end the job early.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.ended_by.is_none()
            && self.failure.is_none()
            && self.tasks.iter().all(|task| task.ended == Some(Ended::Exited(0)))
    }

    /// The standard output of a task, if it was kept.
    #[must_use]
    pub fn stdout(&self, task: u32) -> Option<String> {
        read(self.task(task)?.stdout.as_ref()?)
    }

    /// The standard error of a task, if it was kept.
    #[must_use]
    pub fn stderr(&self, task: u32) -> Option<String> {
        read(self.task(task)?.stderr.as_ref()?)
    }
}

pub(super) fn words_for_closed_output(number: i32) -> String {
    format!("ended because its output cannot be written: {}", std::io::Error::from_raw_os_error(number))
}

fn read(path: &PathBuf) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// One line: which task failed and how, or why the job was ended, and what else the user should know; empty if there is nothing to say.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ended_by, &self.failure) {
            (Some(EndedBy::Timeout), _) => {
                write!(f, "the time limit was reached while {} still ran", self.killed_tasks())?;
            }
            (Some(EndedBy::Signal(number)), _) => write!(f, "ended by {}", signal::name(number))?,
            (Some(EndedBy::Caller), _) => f.write_str("ended by the caller")?,
            (Some(EndedBy::GuardGone), _) => f.write_str("ended because the first amrun process is gone")?,
            (Some(EndedBy::OutputClosed(number)), _) => {
                f.write_str(&words_for_closed_output(number))?;
            }
            (None, Some(failure)) => {
                write!(f, "{failure}")?;
                if self.went_on {
                    write!(f, " (the job went on, as asked{})", self.others_that_failed(failure.task))?;
                }
                if self.has_code_of_nobody() {
                    f.write_str(" (the job's exit code is 1)")?;
                }
            }
            (None, None) => {}
        }
        if let Some(library) = &self.other_mpi {
            let separator = if self.ended_by.is_some() || self.failure.is_some() { "; " } else { "" };
            write!(
                f,
                "{separator}no task has joined this job: its program uses another MPI library, {}, and each task was a job of one; {}",
                library.display(),
                other_mpi::advice(library)
            )?;
        }
        if self.left_behind > 0 {
            write!(f, " ({} processes of the job could not be killed)", self.left_behind)?;
        }
        Ok(())
    }
}

impl Report {
    fn killed_tasks(&self) -> String {
        let killed = (self.first..).zip(&self.tasks).filter(|(_, task)| task.killed);
        let names: Vec<String> = killed.map(|(task, _)| task.to_string()).collect();
        match names.len() {
            0 => "the job".to_owned(),
            many if many > 1 && many == self.tasks.len() => format!("all {many} tasks"),
            _ => in_words(&names),
        }
    }

    /// The tasks of this host besides `first` that did not end well, for the report of a job that went on.
    fn others_that_failed(&self, first: u32) -> String {
        let failed = |(number, task): &(u32, &TaskReport)| {
            *number != first && !matches!(task.ended, None | Some(Ended::Exited(0)))
        };
        let failed = (self.first..).zip(&self.tasks).filter(failed);
        let names: Vec<String> = failed.map(|(task, _)| task.to_string()).collect();
        if names.is_empty() { String::new() } else { format!("; {} failed, too", in_words(&names)) }
    }
}

fn in_words(tasks: &[String]) -> String {
    match tasks {
        [one] => format!("task {one}"),
        many => format!("tasks {}", many.join(", ")),
    }
}

fn of_ended(ended: Ended) -> u8 {
    match ended {
        Ended::Exited(code) => u8::try_from(code & 0xff).unwrap_or(1),
        Ended::Signalled(number) => of_signal(number),
    }
}

pub(super) fn of_signal(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_found_by_their_numbers_in_the_job_on_each_host() {
        let task = |ended, killed| TaskReport {
            pid: 1,
            ended: Some(Ended::Exited(ended)),
            killed,
            stdout: None,
            stderr: None,
        };
        let report = |failed| Report {
            later: BTreeMap::new(),
            tasks: vec![task(5, false), task(7, false), task(0, true)],
            first: 1,
            failure: Some(Failure { task: failed, cause: Cause::GaveUp, last_words: String::new() }),
            ended_by: None,
            went_on: false,
            left_behind: 0,
            other_mpi: None,
            recorded: Vec::new(),
        };
        assert_eq!([0, 1, 2, 3, 4].map(|failed| report(failed).exit_code()), [1, 5, 7, 1, 1]);
        assert_eq!(report(2).killed_tasks(), "task 3");
    }
}
