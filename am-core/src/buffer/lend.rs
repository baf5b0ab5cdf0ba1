//! Lending a borrow to the engine for the length of one blocking call.

use std::ptr::NonNull;

use super::raw::{RawBuffer, RawBytes};
use crate::error::Result;

/// Lends `bytes` to an operation: `start` hands the range over, and `wait` returns when the operation has ended. It is called
/// in every case, also when `start` fails or unwinds (it returns at once when nothing was started). Only then does the borrow
/// end.
///
/// # Errors
/// What `start` or `wait` returns; on an error of `wait` the operation has ended too (that is `wait`'s contract).
pub fn lend<C>(
    context: &mut C,
    bytes: &[u8],
    start: impl FnOnce(&mut C, RawBytes) -> Result<()>,
    wait: impl Fn(&mut C) -> Result<()>,
) -> Result<()> {
    // SAFETY: `bytes` is borrowed until this function returns or unwinds; both happen only after `wait` (`until_ended`).
    let raw = unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) };
    until_ended(context, |context| start(context, raw), wait)
}

/// As [`lend`], for memory to receive into.
///
/// # Errors
/// As for [`lend`].
pub fn lend_mut<C>(
    context: &mut C,
    bytes: &mut [u8],
    start: impl FnOnce(&mut C, RawBuffer) -> Result<()>,
    wait: impl Fn(&mut C) -> Result<()>,
) -> Result<()> {
    // SAFETY: `bytes` is exclusively borrowed until this function returns or unwinds; both happen only after `wait`
    // (`until_ended`).
    let raw = unsafe { RawBuffer::new(NonNull::from(&mut *bytes).cast(), bytes.len()) };
    until_ended(context, |context| start(context, raw), wait)
}

fn until_ended<C>(
    context: &mut C,
    start: impl FnOnce(&mut C) -> Result<()>,
    wait: impl Fn(&mut C) -> Result<()>,
) -> Result<()> {
    struct Guard<'a, C, W: Fn(&mut C) -> Result<()>> {
        context: &'a mut C,
        wait: W,
    }
    impl<C, W: Fn(&mut C) -> Result<()>> Drop for Guard<'_, C, W> {
        fn drop(&mut self) {
            // Reached on unwinding only. The error was or will be reported by the panic that is under way.
            let _ = (self.wait)(self.context);
        }
    }
    let guard = Guard { context, wait };
    start(guard.context)?;
    let result = (guard.wait)(guard.context);
    std::mem::forget(guard);
    result
}
