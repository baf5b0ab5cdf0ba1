//! How a context runs code of the program: communicating calls are refused, and a panic ends the operation, not the engine.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use am_core_engine::user_code::Panicked;
use am_core_engine::user_code::UserCode;

use crate::call_guard;

/// Sets the mark of [`in_handler`], and catches panics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarded;

impl UserCode for Guarded {
    #[inline(always)]
    fn run<R>(self, _kind: &'static str, code: impl FnOnce() -> R) -> Result<R, Panicked> {
        let _mark = call_guard::Mark::set();
        caught(code)
    }
}

/// Neither catches panics nor sets the mark: for a library whose handlers make no calls and do not panic
/// ([`HandlerSet::RUNS_USER_CODE`](crate::handler::HandlerSet::RUNS_USER_CODE)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unguarded;

impl UserCode for Unguarded {
    #[inline(always)]
    fn run<R>(self, _kind: &'static str, code: impl FnOnce() -> R) -> Result<R, Panicked> {
        Ok(code())
    }
}

/// Runs `code`, and catches its panic.
///
/// # Errors
/// [`Panicked`].
#[inline(always)]
pub(crate) fn caught<R>(code: impl FnOnce() -> R) -> Result<R, Panicked> {
    // Unwind safety: what the closure borrows from the engine is checked at each later use.
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| panicked(&*payload))
}

#[cold]
#[inline(never)]
fn panicked(payload: &(dyn Any + Send)) -> Panicked {
    let message = payload
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Panicked { message }
}
