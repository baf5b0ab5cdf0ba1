//! `LAPI_Amsend`: a message whose header handler at the target names the place for its data.

use std::cell::Cell;

use am_core_engine::protocol::{Begun, Data, End, Gather, Outgoing, Posted};

use super::vector::note;
use crate::buffer::{RawBytes, lend};
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::{Outcome, Result};
use crate::fabric::Fabric;
use crate::handler::{Completion, HandlerId, HandlerSet, Place, Ticket};
use crate::in_handler;
use crate::task::{Endpoint, Target};
use crate::transfer::Gatherer;

/// The counters of a message, each optional, and how it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmOptions {
    /// Bumped here when the user data may be changed again (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the message is in place and its completion handler has run (`tgt_cntr`).
    pub target: Option<CounterName>,
    /// Bumped here when the target is done (`cmpl_cntr`).
    pub completion: Option<Counter>,
    /// The message may be answered by a predefined completion (`Completion::BumpAtSource`, `Completion::Reply`), and reserves room for that.
    /// So does a message with a completion counter, and one that is announced. All others are one-way.
    pub answerable: bool,
    /// The message is announced, also where its data would fit into one packet: they leave this task when the target has a
    /// place for them, and not before. What ends then, ends at the match (MPI's synchronous mode, and rendezvous).
    pub announce: bool,
}

