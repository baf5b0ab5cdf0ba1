//! The per-thread mark that a handler of the program is running: communicating calls are refused meanwhile.

use std::cell::Cell;

use crate::error::{Error, Result};

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Runs `handler` with the mark set; the mark is taken back also when it unwinds.
#[inline(always)]
pub(crate) fn run<R>(handler: impl FnOnce() -> R) -> R {
    struct Unmark(bool);
    impl Drop for Unmark {
        #[inline(always)]
        fn drop(&mut self) {
            IN_HANDLER.set(self.0);
        }
    }
    let _unmark = Unmark(IN_HANDLER.replace(true));
    handler()
}

/// Refuses `call` inside a handler.
///
/// # Errors
/// [`Error::InHandler`].
#[inline(always)]
pub(crate) fn check(call: &'static str) -> Result<()> {
    if IN_HANDLER.get() { Err(Error::InHandler { call }) } else { Ok(()) }
}
