//! `LAPI_Rmw`: an atomic operation on a word of exposed memory of another task.

use am_core_engine::protocol::{End, Issued};

use crate::buffer::{Access, RemoteAddress};
use crate::call_guard;
use crate::context::Context;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::{AtomicOp, Fabric, Width};
use crate::handler::HandlerSet;
use crate::record::{self, Span};

/// An rmw under way: its result can be taken once.
#[must_use = "the result waits until it is taken"]
#[derive(Debug, PartialEq, Eq)]
pub struct RmwHandle {
    state: State,
    /// The identity of the context: another context uses the same numbers.
    context: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The operation ended when it was started. The old value.
    Ended(u64),
    /// The operation's number.
    Begun(u32),
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Carries out `operation` on the word at `at` and returns the old value (`LAPI_Rmw`). A compare-and-swap has replaced the value if it
    /// returns the expected one; LAPI's call returns only whether it did. For words of fewer than 64 bits, the low bits of the operands are
    /// used. Makes progress, at least in every 64th call, so that a program may wait for a lock by trying repeatedly.
    ///
    /// # Errors
    /// A word that is not exposed for writing, or not aligned to its size; a floating-point operation on a word of 8 or 16 bits; a dead
    /// target; a call inside a handler.
    #[inline(always)]
    pub fn rmw(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Result<u64> {
        let may_be_at_once = call_guard::is_unmarked();
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
        if may_be_at_once && let Some(old) = self.rmw_found(at, width, operation) {
            self.progress_in_passing();
            return Ok(old);
        }
        call_guard::check("rmw")?;
        let _span = Span::begin("rmw");
        let op = self.begin_rmw(at, width, operation, None)?;
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
        let context = self.identity;
        if call_guard::is_unmarked()
            && let Some(old) = self.rmw_mapped(at, width, operation)
        {
            self.engine.bump_own(origin);
            return Ok(RmwHandle { state: State::Ended(old), context });
        }
        call_guard::check("rmw_nonblocking")?;
        let op = self.begin_rmw(at, width, operation, origin)?;
        Ok(RmwHandle { state: State::Begun(op), context })
    }

    /// Carries the operation out if the word's memory is mapped here; returns the old value.
    #[inline]
    fn rmw_mapped(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Option<u64> {
        let old = self.engine.rmw_at_once(&mut self.fabric, at, width, operation);
        old.or_else(|| self.rmw_found(at, width, operation))
    }

    /// [`rmw_mapped`](Self::rmw_mapped) for memory that nothing has accessed yet.
    #[inline(never)]
    fn rmw_found(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Option<u64> {
        let len = width.bytes() as usize;
        let is_found = self.engine.find_at_once(&mut self.fabric, at, len, Access::READ_WRITE);
        if is_found { self.engine.rmw_at_once(&mut self.fabric, at, width, operation) } else { None }
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
        if call_guard::is_unmarked() && self.rmw_mapped(at, width, operation).is_some() {
            self.engine.bump_own(origin);
            return Ok(());
        }
        call_guard::check("rmw_nonfetching")?;
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
    ) -> Result<u32> {
        record::moved("rmw", at.task, width.bytes());
        let end = End { origin, ..End::held() };
        match self.engine.atomic(&mut self.fabric, at, width, operation, end)? {
            Issued::Ongoing(op) => Ok(op),
            // The operation is held for its result, so the engine always returns a number.
            Issued::Done => Err(Error::UnknownHandle { handle: 0 }),
        }
    }

    /// The old value of an rmw that is done; otherwise its handle. Makes no progress.
    ///
    /// # Errors
    /// The error of the rmw; a handle of another context.
    pub fn rmw_result(&mut self, handle: RmwHandle) -> Result<Result<u64, RmwHandle>> {
        match handle.state {
            State::Ended(old) if handle.context == self.identity => Ok(Ok(old)),
            State::Begun(op) if handle.context == self.identity => {
                if let Some(ended) = self.engine.ops.take_ended(op) {
                    return ended.result.map(Ok).map_err(|error| *error);
                }
                let is_under_way = self.engine.ops.get(op).is_some();
                if is_under_way { Ok(Err(handle)) } else { Err(Error::UnknownHandle { handle: op }) }
            }
            State::Ended(_) => Err(Error::UnknownHandle { handle: 0 }),
            State::Begun(op) => Err(Error::UnknownHandle { handle: op }),
        }
    }
}
