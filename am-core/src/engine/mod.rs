//! The protocol engine: what packets mean. It reads no clock, does no IO, spawns nothing, and knows no fabric.
//!
//! It works in two steps, so that nothing borrows the NIC's buffer while something is sent:
//!
//! 1. `handle_packet` consumes a packet where it lies: it runs the header handler, places the bytes, and returns what is
//!    [`Due`].
//! 2. The caller gives the packet's place back, then calls `carry_out` with what is due and the level below.

mod announce;
mod answers;
mod ask;
mod cold;
pub(crate) mod collective;
mod due_handlers;
mod failure;
mod group;
mod outstanding;
pub(crate) mod packet;
mod pending;
mod purge;
pub(crate) mod reassembly;
mod segment;
mod send;
mod slab;
pub(crate) mod statistics;
mod tally;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::buffer::{Access, Arrived, ExposedRange, ForEngine, Grant, InlineBytes, JobBuffer, RawBuffer};
use crate::counter::{CounterName, Counters};
use crate::error::{Error, RangeFault, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{Answer, Completion, Delivered, HandlerId, HandlerSet, Message, Place, Ticket};
use crate::in_handler;
use crate::task::{Endpoint, TaskId};
use crate::transfer::Class;

use cold::Cold;
pub(crate) use collective::FenceKind;
use collective::{Barriers, Exchanges, FenceWaiting};
use due_handlers::AfterThread;
pub(crate) use due_handlers::ThreadJob;
pub(crate) use outstanding::End;
use outstanding::Outstanding;
use packet::{Announcement, Fields, Kind, MessageHead};
use pending::Pending;
use purge::Purges;
use reassembly::Incoming;
use segment::Streams;
pub(crate) use send::{Begun, NoGatherer, Outgoing, Source};
use slab::Slab;
use statistics::Statistics;
use tally::{Tally, Touched};

/// Bytes of a user header, at most (LAPI's `MAX_UHDR_SZ`).
pub(crate) const UHDR_BYTES_MAX: usize = 960;

/// Bytes before the user data of a packet, at most.
const FRONT_BYTES_MAX: usize = UHDR_BYTES_MAX + MessageHead::BYTES_MAX + Announcement::BYTES;

/// Bytes before the user data of a packet that are copied without looking: a head, and a short user header.
const FRONT_BYTES_USUAL: usize = 32;

/// A packet to be handled.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    /// Who sent it.
    pub(crate) from: Peer,
    /// Which room it took: whether it may be answered.
    pub(crate) class: Class,
    /// Kind and handler.
    pub(crate) label: u16,
    /// Its bytes, in private memory if they came inside the entry.
    pub(crate) bytes: PacketBytes<'a>,
}

/// Where the bytes of a packet are.
#[derive(Debug)]
pub(crate) enum PacketBytes<'a> {
    /// In private memory: parsed where they are.
    Inline(&'a InlineBytes),
    /// In the NIC's buffer: what is parsed is copied first.
    Buffered(Arrived<'a>),
}

/// What is to be done after a packet was handled.
#[derive(Debug)]
#[must_use]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// A message is whole: its completion.
    Complete(Complete),
    /// Something else, which the engine has noted.
    Cold,
}

/// The end of a message at the target.
#[derive(Debug)]
pub(crate) struct Complete {
    source: Peer,
    completion: Completion,
    delivered: Delivered,
    class: Class,
    target_counter: u32,
    completion_counter: u32,
}

/// What the engine has to know of the fabric below, once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// This context.
    pub(crate) own: Endpoint,
    /// Tasks in the job.
    pub(crate) num_tasks: u32,
    /// Contexts that a task may open.
    pub(crate) contexts_max: u8,
    /// The fabric's packets.
    pub(crate) packet_bytes_max: usize,
    /// The fabric's reads.
    pub(crate) read_bytes_max: u64,
}

