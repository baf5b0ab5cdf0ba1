//! `LAPI_Get`: reading exposed memory of another task.

use am_core_engine::protocol::{End, Issued};

use super::operation::{ByDriver, Operation, sealed::Sealed};
use crate::buffer::{Access, RawBuffer, RawPieces, RemoteAddress};
use crate::call_guard;
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::record::{self, Span};
use crate::vector::Layout;

/// The counters of a get, each optional.
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions {
    /// Bumped here when the bytes have arrived (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the bytes have been read (`tgt_cntr`). The counter belongs to the context that has exposed the memory.
    pub target: Option<CounterName>,
}

impl GetOptions {
    /// The counter at the target, and the end of the operation.
    fn counters(&self, end: End) -> (u32, End) {
        (CounterName::to_wire(self.target), End { origin: self.origin, ..end })
    }
}

/// Describes a get (`LAPI_Get`) for the calls that take an [`Operation`]. With a layout of the memory at `from`, the local memory is
/// [`PiecesMut`](crate::vector::PiecesMut), or a buffer with a layout of its own (`LAPI_Getv`).
///
/// # Errors
/// When it is started: a range that is not exposed for reading, a dead target, sides of different length.
#[derive(Clone, Copy, Debug)]
pub struct Get<T = RemoteAddress> {
    /// Where the bytes come from: an address, or an address and a layout of the memory from there on.
    pub from: T,
    /// The counters of the get.
    pub options: GetOptions,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Reads `to.len()` bytes at `from` (`LAPI_Get`). Returns when they have arrived. Makes progress, at least in every 64th
    /// call, so that a program may wait for a flag by reading it repeatedly.
    ///
    /// # Errors
    /// A range that is not exposed for reading, a dead target, a call inside a handler; the failure of any task while the notice for the
    /// target counter waits for a credit. What `to` holds then is unspecified.
    #[inline(always)]
    pub fn get(&mut self, from: RemoteAddress, to: &mut [u8], options: GetOptions) -> Result<()> {
        let GetOptions { origin, target } = options;
        let may_be_at_once = call_guard::is_unmarked() && target.is_none();
        if may_be_at_once && self.engine.get_at_once(&mut self.fabric, from, to) {
            self.engine.bump_own(origin);
            self.progress_at_times();
            return Ok(());
        }
        self.get_long(from, to, origin, target, may_be_at_once)
    }

    /// The slow path: the region is not known yet, the memory is not mapped, or there is more to do than to copy.
    #[inline(never)]
    fn get_long(
        &mut self,
        from: RemoteAddress,
        to: &mut [u8],
        origin: Option<Counter>,
        target: Option<CounterName>,
        may_be_at_once: bool,
    ) -> Result<()> {
        let is_filled = may_be_at_once
            && self.engine.find_at_once(&mut self.fabric, from, to.len(), Access::READ)
            && self.engine.get_at_once(&mut self.fabric, from, to);
        if is_filled {
            self.engine.bump_own(origin);
            self.progress_in_passing();
            return Ok(());
        }
        let _span = Span::begin("get");
        self.run(Get { from, options: GetOptions { origin, target } }, to)
    }
}

impl<T> Sealed for Get<T> {}

impl Operation<RawBuffer> for Get {
    const CALL: &'static str = "get";

    fn begin<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        memory: RawBuffer,
        end: End,
        _driver: ByDriver,
    ) -> Result<Issued> {
        let (notify, end) = self.options.counters(end);
        record::moved("get", self.from.task, memory.len() as u64);
        context.engine.read(&mut context.fabric, self.from, memory, notify, end)
    }

    fn after<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) -> Result<()> {
        context.progress_in_passing();
        context.wait_notice_sent(self.from.owner())
    }
}

impl Operation<RawPieces<RawBuffer>> for Get<(RemoteAddress, &Layout)> {
    const CALL: &'static str = "get";

    fn begin<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        memory: RawPieces<RawBuffer>,
        end: End,
        _driver: ByDriver,
    ) -> Result<Issued> {
        let (notify, end) = self.options.counters(end);
        record::moved("get", self.from.0.task, memory.len());
        context.engine.read_pieces(&mut context.fabric, self.from, &memory, notify, end)
    }

    fn after<F: Fabric, H: HandlerSet>(&self, context: &mut Context<F, H>) -> Result<()> {
        context.progress_in_passing();
        context.wait_notice_sent(self.from.0.owner())
    }
}
