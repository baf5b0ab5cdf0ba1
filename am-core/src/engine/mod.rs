//! The protocol engine: what packets mean. It reads no clock, does no IO, spawns nothing, and knows no fabric.
//!
//! It works in two steps, so that nothing borrows the NIC's buffer while something is sent:
//!
//! 1. `handle_packet` consumes a packet where it lies: it runs the header handler, places the bytes, and returns what is
//!    [`Due`].
//! 2. The caller gives the packet's place back, then calls `carry_out` with what is due and the level below.

pub mod packet;

use crate::buffer::{Access, ExposedRange, Grant};
use crate::buffer::{Arrived, InlineBytes, RawBuffer};
use crate::counter::{CounterName, Counters};
use crate::error::{Error, Outcome, Result};
use crate::handler::{Answer, Completion, Delivered, HandlerId, HandlerSet, Message, Place, Ticket};
use crate::in_handler;
use crate::task::Endpoint;
use crate::transfer::{Body, Class};

use packet::{Fields, Kind, MessageHead};

/// Bytes of a user header, at most (LAPI's `MAX_UHDR_SZ`).
pub const UHDR_BYTES_MAX: usize = 960;

/// The level below, as the engine sees it.
pub trait Lower {
    /// Sends a packet inside a completion entry.
    ///
    /// # Errors
    /// A dead or unknown target.
    fn post_inline(&mut self, to: Endpoint, class: Class, label: u16, bytes: &InlineBytes)
    -> Result<Outcome>;

    /// Sends a packet of `head` and `body`.
    ///
    /// # Errors
    /// A dead or unknown target.
    fn post_packet(
        &mut self,
        to: Endpoint,
        class: Class,
        label: u16,
        head: &[u8],
        body: &mut impl Body,
    ) -> Result<Outcome>;

    /// A request of `origin` will not be answered.
    fn waive(&mut self, origin: Endpoint);
}

/// This task's own granted memory, as the engine sees it while a packet is looked at.
pub trait Grants {
    /// The memory of a live grant that gives peers all of `access`.
    ///
    /// # Errors
    /// The range is not granted (any more).
    fn granted(&self, grant: Grant, offset: u64, len: u64, access: Access) -> Result<RawBuffer>;
}

/// A packet to be handled.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Who sent it.
    pub from: Endpoint,
    /// Which room it took: whether it may be answered.
    pub class: Class,
    /// Kind and handler.
    pub label: u16,
    /// Its bytes, in private memory if they came inside the entry.
    pub bytes: PacketBytes<'a>,
}

/// Where the bytes of a packet are.
#[derive(Debug)]
pub enum PacketBytes<'a> {
    /// In private memory: parsed where they are.
    Inline(&'a InlineBytes),
    /// In the NIC's buffer: what is parsed is copied first.
    Buffered(Arrived<'a>),
}

/// What is to be done after a packet was handled.
#[derive(Debug)]
#[must_use]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A message is whole: its completion.
    Complete(Complete),
}

/// The end of a message at the target.
#[derive(Debug)]
pub struct Complete {
    completion: Completion,
    delivered: Delivered,
    class: Class,
    target_counter: u32,
    completion_counter: u32,
}

/// Protocol state of one context.
#[derive(Debug, Default)]
pub struct Engine {
    /// The context's counters.
    pub counters: Counters,
    uhdr: UhdrCopy,
}

/// Private memory for the user header of a packet that lies in the NIC's buffer.
#[derive(Debug)]
struct UhdrCopy(Box<[u8; UHDR_BYTES_MAX + MessageHead::BYTES_MAX]>);

impl Default for UhdrCopy {
    fn default() -> Self {
        Self(Box::new([0; UHDR_BYTES_MAX + MessageHead::BYTES_MAX]))
    }
}

impl Engine {
    /// Consumes a packet: step 1.
    ///
    /// # Errors
    /// The packet is one that no correct peer sends, or it names something that does not exist here.
    #[inline(always)]
    pub fn handle_packet<G: Grants, H: HandlerSet>(
        &mut self,
        grants: &G,
        handlers: &mut H,
        packet: &Packet<'_>,
    ) -> Result<Due> {
        match Kind::of(packet.label) {
            Kind::Message => match packet.bytes {
                PacketBytes::Inline(bytes) => handle_message(
                    grants,
                    handlers,
                    packet,
                    bytes.as_slice(),
                    Arrived::private(bytes.as_slice()),
                ),
                PacketBytes::Buffered(arrived) => {
                    let copied = arrived.copy_to(&mut self.uhdr.0[..]);
                    handle_message(grants, handlers, packet, &self.uhdr.0[..copied], arrived)
                }
            },
            Kind::Put => self.handle_put(grants, packet),
            Kind::Notify => self.handle_notify(packet),
            Kind::CounterAck => self.handle_notify(packet),
            _ => Err(malformed(packet.from, "a packet of an unknown kind")),
        }
    }

