//! `LAPI_Put`: writing into exposed memory of another task.

use am_core_engine::protocol::{End, Issued};

use super::operation::{ByDriver, Operation, sealed::Sealed};
use crate::buffer::{Access, RawBytes, RawPieces, RemoteAddress};
use crate::call_guard;
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::Result;
use crate::fabric::{Fabric, Posted};
use crate::handler::HandlerSet;
use crate::record;
use crate::vector::Layout;

/// The counters of a put, each optional.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions {
    /// Bumped here when the source may be changed (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the bytes are stored (`tgt_cntr`). The counter belongs to the context that exposed the memory.
    pub target: Option<CounterName>,
    /// Bumped here when the bytes are stored (`cmpl_cntr`).
    pub completion: Option<Counter>,
}

impl PutOptions {
    /// The counter at the target, the counter here that the target's answer bumps, and the end of the operation.
    #[inline]
    fn counters(&self, end: End) -> (u32, u32, End) {
        let end = End { origin: self.origin, completion: self.completion, ..end };
        (CounterName::to_wire(self.target), CounterName::to_wire(self.completion.map(Counter::name)), end)
    }
}

/// Describes a put (`LAPI_Put`) for the calls that take an [`Operation`]. With a layout of the memory at `to`, the local memory is
/// [`Pieces`](crate::vector::Pieces), or a buffer with a layout of its own (`LAPI_Putv`). The bytes of the pieces fill the blocks in order.
///
/// # Errors
/// When it is begun: a range that is not exposed for writing, a dead target, sides of different length. A put to a layout that is refused
/// may have written some of the blocks.
#[derive(Clone, Copy, Debug)]
pub struct Put<T = RemoteAddress> {
    /// Where the bytes go: an address, or an address and a layout of the memory from there on.
    pub to: T,
    /// The counters of the put.
    pub options: PutOptions,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Writes `bytes` to `to` (`LAPI_Put`). Returns when `bytes` may be changed. If this task has mapped the memory at `to`, the bytes are
    /// stored by then; the target bumps its counter when it makes progress.
    ///
    /// # Errors
    /// A range that is not exposed for writing, a dead target, a call inside a handler; the failure of any task while the call waits for a
    /// credit.
    #[inline(always)]
    pub fn put(&mut self, to: RemoteAddress, bytes: &[u8], options: PutOptions) -> Result<()> {
        let PutOptions { origin, target, completion } = options;
        if !call_guard::is_unmarked() || completion.is_some() {
            // `put_long` refuses calls inside handlers, and records the call.
            return self.put_long(to, bytes, origin, target, completion);
        }
        let is_done = match target {
            None => self.engine.put_at_once(&mut self.fabric, to, bytes),
            Some(counter) => self.engine.put(&mut self.fabric, to, bytes, counter),
        };
        if is_done {
            self.engine.statistics.puts += 1;
            self.engine.bump_own(origin);
            return Ok(());
        }
        match target {
            None => self.put_first(to, bytes, origin),
            Some(counter) => self.put_slowly(to, bytes, counter, origin),
        }
    }

    /// The slow path of a put without a counter at the target: the region is not known yet, or the memory is not mapped.
    #[inline(never)]
    fn put_first(&mut self, to: RemoteAddress, bytes: &[u8], origin: Option<Counter>) -> Result<()> {
        let is_stored = self.engine.find_at_once(&mut self.fabric, to, bytes.len(), Access::WRITE)
            && self.engine.put_at_once(&mut self.fabric, to, bytes);
        if !is_stored {
            return self.put_long(to, bytes, origin, None, None);
        }
        self.engine.statistics.puts += 1;
        self.engine.bump_own(origin);
        Ok(())
    }

    /// The slow path: the region is not known yet, there is no credit, or the memory is not mapped.
    #[inline(never)]
    fn put_slowly(
        &mut self,
        to: RemoteAddress,
        bytes: &[u8],
        counter: CounterName,
        origin: Option<Counter>,
    ) -> Result<()> {
        let mut polls = 0;
        loop {
            match self.engine.put_again(&mut self.fabric, to, bytes, counter)? {
                Some(Posted::Done) => {
                    self.engine.statistics.puts += 1;
                    self.engine.bump_own(origin);
                    return Ok(());
                }
                Some(Posted::Retry) => self.wait_for_credit(&mut polls)?,
                None => return self.put_long(to, bytes, origin, Some(counter), None),
            }
        }
    }

    /// The general path. The counters are parameters of their own, so that the fast path keeps them in registers.
    #[inline(never)]
    fn put_long(
        &mut self,
        to: RemoteAddress,
        bytes: &[u8],
        origin: Option<Counter>,
        target: Option<CounterName>,
        completion: Option<Counter>,
    ) -> Result<()> {
        self.run(Put { to, options: PutOptions { origin, target, completion } }, bytes)
    }
}

impl<T> Sealed for Put<T> {}

impl<M: Into<RawBytes>> Operation<M> for Put {
    const CALL: &'static str = "put";

    #[inline]
    fn begin<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        memory: M,
        end: End,
        _driver: ByDriver,
    ) -> Result<Issued> {
        let (memory, (notify, completed, end)) = (memory.into(), self.options.counters(end));
        record::moved("put", self.to.task, memory.len() as u64);
        context.engine.statistics.puts += 1;
        context.engine.write(&mut context.fabric, self.to, memory, notify, completed, end)
    }

    fn after<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) -> Result<()> {
        context.wait_notice_sent(self.to.owner())
    }
}

impl<R> Operation<RawPieces<R>> for Put<(RemoteAddress, &Layout)>
where
    RawPieces<R>: Into<RawPieces<RawBytes>>,
{
    const CALL: &'static str = "put";

    fn begin<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        memory: RawPieces<R>,
        end: End,
        _driver: ByDriver,
    ) -> Result<Issued> {
        let (memory, (notify, _, end)) = (memory.into(), self.options.counters(end));
        record::moved("put", self.to.0.task, memory.len());
        context.engine.statistics.puts += 1;
        context.engine.write_pieces(&mut context.fabric, self.to, memory, notify, end)
    }

    fn after<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) -> Result<()> {
        context.wait_notice_sent(self.to.0.owner())
    }
}
