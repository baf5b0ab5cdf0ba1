//! How the engine runs code of the program.

use alloc::string::String;
use core::fmt;

use crate::error::{Error, Result};
use crate::task::Endpoint;

/// Runs header handlers, sinks, gatherers and completions. An engine has one, as a type of its own: it is given a value, not an object.
pub trait UserCode: Copy + fmt::Debug {
    /// Runs `code`, a `kind` of user code (`"header"`, `"sink"`, `"gather"` or `"completion"`), and tells its panic, if it catches panics. One that
    /// does not may let `code` unwind through the engine, which is of no use afterwards.
    ///
    /// # Errors
    /// `code` panicked.
    fn run<R>(self, kind: &'static str, code: impl FnOnce() -> R) -> Result<R, Panicked>;
}

/// Code of the program has panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// What the panic said.
    pub message: String,
}

/// Runs code of the program for a message from `origin`.
///
/// # Errors
/// [`Error::HandlerPanicked`].
#[inline(always)]
pub(crate) fn run<U: UserCode, R>(
    user: U,
    origin: Endpoint,
    kind: &'static str,
    code: impl FnOnce() -> R,
) -> Result<R> {
    user.run(kind, code).map_err(|Panicked { message }| Error::HandlerPanicked { kind, origin, message })
}
