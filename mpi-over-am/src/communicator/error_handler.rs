//! Error handlers: the reaction to a failed call (MPI 5.0 section 9.3).
//!
//! In Rust errors are values, so the handler of a new environment is [`ErrorHandler::Return`], and a handler runs only if the program calls
//! it ([`Communicator::handled`](crate::Communicator::handled)). The C interface runs the handler after each failed call.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;

/// A handler of the program, which gets the object's number in the layer above, and the error.
pub type ErrorFunction = dyn Fn(u64, &Error) + Send + Sync;

/// The reaction to a failed call. Each communicator, window, session and file has one.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ErrorHandler {
    /// Ends the whole job (`MPI_ERRORS_ARE_FATAL`).
    Fatal,
    /// Ends the tasks of the object (`MPI_ERRORS_ABORT`); here the whole job ends.
    Abort,
    /// Makes the call return the error (`MPI_ERRORS_RETURN`).
    #[default]
    Return,
    /// Runs a function of the program, and then makes the call return the error (`MPI_Comm_create_errhandler`).
    User(Arc<ErrorFunction>),
}

impl ErrorHandler {
    /// A handler from a function.
    #[must_use]
    pub fn user(function: impl Fn(u64, &Error) + Send + Sync + 'static) -> Self {
        Self::User(Arc::new(function))
    }

    /// Runs the handler. Returns whether the job must end; the caller ends it.
    pub(crate) fn run(&self, object: u64, error: &Error) -> bool {
        match self {
            Self::Fatal | Self::Abort => true,
            Self::Return => false,
            Self::User(function) => {
                function(object, error);
                false
            }
        }
    }
}

impl PartialEq for ErrorHandler {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fatal, Self::Fatal) | (Self::Abort, Self::Abort) | (Self::Return, Self::Return) => true,
            (Self::User(own), Self::User(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

impl fmt::Debug for ErrorHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fatal => "Fatal",
            Self::Abort => "Abort",
            Self::Return => "Return",
            Self::User(_) => "User",
        })
    }
}
