//! The memory that operations borrow or own, and functions that lend a borrow to operations for one blocking call or one scope.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::{JobBuffer, RawBuffer, RawBytes, RawPieces};
use crate::error::{Error, Result};
use crate::in_handler;
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
    in_handler::mark_copy();
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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use crate::buffer::{Access, JobBuffer, PacketWriter, RemoteAddress};
    use crate::error::Outcome;
    use crate::handler::{Answer, Completion, Delivered, HandlerId, HandlerSet, Message};
    use crate::testing::loopback::{Config, Loopback, Reach, network};
    use crate::testing::watchdog::Watchdog;
    use crate::transfer::Gatherer;
    use crate::vector::{Layout, PiecesMut};
    use crate::{AmOptions, Amsend, Context, Get, GetOptions};

    const LEN: usize = 50_000;

    /// Panics when asked for its second piece, and on every later call.
    #[derive(Debug)]
    struct Panics;

    impl Gatherer for Panics {
        fn len(&self) -> u64 {
            LEN as u64
        }

        fn gather(&mut self, offset: u64, _len: usize, _writer: &mut PacketWriter<'_>) {
            assert_eq!(offset, 0, "as planned");
        }
    }

    /// A handler set of a library, whose panics are not caught.
    #[derive(Debug)]
    struct Library;

    impl HandlerSet for Library {
        const RUNS_USER_CODE: bool = false;

        fn header(&mut self, _id: HandlerId, _message: &Message<'_>) -> Option<Answer> {
            None
        }

        fn complete_request(&mut self, _request: u64, _delivered: Delivered) {}

        fn count(&self) -> usize {
            0
        }
    }

    /// Runs a blocking read, during whose wait a gatherer panics. Then overwrites the memory of the read, frees it if `is_dropped`, and
    /// handles everything that is still in flight.
    fn read_that_unwinds(
        read: impl FnOnce(&mut Context<Loopback, Library>, RemoteAddress, &mut [u8]),
        is_dropped: bool,
    ) {
        let _watchdog = Watchdog::new("a read that unwinds".to_owned(), Duration::from_secs(60));
        let (_network, endpoints) = network(Config { reach: Reach::Staged, ..Config::new(2) });
        let [reader, owner]: [_; 2] = endpoints.try_into().unwrap();
        let (mut reader, mut owner) = (Context::with_handlers(reader, Library), Context::new(owner));
        let handler = owner
            .register_handler(|message| {
                Answer::owned(JobBuffer::zeroed(message.len as usize), Completion::None)
            })
            .unwrap();
        let memory = owner.alloc(LEN).unwrap();
        let exposed = owner.expose(memory, Access::READ).unwrap();
        let from = exposed.address(0);
        let target = owner.endpoint();
        let message = Amsend { target, handler, uhdr: &[], options: AmOptions::default() };
        let sent = reader.amsend_gather(message, Panics, None).unwrap();
        assert_eq!(sent, Outcome::Posted);
        // The owner asks for the message in pieces; the reader receives this request in its wait.
        while owner.probe().unwrap() {}
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // `probe` reports that the reader withdrew an operation, which is no error here.
                    let _ = owner.probe();
                }
            });
            let mut into = vec![1u8; LEN];
            let unwound = catch_unwind(AssertUnwindSafe(|| read(&mut reader, from, &mut into)));
            assert!(unwound.is_err());
            into.fill(7);
            let again = (!is_dropped).then_some(into);
            for _ in 0..1000 {
                let _ = catch_unwind(AssertUnwindSafe(|| reader.probe()));
            }
            stop.store(true, Ordering::Relaxed);
            assert!(
                again.is_none_or(|into| into.iter().all(|&byte| byte == 7)),
                "a read has written after its borrow"
            );
        });
        drop(owner.unexpose(exposed).unwrap());
    }

    #[test]
    fn a_borrow_lasts_as_long_as_its_operation_where_a_wait_unwinds() {
        for is_dropped in [false, true] {
            read_that_unwinds(
                |context, from, to| context.get(from, to, GetOptions::default()).unwrap(),
                is_dropped,
            );
            read_that_unwinds(
                |context, from, to| {
                    let layout = Layout::contiguous(0, LEN as u64).unwrap();
                    let get = Get { from: (from, &layout), options: GetOptions::default() };
                    context.run(get, PiecesMut::Slices(&mut [to])).unwrap();
                },
                is_dropped,
            );
            read_that_unwinds(
                |context, from, to| {
                    let (first, second) = to.split_at_mut(LEN / 2);
                    context
                        .scope(|scope| {
                            let options = GetOptions::default();
                            scope.start(Get { from, options }, first).unwrap();
                            scope.start(Get { from: from.plus(100), options }, second).unwrap();
                        })
                        .unwrap();
                },
                is_dropped,
            );
        }
    }
}
