//! How the engine runs code of the program.

use alloc::string::String;
use core::fmt;

use crate::error::{Error, Result};
use crate::task::Endpoint;

/// Runs header handlers, sinks, gatherers and completions. It is a type parameter of the engine, so that calls are direct.
pub trait UserCode: Copy + fmt::Debug {
    /// Runs `code`, whose `kind` is `"header"`, `"sink"`, `"gather"` or `"completion"`, and returns a panic of `code` as an error. An
    /// implementation may let the panic unwind through the engine instead; the engine must not be used afterwards.
    ///
    /// # Errors
    /// `code` panicked.
    fn run<R>(self, kind: &'static str, code: impl FnOnce() -> R) -> Result<R, Panicked>;
}

/// Code of the program has panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The panic's message.
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
