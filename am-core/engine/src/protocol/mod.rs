//! The protocol engine: the meaning of packets. It reads no clock, does no input or output, and is generic over the fabric.
//!
//! In this module's lists of errors, `PeerFailed` stands for all errors of a peer that is gone, so for `ContextClosed`, too. `UnknownTask`
//! stands for `UnknownContext`, too. New operations with a purged peer fail with `Purged`.

mod announce;
mod answers;
mod arrival;
mod at_once;
pub mod collective;
mod completions;
mod direct_receive;
mod failure;
mod group;
mod in_pieces;
mod outgoing;
mod outstanding;
mod owner_operations;
pub mod packet;
mod pending;
mod per_peer;
mod piece_stream;
mod purge;
pub mod reassembly;
mod receive;
mod send;
mod send_now;
mod slab;
mod slow_path;
pub mod statistics;
mod wait_facts;

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::buffer::{Access, ForEngine, Grant, JobBuffer, RawBuffer, RawBytes};
use crate::counter::{CounterName, Counters};
use crate::error::{Error, RangeFault, Refusal, Result};
use crate::fabric::{Fabric, Peer, World};
use crate::handler::Ticket;
use crate::task::{Endpoint, TaskId};
use crate::user_code::UserCode;

pub use arrival::{Front, Packet};
pub use collective::FenceKind;
use collective::{Barriers, Exchanges, FenceWaiting};
use completions::AfterThread;
pub use completions::ThreadJob;
pub use direct_receive::MessagesInLine;
pub use outgoing::{Issued, Outgoing};
pub use outstanding::{Data, End, Ended, Op, Outstanding};
use packet::{Announcement, MessageHead};
pub use pending::Pending;
use per_peer::Tally;
pub use per_peer::UnfencedPeers;
use piece_stream::Streams;
pub use purge::Purges;
use reassembly::Incoming;
pub use send::Source;
use slab::Slab;
use slow_path::FollowUp;
use statistics::Statistics;

/// Maximum bytes of a user header (LAPI's `MAX_UHDR_SZ`).
pub(crate) const UHDR_BYTES_MAX: usize = 960;

/// Maximum bytes before the user data of a packet.
const FRONT_BYTES_MAX: usize = UHDR_BYTES_MAX + MessageHead::BYTES_MAX + Announcement::BYTES;

/// Protocol state of one context.
#[derive(Debug)]
pub struct Engine<U: UserCode> {
    /// Runs code of the program.
    user: U,
    /// The context's counters.
    pub counters: Counters,
    /// The engine's counts so far.
    pub statistics: Statistics,
    /// Whether [`work`](Self::work) has something to do.
    busy: bool,
    /// Whether blocking calls have to check further: a task has failed, an error waits to be reported, or a purge drops packets.
    pub attention: bool,
    due: Option<FollowUp>,
    /// The peers to which something was sent that the next fence with them must wait for.
    pub touched: UnfencedPeers,
    /// Packets that wait for credits.
    pub pending: Pending,
    /// Operations under way.
    pub ops: Outstanding,
    incoming: Slab<Incoming>,
    /// The number of the next incoming message that has to be kept.
    next_ticket: Ticket,
    /// Messages of each origin that are not finished here.
    unfinished_from: Tally,
    after_thread: Slab<AfterThread>,
    thread_jobs: VecDeque<ThreadJob>,
    /// Whether the context may have something to do: jobs for the handler thread, or messages of the handler set.
    has_calls: bool,
    fetching: VecDeque<u32>,
    bounces: Vec<JobBuffer>,
    streams: Streams,
    retries: VecDeque<u32>,
    /// The purges, and the operations that have yet to end because of them.
    pub purges: Purges,
    fences: Vec<FenceWaiting>,
    /// Unanswered gets and fences of each origin.
    asked_by: Tally,
    /// For each peer, the first refusal that has not been reported to it. The answer to the peer's next fence reports the refusal.
    untold: Vec<(Peer, Refusal)>,
    barriers: Barriers,
    exchanges: Exchanges,
    /// Whether operations with all endpoints are allowed: no endpoint is known to be gone, and none is purged.
    has_lost_nobody: bool,
    failed: Vec<(TaskId, String)>,
    /// Contexts that their tasks have closed.
    closed: Vec<Endpoint>,
    own: Endpoint,
    /// Number of tasks of this task's world.
    num_tasks: u32,
    limits: PacketLimits,
}

