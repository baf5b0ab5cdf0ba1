//! Why a job does not continue: the state of each task, its duration, and which task waits for which.
//!
//! A task notes its wait in the job file when nothing has arrived for a second (`Job::note_wait`), so that the note can be read even if the
//! task is stopped. The note is not trusted.

mod callers;
mod graph;
mod hosts;
mod processes;
mod watch;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use am_via_job::{JobOwner, TaskState, UnderWay, WaitFacts};
use am_via_os::threads;

use super::{LaunchError, members};

pub(super) use callers::Symbols;
pub use graph::Verdict;
pub(super) use hosts::HostsActivity;
pub(super) use watch::HangWatch;
pub use watch::{HangFormat, HangReports};

/// Maximum number of a task's operations in the text.
const OPERATIONS_SHOWN_MAX: usize = 8;

/// The activity of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// The task has not joined the job.
    HasNotJoined,
    /// The task runs on another host, and the report covers only this host.
    Elsewhere,
    /// The task waits, and nothing has arrived for a while.
    Waits(Wait),
    /// The task is stopped by a signal or a debugger.
    Stopped {
        /// The wait that the task noted before it was stopped.
        wait: Option<Wait>,
    },
    /// The task does not wait for a message.
    Computes {
        /// Processor time that the task has used since its start.
        processor_time: Duration,
    },
    /// The task sleeps in a system call that is not this library's: a read, a lock, another library's wait.
    SleepsElsewhere,
    /// Each thread of the task waits for another one: for a lock, a condition or the end of a thread. Only a signal could end this.
    WaitsForItself,
    /// The task has ended.
    Ended,
}

/// The wait of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The operations that the task waits for; `None` if its note can't be read.
    pub facts: Option<WaitFacts>,
    /// Time without arrivals.
    pub quiet: Duration,
    /// The waiting call: `MPI_Recv`, `Context::wait_counter`; `None` if the program has no symbols.
    pub call: Option<String>,
    /// The function that made the call, with file and line if there is debug information.
    pub caller: Option<String>,
}

impl Wait {
    fn operations(&self) -> impl Iterator<Item = &UnderWay> {
        self.facts.iter().flat_map(|facts| &facts.operations)
    }

    /// Whether no operation is pending: the task waits for messages that other tasks start.
    fn is_idle(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.operations.is_empty())
    }

    /// Whether something other than a message may end the wait.
    fn may_end_alone(&self) -> bool {
        self.facts.as_ref().is_none_or(|facts| facts.may_end_alone || facts.operations_left_out > 0)
    }
}

/// The activities of all tasks of a job at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct HangReport {
    /// The activity of each task, task 0 first.
    pub tasks: Vec<Activity>,
    /// The host of each task; empty if the job has one host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The verdict, as text.
    pub verdict: String,
    #[serde(skip)]
    of: Verdict,
}

impl HangReport {
    fn new(tasks: Vec<Activity>, hosts: Vec<String>) -> Self {
        let of = Verdict::of(&tasks);
        Self { verdict: of.to_string(), tasks, hosts, of }
    }

    /// Inspects the job's tasks, and finds the names of the functions in which they wait. Tasks on other hosts are
    /// [`Elsewhere`](Activity::Elsewhere).
    pub(super) fn of(job: &JobOwner) -> Self {
        Self::new(look_at_all(job, 0..job.tasks_end(), Some(&mut Symbols::default())), Vec::new())
    }

    /// Inspects the job of a living process: any process of the job, also one that a task has started, or the watcher of a job that another
    /// project's launcher has started. Tasks may be stopped, as by a debugger. In a job of several hosts, only the first launcher and the
    /// process that the user started know all tasks; any other process knows those of its host.
    ///
    /// # Errors
    /// Those of [`JobOwner::of_process`].
    pub fn of_process(pid: u32) -> Result<Self, LaunchError> {
        let found = |pid| match hosts::told(pid) {
            Some(report) => Ok(report),
            None => JobOwner::of_process(pid).map(|job| Self::of(&job)),
        };
        found(pid).or_else(|error| {
            // Some processes of a job hold none of its files: the guard is above the launcher, which does, and what a task has started is
            // below the task.
            let mut near = members::near(pid).into_iter();
            near.find_map(|near| found(near).ok()).ok_or_else(|| error.into())
        })
    }

