//! `LAPI_Rmw`: an atomic operation on a word of exposed memory of another task.

use am_core_engine::protocol::{End, Issued};

use crate::buffer::{Access, RemoteAddress};
use crate::context::Context;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::{AtomicOp, Fabric, Width};
use crate::handler::HandlerSet;
use crate::in_handler;
use crate::record::{self, Span};

/// An rmw under way: its result can be taken once.
#[must_use = "the result waits until it is taken"]
#[derive(Debug, PartialEq, Eq)]
pub struct RmwHandle {
    op: u32,
    /// The identity of the context: another context uses the same numbers.
    context: u64,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Carries out `operation` on the word at `at` and returns the old value (`LAPI_Rmw`). A compare-and-swap has replaced the value if it
    /// returns the expected one; LAPI's call returns only whether it did. For words of fewer than 64 bits, the low bits of the operands are
    /// used. Makes progress, so that a program may wait for a lock by trying repeatedly.
    ///
    /// # Errors
    /// A word that is not exposed for writing, or not aligned to its size; a floating-point operation on a word of 8 or 16 bits; a dead
    /// target; a call inside a handler.
    #[inline(always)]
    pub fn rmw(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Result<u64> {
        let may_be_at_once = in_handler::is_unmarked();
        if may_be_at_once && let Some(old) = self.engine.rmw_at_once(&mut self.fabric, at, width, operation) {
            self.progress_at_times();
            return Ok(old);
        }
        self.rmw_long(at, width, operation, may_be_at_once)
    }

    /// The slow path: the region is not known yet, or the memory is not mapped.
    #[inline(never)]
    fn rmw_long(
        &mut self,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        may_be_at_once: bool,
    ) -> Result<u64> {
        let len = width.bytes() as usize;
        if may_be_at_once
            && self.engine.find_at_once(&mut self.fabric, at, len, Access::READ_WRITE)
            && let Some(old) = self.engine.rmw_at_once(&mut self.fabric, at, width, operation)
        {
            self.progress_in_passing();
            return Ok(old);
        }
        in_handler::check("rmw")?;
        let _span = Span::begin("rmw");
        let RmwHandle { op, .. } = self.begin_rmw(at, width, operation, None)?;
        self.progress_in_passing();
        self.wait_op(op).0
    }

    /// Starts `operation` on the word at `at` without waiting. `origin` is incremented when the operation is done; then
    /// [`rmw_result`](Self::rmw_result) returns the old value.
    ///
    /// # Errors
    /// Those of [`rmw`](Self::rmw).
    pub fn rmw_nonblocking(
        &mut self,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        origin: Option<Counter>,
    ) -> Result<RmwHandle> {
        in_handler::check("rmw_nonblocking")?;
        self.begin_rmw(at, width, operation, origin)
    }

    /// Like [`rmw`](Self::rmw), but does not return the old value, and does not wait. `origin` is incremented when the operation is done.
    ///
    /// # Errors
    /// Those of [`rmw`](Self::rmw). If the owner refuses the operation, the next call that waits or probes reports the error.
    pub fn rmw_nonfetching(
        &mut self,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        origin: Option<Counter>,
    ) -> Result<()> {
        in_handler::check("rmw_nonfetching")?;
        record::moved("rmw", at.task, width.bytes());
        let end = End { origin, ..End::default() };
        self.engine.atomic(&mut self.fabric, at, width, operation, end).map(|_| ())
    }

    fn begin_rmw(
        &mut self,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        origin: Option<Counter>,
    ) -> Result<RmwHandle> {
        record::moved("rmw", at.task, width.bytes());
        let end = End { origin, ..End::held() };
        match self.engine.atomic(&mut self.fabric, at, width, operation, end)? {
            Issued::Ongoing(op) => Ok(RmwHandle { op, context: self.identity }),
            // The operation is held for its result, so the engine always returns a number.
            Issued::Done => Err(Error::UnknownHandle { handle: 0 }),
        }
    }

    /// The old value of an rmw that is done; otherwise its handle. Makes no progress.
    ///
    /// # Errors
    /// The error of the rmw; a handle of another context.
    pub fn rmw_result(&mut self, handle: RmwHandle) -> Result<Result<u64, RmwHandle>> {
        let unknown = Err(Error::UnknownHandle { handle: handle.op });
        if handle.context != self.identity {
            return unknown;
        }
        if let Some(ended) = self.engine.ops.take_ended(handle.op) {
            return ended.result.map(Ok).map_err(|error| *error);
        }
        if self.engine.ops.get(handle.op).is_some() { Ok(Err(handle)) } else { unknown }
    }
}
