//! What am-core needs of the transport below it.
//!
//! A [`Fabric`] is the sum of three traits:
//!
//! * [`Post`] moves packets between endpoints, in order for each pair, never losing one. Peers have numbers that the fabric
//!   gave out ([`Peer`]), so that it looks a peer up once and not for each packet.
//! * [`Memory`] lets a task write into, read from and operate atomically on memory that a peer has granted.
//! * [`World`] knows the tasks, how to wait, and who has died.
//!
//! A fabric is polled by one thread at a time and calls nobody back.
//!
//! Room is counted in packets, per pair of endpoints and direction ([`Class`]). The sender of a [`Class::Request`] has reserved
//! a place for its answer in its own receive queue, so that an answer is never refused for want of room. Each request is
//! either answered once or waived once ([`Post::waive`]); both free its place at the origin.
//!
//! # Errors
//! Every method that returns a `Result` fails with `PeerFailed` for a dead task, `ContextClosed` for a context that its task
//! has closed, `UnknownTask` or `UnknownContext` for an endpoint that the job cannot have ([`Endpoint::check`]), and with the
//! system's errors of the set-up path.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::buffer::{
    Access, Arrived, ForEngine, Grant, InlineBytes, JobBuffer, KeepsPromises, MappedRange, RawBuffer,
    RawBytes, RemoteAddress, SharedMemory, SharedName,
};
use crate::error::{Error, Outcome, Result};
use crate::task::{Endpoint, TaskId};
pub use crate::transfer::{Atomic, AtomicOp, Body, Class, OpId, Transfer, Width};

/// A context that this fabric sends to or hears from: its name, and the fabric's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name in the job.
    pub endpoint: Endpoint,
    /// Its number in this fabric.
    pub index: PeerIndex,
}

/// A fabric's own number of a peer: valid as long as the fabric is open, and in that fabric only. Numbers are small: the first peer
/// has 0, the next one 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerIndex(pub u32);

/// A packet that has arrived. A buffered one keeps its slot of the receive queue until [`Post::release`].
#[derive(Debug)]
pub struct Arrival {
    /// Who sent it.
    pub from: Peer,
    /// Which room it took.
    pub class: Class,
    /// The engine's own 16 bits.
    pub label: u16,
    /// Its bytes.
    pub payload: Payload,
}

/// A packet that has been looked at, and is the next one of its sender still.
#[derive(Debug)]
pub struct Next {
    /// The packet.
    pub arrival: Arrival,
    /// The fabric's own word.
    pub word: u32,
}

/// Where the bytes of an arrival are.
#[derive(Debug)]
pub enum Payload {
    /// In the entry itself: [`Post::poll`] has copied them into the caller's private memory.
    Inline,
    /// In the NIC's buffer, behind a head in the entry, which [`Post::poll`] has copied; [`Post::arrived`] gives the view.
    Buffered {
        /// The fabric's own name for the place.
        place: u64,
        /// Bytes.
        len: u32,
    },
}

/// What polling brings up.
#[derive(Debug)]
pub enum Event {
    /// A packet.
    Arrival(Arrival),
    /// A write, read or rmw that was posted has ended.
    Completed {
        /// Which.
        op: OpId,
        /// How; for an rmw the old value.
        result: Result<u64, Box<Error>>,
    },
    /// A task has died. Reported once for each task.
    TaskFailed(TaskId),
    /// A peer has rung ([`World::ring`]): what the owner waits for may be there.
    Rung,
    /// A task that lives has closed a context, after all that this one sent has come up. Reported once, to those that are
    /// connected to it; later packets to it are refused with `ContextClosed`, but answers, which are dropped.
    ContextClosed(Endpoint),
}

/// Numbers that do not change while a fabric is open.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Contexts that a task may open, at most 16: they have the numbers below this.
    pub contexts_max: u8,
    /// Bytes of the largest packet, head and body together.
    pub packet_bytes_max: usize,
    /// Packets that one sender may have unconsumed at one target (its credits), answers not counted.
    pub credits: u32,
    /// Requests that may be unanswered, per peer.
    pub requests_max: u32,
    /// Bytes of the longest part in which a long message is fetched ([`Memory::read`]).
    pub read_bytes_max: u64,
}

/// What passed between this endpoint and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets that came and were released.
    pub packets_received: u64,
}

/// What [`World::waker`] returns: wakes the fabric's owner, from any thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What carries am-core. One thread at a time. The memory that it is given is user memory without a lifetime, so an
/// implementation promises what [`KeepsPromises`] lists, in an `unsafe impl`.
pub trait Fabric: Post + Memory + World + KeepsPromises + fmt::Debug {}

impl<F: Post + Memory + World + KeepsPromises + fmt::Debug> Fabric for F {}

/// Packets: posted to peers, and polled.
pub trait Post {
    /// The number of an endpoint. It may be dead or closed: posting to it says so.
    ///
    /// # Errors
    /// An endpoint that the job cannot have.
    fn peer(&mut self, endpoint: Endpoint) -> Result<Peer>;

