//! Errors of starting a job.

use std::io;
use std::path::PathBuf;

use am_via_job::JobError;

/// An error of starting a job, or of watching it to its end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such program: the caller's fault.
    #[error("the program {program:?} {why}")]
    ProgramNotFound {
        /// The name given by the caller.
        program: PathBuf,
        /// Where the program is not, and a similar name, if there is one.
        why: String,
    },
    /// The program is a file that cannot be executed: the caller's fault.
    #[error(
        "{program:?} cannot be executed ({why}); name its interpreter before it (python x.py), or chmod +x it"
    )]
    NotExecutable {
        /// The file.
        program: PathBuf,
        /// The problem.
        why: &'static str,
    },
    /// The tasks' working directory cannot be entered: the caller's fault.
    #[error("the tasks' directory {wdir:?} cannot be entered: {source}")]
    WorkingDirectory {
        /// The directory.
        wdir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The tasks are to run on a processor that this process may not use: the caller's fault.
    #[error("processor {wrong} is not one that this process may use: {allowed:?}")]
    Processor {
        /// The processor.
        wrong: usize,
        /// The processors that this process may use.
        allowed: Vec<usize>,
    },
    /// The hosts of the job are not valid: the caller's fault.
    #[error(transparent)]
    Hosts(#[from] super::HostsError),
    /// The files for the tasks' output cannot be created: the caller's fault.
    #[error("the output of the tasks cannot be written to {dir:?}: {source}")]
    Capture {
        /// The directory.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The job could not be created.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A setting has an invalid value: the fault of the user who set it.
    #[error(transparent)]
    Setting(#[from] am_via_job::settings::SettingError),
    /// The system could not start a task. The tasks already started are ended.
    #[error("task {task} could not be started as {program:?}: {source}")]
    Spawn {
        /// The task.
        task: u32,
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// `/proc` is not mounted, so processes cannot be found: the machine or container is set up wrongly.
    #[error(
        "/proc is not mounted here, and a job can neither be started nor watched without it; mount it (mount -t proc proc \
         /proc), or start the job where it is mounted"
    )]
    NoProc,
    /// Another system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The purpose of the call.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit code, as shells number it: 127 if the program was not found, 126 if it was found but could not be started, 2 for all other
    /// errors.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::ProgramNotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Spawn { .. } => 126,
            _ => 2,
        }
    }

    pub(super) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}
