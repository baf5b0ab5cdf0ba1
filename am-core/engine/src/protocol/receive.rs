//! Handles packets in two steps, so that nothing borrows the NIC's buffer while something is sent.
//!
//! 1. [`Engine::receive`] consumes a packet in its buffer: it runs the header handler, stores the data, and returns what is [`Due`].
//! 2. The caller releases the packet's slot, then calls [`Engine::carry_out`] with what is due.

use super::arrival::{Origin, Packet, parse_message, run_header, unknown_handler};
use super::packet::{self, Fields, Kind, MessageHead};
use super::reassembly::Tail;
use super::slow_path::FollowUp;
use super::{Engine, announce, granted, malformed, stale, unknown_counter};
use crate::buffer::{Access, Arrived, ExposedRange, Grant, InlineBytes};
use crate::counter::CounterName;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer, World};
use crate::handler::{
    Answer, Completion, Delivered, Destination, HandlerId, HandlerSet, Message, PlainAnswer, PlainCompletion,
    PlainDestination,
};
use crate::task::TaskId;
use crate::transfer::Class;
use crate::user_code::{self, UserCode};

/// What has to be done after a packet was handled.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum Due {
    Nothing,
    /// A message has arrived whole, with a plain completion.
    Plain(PlainEnd),
    /// Something else, noted in the engine.
    FollowUp,
}

/// The end of a message whose answer is plain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainEnd {
    source: Peer,
    class: Class,
    head: MessageHead,
    completion: PlainCompletion,
    len: u64,
    placed: u64,
}