    /// Sends a packet of at most 40 bytes inside its completion entry. `label` and bytes belong to the engine.
    fn post_inline(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<Outcome>;

    /// Like [`post_inline`](Self::post_inline), where that takes no more than writing the entry. `false`: nothing was sent, and `post_inline` finds out why.
    #[inline(always)]
    fn try_post_inline(&mut self, to: PeerIndex, class: Class, label: u16, bytes: &InlineBytes) -> bool {
        matches!(self.post_inline(to, class, label, bytes), Ok(Outcome::Done))
    }

    /// Sends a packet of `head`, which travels in the entry, and `body`, which lies in the NIC's buffer; together at most
    /// `packet_bytes_max`. The body has been written when the call returns [`Outcome::Done`]; the other outcome is [`Outcome::Retry`].
    ///
    /// # Errors
    /// The body's own, too: nothing was sent then, and no room is taken.
    fn post_packet(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        head: &InlineBytes,
        body: &mut impl Body,
    ) -> Result<Outcome>;

    /// The next event, if there is one; the bytes of an inline arrival, or the head of a buffered one, are copied to `inline`. Never blocks.
    fn poll(&mut self, inline: &mut InlineBytes) -> Option<Event>;

    /// Waits a moment for the next packet of one peer and looks at it as [`poll`](Self::poll) does, if it is one-way and has this label. It
    /// stays there until a poll, or [`take_next`](Self::take_next). `None`: nothing came in time, or a packet of another kind, or
    /// something else wants a poll, or this fabric has no such way.
    #[inline(always)]
    fn look_at_next(&mut self, _from: Peer, _label: u16, _inline: &mut InlineBytes) -> Option<Next> {
        None
    }

    /// Consumes the packet that the last call of [`look_at_next`](Self::look_at_next) has returned, as a poll and a release do.
    #[inline(always)]
    fn take_next(&mut self, _next: Next) {}

    /// The body of a buffered arrival. Empty for an inline one.
    fn arrived(&self, arrival: &Arrival) -> Arrived<'_>;

    /// Gives the place of a buffered arrival back to its sender. That of an inline one went back in the poll, which has copied
    /// its bytes.
    fn release(&mut self, arrival: Arrival);

    /// Tells `origin` that one of its requests will never be answered: the place it reserved is free again. The news may
    /// travel with the next credits; it takes no room.
    fn waive(&mut self, origin: PeerIndex);
}

/// Memory that peers reach: allocated, granted, copied.
pub trait Memory {
    /// Allocates zeroed memory that peers reach the fastest way there is.
    fn alloc(&mut self, len: usize) -> Result<JobBuffer>;

    /// Makes zeroed memory of `len` bytes that other tasks can map as well ([`open_shared`](Self::open_shared)). `None`: this fabric has
    /// no such memory.
    fn share(&mut self, _len: usize) -> Result<Option<SharedMemory>> {
        Ok(None)
    }

    /// Maps memory that another task has made by [`share`](Self::share), while that task has not said that all have opened it. From now
    /// on this task reaches what others expose of it as it reaches its own, by plain copies and atomic operations.
    ///
    /// # Errors
    /// There is no such memory, or it cannot be mapped.
    fn open_shared(&mut self, _name: SharedName) -> Result<SharedMemory> {
        Err(Error::System { doing: "opening shared memory", source: "this fabric has none".into() })
    }

    /// No further task opens this task's shared memory: what it takes to do so is given back.
    fn all_have_opened(&mut self, _name: SharedName) {}

    /// Shared memory is used no more by this task.
    fn unshare(&mut self, _memory: SharedMemory) {}

    /// Grants peers access to `memory`, until [`revoke`](Self::revoke). A grant for one operation
    /// ([`Access::for_operation`]) has [`Grant::OPERATION_BIT`] set, and revoking it is always [`Outcome::Done`]: the engine
    /// revokes it after the peer has said that it is done, or is dead. Of such a grant the answer may be `None`: not now, since
    /// peers have access to as much memory as may be at once; the operation then sends its bytes as packets.
    fn grant(&mut self, memory: RawBuffer, access: Access) -> Result<Option<Grant>>;

    /// Ends a grant. [`Outcome::Done`]: nobody touches the memory from now on, whatever claims are under way.
    /// [`Outcome::Retry`]: new claims are refused, but a peer is still copying; ask again.
    ///
    /// A grant for reading by one operation may be kept for the next operation with the same memory. A peer that reads by it after
    /// the operation has ended, which no engine does, gets bytes that mean nothing; it can write nowhere.
    fn revoke(&mut self, grant: Grant) -> Result<Outcome>;

    /// Like [`revoke`](Self::revoke), of a grant for one operation that is given up here: its peer has not said that it is done, and
    /// may be copying.
    fn revoke_in_use(&mut self, grant: Grant) -> Result<Outcome>;

