//! The per-thread mark that a handler of the program is running: communicating calls are refused meanwhile. Also the mark that
//! this process is a copy of a task, made by fork: they are refused ever after.

use std::cell::Cell;

use crate::error::{Error, Result};

/// A handler is running.
const RUNNING: u8 = 1;
/// The process is a copy, and this is the thread that made it.
const COPY: u8 = 2;

thread_local! {
    static MARKS: Cell<u8> = const { Cell::new(0) };
}

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

/// Refuses `call` inside a handler, and in a copy of a task.
///
/// # Errors
/// [`Error::InHandler`], [`Error::CopiedProcess`].
#[inline(always)]
pub(crate) fn check(call: &'static str) -> Result<()> {
    if MARKS.get() == 0 { Ok(()) } else { Err(refused(call)) }
}

#[cold]
#[inline(never)]
fn refused(call: &'static str) -> Error {
    if MARKS.get() & COPY == 0 { Error::InHandler { call } } else { Error::CopiedProcess { call } }
}

/// Whether this process is a copy of a task.
#[inline]
pub(crate) fn is_copy() -> bool {
    MARKS.get() & COPY != 0
}

/// This process is a copy of a task, made by fork: communicating calls of this thread, the only one that a copy has, return
/// [`Error::CopiedProcess`] from now on. For whoever sees to forks, as a fabric's set-up does.
pub fn mark_copied_process() {
    MARKS.set(MARKS.get() | COPY);
}
