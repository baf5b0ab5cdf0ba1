//! Errors of creating a job or attaching to it.

use std::io;

use crate::settings::SettingError;
use am_via_os::limits::Resource;

/// An error of creating a job or attaching to it.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The caller asked for no tasks, or for more than the layout supports.
    #[error("a job has 1 to {max} tasks, not {asked}")]
    NumTasks {
        /// The number asked for.
        asked: u32,
        /// The maximum.
        max: u32,
    },
    /// A setting has an invalid value: the fault of the user who set it.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A resource limit of this process is too low.
    #[error("{limit} is {value}, but {what} needs {needed}; {remedy}")]
    LimitTooSmall {
        /// The resource.
        limit: Resource,
        /// The value of the limit, in bytes or files.
        value: u64,
        /// The use that needs more.
        what: &'static str,
        /// How much is needed, in the same unit.
        needed: u64,
        /// What to do.
        remedy: String,
    },
    /// `AM_JOB` does not have the form that a launcher gives it: it was changed between the launcher and this process.
    #[error(
        "AM_JOB=\"{value}\" is not what a launcher writes ({why}); start the program by amrun, or unset AM_JOB for a job of one"
    )]
    BadEnvironment {
        /// The value.
        value: String,
        /// What is wrong with the value.
        why: &'static str,
    },
    /// A file of the job is neither inherited nor reachable through the launcher.
    #[error(
        "the {what} file of task {task} is not open here as descriptor {number}, and cannot be opened through the launcher (process \
         {launcher_pid}): {source}; the launcher has ended, or a wrapper closed the file and /proc may not be read here"
    )]
    Unreachable {
        /// Which file: job, control or heap.
        what: &'static str,
        /// The task that the file belongs to.
        task: u32,
        /// The descriptor as which the file should have been inherited.
        number: i32,
        /// The launcher.
        launcher_pid: u32,
        /// The system's error when the launcher's copy was opened.
        source: io::Error,
    },
    /// The launcher and this program were built from different versions of this library.
    #[error(
        "the launcher (process {launcher_pid}) makes jobs of version {launcher}, and this program's library knows version {own}; start the \
         program by the amrun or mpiexec of its own library, or build it again"
    )]
    Version {
        /// The launcher.
        launcher_pid: u32,
        /// The version of the launcher's job files.
        launcher: u64,
        /// The version of this library.
        own: u64,
    },
    /// A job file has contents that no launcher writes: a task has damaged it, or it is from another version.
    #[error("the job file is damaged or of another version: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
    /// The caller named a task that the job does not have.
    #[error("there is no task {task}: the job has {num_tasks} tasks, numbered from 0")]
    UnknownTask {
        /// The task named.
        task: u32,
        /// Tasks in the job.
        num_tasks: u32,
    },
    /// Another process has already attached as this task.
    #[error(
        "process {pid} is, or was, task {task} of this job already, and a task is one process; unset AM_JOB for a program that \
         a task starts and that is to be a job of its own"
    )]
    TaskTaken {
        /// The task.
        task: u32,
        /// The process.
        pid: u32,
    },
    /// The tasks that another project's launcher has started can't be made a job.
    #[error(
        "the tasks that another project's launcher has started cannot be made a job: {source}; start the program by amrun or this \
         library's mpiexec, or unset PMI_FD and PMIX_NAMESPACE for a job of one"
    )]
    OtherLauncher {
        /// The cause.
        source: io::Error,
    },
    /// The job relies on `membarrier`, which the system refuses this task.
    #[error(
        "task {task} may not use the system call membarrier ({source}), on which its job relies, since the launcher may use it. Set \
         AM_MEMBARRIER=off, or start amrun under the same restrictions (seccomp) as its tasks"
    )]
    NoBarrier {
        /// The task.
        task: u32,
        /// The system's error.
        source: io::Error,
    },
    /// The launcher does not answer a request of this task.
    #[error("the launcher does not answer: {why}")]
    NoAnswer {
        /// The reason.
        why: String,
    },
    /// All numbers of tasks are in use.
    #[error(
        "a job has at most {max} tasks at a time, and {asked} more do not fit: wait for tasks to end, and disconnect from those that have"
    )]
    NoRoom {
        /// The number of tasks to be started.
        asked: u32,
        /// The maximum.
        max: u32,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The purpose of the call.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl JobError {
    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

impl From<JobError> for io::Error {
    fn from(error: JobError) -> Self {
        Self::other(error)
    }
}
