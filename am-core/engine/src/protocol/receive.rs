//! Handles packets in two steps, so that nothing borrows the NIC's buffer while something is sent.
//!
//! 1. [`Engine::receive`] consumes a packet in its buffer: it runs the header handler, stores the data, and returns what is [`Due`].
//! 2. The caller releases the packet's slot, then calls [`Engine::carry_out`] with what is due.

use super::cold::Cold;
use super::packet::{self, Fields, Kind, MessageHead};
use super::reassembly::Tail;
use super::{Engine, FRONT_BYTES_MAX, announce, granted, malformed, stale, unknown_counter};
use crate::buffer::{Access, Arrived, ExposedRange, Grant, InlineBytes};
use crate::counter::CounterName;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{
    Answer, Completion, Delivered, Destination, HandlerId, HandlerSet, Message, PlainAnswer, PlainCompletion,
    PlainDestination,
};
use crate::task::TaskId;
use crate::transfer::Class;
use crate::user_code::{self, UserCode};
use alloc::boxed::Box;

/// A packet to be handled.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub(crate) from: Peer,
    /// The credit that the packet took, which says whether the packet may be answered.
    pub(crate) class: Class,
    /// Kind and handler.
    pub(crate) label: u16,
    /// The packet's head in private memory; the whole packet, if it came inside its entry.
    pub(crate) front: &'a [u8],
    /// What follows the head in the NIC's buffer.
    pub(crate) rest: Arrived<'a>,
}

impl<'a> Packet<'a> {
    /// The arguments for functions outside the fast path. A packet passed to a function that is not inlined would have to be in memory on
    /// the fast path, too.
    #[inline(always)]
    pub(crate) fn origin(&self) -> Origin {
        Origin { from: self.from, class: self.class, label: self.label }
    }

    /// The bytes after the first `len`. `None`: the packet is shorter, or its head does not have the claimed length.
    #[inline(always)]
    pub(crate) fn behind(&self, len: usize) -> Option<Arrived<'a>> {
        if self.rest.is_empty() {
            self.front.get(len..).map(Arrived::private)
        } else {
            (self.front.len() == len).then_some(self.rest)
        }
    }

    /// The fields of a packet of fixed format.
    ///
    /// # Errors
    /// `Protocol`: the packet is longer than any such packet.
    pub(crate) fn fields(&self) -> Result<Fields<'a>> {
        if !self.rest.is_empty() {
            return Err(malformed(self.from, "a packet longer than its kind can be"));
        }
        Ok(Fields(self.front))
    }
}

/// The sender, class and label of a packet: enough to refuse it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) from: Peer,
    pub(crate) class: Class,
    pub(crate) label: u16,
}

/// Private memory for a head that is too long for its entry.
#[derive(Debug)]
pub struct Front(Box<[u8; FRONT_BYTES_MAX]>);

impl Default for Front {
    fn default() -> Self {
        Self(Box::new([0; FRONT_BYTES_MAX]))
    }
}

impl Front {
    /// Copies the head of a message, or as much of another packet as a head can have. The first bytes of a message's head contain the
    /// head's length. They are read only once, because the sender could change them.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy(&mut self, label: u16, all: &Arrived<'_>) -> &[u8] {
        let mut len = FRONT_BYTES_MAX;
        let mut first = 0;
        if Kind::of(label) == Kind::Message {
            first = all.copy_to(&mut self.0[..MessageHead::BYTES_MAX]);
            let head = MessageHead::parse(&self.0[..first]);
            len = head.map_or(first, |head| head.len() + usize::from(head.uhdr_len)).clamp(first, len);
        }
        let rest = all.skip(first).copy_to(&mut self.0[first..len]);
        &self.0[..first + rest]
    }
}

/// What has to be done after a packet was handled.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum Due {
    Nothing,
    /// A message has arrived whole, with a plain completion.
    Plain(PlainEnd),
    /// Something else, noted in the engine.
    Cold,
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
            Due::Cold
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
            Due::Cold => self.carry_out_cold(fabric, handlers),
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
            return Due::Cold;
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
                return Due::Cold;
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
    ) -> Result<Cold> {
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
        Ok(Cold::Complete { source, completion, delivered, tail })
    }

    /// Stores the data of a short put, and bumps its counter.
    #[inline(always)]
    fn receive_put<F: Fabric>(&mut self, fabric: &F, packet: Packet<'_>) -> Due {
        let mut fields = Fields(packet.front);
        let (Some(names), Some(offset), Some(counter)) = (fields.u64(), fields.u64(), fields.u64()) else {
            self.refuse_message(packet.origin());
            return Due::Cold;
        };
        let data = fields.0;
        let grant = Grant { region: names as u32, generation: (names >> 32) as u32 };
        if grant.is_for_operation() || !packet.rest.is_empty() {
            let owner = fabric.endpoint().task;
            self.refuse_put((packet.origin(), owner), grant, offset, data.len() + packet.rest.len());
            return Due::Cold;
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
                Due::Cold
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
        Due::Cold
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

/// The parts of a message: the head, the user header, and the data. `None`: the packet is not a valid message.
#[inline(always)]
fn parse_message<'a>(packet: Packet<'a>) -> Option<(MessageHead, &'a [u8], Arrived<'a>)> {
    let head = MessageHead::parse(packet.front)?;
    let data_at = head.len() + usize::from(head.uhdr_len);
    let uhdr = packet.front.get(head.len()..data_at)?;
    let may_be_answered = head.completion_counter == 0 || packet.class == Class::Request;
    let data = packet.behind(data_at).filter(|_| may_be_answered)?;
    Some((head, uhdr, data))
}

/// Runs the header handler. Its answer is written to the caller's memory, since returning it through several functions would copy it.
///
/// # Errors
/// `HandlerPanicked`.
#[inline(always)]
pub(super) fn run_header<U: UserCode, H: HandlerSet>(
    user: U,
    handlers: &mut H,
    label: u16,
    message: &Message<'_>,
    answer: &mut Option<Answer>,
) -> Result<()> {
    let id = packet::handler_of(label);
    if H::RUNS_USER_CODE {
        // The old value is forgotten: the compiler does not see that it is empty and needs no drop.
        let run = || core::mem::forget(core::mem::replace(answer, handlers.header(id, message)));
        user_code::run(user, message.source, "header", run)
    } else {
        *answer = handlers.header(id, message);
        Ok(())
    }
}

#[cold]
#[inline(never)]
pub(super) fn unknown_handler(label: u16, message: &Message<'_>, handlers: &impl HandlerSet) -> Error {
    let handler = packet::handler_of(label).0;
    Error::UnknownHandler { handler, origin: message.source, registered: handlers.count() }
}
