//! The protocol engine: what packets mean. It reads no clock, does no IO, spawns nothing, and knows no fabric.

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
mod receive;
mod segment;
mod send;
mod slab;
pub(crate) mod statistics;
mod tally;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::buffer::{Access, ForEngine, Grant, JobBuffer, RawBuffer};
use crate::counter::{CounterName, Counters};
use crate::error::{Error, RangeFault, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::Ticket;
use crate::in_handler;
use crate::task::{Endpoint, TaskId};

use cold::Cold;
pub(crate) use collective::FenceKind;
use collective::{Barriers, Exchanges, FenceWaiting};
use due_handlers::AfterThread;
pub(crate) use due_handlers::ThreadJob;
use outstanding::Outstanding;
pub(crate) use outstanding::{Data, End};
use packet::{Announcement, MessageHead};
use pending::Pending;
use purge::Purges;
use reassembly::Incoming;
pub(crate) use receive::{Front, Packet};
use segment::Streams;
pub(crate) use send::{Begun, Gather, Outgoing, Posted};
use slab::Slab;
use statistics::Statistics;
use tally::{Tally, Touched};

/// Bytes of a user header, at most (LAPI's `MAX_UHDR_SZ`).
pub(crate) const UHDR_BYTES_MAX: usize = 960;

/// Bytes before the user data of a packet, at most.
const FRONT_BYTES_MAX: usize = UHDR_BYTES_MAX + MessageHead::BYTES_MAX + Announcement::BYTES;

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
    /// The first refusal of a message of each peer that it was not told of: its next fence tells it.
    untold: Vec<(Peer, Refusal)>,
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

impl Engine {
    /// The engine of a context that has sent nothing yet.
    #[must_use]
    pub(crate) fn new(world: World) -> Self {
        Self {
            counters: Counters::default(),
            statistics: Statistics::default(),
            busy: false,
            attention: false,
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
            untold: Vec::new(),
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
fn unknown_counter(name: CounterName) -> Error {
    Error::UnknownCounter { counter: CounterName::to_wire(Some(name)) }
}