#[derive(Clone, Copy, Debug)]
struct PacketLimits {
    packet_bytes_max: usize,
    /// Maximum number of unanswered requests per peer.
    requests_max: usize,
}

impl<U: UserCode> Engine<U> {
    /// The engine of a context that has sent nothing yet.
    ///
    /// # Safety
    /// Every later call must get this fabric and no other, and no other engine may use the fabric: the engine returns memory to the program
    /// when its fabric reports that nothing uses the memory any more.
    #[must_use]
    #[expect(unsafe_code, reason = "the caller keeps engine and fabric together")]
    pub unsafe fn new<F: Fabric>(fabric: &F, user: U) -> Self {
        let limits = fabric.limits();
        Self {
            user,
            counters: Counters::default(),
            statistics: Statistics::default(),
            busy: false,
            attention: false,
            due: None,
            touched: UnfencedPeers::default(),
            pending: Pending::default(),
            ops: Outstanding::default(),
            incoming: Slab::new("unfinished incoming messages"),
            next_ticket: Ticket(1),
            unfinished_from: Tally::default(),
            after_thread: Slab::new("handlers on the thread"),
            thread_jobs: VecDeque::new(),
            has_calls: false,
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
            has_lost_nobody: true,
            failed: Vec::new(),
            closed: Vec::new(),
            own: fabric.world().endpoint(),
            num_tasks: fabric.world().num_tasks(),
            limits: PacketLimits {
                packet_bytes_max: limits.packet_bytes_max,
                requests_max: limits.requests_max as usize,
            },
        }
    }

    /// Number of unfinished messages of `peer`.
    pub fn unfinished_from(&self, peer: Peer) -> u64 {
        self.unfinished_from.of(peer) as u64
    }

    /// This context.
    pub fn own(&self) -> Endpoint {
        self.own
    }
}

impl<U: UserCode> Drop for Engine<U> {
    /// Memory that peers or the fabric may still access is leaked.
    fn drop(&mut self) {
        self.ops.leak_kept();
        for incoming in self.incoming.values_mut() {
            incoming.leak_if_read_into();
        }
    }
}

/// The memory of one of this task's grants. Arriving data are stored only in memory that the program has exposed, never in memory lent to
/// an operation, even if a header handler has made up the grant.
///
/// # Errors
/// `RemoteRange`: the grant does not give `access` to the range, or, for [`Access::OWNER`] (a program chose the destination), is for one
/// operation.
#[inline(always)]
fn granted<F: Fabric>(fabric: &F, grant: Grant, offset: u64, len: u64, access: Access) -> Result<RawBuffer> {
    if access == Access::OWNER && grant.is_for_operation() {
        return Err(stale(fabric.world().endpoint().task, grant, offset, len));
    }
    fabric.granted(grant, offset, len, access, ForEngine(()))
}

/// Lets `peer` read the bytes of an operation.
fn grant_for_reading<F: Fabric>(fabric: &mut F, bytes: &RawBytes, peer: Peer) -> Result<Option<Grant>> {
    fabric.grant(bytes.to_grant_for_reading(), Access::READ.for_operation(), Some(peer.index))
}

#[cold]
#[inline(never)]
fn malformed(peer: Peer, what: &str) -> Error {
    Error::Protocol { peer: peer.endpoint, what: what.to_owned() }
}

/// Refuses a grant for one operation: a put, get or rmw of a program cannot name it.
///
/// # Errors
/// `RemoteRange`.
#[inline(always)]
fn for_programs<F: Fabric>(fabric: &F, grant: Grant, offset: u64, len: u64) -> Result<()> {
    if grant.is_for_operation() {
        return Err(stale(fabric.world().endpoint().task, grant, offset, len));
    }
    Ok(())
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
