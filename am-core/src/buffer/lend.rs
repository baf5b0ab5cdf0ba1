//! Lending a borrow to the engine for the length of one blocking call.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::pieces::RawPieces;
use super::raw::{RawBuffer, RawBytes};
use crate::error::Result;
use crate::vector::{Pieces, PiecesMut};

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

/// As [`lend`], for bytes that are not in one piece.
///
/// # Errors
/// As for [`lend`]; a layout that does not lie in its slice.
pub(crate) fn lend_pieces<C>(
    context: &mut C,
    pieces: Pieces<'_>,
    start: impl FnOnce(&mut C, RawPieces<RawBytes>) -> Result<()>,
    wait: impl Fn(&mut C) -> Result<()>,
) -> Result<()> {
    // SAFETY: `pieces` borrows all of its slices until this function returns or unwinds; both happen only after `wait`
    // (`until_ended`).
    let raw = unsafe { raw_pieces(pieces) }?;
    until_ended(context, |context| start(context, raw), wait)
}

/// As [`lend_pieces`], for memory to receive into.
///
/// # Errors
/// As for [`lend_pieces`].
pub(crate) fn lend_pieces_mut<C>(
    context: &mut C,
    pieces: &mut PiecesMut<'_>,
    start: impl FnOnce(&mut C, RawPieces<RawBuffer>) -> Result<()>,
    wait: impl Fn(&mut C) -> Result<()>,
) -> Result<()> {
    // SAFETY: `pieces` is exclusively borrowed, and so are its slices, until this function returns or unwinds; both happen
    // only after `wait` (`until_ended`).
    let raw = unsafe { raw_pieces_mut(pieces) }?;
    until_ended(context, |context| start(context, raw), wait)
}

/// # Safety
/// The slices of `pieces` stay borrowed until the operation that gets the value has ended.
unsafe fn raw_pieces(pieces: Pieces<'_>) -> Result<RawPieces<RawBytes>> {
    // SAFETY: the caller's contract.
    let raw = |bytes: &[u8]| unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) };
    match pieces {
        Pieces::Slices(slices) => Ok(RawPieces::list(slices.iter().map(|bytes| raw(bytes)))),
        Pieces::Layout(bytes, layout) => {
            layout.check_inside(bytes.len() as u64)?;
            Ok(RawPieces::Layout(raw(bytes), layout.clone()))
        }
    }
}

/// # Safety
/// The slices of `pieces` stay exclusively borrowed until the operation that gets the value has ended.
unsafe fn raw_pieces_mut(pieces: &mut PiecesMut<'_>) -> Result<RawPieces<RawBuffer>> {
    // SAFETY: the caller's contract.
    let raw = |bytes: &mut [u8]| unsafe {
        let len = bytes.len();
        RawBuffer::new(NonNull::from(bytes).cast(), len)
    };
    match pieces {
        PiecesMut::Slices(slices) => Ok(RawPieces::list(slices.iter_mut().map(|bytes| raw(bytes)))),
        PiecesMut::Layout(bytes, layout) => {
            layout.check_inside(bytes.len() as u64)?;
            Ok(RawPieces::Layout(raw(bytes), (*layout).clone()))
        }
    }
}

/// Hands out loans for the length of one scope. Made by `Context::scope` alone.
#[derive(Debug)]
pub struct Loans<'env> {
    /// Invariant: what is lent for `'env` is lent for exactly that.
    _env: PhantomData<fn(&'env ()) -> &'env ()>,
}

impl<'env> Loans<'env> {
    /// Lends memory to send from.
    pub(crate) fn lend(&self, bytes: &'env [u8]) -> RawBytes {
        // SAFETY: `bytes` is borrowed for `'env`, a lifetime that outlives the call of `lend_in_scope` which made `self`; that
        // call returns or unwinds only after every operation that got a loan has ended.
        unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) }
    }

    /// Lends bytes that are not in one piece.
    ///
    /// # Errors
    /// A layout that does not lie in its slice.
    pub(crate) fn lend_pieces(&self, pieces: Pieces<'env>) -> Result<RawPieces<RawBytes>> {
        // SAFETY: as for `lend`.
        unsafe { raw_pieces(pieces) }
    }

    /// Lends memory to receive into, not in one piece.
    ///
    /// # Errors
    /// A layout that does not lie in its slice.
    pub(crate) fn lend_pieces_mut(&self, mut pieces: PiecesMut<'env>) -> Result<RawPieces<RawBuffer>> {
        // SAFETY: as for `lend_mut`: the slices are exclusively borrowed for `'env`, whatever becomes of the value that names them.
        unsafe { raw_pieces_mut(&mut pieces) }
    }

    /// Lends memory to receive into.
    pub(crate) fn lend_mut(&self, bytes: &'env mut [u8]) -> RawBuffer {
        let len = bytes.len();
        // SAFETY: as for `lend`, and the borrow is exclusive.
        unsafe { RawBuffer::new(NonNull::from(bytes).cast(), len) }
    }
}

/// Runs `body` with loans that last until `wait` has returned. `wait` is called once in every case, also when `body` unwinds
/// (then with `true`), and returns when every operation that got a loan has ended.
pub(crate) fn lend_in_scope<'env, C, R>(
    context: &mut C,
    body: impl FnOnce(&mut C, &Loans<'env>) -> R,
    wait: impl Fn(&mut C, bool),
) -> R {
    struct Guard<'a, C, W: Fn(&mut C, bool)> {
        context: &'a mut C,
        wait: W,
    }
    impl<C, W: Fn(&mut C, bool)> Drop for Guard<'_, C, W> {
        fn drop(&mut self) {
            // Reached on unwinding only.
            (self.wait)(self.context, true);
        }
    }
    let guard = Guard { context, wait };
    let result = body(guard.context, &Loans { _env: PhantomData });
    (guard.wait)(guard.context, false);
    std::mem::forget(guard);
    result
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