impl<U: UserCode> Engine<U> {
    /// Step 1: consumes a packet. Step 2 reports the packet's errors.
    #[inline(always)]
    pub(crate) fn receive<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &F,
        handlers: &mut H,
        packet: Packet<'_>,
    ) -> Due {
        // Three comparisons, most frequent kind first: a jump table would be hard to predict.
        if packet::is(packet.label, Kind::Message) {
            self.receive_message(fabric, handlers, packet)
        } else if packet::is(packet.label, Kind::Put) {
            self.receive_put(fabric, packet)
        } else if packet::is(packet.label, Kind::Notify) {
            self.receive_notice(packet)
        } else {
            self.receive_other(fabric, handlers, packet.origin(), packet.front, packet.rest);
            Due::FollowUp
        }
    }

    /// Step 2: carries out what is due.
    ///
    /// # Errors
    /// `UnknownCounter`; any error of the packet; `PeerFailed` if an answer could not be sent.
    #[inline(always)]
    pub(crate) fn carry_out<F: Fabric, H: HandlerSet>(
        &mut self,
        due: Due,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        match due {
            Due::Nothing => Ok(()),
            Due::Plain(end) => self.end_plain(end, fabric, handlers),
            Due::FollowUp => self.carry_out_cold(fabric, handlers),
        }
    }

    /// Handles a whole message: runs its header handler, and stores its data.
    #[inline(always)]
    fn receive_message<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &F,
        handlers: &mut H,
        packet: Packet<'_>,
    ) -> Due {
        let Some((head, uhdr, here)) = parse_message(packet) else {
            self.refuse_message(packet.origin());
            return Due::FollowUp;
        };
        let len = here.len() as u64;
        if handlers.consume(packet::handler_of(packet.label), packet.from.endpoint, uhdr, here) {
            let (source, class, completion) = (packet.from, packet.class, PlainCompletion::None);
            return Due::Plain(PlainEnd { source, class, head, completion, len, placed: len });
        }
        let ticket = self.next_ticket;
        let message = Message { source: packet.from.endpoint, uhdr, len, here: Some(here), ticket };
        let mut answer = None;
        if let Err(error) = run_header(self.user, handlers, packet.label, &message, &mut answer) {
            return self.refused(packet, error);
        }
        let PlainAnswer { destination, completion } = match answer {
            Some(Answer::Plain(answer)) => answer,
            Some(Answer::Full(destination, completion)) => {
                self.settle(fabric, packet.origin(), head, (destination, completion), here);
                return Due::FollowUp;
            }
            None => return self.refused(packet, unknown_handler(packet.label, &message, handlers)),
        };
        let placed = match destination {
            PlainDestination::Nowhere => 0,
            PlainDestination::Raw(to) => here.copy_to_buffer(to),
            PlainDestination::Exposed(ExposedRange { grant, offset, len }) => {
                match granted(fabric, grant, offset, len, Access::OWNER) {
                    Ok(to) => here.copy_to_buffer(to),
                    Err(error) => return self.refused(packet, error),
                }
            }
        };
        let (source, class, placed) = (packet.from, packet.class, placed as u64);
        Due::Plain(PlainEnd { source, class, head, completion, len, placed })
    }

    /// Ends a message with a plain answer: runs its completion, bumps its counters, and answers its origin.
    #[inline(always)]
    fn end_plain<F: Fabric, H: HandlerSet>(
        &mut self,
        end: PlainEnd,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        // An unknown counter is reported at the end: the message has arrived in any case.
        let mut missing = None;
        match end.completion {
            PlainCompletion::None => {}
            PlainCompletion::Bump(counter) => {
                missing = Some(counter.name()).filter(|&name| !self.counters.bump(name));
            }
            PlainCompletion::MarkRequest(request) => {
                handlers.complete_plain_request(request, end.source.endpoint, end.len, end.placed);
            }
        }
        if end.head.target_counter != 0 {
            let name = CounterName::from_wire(end.head.target_counter);
            missing = missing.or(name.filter(|&name| !self.counters.bump(name)));
        }
        if end.class == Class::Request {
            acknowledge(fabric, end.source, end.head.completion_counter)?;
        }
        match missing {
            None => Ok(()),
            Some(name) => Err(unknown_counter(name)),
        }
    }

    /// Stores the data of a whole message whose answer owns something.
    #[inline(never)]
    fn settle<F: Fabric>(
        &mut self,
        fabric: &F,
        origin: Origin,
        head: MessageHead,
        answer: (Destination, Completion),
        here: Arrived<'_>,
    ) {
        match self.place_whole(fabric, origin, head, answer, here) {
            Ok(cold) => self.later(cold),
            Err(error) => self.refuse_packet(origin, error),
        }
    }

    fn place_whole<F: Fabric>(
        &mut self,
        fabric: &F,
        Origin { from: source, class, .. }: Origin,
        head: MessageHead,
        (destination, completion): (Destination, Completion),
        here: Arrived<'_>,
    ) -> Result<FollowUp> {
        let mut buffer = None;
        let placed = match destination {
            Destination::Nowhere => 0,
            Destination::Raw(to) => here.copy_to_buffer(to),
            Destination::Exposed(ExposedRange { grant, offset, len }) => {
                here.copy_to_buffer(granted(fabric, grant, offset, len, Access::OWNER)?)
            }
            Destination::Owned(mut to) => {
                let placed = here.copy_to(&mut to);
                buffer = Some(to);
                placed
            }
            Destination::Sink(mut sink) => {
                user_code::run(self.user, source.endpoint, "sink", || sink.take(0, here))?;
                here.len()
            }
            Destination::Scatter(mut scatter) => {
                let len = here.len().min(usize::try_from(scatter.len()).unwrap_or(usize::MAX));
                let owned = |grant, offset, len| granted(fabric, grant, offset, len, Access::OWNER);
                scatter.put(owned, 0, here.take(len))?;
                buffer = scatter.into_buffer();
                len
            }
            Destination::Later => {
                return Ok(announce::keep_whole(source, class, head, here, completion));
            }
        };
        let len = here.len() as u64;
        let delivered =
            Delivered { source: source.endpoint, len, placed: placed as u64, buffer, outcome: Ok(()) };
        let tail = Tail::of_whole(class, head);
        Ok(FollowUp::Complete { source, completion, delivered, tail })
    }

    /// Stores the data of a short put, and bumps its counter.
    #[inline(always)]
    fn receive_put<F: Fabric>(&mut self, fabric: &F, packet: Packet<'_>) -> Due {
        let mut fields = Fields(packet.front);
        let (Some(names), Some(offset), Some(counter)) = (fields.u64(), fields.u64(), fields.u64()) else {
            self.refuse_message(packet.origin());
            return Due::FollowUp;
        };
        let data = fields.0;
        let grant = Grant { region: names as u32, generation: (names >> 32) as u32 };
        if grant.is_for_operation() || !packet.rest.is_empty() {
            let owner = fabric.world().endpoint().task;
            self.refuse_put((packet.origin(), owner), grant, offset, data.len() + packet.rest.len());
            return Due::FollowUp;
        }
        match granted(fabric, grant, offset, data.len() as u64, Access::WRITE) {
            Ok(to) => to.fill_from(data),
            Err(error) => return self.refused(packet, error),
        };
        self.count(packet, counter as u32)
    }

    /// Bumps the counter that a notice names: the origin has carried out a put or get.
    #[inline(always)]
    fn receive_notice(&mut self, packet: Packet<'_>) -> Due {
        match Fields(packet.front).u32() {
            Some(counter) => self.count(packet, counter),
            None => {
                self.refuse_message(packet.origin());
                Due::FollowUp
            }
        }
    }

    /// Adds 1 to the counter that a packet names.
    #[inline(always)]
    fn count(&mut self, packet: Packet<'_>, counter: u32) -> Due {
        match CounterName::from_wire(counter) {
            Some(name) if !self.counters.bump(name) => self.refused(packet, unknown_counter(name)),
            _ => Due::Nothing,
        }
    }

    /// Refuses a packet. Functions that are not inlined return nothing, since a result would force values of [`receive`](Self::receive)
    /// from registers into memory.
    #[inline(always)]
    fn refused(&mut self, packet: Packet<'_>, error: Error) -> Due {
        self.refuse_packet(packet.origin(), error);
        Due::FollowUp
    }

    #[cold]
    #[inline(never)]
    fn refuse_message(&mut self, origin: Origin) {
        let what =
            "a message, put or notice that is too short, or that asks for an answer and may not be answered";
        self.refuse_packet(origin, malformed(origin.from, what));
    }

    #[cold]
    #[inline(never)]
    fn refuse_put(&mut self, (origin, owner): (Origin, TaskId), grant: Grant, offset: u64, len: usize) {
        let error = if grant.is_for_operation() {
            stale(owner, grant, offset, len as u64)
        } else {
            malformed(origin.from, "a put too long for one packet")
        };
        self.refuse_packet(origin, error);
    }
}

/// Answers a request: names the completion counter that its origin waits for, or, if there is none, waives the answer.
#[inline(always)]
fn acknowledge<F: Fabric>(fabric: &mut F, origin: Peer, completion_counter: u32) -> Result<()> {
    if completion_counter == 0 {
        fabric.waive(origin.index);
        return Ok(());
    }
    let mut packet = InlineBytes::new();
    let fitted = packet.push(&completion_counter.to_le_bytes());
    debug_assert!(fitted, "four bytes fit into an empty packet");
    // An answer has a reserved slot, so it never waits.
    let label = packet::label(Kind::CounterAck, HandlerId(0));
    let _ = fabric.post_inline(origin.index, Class::Answer, label, &packet)?;
    Ok(())
}
