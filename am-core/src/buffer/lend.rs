//! The memory that operations borrow or own, and functions that lend a borrow to operations for one blocking call or one scope.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::{JobBuffer, RawBuffer, RawBytes, RawPieces};
use crate::call_guard;
use crate::error::{Error, Result};
use crate::vector::{Layout, Pieces, PiecesMut};

/// Local memory that an operation borrows: a slice of bytes, a value that converts to one by reference, [`Pieces`], or [`PiecesMut`].
pub trait Borrowed: Sealed {
    /// The form in which the engine holds the memory.
    type Raw;

    /// The memory without its lifetime.
    ///
    /// # Safety
    /// The borrow in `self` must outlive the operation that gets the value.
    ///
    /// # Errors
    /// `LocalRange`: the layout does not lie inside the memory.
    #[doc(hidden)]
    unsafe fn raw(self) -> Result<Self::Raw>;
}

/// Local memory that an operation owns: a [`JobBuffer`], or a layout of one.
pub trait Owned: Sealed {
    /// The form in which the engine holds the memory.
    type Raw;

    /// The memory.
    ///
    /// # Safety
    /// The caller must neither use nor drop the buffer before it gives the buffer to the operation that gets the memory, or knows that no
    /// operation gets it.
    ///
    /// # Errors
    /// `LocalRange`: the layout does not lie inside the memory.
    #[doc(hidden)]
    unsafe fn raw_of_owned(&self) -> Result<Self::Raw>;

    /// The buffer.
    #[doc(hidden)]
    fn into_buffer(self) -> JobBuffer;
}

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

impl<T: AsRef<[u8]> + ?Sized> Sealed for &T {}
impl<T: AsMut<[u8]> + ?Sized> Sealed for &mut T {}
impl Sealed for Pieces<'_> {}
impl Sealed for PiecesMut<'_> {}
impl Sealed for JobBuffer {}
impl Sealed for (JobBuffer, &Layout) {}

impl<'a, T: AsRef<[u8]> + ?Sized> Borrowed for &'a T {
    type Raw = RawBytes;

    #[inline(always)]
    unsafe fn raw(self) -> Result<RawBytes> {
        let bytes: &'a [u8] = self.as_ref();
        // SAFETY: `'a`, for which the bytes are borrowed, lasts until the operation has ended (the caller's contract).
        Ok(unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) })
    }
}

impl<'a, T: AsMut<[u8]> + ?Sized> Borrowed for &'a mut T {
    type Raw = RawBuffer;

    #[inline(always)]
    unsafe fn raw(self) -> Result<RawBuffer> {
        let bytes: &'a mut [u8] = self.as_mut();
        let len = bytes.len();
        // SAFETY: `'a`, for which the bytes are exclusively borrowed, lasts until the operation has ended (the caller's contract).
        Ok(unsafe { RawBuffer::new(NonNull::from(bytes).cast(), len) })
    }
}

impl Borrowed for Pieces<'_> {
    type Raw = RawPieces<RawBytes>;

    unsafe fn raw(self) -> Result<Self::Raw> {
        // SAFETY: the slices are borrowed as long as `self`, whose borrow outlives the operation (the caller's contract).
        let raw = |bytes: &[u8]| unsafe { bytes.raw() };
        match self {
            Self::Slices(slices) => RawPieces::list(slices.iter().map(|bytes| raw(bytes))),
            Self::Layout(bytes, layout) => {
                layout.check_inside(bytes.len() as u64)?;
                Ok(RawPieces::Layout(raw(bytes)?, layout.clone()))
            }
        }
    }
}

impl Borrowed for PiecesMut<'_> {
    type Raw = RawPieces<RawBuffer>;

    unsafe fn raw(self) -> Result<Self::Raw> {
        // SAFETY: the slices are borrowed as long as `self`, whose borrow outlives the operation (the caller's contract).
        let raw = |bytes: &mut [u8]| unsafe { bytes.raw() };
        match self {
            Self::Slices(slices) => RawPieces::list(slices.iter_mut().map(|bytes| raw(bytes))),
            Self::Layout(bytes, layout) => {
                layout.check_inside(bytes.len() as u64)?;
                Ok(RawPieces::Layout(raw(bytes)?, layout.clone()))
            }
        }
    }
}

impl Owned for JobBuffer {
    type Raw = RawBuffer;

    unsafe fn raw_of_owned(&self) -> Result<RawBuffer> {
        // SAFETY: the caller gives the buffer to the operation that gets the value (this function's contract).
        Ok(unsafe { self.to_raw() })
    }

    fn into_buffer(self) -> JobBuffer {
        self
    }
}

