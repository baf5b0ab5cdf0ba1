//! `LAPI_Put`: writing into exposed memory of another task.

use std::cell::Cell;

use crate::buffer::{InlineBytes, RawBytes, RemoteAddress, lend};
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::engine::packet::{self, Kind};
use crate::engine::{Begun, End};
use crate::error::{Outcome, Result};
use crate::fabric::{Class, Fabric};
use crate::handler::HandlerSet;
use crate::in_handler;

/// The counters of a put, each optional.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions {
    /// Bumped here when the source may be changed again (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the bytes are in place (`tgt_cntr`). It belongs to the context that has exposed
    /// the memory.
    pub target: Option<CounterName>,
    /// Bumped here when the bytes are in place (`cmpl_cntr`).
    pub completion: Option<Counter>,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Writes `bytes` to `to` (`LAPI_Put`). Returns when `bytes` may be changed again.
    ///
    /// # Errors
    /// A range that is not exposed for writing, a dead target, a call inside a handler.
    #[inline]
    pub fn put(&mut self, to: RemoteAddress, bytes: &[u8], options: PutOptions) -> Result<()> {
        in_handler::check("put")?;
        let mut inline = InlineBytes::new();
        // A tiny put with a target counter is one packet: the target makes progress for its counter anyway.
        if let (Some(counter), None) = (options.target, options.completion)
            && self.engine.pending.is_clear()
            && push_head(&mut inline, to, CounterName::to_wire(Some(counter)))
            && inline.push(bytes)
        {
            let target = self.fabric.peer(to.owner())?;
            let label = packet::label(Kind::Put, packet::FIRST);
            self.engine.touched.mark(target);
            if self.fabric.post_inline(target.index, Class::OneWay, label, &inline)? == Outcome::Retry {
                let mut polls = 0;
                while self.fabric.post_inline(target.index, Class::OneWay, label, &inline)? == Outcome::Retry
                {
                    self.wait_for_room(&mut polls)?;
                }
            }
            if let Some(counter) = options.origin {
                let _ = self.engine.counters.bump(counter.name());
            }
            return Ok(());
        }
        self.put_long(to, bytes, options)
    }

    #[inline(never)]
    fn put_long(&mut self, to: RemoteAddress, bytes: &[u8], options: PutOptions) -> Result<()> {
        let op = Cell::new(None);
        let start = |context: &mut Self, bytes: RawBytes| {
            if let Begun::Ongoing(key) = context.begin_put(to, bytes, options, End::held())? {
                op.set(Some(key));
            }
            Ok(())
        };
        lend(self, bytes, start, |context| op.take().map_or(Ok(()), |op| context.wait_op(op).0.map(|_| ())))?;
        // The notice for the target counter may still wait for room.
        let owner = self.fabric.peer(to.owner())?;
        self.wait_sent(owner)
    }

    pub(crate) fn begin_put(
        &mut self,
        to: RemoteAddress,
        bytes: RawBytes,
        options: PutOptions,
        end: End,
    ) -> Result<Begun> {
        let notify = CounterName::to_wire(options.target);
        let completed = CounterName::to_wire(options.completion.map(Counter::name));
        let end = End { origin: options.origin, completion: options.completion, ..end };
        self.engine.write(&mut self.fabric, to, bytes, notify, completed, end)
    }

    /// Writes `bytes` to `to` without waiting for anything; outcome and report as for [`amsend_raw`](Self::amsend_raw).
    ///
    /// # Safety
    /// `bytes` stays readable, and nobody writes it, until this call returns [`Outcome::Done`] or an error, or the request
    /// is reported. Without a request the origin counter tells.
    ///
    /// # Errors
    /// As for [`put`](Self::put); nothing was written then.
    #[expect(unsafe_code, reason = "a raw entry point: the caller keeps the memory")]
    pub unsafe fn put_raw(
        &mut self,
        to: RemoteAddress,
        bytes: RawBytes,
        options: PutOptions,
        request: Option<u64>,
    ) -> Result<Outcome> {
        in_handler::check("put_raw")?;
        match self.begin_put(to, bytes, options, End { request, ..End::default() })? {
            Begun::Done => Ok(Outcome::Done),
            Begun::Ongoing(_) => Ok(Outcome::Posted),
        }
    }
}

/// In whole words, and the data behind them on a word: what is written in one size and read in another waits for the
/// processor's store buffer.
#[inline(always)]
fn push_head(packet: &mut InlineBytes, to: RemoteAddress, counter: u32) -> bool {
    packet.push_word(u64::from(to.grant.region) | u64::from(to.grant.generation) << 32)
        && packet.push_word(to.offset)
        && packet.push_word(u64::from(counter))
}
