//! Marks that refuse communicating calls: this thread is inside a handler of the program (or inside `Local::with`), or this process is a
//! forked copy of a task. A third mark says that the process has a recorder.
//!
//! One word of the process is tested first, because each access to a thread-local in a shared library costs a call. A process in which only
//! a library such as MPI has handlers never sets the bit for handlers, and so never needs the thread-local.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Error, Result};

/// A thread has set its own mark at least once, so the threads' marks have to be tested.
const HANDLERS: u8 = 1;
/// The process is a forked copy.
const COPY: u8 = 2;
/// The process has a recorder.
const RECORDED: u8 = 4;

/// The marks of the process. Relaxed throughout: a thread sees its own stores and those made before it was started, which is enough. Bits
/// are set, and never cleared.
static MARKS: AtomicU8 = AtomicU8::new(0);

thread_local! {
    /// Whether this thread is inside a handler or `Local::with`.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread, while the value lives, as one whose communicating calls are refused. Holds the previous mark.
pub(crate) struct Mark(bool);

impl Mark {
    /// Sets the mark.
    #[inline(always)]
    pub(crate) fn set() -> Self {
        if MARKS.load(Ordering::Relaxed) & HANDLERS == 0 {
            MARKS.fetch_or(HANDLERS, Ordering::Relaxed);
        }
        Self(RUNNING.replace(true))
    }
}

impl Drop for Mark {
    #[inline(always)]
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Whether this thread is inside a handler or `Local::with`.
#[inline(never)]
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}

/// Refuses `call` inside a handler, and in a copy of a task.
///
/// # Errors
/// [`Error::InHandler`], [`Error::CopiedProcess`].
#[inline(always)]
pub fn check(call: &'static str) -> Result<()> {
    if is_unmarked() { Ok(()) } else { check_marked(call) }
}

/// Whether [`check`] allows calls, and the process has no recorder.
#[inline(always)]
pub(crate) fn is_unmarked() -> bool {
    let marks = MARKS.load(Ordering::Relaxed);
    marks == 0 || marks & (COPY | RECORDED) == 0 && !is_running()
}

/// Whether no mark was ever set in the process. Unlike [`is_unmarked`], this check calls no function, around which the compiler would have
/// to save the caller's values.
#[inline(always)]
pub fn is_unmarked_process() -> bool {
    MARKS.load(Ordering::Relaxed) == 0
}

/// Refuses `call` inside a handler and in a forked copy of a task, but not because of a recorder.
///
/// # Errors
/// [`Error::InHandler`], [`Error::CopiedProcess`].
#[cold]
#[inline(never)]
pub(crate) fn check_marked(call: &'static str) -> Result<()> {
    if is_copy() {
        Err(Error::CopiedProcess { call })
    } else if is_running() {
        Err(Error::InHandler { call })
    } else {
        Ok(())
    }
}

/// Whether the process has a recorder.
#[inline]
pub(crate) fn is_recorded() -> bool {
    MARKS.load(Ordering::Relaxed) & RECORDED != 0
}

/// Marks that the process has a recorder.
pub(crate) fn mark_recorded() {
    MARKS.fetch_or(RECORDED, Ordering::Relaxed);
}

/// Whether this process is a forked copy of a task.
#[inline]
pub(crate) fn is_copy() -> bool {
    MARKS.load(Ordering::Relaxed) & COPY != 0
}

/// Marks this process as a forked copy of a task. The calling thread must be the only one.
pub(crate) fn mark_copy() {
    MARKS.fetch_or(COPY, Ordering::Relaxed);
}