    /// The verdict.
    #[must_use]
    pub const fn verdict(&self) -> &Verdict {
        &self.of
    }

    /// Time without arrivals at any task, if all living tasks wait and only a message can end each wait.
    #[must_use]
    pub fn all_quiet(&self) -> Option<Duration> {
        all_quiet(&self.tasks)
    }
}

fn all_quiet(tasks: &[Activity]) -> Option<Duration> {
    let mut least = None;
    for task in tasks {
        match task {
            Activity::Ended => {}
            // Nothing arrives there either.
            Activity::WaitsForItself => least = least.or(Some(Duration::MAX)),
            Activity::Waits(wait) if !wait.may_end_alone() => {
                least = Some(least.map_or(wait.quiet, |before: Duration| before.min(wait.quiet)));
            }
            _ => return None,
        }
    }
    least
}

/// Inspects tasks. With `symbols`, also reads the files of their programs, for the names of functions.
pub(super) fn look_at_all(
    job: &JobOwner,
    tasks: Range<u32>,
    mut symbols: Option<&mut Symbols>,
) -> Vec<Activity> {
    tasks.map(|task| look_at(job, task, symbols.as_deref_mut())).collect()
}

/// Inspects one task.
fn look_at(job: &JobOwner, task: u32, symbols: Option<&mut Symbols>) -> Activity {
    match job.state(task) {
        _ if job.world_size(task) == 0 => return Activity::Ended,
        TaskState::NotStarted if job.is_elsewhere(task) => return Activity::Elsewhere,
        TaskState::NotStarted => return Activity::HasNotJoined,
        TaskState::Dead | TaskState::Finalized => return Activity::Ended,
        TaskState::Running => {}
    }
    let pid = job.pid(task);
    let process = pid.and_then(processes::look_at);
    let is_stopped = process.is_some_and(|process| process.is_stopped);
    let noted = job.wait_of(task).filter(|noted| is_stopped || noted.is_fresh()).map(|noted| {
        let place = match (symbols, pid) {
            (Some(symbols), Some(pid)) => symbols.call(pid, &noted.return_addresses),
            _ => callers::Call::default(),
        };
        Wait { facts: noted.facts, quiet: noted.quiet, call: place.name, caller: place.caller }
    });
    match (noted, process) {
        (wait, _) if is_stopped => Activity::Stopped { wait },
        (Some(wait), _) => Activity::Waits(wait),
        (None, Some(_)) if pid.and_then(threads::waits_of_process).is_some() => Activity::WaitsForItself,
        (None, Some(process)) if process.is_asleep => Activity::SleepsElsewhere,
        (None, Some(process)) => Activity::Computes { processor_time: process.processor_time },
        (None, None) => Activity::Computes { processor_time: Duration::ZERO },
    }
}