/// Protocol state of one context.
#[derive(Debug)]
pub(crate) struct Engine {
    /// The context's counters.
    pub(crate) counters: Counters,
    /// What it has done so far.
    pub(crate) statistics: Statistics,
    /// Something waits to be done beside handling packets.
    busy: bool,
    /// A task has failed, or an error waits to be reported: blocking calls look closer.
    pub(crate) attention: bool,
    uhdr: UhdrCopy,
    due: Option<Cold>,
    pub(crate) touched: Touched,
    pub(crate) pending: Pending,
    pub(crate) ops: Outstanding,
    incoming: Slab<Incoming>,
    /// The number that the next incoming message gets, if it has to be kept.
    next_ticket: Ticket,
    /// Messages of each origin that are not finished here.
    unfinished_from: Tally,
    after_thread: Slab<AfterThread>,
    thread_jobs: VecDeque<ThreadJob>,
    fetching: VecDeque<u32>,
    bounces: Vec<JobBuffer>,
    streams: Streams,
    retries: VecDeque<u32>,
    pub(crate) purges: Purges,
    fences: Vec<FenceWaiting>,
    barriers: Barriers,
    exchanges: Exchanges,
    failed: Vec<(TaskId, String)>,
    /// Contexts that their tasks have closed.
    closed: Vec<Endpoint>,
    own: Endpoint,
    num_tasks: u32,
    contexts_max: u8,
    limits: PacketLimits,
}

#[derive(Clone, Copy, Debug)]
struct PacketLimits {
    packet_bytes_max: usize,
    read_bytes_max: u64,
}

/// Private memory for the user header of a packet that lies in the NIC's buffer.
#[derive(Debug)]
struct UhdrCopy(Box<[u8; FRONT_BYTES_MAX]>);

impl UhdrCopy {
    /// Copies what a message says before its data: a few bytes first, and the rest if their head, which is private then,
    /// says that there is more.
    #[inline(always)]
    fn copy_front(&mut self, all: &Arrived<'_>) -> &[u8] {
        let first = all.copy_to(&mut self.0[..FRONT_BYTES_USUAL]);
        let len = MessageHead::parse(&self.0[..first])
            .map_or(first, |head| (head.len() + usize::from(head.uhdr_len)).min(FRONT_BYTES_MAX));
        if len <= first {
            return &self.0[..first];
        }
        let rest = all.skip(first).copy_to(&mut self.0[first..len]);
        &self.0[..first + rest]
    }
}

impl Default for UhdrCopy {
    fn default() -> Self {
        Self(Box::new([0; FRONT_BYTES_MAX]))
    }
}

impl Engine {
    /// The engine of a context that has sent nothing yet.
    #[must_use]
    pub(crate) fn new(world: World) -> Self {
        Self {
            counters: Counters::default(),
            statistics: Statistics::default(),
            busy: false,
            attention: false,
            uhdr: UhdrCopy::default(),
            due: None,
            touched: Touched::default(),
            pending: Pending::default(),
            ops: Outstanding::default(),
            incoming: Slab::new("unfinished incoming messages"),
            next_ticket: Ticket(1),
            unfinished_from: Tally::default(),
            after_thread: Slab::new("handlers on the thread"),
            thread_jobs: VecDeque::new(),
            fetching: VecDeque::new(),
            bounces: Vec::new(),
            streams: Streams::new(),
            retries: VecDeque::new(),
            purges: Purges::default(),
            fences: Vec::new(),
            barriers: Barriers::default(),
            exchanges: Exchanges::default(),
            failed: Vec::new(),
            closed: Vec::new(),
            own: world.own,
            num_tasks: world.num_tasks,
            contexts_max: world.contexts_max,
            limits: PacketLimits {
                packet_bytes_max: world.packet_bytes_max,
                read_bytes_max: world.read_bytes_max,
            },
        }
    }

    /// Messages of `peer` that are not finished here.
    pub(crate) fn unfinished_from(&self, peer: Peer) -> u64 {
        self.unfinished_from.of(peer) as u64
    }

    /// This context.
    pub(crate) fn own(&self) -> Endpoint {
        self.own
    }