    /// Does what is due: step 2.
    ///
    /// # Errors
    /// A counter that does not exist, or an answer that could not be sent.
    #[inline(always)]
    pub fn carry_out<L: Lower, H: HandlerSet>(
        &mut self,
        due: Due,
        lower: &mut L,
        handlers: &mut H,
    ) -> Result<()> {
        match due {
            Due::Nothing => Ok(()),
            Due::Complete(complete) => self.complete(complete, lower, handlers),
        }
    }

    #[inline(always)]
    fn complete<L: Lower, H: HandlerSet>(
        &mut self,
        complete: Complete,
        lower: &mut L,
        handlers: &mut H,
    ) -> Result<()> {
        let Complete { completion, delivered, class, target_counter, completion_counter } = complete;
        let source = delivered.source;
        match completion {
            Completion::None => {}
            Completion::MarkRequest(request) => handlers.complete_request(request, delivered),
            Completion::Bump(counter) => self.bump(Some(counter.name()))?,
            _ => return Err(malformed_completion(source)),
        }
        if target_counter != 0 {
            self.bump(CounterName::from_wire(target_counter))?;
        }
        if class == Class::Request {
            acknowledge(lower, source, completion_counter)?;
        }
        Ok(())
    }

    /// A whole message that came inside its entry: both steps in one, since its bytes are in private memory already. The
    /// frequent answers end here; nothing of them is moved about.
    ///
    /// # Errors
    /// As for [`handle_packet`](Self::handle_packet) and [`carry_out`](Self::carry_out).
    #[inline(always)]
    pub fn handle_inline_message<L: Lower + Grants, H: HandlerSet>(
        &mut self,
        lower: &mut L,
        handlers: &mut H,
        source: Endpoint,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<()> {
        let (head, uhdr, data_at) = parse_message((source, class), bytes.as_slice())?;
        let here = Arrived::private(bytes.as_slice()).skip(data_at);
        let len = here.len() as u64;
        let message = Message { source, uhdr, len, here: Some(here), ticket: Ticket(0) };
        let answer = run_header(handlers, label, &message)?;
        let placed = match answer.place {
            Place::Nowhere => 0,
            Place::Raw(to) => here.copy_to_buffer(to),
            _ => return self.settle_inline(lower, handlers, (source, class), head, answer, here),
        };
        match answer.completion {
            Completion::None => {}
            Completion::MarkRequest(request) => {
                let placed = placed as u64;
                handlers.complete_request(
                    request,
                    Delivered { source, len, placed, buffer: None, outcome: Ok(()) },
                );
            }
            Completion::Bump(counter) => self.bump(Some(counter.name()))?,
            _ => return self.settle_inline(lower, handlers, (source, class), head, answer, here),
        }
        if head.target_counter != 0 {
            self.bump(CounterName::from_wire(head.target_counter))?;
        }
        if class == Class::Request {
            acknowledge(lower, source, head.completion_counter)?;
        }
        Ok(())
    }

    /// The answers that [`handle_inline_message`](Self::handle_inline_message) leaves to the general way.
    #[inline(never)]
    fn settle_inline<L: Lower + Grants, H: HandlerSet>(
        &mut self,
        lower: &mut L,
        handlers: &mut H,
        (source, class): (Endpoint, Class),
        head: MessageHead,
        answer: Answer,
        here: Arrived<'_>,
    ) -> Result<()> {
        let due = settle(lower, source, class, head, answer, here)?;
        self.carry_out(due, lower, handlers)
    }

    #[inline(always)]
    fn bump(&mut self, name: Option<CounterName>) -> Result<()> {
        match name {
            Some(name) if !self.counters.bump(name) => Err(unknown_counter(name)),
            _ => Ok(()),
        }
    }

    /// A tiny put: the target places it, as it makes the progress that the counter needs anyway.
    #[inline(always)]
    fn handle_put<G: Grants>(&mut self, grants: &G, packet: &Packet<'_>) -> Result<Due> {
        let PacketBytes::Inline(bytes) = packet.bytes else {
            return Err(malformed(packet.from, "a tiny put that is not tiny"));
        };
        let mut fields = Fields(bytes.as_slice());
        let (Some(region), Some(generation), Some(offset), Some(counter)) =
            (fields.u32(), fields.u32(), fields.u64(), fields.counter())
        else {
            return Err(malformed(packet.from, "a put shorter than its head"));
        };
        let data = fields.0;
        grants
            .granted(Grant { region, generation }, offset, data.len() as u64, Access::WRITE)?
            .fill_from(data);
        self.bump(counter)?;
        Ok(Due::Nothing)
    }

    #[inline(always)]
    fn handle_notify(&mut self, packet: &Packet<'_>) -> Result<Due> {
        let PacketBytes::Inline(bytes) = packet.bytes else {
            return Err(malformed(packet.from, "a notice that is not tiny"));
        };
        let Some(counter) = Fields(bytes.as_slice()).counter() else {
            return Err(malformed(packet.from, "a notice without its counter"));
        };
        self.bump(counter)?;
        Ok(Due::Nothing)
    }
}

/// Answers a request: bumps the counter that its origin waits on, or says that nobody will answer.
#[inline(always)]
fn acknowledge<L: Lower>(lower: &mut L, origin: Endpoint, completion_counter: u32) -> Result<()> {
    if completion_counter == 0 {
        lower.waive(origin);
        return Ok(());
    }
    let mut packet = InlineBytes::new();
    let fitted = packet.push(&completion_counter.to_le_bytes());
    debug_assert!(fitted, "four bytes fit into an empty packet");
    // An answer has its room reserved: it is never put off.
    let _ =
        lower.post_inline(origin, Class::Answer, packet::label(Kind::CounterAck, HandlerId(0)), &packet)?;
    Ok(())
}

/// What a message says before its data: the head, and where the data begin.
#[inline(always)]
fn parse_message<'a>(packet: (Endpoint, Class), front: &'a [u8]) -> Result<(MessageHead, &'a [u8], usize)> {
    let Some(head) = MessageHead::parse(front) else {
        return Err(malformed(packet.0, "a message shorter than its head"));
    };
    let data_at = head.len() + usize::from(head.uhdr_len);
    let Some(uhdr) = front.get(head.len()..data_at) else {
        return Err(malformed(packet.0, "a user header longer than its packet, or than allowed"));
    };
    if head.completion_counter != 0 && packet.1 != Class::Request {
        return Err(malformed(packet.0, "a completion counter in a message that may not be answered"));
    }
    Ok((head, uhdr, data_at))
}