impl fmt::Display for HangReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
        for (task, doing) in (0..).zip(&self.tasks) {
            let text = match self.hosts.get(task as usize) {
                Some(host) => format!(" on host {host}: {doing}"),
                None => format!(": {doing}"),
            };
            match groups.iter_mut().find(|(known, _)| *known == text) {
                Some((_, tasks)) => tasks.push(task),
                None => groups.push((text, vec![task])),
            }
        }
        for (text, tasks) in groups {
            match tasks.len() {
                1 => writeln!(f, "  task {}{text}", list(&tasks))?,
                _ => writeln!(f, "  tasks {}{}", list(&tasks), text.replacen(": ", ": each ", 1))?,
            }
        }
        write!(f, "  {}", self.verdict)
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HasNotJoined => f.write_str("has not called MPI_Init (or Task::join)"),
            Self::Elsewhere => f.write_str(
                "runs on another host (`amrun report` of the first amrun process covers all hosts)",
            ),
            Self::Waits(wait) => write!(f, "waits {wait}"),
            Self::Stopped { wait: Some(wait) } => {
                write!(f, "is stopped by a signal or a debugger; waited {wait}")
            }
            Self::Stopped { wait: None } => f.write_str("is stopped by a signal or a debugger"),
            Self::Computes { processor_time } => write!(
                f,
                "does not wait for a message: it runs ({:.1} s of processor time so far)",
                processor_time.as_secs_f64()
            ),
            Self::SleepsElsewhere => {
                f.write_str("does not wait for a message: it sleeps in another call of the system")
            }
            Self::WaitsForItself => f.write_str(
                "does not wait for a message: each of its threads waits for another one of the same task, \
                 so it cannot go on",
            ),
            Self::Ended => f.write_str("has ended"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.call {
            Some(call) => write!(f, "in {call}")?,
            None => f.write_str("for a message")?,
        }
        if let Some(caller) = &self.caller {
            write!(f, ", called by {caller}")?;
        }
        // In whole seconds, so that tasks that started to wait within the same second share a line.
        write!(f, ", for {} s", self.quiet.as_secs())?;
        let Some(facts) = &self.facts else { return f.write_str("; its pending operations can't be read") };
        let mut separator = ": ";
        for operation in facts.operations.iter().take(OPERATIONS_SHOWN_MAX) {
            write!(f, "{separator}{operation}")?;
            separator = "; ";
        }
        let left_out =
            facts.operations.len().saturating_sub(OPERATIONS_SHOWN_MAX) + facts.operations_left_out as usize;
        if left_out > 0 {
            write!(f, "{separator}and {left_out} more")?;
            separator = "; ";
        }
        if facts.early_messages > 0 {
            match facts.early_messages {
                1 => write!(f, "{separator}1 message waits for a receive")?,
                many => write!(f, "{separator}{many} messages wait for a receive")?,
            }
            for early in &facts.first_early {
                write!(f, " ({early})")?;
            }
        }
        Ok(())
    }
}

/// "0, 1 and 2"; runs of three and more as "0 to 5".
fn list(tasks: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = tasks;
    while let Some(&first) = rest.first() {
        let run = (first..).zip(rest).take_while(|(expected, task)| expected == *task).count();
        let taken = if run >= 3 { run } else { 1 };
        parts.push(if run >= 3 { format!("{first} to {}", rest[run - 1]) } else { first.to_string() });
        rest = &rest[taken..];
    }
    match parts.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_contract::task::TaskId;

    #[test]
    fn lists_of_tasks_are_short() {
        assert_eq!(list(&[3]), "3");
        assert_eq!(list(&[0, 1]), "0 and 1");
        assert_eq!(list(&[0, 1, 2, 3, 7, 9]), "0 to 3, 7 and 9");
    }

    #[test]
    fn tasks_that_do_the_same_stand_in_one_line() {
        let waits = |tag: u32| {
            let operation =
                UnderWay { what: "receive".into(), partner: Some(TaskId(3)), details: format!("tag {tag}") };
            let facts = WaitFacts { operations: vec![operation], ..WaitFacts::default() };
            Activity::Waits(Wait {
                facts: Some(facts),
                quiet: Duration::from_millis(5300),
                call: Some("MPI_Recv".into()),
                caller: Some("exchange at ring.c:12".into()),
            })
        };
        let tasks = vec![waits(7), waits(7), waits(8), Activity::Ended];
        let mut report = HangReport::new(tasks, Vec::new());
        assert_eq!(
            report.to_string(),
            "  tasks 0 and 1: each waits in MPI_Recv, called by exchange at ring.c:12, for 5 s: receive from task 3, tag 7\n  \
             task 2: waits in MPI_Recv, called by exchange at ring.c:12, for 5 s: receive from task 3, tag 8\n  \
             task 3: has ended\n  \
             task 0 waits for task 3, which has ended: no message will come"
        );
        assert_eq!(report.all_quiet(), Some(Duration::from_millis(5300)));
        report.hosts = ["a", "b", "b", "b"].map(str::to_owned).to_vec();
        let text = report.to_string();
        assert!(text.starts_with("  task 0 on host a: waits in MPI_Recv"), "{text}");
        assert!(text.contains("\n  task 1 on host b: waits in MPI_Recv"), "{text}");
    }
}
