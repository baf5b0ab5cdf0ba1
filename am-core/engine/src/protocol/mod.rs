//! The protocol engine: what packets mean. It reads no clock, does no IO, spawns nothing, and knows no fabric.

mod announce;
mod answers;
mod ask;
mod cold;
pub mod collective;
mod due_handlers;
mod failure;
mod group;
mod in_line;
mod outstanding;
pub mod packet;
mod pending;
mod purge;
pub mod reassembly;
mod receive;
mod segment;
mod send;
mod slab;
pub mod statistics;
mod tally;
mod wait_facts;

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::buffer::{Access, ForEngine, Grant, JobBuffer, RawBuffer};
use crate::counter::{CounterName, Counters};
use crate::error::{Error, RangeFault, Refusal, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::Ticket;
use crate::task::{Endpoint, TaskId};
use crate::user_code::UserCode;

use cold::Cold;
pub use collective::FenceKind;
use collective::{Barriers, Exchanges, FenceWaiting};
use due_handlers::AfterThread;
pub use due_handlers::ThreadJob;
pub use in_line::parts_of;
pub use outstanding::{Data, End, Ended, Op, Outstanding};
use packet::{Announcement, MessageHead};
pub use pending::Pending;
pub use purge::Purges;
use reassembly::Incoming;
pub use receive::{Front, Packet};
use segment::Streams;
pub use send::{Begun, Outgoing, Posted, Source};
use slab::Slab;
use statistics::Statistics;
use tally::Tally;
pub use tally::Touched;

/// Bytes of a user header, at most (LAPI's `MAX_UHDR_SZ`).
pub(crate) const UHDR_BYTES_MAX: usize = 960;

/// Bytes before the user data of a packet, at most.
const FRONT_BYTES_MAX: usize = UHDR_BYTES_MAX + MessageHead::BYTES_MAX + Announcement::BYTES;

/// Protocol state of one context.
#[derive(Debug)]
pub struct Engine<U: UserCode> {
    /// Runs code of the program.
    user: U,
    /// The context's counters.
    pub counters: Counters,
    /// What it has done so far.
    pub statistics: Statistics,
    /// Something waits to be done beside handling packets.
    busy: bool,
    /// A task has failed, or an error waits to be reported: blocking calls look closer.
    pub attention: bool,
    due: Option<Cold>,
    /// The peers that something was sent to since the last fence of all.
    pub touched: Touched,
    /// Packets that wait for credits.
    pub pending: Pending,
    /// Operations under way.
    pub ops: Outstanding,
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
    /// Purges so far, and what they have ended.
    pub purges: Purges,
    fences: Vec<FenceWaiting>,
    /// Gets and fences of each origin that wait here for their answer.
    asked_by: Tally,
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
    /// Requests of one peer that may be unanswered.
    requests_max: usize,
}

impl<U: UserCode> Engine<U> {
    /// The engine of a context that has sent nothing yet.
    ///
    /// # Safety
    /// Every later call gets this fabric and no other, and no other engine uses it: the engine says that memory is the program's again
    /// when its fabric says so.
    #[must_use]
    #[expect(unsafe_code, reason = "whoever drives the engine keeps engine and fabric together")]
    pub unsafe fn new<F: Fabric>(fabric: &F, user: U) -> Self {
        let limits = fabric.limits();
        Self {
            user,
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
            asked_by: Tally::default(),
            untold: Vec::new(),
            barriers: Barriers::default(),
            exchanges: Exchanges::default(),
            failed: Vec::new(),
            closed: Vec::new(),
            own: fabric.endpoint(),
            num_tasks: fabric.num_tasks(),
            contexts_max: limits.contexts_max,
            limits: PacketLimits {
                packet_bytes_max: limits.packet_bytes_max,
                read_bytes_max: limits.read_bytes_max,
                requests_max: limits.requests_max as usize,
            },
        }
    }

    /// Messages of `peer` that are not finished here.
    pub fn unfinished_from(&self, peer: Peer) -> u64 {
        self.unfinished_from.of(peer) as u64
    }

    /// This context.
    pub fn own(&self) -> Endpoint {
        self.own
    }
}

impl<U: UserCode> Drop for Engine<U> {
    /// Memory that peers, or the fabric, may still be reaching is not used again.
    fn drop(&mut self) {
        self.ops.leak_kept();
        for incoming in self.incoming.values_mut() {
            incoming.leak_if_read_into();
        }
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

/// A grant that was given for one operation can't be named by a program's put, get or rmw.
///
/// # Errors
/// It is such a grant.
#[inline(always)]
fn for_programs(packet: Packet<'_>, grant: Grant, offset: u64, len: u64) -> Result<()> {
    if grant.is_for_operation() {
        return Err(malformed_grant(packet, grant, offset, len));
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn malformed_grant(packet: Packet<'_>, grant: Grant, offset: u64, len: u64) -> Error {
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
