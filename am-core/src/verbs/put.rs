//! `LAPI_Put`: writing into exposed memory of another task.

use std::cell::Cell;

use am_core_engine::protocol::{Begun, End, Posted};

use super::vector::note;
use crate::buffer::{RawBytes, RemoteAddress, lend};
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::{Outcome, Result};
use crate::fabric::Fabric;
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
    #[inline(always)]
    pub fn put(&mut self, to: RemoteAddress, bytes: &[u8], options: PutOptions) -> Result<()> {
        in_handler::check("put")?;
        // A tiny put with a target counter is one packet: the target makes progress for its counter anyway.
        let (Some(counter), None) = (options.target, options.completion) else {
            return self.put_long(to, bytes, options);
        };
        if self.engine.post_put(&mut self.fabric, to, bytes, counter) {
            self.engine.bump_own(options.origin);
            return Ok(());
        }
        self.put_slowly(to, bytes, counter, options)
    }

    /// Writes what does not fit into a completion entry, or met no credit.
    #[inline(never)]
    fn put_slowly(
        &mut self,
        to: RemoteAddress,
        bytes: &[u8],
        counter: CounterName,
        options: PutOptions,
    ) -> Result<()> {
        let mut polls = 0;
        loop {
            match self.engine.post_put_again(&mut self.fabric, to, bytes, counter)? {
                Posted::Sent => {
                    self.engine.bump_own(options.origin);
                    return Ok(());
                }
                Posted::NoRoom => self.wait_for_room(&mut polls)?,
                Posted::NotWhole => return self.put_long(to, bytes, options),
            }
        }
    }

    #[inline(never)]
    fn put_long(&mut self, to: RemoteAddress, bytes: &[u8], options: PutOptions) -> Result<()> {
        let op = Cell::new(None);
        let start = |context: &mut Self, bytes: RawBytes| {
            note(&op, context.begin_put(to, bytes, options, End::held())?);
            Ok(())
        };
        lend(self, bytes, start, |context| context.wait_begun(&op))?;
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
        self.begin_put(to, bytes, options, End { request, ..End::default() }).map(Begun::outcome)
    }
}