    /// The memory of this task's own live grant, if it gives peers all of `access` ([`Access::OWNER`]: the owner asks for
    /// itself). Only the engine can ask.
    fn granted(
        &self,
        grant: Grant,
        offset: u64,
        len: u64,
        access: Access,
        engine: ForEngine,
    ) -> Result<RawBuffer>;

    /// Writes `from` to granted memory of a peer. The bytes are in place when it is done, before any packet that is sent
    /// later is seen. Where this, [`read`](Self::read) or [`atomic`](Self::atomic) was posted, a [`Event::Completed`] follows
    /// in every case, also when the peer dies; until then the fabric may touch the local memory.
    fn write(&mut self, to: RemoteAddress, from: RawBytes, op: OpId) -> Result<Transfer>;

    /// Reads granted memory of a peer. Of at most [`Limits::read_bytes_max`] bytes, it is [`Transfer::Staged`] always or never.
    fn read(&mut self, from: RemoteAddress, to: RawBuffer, op: OpId) -> Result<Transfer>;

    /// Finds granted memory of a peer, for [`lend_mapped`](Self::lend_mapped); whether this task has mapped it. Of one region that is so for
    /// all tasks, or for none.
    ///
    /// # Errors
    /// The memory is not granted for reading and writing; the peer is dead.
    fn find_mapped(&mut self, _at: RemoteAddress, _len: u64) -> Result<bool> {
        Ok(false)
    }

    /// Lends `call` memory of a region that [`find_mapped`](Self::find_mapped) has found. The grant does not end before `call` returns. `None`,
    /// without `call`: it was not found, or is not granted any more.
    fn lend_mapped<R>(
        &mut self,
        _at: RemoteAddress,
        _len: u64,
        _call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Option<R> {
        None
    }

    /// Operates atomically on a word of granted memory of a peer.
    fn atomic(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp, op: OpId) -> Result<Atomic>;
}

/// What a task waits for, in words: a part of the report on a job that does not go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitFacts {
    /// Its operations that are under way.
    pub operations: Vec<UnderWay>,
    /// More of them, which are not told one by one.
    pub operations_left_out: u32,
    /// Messages that are here and wait until the program asks for them.
    pub early_messages: u32,
    /// The first of these, in words.
    pub first_early: Vec<String>,
    /// Something else than a message may end the wait: a time limit, another thread of the task.
    pub may_end_alone: bool,
}

/// An operation under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// "message", "get".
    pub what: &'static str,
    /// The task at the other end; `None`: any.
    pub partner: Option<TaskId>,
    /// What else there is to say of it; empty if nothing.
    pub details: String,
}

/// Number of empty polls that means "sleep at once" ([`World::wait`]).
pub const NO_SPIN: u32 = u32::MAX / 2;

/// The job: its tasks, their deaths, and how to wait.
pub trait World {
    /// The endpoint that this fabric was opened as.
    fn endpoint(&self) -> Endpoint;

    /// Tasks in the job.
    fn num_tasks(&self) -> u32;

    /// The limits.
    fn limits(&self) -> Limits;

    /// Called between two polls of a blocking wait that brought nothing: spins, yields or sleeps as the machine's load
    /// demands. `polls` is how many polls in a row brought nothing ([`NO_SPIN`]: sleep at once); at most `limit` is slept. Returns early on news. Whether nothing has come
    /// for so long (a second and more) that the wait is to be noted by [`note_wait`](Self::note_wait).
    fn wait(&mut self, polls: u32, limit: Duration) -> bool;

    /// Notes what this task waits for, where the launcher of the job can read it. A fabric without a launcher keeps the default, which
    /// does nothing.
    fn note_wait(&mut self, _facts: &WaitFacts) {}

    /// Whether `task` is known to have died, and how.
    fn failure(&self, task: TaskId) -> Option<String>;

    /// Whether the process of `task` has certainly ended, so that it changes no memory any more. A task that is known to have failed may
    /// still run. `false` where that can't be known.
    fn has_ended(&self, task: TaskId) -> bool;

    /// The number of the host that `task` runs on: tasks of one host can share memory.
    fn host(&self, _task: TaskId) -> u32 {
        0
    }

    /// Ends the wait of `to`, or the next one that it begins: for a change in memory, such as a lock that is free. It carries
    /// no data and takes no credit, and several calls before `to` looks count as one. Where memory is written by packets, these end
    /// the wait already, and the call does nothing.
    ///
    /// # Errors
    /// No such task, or its doorbell cannot be reached.
    fn ring(&mut self, _to: Endpoint) -> Result<()> {
        Ok(())
    }

    /// What passed between this endpoint and `peer` so far.
    fn traffic(&self, peer: PeerIndex) -> Traffic;

    /// Marks this task as failed, so that every peer sees it: called when it unwinds out of an operation.
    fn fail(&mut self, why: &str);

    /// Wakes this fabric's owner from another thread.
    fn waker(&self) -> Waker;
}