    /// Consumes a packet: step 1.
    ///
    /// # Errors
    /// The packet is one that no correct peer sends, or it names something that does not exist here.
    #[inline(always)]
    pub(crate) fn handle_packet<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &F,
        handlers: &mut H,
        packet: &Packet<'_>,
    ) -> Result<Due> {
        match Kind::of(packet.label) {
            Kind::Message => {
                let ticket = self.next_ticket;
                let handled = match packet.bytes {
                    PacketBytes::Inline(bytes) => {
                        let bytes = bytes.as_slice();
                        let all = Arrived::private(bytes);
                        handle_message(fabric, handlers, packet, bytes, all, ticket, &mut self.due)
                    }
                    PacketBytes::Buffered(all) => {
                        let front = self.uhdr.copy_front(&all);
                        handle_message(fabric, handlers, packet, front, all, ticket, &mut self.due)
                    }
                };
                match handled {
                    Ok(due) => Ok(due),
                    Err(error) => self.refuse_packet(packet, error),
                }
            }
            Kind::Put => match packet.bytes {
                PacketBytes::Inline(bytes) => {
                    self.handle_inline_put(fabric, packet.from, bytes).map(|()| Due::Nothing)
                }
                PacketBytes::Buffered(_) => Err(malformed(packet.from, "a tiny put that is not tiny")),
            },
            Kind::Notify => self.handle_notify(packet),
            kind => match self.handle_other(kind, fabric, handlers, packet) {
                Ok(due) => Ok(due),
                Err(error) => self.refuse_packet(packet, error),
            },
        }
    }

    /// Does what is due: step 2.
    ///
    /// # Errors
    /// A counter that does not exist, or an answer that could not be sent.
    #[inline(always)]
    pub(crate) fn carry_out<F: Fabric, H: HandlerSet>(
        &mut self,
        due: Due,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        match due {
            Due::Nothing => Ok(()),
            Due::Complete(complete) => self.complete(complete, fabric, handlers),
            Due::Cold => self.carry_out_cold(fabric, handlers),
        }
    }

    #[inline(always)]
    fn complete<F: Fabric, H: HandlerSet>(
        &mut self,
        complete: Complete,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let Complete { source, completion, delivered, class, target_counter, completion_counter } = complete;
        match completion {
            Completion::None => {}
            Completion::MarkRequest(request) => handlers.complete_request(request, delivered),
            Completion::Bump(counter) if self.counters.bump(counter.name()) => {}
            completion => {
                let tail = reassembly::Tail {
                    target_counter,
                    completion_counter,
                    op: 0,
                    answerable: class == Class::Request,
                    reserved: class == Class::Request,
                };
                return self.deliver(completion, source, delivered, tail, fabric, handlers);
            }
        }
        let mut result = Ok(());
        if target_counter != 0 {
            result = self.bump(CounterName::from_wire(target_counter));
        }
        if class == Class::Request {
            acknowledge(fabric, source, completion_counter)?;
        }
        result
    }

    /// A whole message that came inside its entry: both steps in one, since its bytes are in private memory already. The
    /// frequent answers end here; nothing of them is moved about.
    ///
    /// # Errors
    /// As for [`handle_packet`](Self::handle_packet) and [`carry_out`](Self::carry_out).
    #[inline(always)]
    pub(crate) fn handle_inline_message<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
        source: Peer,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<()> {
        let (head, uhdr, data_at) = match parse_message((source, class), bytes.as_slice()) {
            Ok(parts) => parts,
            Err(error) => return self.refuse_inline(fabric, (source, class), error),
        };
        let here = Arrived::private(bytes.as_slice()).skip(data_at);
        let len = here.len() as u64;
        let message =
            Message { source: source.endpoint, uhdr, len, here: Some(here), ticket: self.next_ticket };
        let answer = match run_header(handlers, label, &message) {
            Ok(answer) => answer,
            Err(error) => return self.refuse_inline(fabric, (source, class), error),
        };
        // A counter that was named and does not exist is told at the end: the message has arrived all the same.
        let mut missing = None;
        match (&answer.place, &answer.completion) {
            (&Place::Raw(to), &Completion::MarkRequest(request)) => {
                forget_plain(answer);
                let placed = here.copy_to_buffer(to) as u64;
                handlers.complete_plain_request(request, source.endpoint, len, placed);
            }
            (&Place::Nowhere, &Completion::Bump(counter)) if self.counters.bump(counter.name()) => {
                forget_plain(answer);
            }
            (&Place::Exposed(range), completion @ (Completion::Bump(_) | Completion::None)) => {
                let counter =
                    if let Completion::Bump(counter) = completion { Some(counter.name()) } else { None };
                let ExposedRange { grant, offset, len } = range;
                let Ok(to) = granted(fabric, grant, offset, len, Access::OWNER) else {
                    return self.settle_inline(fabric, handlers, (source, class), head, answer, here);
                };
                forget_plain(answer);
                here.copy_to_buffer(to);
                missing = counter.filter(|&name| !self.counters.bump(name));
            }
            (&Place::Nowhere, &Completion::None) => forget_plain(answer),
            _ => return self.settle_inline(fabric, handlers, (source, class), head, answer, here),
        }
        if head.target_counter != 0 {
            let name = CounterName::from_wire(head.target_counter);
            missing = missing.or(name.filter(|&name| !self.counters.bump(name)));
        }
        if class == Class::Request {
            acknowledge(fabric, source, head.completion_counter)?;
        }
        match missing {
            None => Ok(()),
            Some(name) => Err(unknown_counter(name)),
        }
    }

    /// The answers that [`handle_inline_message`](Self::handle_inline_message) leaves to the general way.
    #[inline(never)]
    fn settle_inline<F: Fabric, H: HandlerSet>(
        &mut self,
        fabric: &mut F,
        handlers: &mut H,
        (source, class): (Peer, Class),
        head: MessageHead,
        answer: Answer,
        here: Arrived<'_>,
    ) -> Result<()> {
        match settle(fabric, source, class, head, answer, here, &mut self.due) {
            Ok(due) => self.carry_out(due, fabric, handlers),
            Err(error) => self.refuse_inline(fabric, (source, class), error),
        }
    }

    #[inline(always)]
    fn bump(&mut self, name: Option<CounterName>) -> Result<()> {
        match name {
            Some(name) if !self.counters.bump(name) => Err(unknown_counter(name)),
            _ => Ok(()),
        }
    }

    /// A tiny put: the target places it, as it makes the progress that the counter needs anyway.
    ///
    /// # Errors
    /// A range that is not exposed for writing, or a counter that does not exist.
    #[inline(always)]
    pub(crate) fn handle_inline_put<F: Fabric>(
        &mut self,
        fabric: &F,
        from: Peer,
        bytes: &InlineBytes,
    ) -> Result<()> {
        let mut fields = Fields(bytes.as_slice());
        let (Some(names), Some(offset), Some(counter)) = (fields.u64(), fields.u64(), fields.u64()) else {
            return Err(malformed(from, "a put shorter than its head"));
        };
        let data = fields.0;
        let grant = Grant { region: names as u32, generation: (names >> 32) as u32 };
        if grant.is_for_operation() {
            return Err(stale(from.endpoint.task, grant, offset, data.len() as u64));
        }
        granted(fabric, grant, offset, data.len() as u64, Access::WRITE)?.fill_from(data);
        match CounterName::from_wire(counter as u32) {
            Some(name) if !self.counters.bump(name) => Err(unknown_counter(name)),
            _ => Ok(()),
        }
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
fn acknowledge<F: Fabric>(fabric: &mut F, origin: Peer, completion_counter: u32) -> Result<()> {
    if completion_counter == 0 {
        fabric.waive(origin.index);
        return Ok(());
    }
    let mut packet = InlineBytes::new();
    let fitted = packet.push(&completion_counter.to_le_bytes());
    debug_assert!(fitted, "four bytes fit into an empty packet");
    // An answer has its room reserved: it is never put off.
    let _ = fabric.post_inline(
        origin.index,
        Class::Answer,
        packet::label(Kind::CounterAck, HandlerId(0)),
        &packet,
    )?;
    Ok(())
}

/// An answer of plain numbers has nothing to drop; saying so spares the check of what it might have had.
#[inline(always)]
fn forget_plain(answer: Answer) {
    std::mem::forget(answer);
}

/// What a message says before its data: the head, and where the data begin.
#[inline(always)]
fn parse_message(packet: (Peer, Class), front: &[u8]) -> Result<(MessageHead, &[u8], usize)> {
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
        user_code(message.source, "header", || handlers.header(id, message))?
    } else {
        handlers.header(id, message)
    };
    answer.ok_or_else(|| unknown_handler(message.source, id, handlers.count()))
}