impl AmOptions {
    #[inline(always)]
    pub(crate) fn outgoing<'a>(&self, target: Endpoint, handler: HandlerId, uhdr: &'a [u8]) -> Outgoing<'a> {
        Outgoing {
            target,
            handler,
            uhdr,
            target_counter: CounterName::to_wire(self.target),
            completion_counter: CounterName::to_wire(self.completion.map(Counter::name)),
            answerable: self.answerable,
            announce: self.announce,
        }
    }
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Sends a message to `target`, whose header handler `handler` gets `uhdr` and names the place for `udata`
    /// (`LAPI_Amsend`). Returns when `udata` may be changed again: where the data do not fit into one packet, that is when the
    /// target has taken them.
    ///
    /// # Errors
    /// An unknown or dead target, a user header longer than [`Limits`](crate::Limits) allow, a call inside a handler; a
    /// target that refused an announced message.
    #[inline(always)]
    pub fn amsend(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &[u8],
        options: AmOptions,
    ) -> Result<()> {
        in_handler::check("amsend")?;
        let outgoing = options.outgoing(target.seen_from(self.fabric.endpoint().context), handler, uhdr);
        if self.engine.post_line(&mut self.fabric, &outgoing, &mut &*udata) {
            self.engine.bump_own(options.origin);
            return Ok(());
        }
        self.amsend_slowly(outgoing, udata, options.origin)
    }

    /// Sends what does not fit into a completion entry, or met no credit.
    #[inline(never)]
    fn amsend_slowly(&mut self, outgoing: Outgoing<'_>, udata: &[u8], origin: Option<Counter>) -> Result<()> {
        let mut polls = 0;
        loop {
            match self.engine.post_whole(&mut self.fabric, &outgoing, &mut &*udata)? {
                Posted::Sent => {
                    self.engine.bump_own(origin);
                    return Ok(());
                }
                Posted::NoRoom => self.wait_for_room(&mut polls)?,
                Posted::NotWhole => return self.amsend_long(outgoing, udata, origin),
            }
        }
    }

    fn amsend_long(&mut self, outgoing: Outgoing<'_>, udata: &[u8], origin: Option<Counter>) -> Result<()> {
        let op = Cell::new(None);
        let start = |context: &mut Self, bytes: RawBytes| {
            let end = End { origin, ..End::held() };
            let Self { engine, fabric, .. } = context;
            note(&op, engine.send_later(fabric, outgoing, Data::Bytes(bytes), end)?);
            Ok(())
        };
        lend(self, udata, start, |context| context.wait_begun(&op))
    }

    /// As [`amsend`](Self::amsend), but never waits: [`Outcome::Done`], or [`Outcome::Retry`] if there is no room now or the data do not
    /// fit into one packet. Nothing was sent then.
    ///
    /// # Errors
    /// As for [`amsend`](Self::amsend).
    #[inline(always)]
    pub fn try_amsend(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &[u8],
        options: AmOptions,
    ) -> Result<Outcome> {
        in_handler::check("try_amsend")?;
        let outgoing = options.outgoing(target.seen_from(self.fabric.endpoint().context), handler, uhdr);
        if self.engine.post_whole(&mut self.fabric, &outgoing, &mut &*udata)? != Posted::Sent {
            return Ok(Outcome::Retry);
        }
        self.engine.bump_own(options.origin);
        Ok(Outcome::Done)
    }

    /// Sends a message without waiting for anything. [`Outcome::Done`]: the memory is free again, and nothing more is
    /// reported. [`Outcome::Posted`]: the message goes as soon as there is room (behind earlier ones to the same target), or
    /// its target fetches it; then `request` is reported to
    /// [`HandlerSet::complete_request`], well or not. Never
    /// [`Outcome::Retry`].
    ///
    /// # Safety
    /// `udata` stays readable, and nobody writes it, until this call returns [`Outcome::Done`] or an error, or the request
    /// is reported. Without a request the origin counter tells.
    ///
    /// # Errors
    /// As for [`amsend`](Self::amsend); nothing was sent then.
    #[inline]
    #[expect(unsafe_code, reason = "a raw entry point: the caller keeps the memory")]
    pub unsafe fn amsend_raw(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: RawBytes,
        options: AmOptions,
        request: Option<u64>,
    ) -> Result<Outcome> {
        in_handler::check("amsend_raw")?;
        let target = target.seen_from(self.fabric.endpoint().context);
        let outgoing = options.outgoing(target, handler, uhdr);
        if self.engine.post_line(&mut self.fabric, &outgoing, &mut { udata })
            || self.engine.post_whole(&mut self.fabric, &outgoing, &mut { udata })? == Posted::Sent
        {
            self.engine.bump_own(options.origin);
            return Ok(Outcome::Done);
        }
        let end = End { origin: options.origin, request, ..End::default() };
        self.engine.send_later(&mut self.fabric, outgoing, Data::Bytes(udata), end).map(Begun::outcome)
    }

    /// Gives up the message that [`amsend_raw`](Self::amsend_raw) has begun for `request`, unless its target has accepted it. The
    /// request is reported in every case: as withdrawn, or as the message ends.
    pub fn give_up(&mut self, request: u64) {
        for op in self.engine.ops.keys(|op| op.end.request == Some(request)) {
            self.engine.give_up(op, &mut self.fabric, &mut self.handlers);
        }
    }

    /// Sends a message whose data are not in one piece; does not wait, and reports as [`amsend_raw`](Self::amsend_raw) does.
    ///
    /// # Errors
    /// As for [`amsend`](Self::amsend); nothing was sent then.
    pub fn amsend_gather<G: Gatherer + 'static>(
        &mut self,
        target: Endpoint,
        handler: HandlerId,
        uhdr: &[u8],
        udata: G,
        options: AmOptions,
        request: Option<u64>,
    ) -> Result<Outcome> {
        in_handler::check("amsend_gather")?;
        let outgoing = options.outgoing(target, handler, uhdr);
        let end = End { origin: options.origin, request, ..End::default() };
        self.engine.send(&mut self.fabric, outgoing, Gather(udata), end).map(Begun::outcome)
    }

    /// Gives a message that a header handler has answered with [`Place::Later`] its place: it is placed at once if its data
    /// are here, and fetched otherwise; then `completion` runs. Does not wait.
    ///
    /// # Errors
    /// A ticket that names no waiting message (its sender may have died), a call inside a handler; what the message ended
    /// with, if `completion` does not take it.
    pub fn accept(&mut self, ticket: Ticket, place: Place, completion: Completion) -> Result<()> {
        in_handler::check("accept")?;
        self.engine.accept(ticket, place, completion, &mut self.fabric, &mut self.handlers)
    }

    /// Refuses a message that a header handler has answered with [`Place::Later`]: its origin's operation ends with an error.
    ///
    /// # Errors
    /// A ticket that names no waiting message, a call inside a handler.
    pub fn refuse(&mut self, ticket: Ticket) -> Result<()> {
        in_handler::check("refuse")?;
        self.engine.refuse_ticket(ticket, &mut self.fabric)
    }
}