impl Owned for (JobBuffer, &Layout) {
    type Raw = RawPieces<RawBuffer>;

    unsafe fn raw_of_owned(&self) -> Result<Self::Raw> {
        self.1.check_inside(self.0.len() as u64)?;
        // SAFETY: the caller gives the buffer to the operation that gets the value (this function's contract).
        Ok(RawPieces::Layout(unsafe { self.0.to_raw() }, self.1.clone()))
    }

    fn into_buffer(self) -> JobBuffer {
        self.0
    }
}

/// Lends `memory` to an operation, which `start` starts. Then calls `wait`, even if `start` has failed or unwound. `wait` must return only
/// when the operation has ended, and at once if none was started. If `wait` unwinds, it is called once more, and must not unwind then.
///
/// # Errors
/// `LocalRange`: the layout does not lie inside the memory. The error of `start` or `wait`. No operation is under way in any of these
/// cases.
pub(crate) fn lend<C, M: Borrowed>(
    context: &mut C,
    memory: M,
    start: impl FnOnce(&mut C, M::Raw) -> Result<()>,
    wait: impl Fn(&mut C) -> Result<()>,
) -> Result<()> {
    // SAFETY: the borrow in `memory` lasts until this function returns or unwinds, and both happen after `wait` (`until_ended`).
    let raw = unsafe { memory.raw() }?;
    until_ended(context, |context| start(context, raw), wait)
}

/// Gives `memory` to an operation, which `start` starts: `keep` then gives the buffer to the operation, and must not drop it. If `start`
/// unwinds, the buffer is leaked.
///
/// # Errors
/// `LocalRange`: the layout does not lie inside the memory. The error of `start`. The buffer comes back, and no operation has its memory.
pub(crate) fn give<C, M: Owned, O>(
    context: &mut C,
    memory: M,
    start: impl FnOnce(&mut C, M::Raw) -> Result<O>,
    keep: impl FnOnce(&mut C, &O, JobBuffer),
) -> Result<O, (Error, JobBuffer)> {
    let memory = ManuallyDrop::new(memory);
    // SAFETY: nothing uses or drops the buffer until `keep` gives it to the operation. After an error, no operation has got it.
    let started = unsafe { memory.raw_of_owned() }.and_then(|raw| start(context, raw));
    let buffer = ManuallyDrop::into_inner(memory).into_buffer();
    match started {
        Ok(op) => {
            keep(context, &op, buffer);
            Ok(op)
        }
        Err(error) => Err((error, buffer)),
    }
}

/// Lends memory for the length of one scope. Only `lend_in_scope` makes such a value.
#[derive(Debug)]
pub(crate) struct Loans<'env> {
    /// Invariant in `'env`: memory is lent for exactly this lifetime.
    _env: PhantomData<fn(&'env ()) -> &'env ()>,
}

impl<'env> Loans<'env> {
    /// Lends memory.
    ///
    /// # Errors
    /// `LocalRange`: the layout does not lie inside the memory.
    pub(crate) fn lend<M: Borrowed + 'env>(&self, memory: M) -> Result<M::Raw> {
        // SAFETY: the borrow in `memory` lasts for `'env`, even if `memory` is moved. `'env` outlives the call of `lend_in_scope` that made
        // `self`, and that call returns or unwinds only after every operation with a loan has ended.
        unsafe { memory.raw() }
    }
}

/// Runs `body` with loans that last until `wait` has returned. `wait` is always called, with `true` if `body` unwinds, and must return only
/// when every operation with a loan has ended. If `wait` unwinds, it is called once more, with `true`, and must not unwind then.
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
            // This runs only during unwinding, from the body or from the first wait.
            (self.wait)(self.context, true);
        }
    }
    let guard = Guard { context, wait };
    let result = body(guard.context, &Loans { _env: PhantomData });
    (guard.wait)(guard.context, false);
    std::mem::forget(guard);
    result
}

/// Marks this process as a forked copy of a task. Communicating calls then return
/// [`Error::CopiedProcess`](crate::error::Error::CopiedProcess) in every thread, and the operations of the task are not waited for, because
/// they use the task's memory and not that of the copy. For code that handles forks, such as the set-up of a fabric.
///
/// # Safety
/// A fork must have just made this process, and the calling thread must be its only one. Operations begun before the fork must not be able
/// to access this process's memory.
pub unsafe fn mark_copied_process() {
    call_guard::mark_copy();
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
            // `start` has failed, or a panic is under way: the caller learns of that, not of an error of the wait.
            let _ = (self.wait)(self.context);
        }
    }
    let guard = Guard { context, wait };
    start(guard.context)?;
    let result = (guard.wait)(guard.context);
    std::mem::forget(guard);
    result
}