/// A whole message: `front` is its beginning in private memory (all of it, if it came inline).
#[inline(always)]
fn handle_message<F: Fabric, H: HandlerSet>(
    fabric: &F,
    handlers: &mut H,
    packet: &Packet<'_>,
    front: &[u8],
    all: Arrived<'_>,
    ticket: Ticket,
    due: &mut Option<Cold>,
) -> Result<Due> {
    let (head, uhdr, data_at) = parse_message((packet.from, packet.class), front)?;
    let here = all.skip(data_at);
    let len = here.len() as u64;
    let message = Message { source: packet.from.endpoint, uhdr, len, here: Some(here), ticket };
    let answer = run_header(handlers, packet.label, &message)?;
    settle(fabric, packet.from, packet.class, head, answer, here, due)
}

/// Places the data of a whole message as its header handler has answered.
#[inline(always)]
fn settle<F: Fabric>(
    fabric: &F,
    source: Peer,
    class: Class,
    head: MessageHead,
    answer: Answer,
    here: Arrived<'_>,
    due: &mut Option<Cold>,
) -> Result<Due> {
    let Answer { place, completion } = answer;
    let mut buffer = None;
    let placed = match place {
        Place::Nowhere => 0,
        Place::Raw(to) => here.copy_to_buffer(to),
        Place::Exposed(ExposedRange { grant, offset, len }) => {
            here.copy_to_buffer(granted(fabric, grant, offset, len, Access::OWNER)?)
        }
        Place::Owned(mut to) => {
            let placed = here.copy_to(&mut to);
            buffer = Some(to);
            placed
        }
        Place::Sink(mut sink) => {
            user_code(source.endpoint, "sink", || sink.take(0, here))?;
            here.len()
        }
        Place::Scatter(mut scatter) => {
            let len = here.len().min(usize::try_from(scatter.len()).unwrap_or(usize::MAX));
            let owned = |grant, offset, len| granted(fabric, grant, offset, len, Access::OWNER);
            scatter.put(owned, 0, here.take(len))?;
            buffer = scatter.into_buffer();
            len
        }
        Place::Later => {
            *due = Some(announce::keep_whole(source, class, head, here, completion));
            return Ok(Due::Cold);
        }
    };
    let len = here.len() as u64;
    Ok(Due::Complete(Complete {
        completion,
        source,
        delivered: Delivered { source: source.endpoint, len, placed: placed as u64, buffer, outcome: Ok(()) },
        class,
        target_counter: head.target_counter,
        completion_counter: head.completion_counter,
    }))
}

