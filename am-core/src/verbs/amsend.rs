//! `LAPI_Amsend`: a message whose header handler at the target returns the destination of its data.

use am_core_engine::protocol::{End, Issued, Outgoing, Source};

use super::operation::{ByDriver, Operation, sealed::Sealed};
use crate::buffer::RawBytes;
use crate::call_guard;
use crate::context::Context;
use crate::counter::{Counter, CounterName};
use crate::error::{Outcome, Result};
use crate::fabric::{Fabric, Peer, World};
use crate::handler::{Completion, Destination, HandlerId, HandlerSet, Ticket};
use crate::record;
use crate::task::{Endpoint, Target, TaskId};
use crate::transfer::{Gather, Gatherer, Posted};
use crate::user_code::{Guarded, Unguarded};

/// The counters of a message, each optional, and how it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct AmOptions {
    /// Bumped here when the user data may be changed (`org_cntr`).
    pub origin: Option<Counter>,
    /// Bumped at the target when the message is stored and its completion handler has run (`tgt_cntr`).
    pub target: Option<CounterName>,
    /// Bumped here when the target is done (`cmpl_cntr`).
    pub completion: Option<Counter>,
    /// Whether a predefined completion may answer the message (`Completion::BumpAtSource`, `Completion::Reply`). A credit is then reserved
    /// for the answer. A completion counter and an announcement imply this. All other messages are one-way.
    pub answerable: bool,
    /// Whether the message is announced even if its data fit into one packet. The data of an announced message leave this task only when
    /// the target has a destination for them, so the operation does not end before the target has chosen one (as in MPI's synchronous
    /// mode).
    pub announce: bool,
}

/// Describes a message (`LAPI_Amsend`) for the calls that take an [`Operation`]. Its data are local memory in one piece or in
/// [`Pieces`](crate::vector::Pieces) (`LAPI_Amsendv`).
///
/// # Errors
/// When it is begun: an unknown or dead target, a user header that is too long.
#[derive(Clone, Copy, Debug)]
pub struct Amsend<'a, T = TaskId> {
    /// The target: a task, or an endpoint.
    pub target: T,
    /// The header handler that runs at the target.
    pub handler: HandlerId,
    /// The user header.
    pub uhdr: &'a [u8],
    /// The message's counters, and how it is sent.
    pub options: AmOptions,
}

impl<'a, T> Amsend<'a, T> {
    #[inline(always)]
    pub(crate) fn outgoing(&self, target: Endpoint) -> Outgoing<'a> {
        Outgoing {
            target,
            handler: self.handler,
            uhdr: self.uhdr,
            target_counter: CounterName::to_wire(self.options.target),
            completion_counter: CounterName::to_wire(self.options.completion.map(Counter::name)),
            answerable: self.options.answerable,
            announce: self.options.announce,
        }
    }
}

impl<T> Sealed for Amsend<'_, T> {}

impl<T: Target, S: Source> Operation<S> for Amsend<'_, T> {
    const CALL: &'static str = "amsend";

    #[inline]
    fn begin<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        memory: S,
        end: End,
        _driver: ByDriver,
    ) -> Result<Issued> {
        let target = self.target.seen_from(context.fabric.world().endpoint().context);
        record::sent(&context.handlers, target.task, (self.handler, self.uhdr), memory.len() as u64);
        let outgoing = self.outgoing(target);
        let end = End { origin: self.options.origin, ..end };
        context.engine.send(&mut context.fabric, outgoing, memory, end)
    }
}

/// An [`Amsend`] without counters whose data are sent as several messages: see [`Context::try_amsend_in_pieces`]. Pieces that cannot be
/// sent at once wait for credits, so [`Context::pieces_may_wait`] must hold for their number.
#[derive(Clone, Copy, Debug)]
pub struct AmsendInPieces<'a> {
    /// The message, whose options are not used.
    pub message: Amsend<'a>,
    /// Bytes of each piece but the last one, which may be shorter. Not 0.
    pub piece_bytes: u32,
}

impl Sealed for AmsendInPieces<'_> {}

