//! The drivers of operations. Each lends local memory in its own way, and reports the end in its own way.
//!
//! | Driver | Local memory | Ends |
//! | --- | --- | --- |
//! | [`Context::run`] | borrowed for the call | in the call |
//! | [`Scope::start`](super::Scope::start) | borrowed for the scope | with the scope |
//! | [`Context::start`] | owned by the operation | by [`Context::wait_owned`] |
//! | [`Session::start`](crate::pgas::Session::start) | owned by the operation | by a future |
//! | [`Context::start_raw`] | kept by the caller | by a report to the handler set, or by a counter |

use std::cell::Cell;

use am_core_engine::protocol::{End, Issued};

use crate::buffer::{Borrowed, JobBuffer, Owned, give, lend};
use crate::call_guard;
use crate::context::Context;
use crate::error::{Error, Outcome, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;

/// Common trait of [`Put`](super::Put), [`Get`](super::Get) and [`Amsend`](super::Amsend): values that describe an operation without its
/// local memory, and can be started any number of times. `M` is local memory in the form that the engine holds, without a lifetime.
pub trait Operation<M>: sealed::Sealed {
    #[doc(hidden)]
    const CALL: &'static str;

    #[doc(hidden)]
    fn begin<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        memory: M,
        end: End,
        driver: ByDriver,
    ) -> Result<Issued>;

    /// What a blocking call does after the operation has ended, before it returns.
    #[doc(hidden)]
    #[inline(always)]
    fn after<F: Fabric, H: HandlerSet>(&self, _context: &mut Context<F, H>) -> Result<()> {
        Ok(())
    }
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// Proof that a driver begins the operation: only this crate can make such a value. A driver keeps the memory until the operation has
/// ended; memory without a lifetime can be copied, so nothing else may begin an operation with it.
#[derive(Clone, Copy, Debug)]
pub struct ByDriver(pub(super) ());

/// A handle of an operation that owns its buffer until [`Context::wait_owned`]. If the handle is dropped, the operation keeps the buffer
/// until the context ends.
#[must_use = "Context::wait_owned returns the buffer"]
#[derive(Debug, PartialEq, Eq)]
pub struct OwnedHandle {
    op: u32,
    /// The identity of the context: another context uses the same numbers.
    context: u64,
}

/// An operation that could not be started, and its buffer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Returned {
    /// Why the operation could not be started.
    #[source]
    pub error: Error,
    /// The buffer, unchanged.
    pub buffer: JobBuffer,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Carries out an operation on borrowed memory; returns when the program may reuse the memory. An operation sends from `&[u8]` or
    /// [`Pieces`](crate::vector::Pieces), or receives into `&mut [u8]` or [`PiecesMut`](crate::vector::PiecesMut).
    ///
    /// # Errors
    /// Those of the operation; a layout that does not lie inside its memory; a call inside a handler.
    pub fn run<M: Borrowed, O: Operation<M::Raw>>(&mut self, operation: O, memory: M) -> Result<()> {
        call_guard::check(O::CALL)?;
        let op = Cell::new(None);
        let start = |context: &mut Self, memory| {
            if let Issued::Ongoing(key) = operation.begin(context, memory, End::held(), ByDriver(()))? {
                op.set(Some(key));
            }
            Ok(())
        };
        lend(self, memory, start, |context| context.wait_begun(op.take()))?;
        operation.after(self)
    }

    /// Starts an operation that owns its local memory until it has ended: a [`JobBuffer`], or a [`Layout`](crate::vector::Layout) of
    /// one. Does not wait.
    ///
    /// # Errors
    /// Those of the operation; the error contains the buffer.
    pub fn start<M: Owned, O: Operation<M::Raw>>(
        &mut self,
        operation: O,
        memory: M,
    ) -> Result<OwnedHandle, Returned> {
        let start = |context: &mut Self, memory| {
            call_guard::check(O::CALL)?;
            match operation.begin(context, memory, End::held(), ByDriver(()))? {
                Issued::Ongoing(op) => Ok(op),
                Issued::Done => {
                    let own = context.fabric.peer(context.engine.own())?;
                    context.engine.ops.insert_ended(own, Ok(0))
                }
            }
        };
        let given = give(self, memory, start, |context, &op, buffer| context.engine.ops.keep(op, buffer));
        match given {
            Ok(op) => Ok(OwnedHandle { op, context: self.identity }),
            Err((error, buffer)) => Err(Returned { error, buffer }),
        }
    }

    /// Starts an operation on memory that the caller keeps. [`Outcome::Done`]: the operation has ended, and nothing will be reported;
    /// [`Outcome::Posted`]: the operation ends later, and `request` is reported to [`HandlerSet::complete_request`] then.
    ///
    /// # Safety
    /// Until this call returns [`Outcome::Done`] or an error, or the request is reported (without a request: the origin counter is bumped),
    /// memory that is sent must stay readable and must not be written, and memory that is received into must stay writable and must not be
    /// read or written by anything else.
    ///
    /// # Errors
    /// Those of the operation; nothing was started then.
    #[inline]
    #[expect(unsafe_code, reason = "a raw entry point: the caller keeps the memory")]
    pub unsafe fn start_raw<M, O: Operation<M>>(
        &mut self,
        operation: O,
        memory: M,
        request: Option<u64>,
    ) -> Result<Outcome> {
        call_guard::check(O::CALL)?;
        operation.begin(self, memory, End { request, ..End::default() }, ByDriver(())).map(Issued::outcome)
    }

    /// Returns the buffer and the result of an operation that has ended; otherwise its handle. Makes no progress.
    ///
    /// # Errors
    /// [`Error::UnknownHandle`]: a handle of another context.
    pub fn try_owned(
        &mut self,
        handle: OwnedHandle,
    ) -> Result<std::result::Result<(JobBuffer, Result<()>), OwnedHandle>> {
        self.check_handle(&handle)?;
        let Some(ended) = self.engine.ops.take_ended(handle.op) else { return Ok(Err(handle)) };
        match ended.kept {
            Some(buffer) => Ok(Ok((buffer, ended.result.map(|_| ()).map_err(|error| *error)))),
            None => Err(Error::UnknownHandle { handle: handle.op }),
        }
    }

    /// Waits for an operation that owns its buffer; returns the buffer and the result of the operation.
    ///
    /// # Errors
    /// A handle of another context, a call inside a handler.
    pub fn wait_owned(&mut self, handle: OwnedHandle) -> Result<(JobBuffer, Result<()>)> {
        call_guard::check("wait_owned")?;
        self.check_handle(&handle)?;
        match self.wait_op(handle.op) {
            (result, Some(buffer)) => Ok((buffer, result.map(|_| ()))),
            (_, None) => Err(Error::UnknownHandle { handle: handle.op }),
        }
    }

    fn check_handle(&self, handle: &OwnedHandle) -> Result<()> {
        match self.engine.ops.get(handle.op) {
            Some(_) if handle.context == self.identity => Ok(()),
            _ => Err(Error::UnknownHandle { handle: handle.op }),
        }
    }

    /// Waits for an operation, unless it was complete at once.
    pub(super) fn wait_begun(&mut self, op: Option<u32>) -> Result<()> {
        op.map_or(Ok(()), |op| self.wait_op(op).0.map(|_| ()))
    }

    /// Waits until the notice for a target counter, which may need a credit, was sent to the owner of the memory.
    pub(super) fn wait_notice_sent(&mut self, owner: crate::task::Endpoint) -> Result<()> {
        let owner = self.fabric.peer(owner)?;
        self.wait_sent(owner)
    }
}
