//! Failures of examples: one line with the error and the party at fault, and an exit code. All tasks learn of a failure, so that none waits
//! for a task that has left.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use am_core::Context;
use am_core::error::Fault;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// The user's input cannot be used: a file that cannot be read, a number out of range. Exit code 2.
    Input(String),
    /// The program's own check of its result failed.
    Wrong(String),
    /// An error of the library, with the party at fault.
    Library {
        /// The party at fault.
        fault: &'static str,
        /// The error.
        error: Box<dyn Error>,
    },
    /// A task has failed, and has printed the reason: this task prints nothing.
    Elsewhere {
        /// The exit code of the failed task.
        exit_code: u8,
    },
}

impl Failure {
    /// Prints the failure after the name of the program, unless another task prints it. Returns the exit code.
    #[must_use]
    pub fn report(&self, program: &str) -> ExitCode {
        if !matches!(self, Self::Elsewhere { .. }) {
            eprintln!("{program}: {self}");
        }
        self.exit_code().into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Wrong(_) | Self::Library { .. } => 1,
            Self::Elsewhere { exit_code } => *exit_code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) => f.write_str(what),
            Self::Wrong(what) => write!(f, "the result is wrong: {what}"),
            Self::Library { fault, error } => write!(f, "{error} (at fault: {fault})"),
            Self::Elsewhere { .. } => f.write_str("a task has failed"),
        }
    }
}

impl Error for Failure {}

impl From<am_core::error::Error> for Failure {
    fn from(error: am_core::error::Error) -> Self {
        Self::Library { fault: blamed(error.fault()), error: Box::new(error) }
    }
}

impl<T: Send + 'static> From<mpi_over_am::Returned<T>> for Failure {
    fn from(returned: mpi_over_am::Returned<T>) -> Self {
        returned.error.into()
    }
}

impl From<mpi_over_am::Error> for Failure {
    fn from(error: mpi_over_am::Error) -> Self {
        Self::Library { fault: blamed(error.fault()), error: Box::new(error) }
    }
}

impl From<mpi_over_am::datatype::Error> for Failure {
    fn from(error: mpi_over_am::datatype::Error) -> Self {
        mpi_over_am::Error::from(error).into()
    }
}

fn blamed(fault: Fault) -> &'static str {
    match fault {
        Fault::Caller => "this program, or how it was started",
        Fault::Peer => "another task",
        Fault::Resource => "a limit of this machine or job",
        Fault::System => "the operating system",
    }
}

/// The exit code of `program`; prints a report if it has failed.
#[must_use]
pub fn exit_code(program: &str, result: &Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(program),
    }
}

/// Collective: checks that no task has failed. If tasks have failed, the first of them prints its error, and all tasks get an error.
///
/// # Errors
/// [`Failure::Elsewhere`] if any task has failed, this one included; a failed exchange.
pub fn agree<T, F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    program: &str,
    own: Result<T, Failure>,
) -> Result<T, Failure> {
    let exit_codes = context.exchange(&[own.as_ref().map_or_else(Failure::exit_code, |_| 0)])?;
    let failed = exit_codes
        .iter()
        .enumerate()
        .find_map(|(task, code)| Some((task, *code.first()?)).filter(|&(_, code)| code != 0));
    let Some((first, exit_code)) = failed else { return own };
    if let (true, Err(failure)) = (context.task().index() == first, &own) {
        let _ = failure.report(program);
    }
    // A task that exits with an error ends the job, so no task may exit before the report is printed. If the fence fails because the job
    // ends, the reason has been printed already.
    let _ = context.gfence();
    Err(Failure::Elsewhere { exit_code })
}