impl Operation<RawBytes> for AmsendInPieces<'_> {
    const CALL: &'static str = "amsend";

    fn begin<F: Fabric, H: HandlerSet>(
        &self,
        context: &mut Context<F, H>,
        memory: RawBytes,
        end: End,
        _driver: ByDriver,
    ) -> Result<Issued> {
        let Amsend { target, handler, uhdr, .. } = self.message;
        record::sent(&context.handlers, target, (handler, uhdr), memory.len() as u64);
        let target = target.seen_from(context.fabric.world().endpoint().context);
        let outgoing = Amsend { target, handler, uhdr, options: AmOptions::default() }.outgoing(target);
        context.engine.send_in_pieces(&mut context.fabric, &outgoing, memory, self.piece_bytes, end)
    }
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Sends a message to `target`, whose header handler `handler` gets `uhdr` and returns the destination of `udata` (`LAPI_Amsend`).
    /// Returns when `udata` may be changed. By then, data that do not fit into one packet are at the target.
    ///
    /// # Errors
    /// An unknown or dead target, a user header longer than [`Limits`](crate::Limits) allow, a call inside a handler; a target that refused
    /// an announced message; the failure of any task while the call waits for a credit.
    #[inline(always)]
    pub fn amsend(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &[u8],
        options: AmOptions,
    ) -> Result<()> {
        let target = target.seen_from(self.fabric.world().endpoint().context);
        let message = Amsend { target, handler, uhdr, options };
        if call_guard::is_unmarked() && self.post_now(&message, udata) {
            Ok(())
        } else {
            self.amsend_slowly(message, udata)
        }
    }

    /// Sends a message without counters if it fits into one packet, and credits are available; returns whether the message was sent. If
    /// not, call [`amsend`](Self::amsend) or [`try_amsend`](Self::try_amsend). In a process that has run handlers of the program, has a
    /// recorder or is a forked copy, this call never sends. `target` must be a value that [`peer`](Self::peer) has returned; nothing is
    /// sent to any other target. Panics if the message does not fit into one packet ([`Limits`](crate::Limits)).
    ///
    /// Until a short message is sent, this function calls no other, so the caller need not save values around a call.
    #[inline(always)]
    pub fn try_amsend_packet(&mut self, target: Peer, handler: HandlerId, uhdr: &[u8], udata: &[u8]) -> bool {
        let message = Amsend { target: target.endpoint, handler, uhdr, options: AmOptions::default() };
        let outgoing = message.outgoing(target.endpoint);
        call_guard::is_unmarked_process() && self.engine.post_now(&mut self.fabric, target, &outgoing, udata)
    }

    #[inline(always)]
    fn post_now(&mut self, message: &Amsend<'_, Endpoint>, udata: &[u8]) -> bool {
        let outgoing = message.outgoing(message.target);
        // The compiler then leaves out the path of longer data, which would cost the registers of the short one.
        if !outgoing.is_inline(udata.len()) {
            return false;
        }
        let Ok(target) = self.fabric.peer(message.target) else { return false };
        let is_sent = self.engine.post_now(&mut self.fabric, target, &outgoing, udata);
        if is_sent {
            self.engine.bump_own(message.options.origin);
        }
        is_sent
    }

    /// The slow path of [`amsend`](Self::amsend): the message does not fit into a completion entry or found no credit, or the process has
    /// marks ([`in_handler`]).
    #[inline(never)]
    fn amsend_slowly(&mut self, message: Amsend<'_, Endpoint>, udata: &[u8]) -> Result<()> {
        if !call_guard::is_unmarked() {
            // `run` refuses calls inside handlers, and records the call.
            return self.run(message, udata);
        }
        let (outgoing, mut polls) = (message.outgoing(message.target), 0);
        loop {
            match self.engine.post_whole(&mut self.fabric, &outgoing, &mut &*udata)? {
                Some(Posted::Done) => {
                    self.engine.bump_own(message.options.origin);
                    return Ok(());
                }
                Some(Posted::Retry) => self.wait_for_credit(&mut polls)?,
                None => return self.run(message, udata),
            }
        }
    }

    /// Like [`amsend`](Self::amsend), without waiting. Returns [`Posted::Done`], or [`Posted::Retry`] (nothing was sent) if there is no
    /// credit now or the message cannot be sent as one packet.
    ///
    /// # Errors
    /// Those of [`amsend`](Self::amsend).
    #[inline(always)]
    pub fn try_amsend(
        &mut self,
        target: impl Target,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &[u8],
        options: AmOptions,
    ) -> Result<Posted> {
        let target = target.seen_from(self.fabric.world().endpoint().context);
        if !call_guard::is_unmarked() {
            return self.try_amsend_marked(Amsend { target, handler, uhdr, options }, udata);
        }
        self.try_amsend_now(Amsend { target, handler, uhdr, options }, udata)
    }

    /// [`try_amsend`](Self::try_amsend) in a process with marks ([`in_handler`]). Records the message only if it was sent.
    #[cold]
    #[inline(never)]
    fn try_amsend_marked(&mut self, message: Amsend<'_, Endpoint>, udata: &[u8]) -> Result<Posted> {
        call_guard::check_marked("try_amsend")?;
        let outcome = self.try_amsend_now(message, udata)?;
        if outcome == Posted::Done {
            let Amsend { target, handler, uhdr, .. } = message;
            record::sent(&self.handlers, target.task, (handler, uhdr), udata.len() as u64);
        }
        Ok(outcome)
    }

    #[inline(always)]
    fn try_amsend_now(&mut self, message: Amsend<'_, Endpoint>, udata: &[u8]) -> Result<Posted> {
        let outgoing = message.outgoing(message.target);
        if self.engine.post_whole(&mut self.fabric, &outgoing, &mut &*udata)? != Some(Posted::Done) {
            return Ok(Posted::Retry);
        }
        self.engine.bump_own(message.options.origin);
        Ok(Posted::Done)
    }

    /// Sends `udata` as several messages of `piece_bytes` (the last one may be shorter), between which the target gets no other message of
    /// this context: the first has the user header `uhdr`, and the others have none. Sends nothing and returns [`Posted::Retry`] unless
    /// all of them can be sent at once, and are sooner there than one announced message ([`takes_pieces`](Self::takes_pieces)).
    ///
    /// # Errors
    /// Those of [`amsend`](Self::amsend).
    ///
    /// # Panics
    /// `piece_bytes` is 0.
    pub fn try_amsend_in_pieces(
        &mut self,
        target: TaskId,
        handler: HandlerId,
        uhdr: &[u8],
        udata: &[u8],
        piece_bytes: u32,
    ) -> Result<Posted> {
        call_guard::check("try_amsend_in_pieces")?;
        let to = target.seen_from(self.fabric.world().endpoint().context);
        let outgoing = Amsend { target: to, handler, uhdr, options: AmOptions::default() }.outgoing(to);
        let sent = self.engine.try_in_pieces(&mut self.fabric, &outgoing, udata, piece_bytes as usize)?;
        if sent == Posted::Done {
            record::sent(&self.handlers, target, (handler, uhdr), udata.len() as u64);
        }
        Ok(sent)
    }

    /// Withdraws the message that [`start_raw`](Self::start_raw) has begun for `request`, unless its target has accepted it. The request is
    /// reported in either case, as withdrawn or with the message's own result.
    pub fn give_up(&mut self, request: u64) {
        for op in self.engine.ops.keys(|op| op.end.request == Some(request)) {
            self.engine.give_up(op, &mut self.fabric, &mut self.handlers);
        }
    }

    /// Sends a message whose data a gatherer writes. Does not wait; reports like [`start_raw`](Self::start_raw). If the gatherer panics
    /// later, `request` is reported with [`Error::HandlerPanicked`](crate::Error::HandlerPanicked); without a request, the next call that
    /// makes progress returns the error. The context remains usable, and the target drops what has arrived of the message.
    ///
    /// # Errors
    /// Those of [`amsend`](Self::amsend), and the panic of a gatherer in this call; nothing was sent then.
    pub fn amsend_gather<T: Target, G: Gatherer + 'static>(
        &mut self,
        message: Amsend<'_, T>,
        udata: G,
        request: Option<u64>,
    ) -> Result<Outcome> {
        call_guard::check("amsend_gather")?;
        let (own, end) = (self.endpoint(), End { request, ..End::default() });
        let begun = if H::RUNS_USER_CODE {
            message.begin(self, Gather::new(udata, Guarded, own), end, ByDriver(()))
        } else {
            message.begin(self, Gather::new(udata, Unguarded, own), end, ByDriver(()))
        };
        begun.map(Issued::outcome)
    }

    /// Names the destination of a message whose header handler has returned [`Destination::Later`]. The data are stored at once if they
    /// have arrived, and fetched otherwise; then `completion` runs. Does not wait.
    ///
    /// # Errors
    /// A ticket that names no waiting message (its sender may have died), a call inside a handler; the error of the message, if
    /// `completion` does not receive it.
    pub fn accept(&mut self, ticket: Ticket, destination: Destination, completion: Completion) -> Result<()> {
        call_guard::check("accept")?;
        self.engine.accept(ticket, destination, completion, &mut self.fabric, &mut self.handlers)
    }

    /// Refuses a message whose header handler has returned [`Destination::Later`]: the message is dropped. An origin that waits for an
    /// answer gets an error.
    ///
    /// # Errors
    /// A ticket that names no waiting message, an origin that is gone, a call inside a handler.
    pub fn refuse(&mut self, ticket: Ticket) -> Result<()> {
        call_guard::check("refuse")?;
        self.engine.refuse_ticket(ticket, &mut self.fabric)
    }
}
