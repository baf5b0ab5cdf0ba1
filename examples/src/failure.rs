//! How an example ends when it does not reach its result: one line that says what happened and who is at fault, and an exit
//! code; and how all tasks learn of it, so that none waits for one that has left.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::handler::HandlerSet;

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// What the user asked for cannot be done: a file that cannot be read, a number that does not fit. Exit code 2.
    Input(String),
    /// The program's own check of its result failed.
    Wrong(String),
    /// An error of the library, and whom it blames.
    Library {
        /// Whom the error blames.
        fault: &'static str,
        /// The error.
        error: Box<dyn Error>,
    },
    /// Another task has failed, and says why. Exit code 2, and silence.
    Elsewhere,
}

impl Failure {
    /// Says what happened, as `program`, and gives the exit code.
    #[must_use]
    pub fn report(&self, program: &str) -> ExitCode {
        if !matches!(self, Self::Elsewhere) {
            eprintln!("{program}: {self}");
        }
        match self {
            Self::Input(_) | Self::Elsewhere => ExitCode::from(2),
            Self::Wrong(_) | Self::Library { .. } => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) => f.write_str(what),
            Self::Wrong(what) => write!(f, "the result is wrong: {what}"),
            Self::Library { fault, error } => write!(f, "{error} (at fault: {fault})"),
            Self::Elsewhere => f.write_str("another task has failed"),
        }
    }
}

impl Error for Failure {}

impl From<am_core::error::Error> for Failure {
    fn from(error: am_core::error::Error) -> Self {
        use am_core::error::Fault;
        let fault = match error.fault() {
            Fault::Caller => "this program",
            Fault::Peer => "another task",
            Fault::Resource => "a limit of this machine or job",
            Fault::System => "the operating system",
        };
        Self::Library { fault, error: Box::new(error) }
    }
}

/// How `program` ends: silently and well, or with a report.
#[must_use]
pub fn exit_code(program: &str, result: &Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(program),
    }
}

/// Collective: whether all tasks are fine. A task that is not says so to the user, and then to the others, so that all leave
/// together.
///
/// # Errors
/// This task's own failure, [`Failure::Elsewhere`], or a failed exchange.
pub fn agree<T, F: Fabric, H: HandlerSet>(
    context: &mut Context<F, H>,
    program: &str,
    own: Result<T, Failure>,
) -> Result<T, Failure> {
    // Said before anybody can leave: the launcher may end the job when the first task has left with an error.
    if let Err(failure) = &own {
        let _ = failure.report(program);
    }
    let all = context.exchange(&[u8::from(own.is_ok())])?;
    match own {
        Ok(own) if all.iter().all(|fine| fine == &[1]) => Ok(own),
        // Reported above, or by another task.
        _ => Err(Failure::Elsewhere),
    }
}