/// The memory of an own grant. Data that arrive go to what the program has exposed, never to what it has lent to an operation: a
/// header handler may have made the grant up.
///
/// # Errors
/// The grant does not give `access`, or is one of an operation where the owner asks for a place.
#[inline(always)]
fn granted<F: Fabric>(fabric: &F, grant: Grant, offset: u64, len: u64, access: Access) -> Result<RawBuffer> {
    if access == Access::OWNER && grant.is_for_operation() {
        return Err(stale(fabric.endpoint().task, grant, offset, len));
    }
    fabric.granted(grant, offset, len, access, ForEngine(()))
}

#[cold]
#[inline(never)]
fn malformed(peer: Peer, what: &str) -> Error {
    Error::Protocol { peer: peer.endpoint, what: what.to_owned() }
}

/// Runs code of the program: communicating calls are refused meanwhile, and a panic ends the operation, not the engine.
///
/// # Errors
/// It panicked.
#[inline(always)]
fn user_code<R>(origin: Endpoint, kind: &'static str, code: impl FnOnce() -> R) -> Result<R> {
    in_handler::run(|| caught(origin, kind, code))
}

/// Turns a panic of the program's code into an error.
///
/// # Errors
/// It panicked.
#[inline(always)]
pub(crate) fn caught<R>(origin: Endpoint, kind: &'static str, code: impl FnOnce() -> R) -> Result<R> {
    // Unwind safety: what the closure has borrowed of the engine is read again only through checks.
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| panicked(origin, kind, &*payload))
}

#[cold]
#[inline(never)]
fn panicked(origin: Endpoint, kind: &'static str, payload: &(dyn std::any::Any + Send)) -> Error {
    let message = payload
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::HandlerPanicked { kind, origin, message }
}

/// A grant that was given for one operation can't be named by a program's put, get or rmw.
///
/// # Errors
/// It is such a grant.
#[inline(always)]
fn for_programs(packet: &Packet<'_>, grant: Grant, offset: u64, len: u64) -> Result<()> {
    if grant.is_for_operation() {
        return Err(malformed_grant(packet, grant, offset, len));
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn malformed_grant(packet: &Packet<'_>, grant: Grant, offset: u64, len: u64) -> Error {
    stale(packet.from.endpoint.task, grant, offset, len)
}

#[cold]
#[inline(never)]
pub(crate) fn stale(task: TaskId, grant: Grant, offset: u64, len: u64) -> Error {
    let Grant { region, generation } = grant;
    Error::RemoteRange { task, region, generation, offset, len, why: RangeFault::Stale }
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