/// Runs the header handler.
#[inline(always)]
fn run_header<H: HandlerSet>(handlers: &mut H, label: u16, message: &Message<'_>) -> Result<Answer> {
    let id = packet::handler_of(label);
    let answer = if H::RUNS_USER_CODE {
        in_handler::run(|| handlers.header(id, message))
    } else {
        handlers.header(id, message)
    };
    answer.ok_or_else(|| unknown_handler(message.source, id, handlers.count()))
}

/// A whole message: `front` is its beginning in private memory (all of it, if it came inline).
#[inline(always)]
fn handle_message<G: Grants, H: HandlerSet>(
    grants: &G,
    handlers: &mut H,
    packet: &Packet<'_>,
    front: &[u8],
    all: Arrived<'_>,
) -> Result<Due> {
    let (head, uhdr, data_at) = parse_message((packet.from, packet.class), front)?;
    let here = all.skip(data_at);
    let len = here.len() as u64;
    let message = Message { source: packet.from, uhdr, len, here: Some(here), ticket: Ticket(0) };
    let answer = run_header(handlers, packet.label, &message)?;
    settle(grants, packet.from, packet.class, head, answer, here)
}

/// Places the data of a whole message as its header handler has answered.
#[inline(always)]
fn settle<G: Grants>(
    grants: &G,
    source: Endpoint,
    class: Class,
    head: MessageHead,
    answer: Answer,
    here: Arrived<'_>,
) -> Result<Due> {
    let Answer { place, completion } = answer;
    let mut buffer = None;
    let placed = match place {
        Place::Nowhere => 0,
        Place::Raw(to) => here.copy_to_buffer(to),
        Place::Exposed(ExposedRange { grant, offset, len }) => {
            here.copy_to_buffer(grants.granted(grant, offset, len, Access::OWNER)?)
        }
        Place::Owned(mut to) => {
            let placed = here.copy_to(&mut to);
            buffer = Some(to);
            placed
        }
        Place::Sink(mut sink) => {
            sink.take(0, here);
            here.len()
        }
        Place::Later => return Err(malformed(source, "later")),
    };
    let len = here.len() as u64;
    Ok(Due::Complete(Complete {
        completion,
        delivered: Delivered { source, len, placed: placed as u64, buffer, outcome: Ok(()) },
        class,
        target_counter: head.target_counter,
        completion_counter: head.completion_counter,
    }))
}

#[cold]
#[inline(never)]
fn malformed(peer: Endpoint, what: &str) -> Error {
    Error::Protocol { peer, what: what.to_owned() }
}

#[cold]
#[inline(never)]
fn malformed_completion(peer: Endpoint) -> Error {
    Error::Protocol { peer, what: "completion".to_owned() }
}

#[cold]
#[inline(never)]
fn unknown_handler(origin: Endpoint, id: HandlerId, registered: usize) -> Error {
    Error::UnknownHandler { handler: id.0, origin, registered }
}

#[cold]
#[inline(never)]
fn unknown_counter(name: CounterName) -> Error {
    Error::UnknownCounter { counter: CounterName::to_wire(Some(name)) }
}
