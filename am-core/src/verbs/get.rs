//! `LAPI_Get`: reading exposed memory of another task.

use std::cell::Cell;

use am_core_engine::protocol::{Begun, End};

use super::vector::note;
use crate::buffer::{RawBuffer, RemoteAddress, lend_mut};
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::{Outcome, Result};
use crate::fabric::Fabric;
use crate::handler::HandlerSet;
use crate::in_handler;

/// The counters of a get, each optional.
#[derive(Clone, Copy, Debug, Default)]
pub struct GetOptions {
    /// Bumped here when the bytes are here (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the bytes have left (`tgt_cntr`). It belongs to the context that has exposed
    /// the memory.
    pub target: Option<CounterName>,
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Reads `to.len()` bytes at `from` (`LAPI_Get`). Returns when they are here. Makes progress, so that a flag may be waited
    /// for by reading it again.
    ///
    /// # Errors
    /// A range that is not exposed for reading, a dead target, a call inside a handler. What `to` holds then is undefined.
    pub fn get(&mut self, from: RemoteAddress, to: &mut [u8], options: GetOptions) -> Result<()> {
        in_handler::check("get")?;
        let op = Cell::new(None);
        let start = |context: &mut Self, to: RawBuffer| {
            note(&op, context.begin_get(from, to, options, End::held())?);
            Ok(())
        };
        lend_mut(self, to, start, |context| context.wait_begun(&op))?;
        self.progress_in_passing();
        // The notice for the target counter may still wait for room.
        let owner = self.fabric.peer(from.owner())?;
        self.wait_sent(owner)
    }

    pub(crate) fn begin_get(
        &mut self,
        from: RemoteAddress,
        to: RawBuffer,
        options: GetOptions,
        end: End,
    ) -> Result<Begun> {
        let notify = CounterName::to_wire(options.target);
        let end = End { origin: options.origin, ..end };
        self.engine.read(&mut self.fabric, from, to, notify, end)
    }

    /// Reads bytes at `from` without waiting for anything; outcome and report as for [`amsend_raw`](Self::amsend_raw).
    ///
    /// # Safety
    /// `to` stays writable, and nobody else reads or writes it, until this call returns [`Outcome::Done`] or an error, or
    /// the request is reported. Without a request the origin counter tells.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    #[expect(unsafe_code, reason = "a raw entry point: the caller keeps the memory")]
    pub unsafe fn get_raw(
        &mut self,
        from: RemoteAddress,
        to: RawBuffer,
        options: GetOptions,
        request: Option<u64>,
    ) -> Result<Outcome> {
        in_handler::check("get_raw")?;
        self.begin_get(from, to, options, End { request, ..End::default() }).map(Begun::outcome)
    }
}
