//! The per-thread mark that a handler of the program is running: communicating calls are refused meanwhile. Also the mark that
//! this process is a copy of a task, made by fork: they are refused ever after.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A handler is running.
const RUNNING: u8 = 1;
/// The process is a copy.
const COPY: u8 = 2;
/// This thread has not looked yet whether the process is a copy.
const NEW: u8 = 4;

thread_local! {
    static MARKS: Cell<u8> = const { Cell::new(NEW) };
}

/// Whether this process is a copy, for threads that begin. Relaxed: a thread sees what was stored before it was started.
static IS_COPY: AtomicBool = AtomicBool::new(false);

/// Runs `handler` with the mark set; the mark is taken back also when it unwinds.
#[inline(always)]
pub(crate) fn run<R>(handler: impl FnOnce() -> R) -> R {
    struct Unmark(u8);
    impl Drop for Unmark {
        #[inline(always)]
        fn drop(&mut self) {
            // A copy that was made in the handler stays one.
            MARKS.set(MARKS.get() & (self.0 | !RUNNING));
        }
    }
    let before = MARKS.get();
    let _unmark = Unmark(before);
    MARKS.set(before | RUNNING);
    handler()
}

/// Whether this thread is inside a handler.
pub(crate) fn is_running() -> bool {
    MARKS.get() & RUNNING != 0
}

/// Refuses `call` inside a handler, and in a copy of a task.
///
/// # Errors
/// [`Error::InHandler`], [`Error::CopiedProcess`].
#[inline(always)]
pub(crate) fn check(call: &'static str) -> Result<()> {
    if MARKS.get() == 0 { Ok(()) } else { check_marked(call) }
}

#[cold]
#[inline(never)]
fn check_marked(call: &'static str) -> Result<()> {
    if is_copy() {
        Err(Error::CopiedProcess { call })
    } else if MARKS.get() & RUNNING != 0 {
        Err(Error::InHandler { call })
    } else {
        Ok(())
    }
}

/// Whether this process is a copy of a task.
#[inline]
pub(crate) fn is_copy() -> bool {
    MARKS.get() & (COPY | NEW) != 0 && is_copy_marked()
}

#[cold]
#[inline(never)]
fn is_copy_marked() -> bool {
    if IS_COPY.load(Ordering::Relaxed) {
        MARKS.set(MARKS.get() | COPY);
    }
    MARKS.set(MARKS.get() & !NEW);
    MARKS.get() & COPY != 0
}

/// This process is a copy of a task, made by fork, and this is its only thread.
pub(crate) fn mark_copy() {
    IS_COPY.store(true, Ordering::Relaxed);
    MARKS.set(MARKS.get() | COPY);
}
