//! The job that a task was started in. This is the only file that names am-via, which provides the fabric.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use am_via::job::{Answer, Ask, Refusal};

use crate::error::{Error, ErrorClass, Result};
use crate::settings::{BoardKind, Selection, SettingError, Settings, Table};

/// The settings of am-via in a job, and the environment variables from which MPI's settings ([`Settings`]) are read.
pub use am_via::{
    become_program, complain, job::Variables, keep_ended_children, output_was_closed, say,
    settings::Settings as JobSettings,
};

/// Large blocks of memory that other tasks access by a plain copy, for allocators.
pub use am_via::JobAllocator;

/// The fabric of a task in a job.
pub type JobFabric = am_via::ShmFabric;

/// Reads MPI's settings from a job's variables.
impl TryFrom<&Variables> for Settings {
    type Error = Error;

    fn try_from(variables: &Variables) -> Result<Self> {
        let of_setting = |error: SettingError| am_core::error::Error::Job {
            fault: am_core::error::Fault::Caller,
            what: error.to_string(),
        };
        Ok(Self::from_variables(|name| variables.get(name)).map_err(of_setting)?.checked_when_debugging())
    }
}

fn warn_of_unknown(name: &str) {
    let near = Settings::nearest(name).map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    complain!("MPI: there is no setting {name}{near}; `mpiexec --info` lists all");
}

/// The environment variables with settings in the job. May also be called before the job is joined.
///
/// # Errors
/// The job's memory cannot be opened.
pub(crate) fn variables() -> Result<Variables> {
    Ok(am_via::Task::variables()?)
}

pub(crate) use am_via::processors;

/// The job of this process, while an environment may use it.
static JOB: Mutex<Weak<am_via::job::Job>> = Mutex::new(Weak::new());

/// Asks for the end of the job with this exit code. `amrun` ends a job when a process fails, so it is enough to take back that the job goes
/// on after failures; a launcher of another project is asked directly.
pub(crate) fn ask_for_end(code: i32) {
    if let Some(job) = JOB.lock().unwrap_or_else(PoisonError::into_inner).upgrade() {
        job.set_continue_on_failure(false);
    }
    am_via::job::abort_by_launcher(code);
}

/// A program for the launcher to start.
pub(crate) use am_via::job::Program as ProgramToStart;

/// Asks the launcher.
fn ask(ask: &Ask) -> Result<Answer> {
    let job = JOB.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    let unsupported = |what| Error::Processes { class: ErrorClass::UnsupportedOperation, what };
    let job = job.ok_or_else(|| unsupported("this environment has no launcher".to_owned()))?;
    let answer = job.ask(ask).map_err(|error| unsupported(error.to_string()))?;
    let Answer::Refused { kind, why } = answer else { return Ok(answer) };
    let class = match kind {
        Refusal::Start => ErrorClass::Spawn,
        Refusal::Name if matches!(ask, Ask::LookUp { .. }) => ErrorClass::Name,
        Refusal::Name | Refusal::Taken => ErrorClass::Service,
        Refusal::Unsupported => ErrorClass::UnsupportedOperation,
    };
    Err(Error::Processes { class, what: why })
}

fn other_answer() -> Error {
    let what = "the launcher has answered another question".to_owned();
    Error::Processes { class: ErrorClass::Intern, what }
}

/// Lets the launcher start tasks, to which it passes `parent`. Returns the first of them; the others follow it.
///
/// # Errors
/// A program cannot be started.
pub(crate) fn start(programs: Vec<ProgramToStart>, parent: String) -> Result<u32> {
    match ask(&Ask::Start { programs, parent })? {
        Answer::Started { first } => Ok(first),
        _ => Err(other_answer()),
    }
}

/// A number of the job that no other job is likely to have; 0: there is no job. Parts of a job on several hosts have different ones.
#[must_use]
pub fn job_number() -> u64 {
    JOB.lock().unwrap_or_else(PoisonError::into_inner).upgrade().map_or(0, |job| job.id())
}

/// Lets the launcher keep a text under a name.
///
/// # Errors
/// The name is published already; the launcher keeps no names.
pub(crate) fn publish(name: &str, text: &str) -> Result<()> {
    done(&Ask::Publish { name: name.to_owned(), text: text.to_owned() })
}

/// Withdraws the text under a name.
///
/// # Errors
/// This task has not published the name; the launcher keeps no names.
pub(crate) fn unpublish(name: &str) -> Result<()> {
    done(&Ask::Withdraw { name: name.to_owned() })
}

fn done(what: &Ask) -> Result<()> {
    match ask(what)? {
        Answer::Done => Ok(()),
        _ => Err(other_answer()),
    }
}

/// The text under a name.
///
/// # Errors
/// No task has published the name; the launcher keeps no names.
pub(crate) fn look_up(name: &str) -> Result<String> {
    match ask(&Ask::LookUp { name: name.to_owned() })? {
        Answer::Text(text) => Ok(text),
        _ => Err(other_answer()),
    }
}

/// Number of tasks that the program may plan for, if the launcher says so.
pub(crate) fn universe() -> Option<u32> {
    let job = JOB.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
    Some(job.universe()).filter(|&tasks| tasks > 0)
}

/// The task, in its job.
#[derive(Debug)]
pub(crate) struct Joined(am_via::Task);

impl Joined {
    /// Joins the job that this process was started in.
    ///
    /// # Errors
    /// Those of [`variables`].
    pub(crate) fn join() -> Result<Self> {
        let task = am_via::Task::join()?;
        *JOB.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(task.job());
        Ok(Self(task))
    }

    /// Whether the job goes on after failures, as the launcher was asked to let it.
    pub(crate) fn goes_on(&self) -> bool {
        self.0.job().continues_on_failure()
    }

    /// MPI's settings in the job. Task 0 warns of unknown settings.
    ///
    /// # Errors
    /// An invalid setting.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let variables = self.0.job().variables();
        if self.0.number() == 0 {
            variables.unknown_to::<Settings>().for_each(warn_of_unknown);
        }
        let mut settings: Settings = variables.try_into()?;
        let job = self.0.job();
        let Selection { rounds_tasks_max, board, board_tasks_max, .. } = &mut settings.collectives;
        let is_crowded = job.is_crowded();
        if *board == BoardKind::Auto {
            *board = if is_crowded { BoardKind::Counter } else { BoardKind::Lines };
        }
        // Without a setting, only the board's own limit applies.
        board_tasks_max.get_or_insert(u32::MAX);
        if !is_crowded && job.tasks_here() == job.tasks().count() {
            // If tasks ran on several hosts, only some hosts could be crowded, and the limits of their tasks would differ.
            rounds_tasks_max.get_or_insert(u32::MAX);
        }
        Ok(settings)
    }

    /// What the task that has started this one told its world.
    pub(crate) fn parent(&self) -> Option<String> {
        self.0.job().parent()
    }

    /// The fabric of the task's context with this number.
    ///
    /// # Errors
    /// There is no such context.
    pub(crate) fn fabric(&self, context: u8) -> Result<JobFabric> {
        Ok(self.0.fabric(context)?)
    }

    /// From now on, prints each call and message to standard error.
    pub(crate) fn trace_to_stderr(&self) {
        self.0.trace_to_stderr();
    }
}
