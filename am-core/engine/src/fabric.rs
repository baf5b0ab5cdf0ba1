//! What am-core needs from the transport below it.
//!
//! A [`Fabric`] is the sum of two traits, and makes the promises of [`KeepsPromises`]:
//!
//! * [`Post`] moves packets between endpoints: without loss, and in order for each pair. The fabric numbers its peers ([`Peer`]), so that a
//!   peer is looked up once and not for each packet.
//! * [`Memory`] lets a task write into, read from and operate atomically on memory that a peer has granted.
//!
//! The device below, a [`World`], knows the tasks and their deaths, and how to wait.
//!
//! One thread at a time polls a fabric, and a fabric makes no callbacks.
//!
//! Credits are counted in packets, per pair of endpoints and direction ([`Class`]). The sender of a [`Class::Request`] has reserved a slot
//! for the answer in its own receive queue, so an answer always has a credit. Each request is either answered once or waived once
//! ([`Post::waive`]); both free the slot at the origin.
//!
//! # Errors
//! Unless its own text says otherwise, every method that returns a `Result` fails with `PeerFailed` for a dead task, `ContextClosed` for a
//! context that its task has closed, `UnknownTask` or `UnknownContext` for an endpoint that the job cannot have ([`Endpoint::check`]), and
//! with the system's errors of the set-up path.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::buffer::{
    Access, Arrived, ForEngine, Grant, InlineBytes, JobBuffer, KeepsPromises, MappedRange, RawBuffer,
    RawBytes, RemoteAddress, SharedMemory, SharedName,
};
use crate::error::{Error, Result};
use crate::task::{Endpoint, TaskId};
pub use crate::transfer::{AtomicOp, Body, Class, OpId, Posted, Transfer, Width};
pub use am_contract::wait::{UnderWay, WaitFacts, Waker};
pub use am_contract::world::{NO_SPIN, SystemError, World};

/// A context that this fabric exchanges packets with: its name, and the fabric's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's name in the job.
    pub endpoint: Endpoint,
    /// The peer's number in this fabric.
    pub index: PeerIndex,
}

/// A fabric's number for a peer, valid in that fabric while it is open. Peers are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerIndex(pub u32);

/// A packet that has arrived. A buffered one keeps its slot of the receive queue until [`Post::release`].
#[derive(Debug)]
pub struct Arrival {
    /// The sender of the packet.
    pub from: Peer,
    /// The credit that the packet took.
    pub class: Class,
    /// The engine's 16 bits.
    pub label: u16,
    /// The packet's bytes.
    pub payload: Payload,
}

/// Number of words in [`NextPacket::front`].
pub const FRONT_WORDS: usize = 4;

/// A packet that has been looked at but not consumed. All its fields are claims.
#[derive(Clone, Copy, Debug)]
pub struct NextPacket<'a> {
    /// The first words of the entry, read once.
    pub front: [u64; FRONT_WORDS],
    /// Number of the packet's bytes in the entry.
    pub in_entry: u64,
    /// All bytes of the entry. They may change, and are copied only.
    pub entry: Arrived<'a>,
    /// The packet's bytes in the NIC's buffer, if there are any.
    pub buffered: Option<Arrived<'a>>,
}

/// The packets of one peer, taken in line: without a poll.
pub trait InLine {
    /// Waits briefly for the next packet, and looks at it, if it is one-way and has this label. The packet stays in the queue until
    /// [`take`](Self::take) or a poll consumes it. `None`: nothing arrived in time, the packet is of another kind, or something else needs
    /// a poll.
    fn look(&mut self, label: u16) -> Option<NextPacket<'_>>;

    /// Consumes the packet that the last [`look`](Self::look) returned, like a poll followed by a release.
    fn take(&mut self);

    /// Lets the next polls begin with the packets of other peers. A fabric whose polls take turns anyway does nothing.
    fn end_turn(&mut self) {}
}

/// What a fabric returns that cannot take packets in line.
enum NotInLine {}

impl InLine for NotInLine {
    fn look(&mut self, _label: u16) -> Option<NextPacket<'_>> {
        match *self {}
    }

    fn take(&mut self) {
        match *self {}
    }
}

/// Where the bytes of an arrival are.
#[derive(Debug)]
pub enum Payload {
    /// In the entry itself: [`Post::poll`] has copied them into the caller's private memory.
    Inline,
    /// In the NIC's buffer. [`Post::poll`] has copied a head from the entry; [`Post::arrived`] returns a view of the bytes in the buffer.
    Buffered {
        /// The fabric's name for the slot.
        place: u64,
        /// The packet's length in bytes.
        len: u32,
    },
}

/// What a poll returns.
#[derive(Debug)]
pub enum Event {
    /// A packet has arrived.
    Arrival(Arrival),
    /// A write, read or rmw that was posted has ended.
    Completed {
        /// The operation.
        op: OpId,
        /// The old value of an rmw, or the error. After a write or read, the number has no meaning.
        result: Result<u64, Box<Error>>,
    },
    /// A task has died. Reported once for each task.
    TaskFailed(TaskId),
    /// A peer has rung ([`World::ring`]): something that this task waits for may have changed in memory.
    Rung,
    /// A task that lives on has closed a context; polls have already returned all packets of that context. Reported to the contexts
    /// connected to it, and to those that need it ([`WaitFacts::needed`]). Later packets to the context are refused with `ContextClosed`;
    /// later answers are dropped.
    ContextClosed(Endpoint),
}

/// Limits that are fixed while a fabric is open.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of contexts of a task, at most 16. Context numbers are below it.
    pub contexts_max: u8,
    /// Bytes of the largest packet, head and body together.
    pub packet_bytes_max: usize,
    /// Credits: maximum number of one-way packets of one sender that one target has not consumed.
    pub credits: u32,
    /// Maximum number of unanswered requests per peer.
    pub requests_max: u32,
}

/// Packets exchanged by this endpoint and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received and released.
    pub packets_received: u64,
}

/// The transport of am-core, used by one thread at a time. The memory that a fabric is given has no lifetime, so an implementation must
/// make the promises of [`KeepsPromises`], in an `unsafe impl`.
pub trait Fabric: Post + Memory + KeepsPromises + fmt::Debug {}

impl<F: Post + Memory + KeepsPromises + fmt::Debug> Fabric for F {}

/// Packets: posted to peers, and polled.
pub trait Post {
    /// The device below.
    type World: World;

    /// The device below, which knows the job.
    fn world(&self) -> &Self::World;

    /// The device below, for the calls that change something.
    fn world_mut(&mut self) -> &mut Self::World;

    /// The limits.
    fn limits(&self) -> Limits;

    /// Packets exchanged with a peer so far.
    fn traffic(&self, peer: PeerIndex) -> Traffic;

    /// The endpoint as a peer, with its number. A dead or closed endpoint has a number, too; posting to it returns `PeerFailed` or
    /// `ContextClosed`.
    ///
    /// # Errors
    /// `UnknownTask`, `UnknownContext`.
    fn peer(&mut self, endpoint: Endpoint) -> Result<Peer>;

    /// Sends a packet of at most 40 bytes inside its completion entry. The engine defines the label and the bytes.
    fn post_inline(&mut self, to: PeerIndex, class: Class, label: u16, bytes: &InlineBytes)
    -> Result<Posted>;

    /// The fast path of [`post_inline`](Self::post_inline) and [`post_packet`](Self::post_packet): sends `front`, and after it `data`,
    /// inside the completion entry if they fit there. Together they must not be longer than `packet_bytes_max`. This function is meant to
    /// call no other before a short packet is sent, so that its callers need not save registers. `false`: nothing was sent, and the caller
    /// must use the other two functions, which also connect to the peer and report errors.
    #[inline(always)]
    fn try_post(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        front: &InlineBytes,
        mut data: &[u8],
    ) -> bool {
        let mut bytes = *front;
        let posted = if bytes.push(data) {
            self.post_inline(to, class, label, &bytes)
        } else {
            self.post_packet(to, class, label, front, &mut data)
        };
        matches!(posted, Ok(Posted::Done))
    }

    /// Sends a packet of `head`, which travels in the entry, and `body`, which lies in the NIC's buffer; together at most
    /// `packet_bytes_max`. The body has been written when the call returns [`Posted::Done`].
    ///
    /// # Errors
    /// Besides those of all methods, the error of the body. Then nothing was sent, and no credit was taken.
    fn post_packet(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        head: &InlineBytes,
        body: &mut impl Body,
    ) -> Result<Posted>;

    /// Returns the next event, if any, without blocking. The bytes of an inline arrival, or the head of a buffered one, are copied to
    /// `inline`.
    fn poll(&mut self, inline: &mut InlineBytes) -> Option<Event>;

    /// Borrows the packets of one peer, to take them in line. `None`: there is no such peer, or this fabric does not support it.
    #[inline(always)]
    fn in_line(&mut self, _from: PeerIndex) -> Option<impl InLine> {
        None::<NotInLine>
    }

    /// Whether the given number of one-way packets can be posted to a peer now, and would carry `len` bytes there sooner than a
    /// [`read`](Memory::read) by the peer would: both tasks then copy at the same time, or the network carries the packets as one message.
    /// If so, and the number is not 0, the caller must post these packets next. The fabric must refuse none of them until it is polled.
    ///
    /// # Errors
    /// The peer has failed, or has closed its context.
    fn takes_pieces(&mut self, _to: PeerIndex, _len: usize, _packets: u32) -> Result<bool> {
        Ok(false)
    }

    /// Whether the given number of one-way packets would carry `len` bytes to a peer sooner than a read even if the packets first had to
    /// wait for credits. If so, [`takes_pieces`](Self::takes_pieces) accepts them once the peer has consumed all earlier packets.
    fn pieces_may_wait(&mut self, _to: PeerIndex, _len: usize, _packets: u32) -> bool {
        false
    }

    /// The numbers of a task's contexts, as far as the fabric has any.
    fn peers_of(&self, _task: TaskId) -> Vec<Peer> {
        Vec::new()
    }

    /// Forgets all about a task that has ended and with which nothing is under way, so that another task may get its number. The numbers of
    /// its contexts stay those of the same endpoints.
    ///
    /// # Errors
    /// The system's error.
    fn forget(&mut self, _task: TaskId) -> Result<()> {
        Ok(())
    }

    /// Whether the processors of this task and of a peer share a cache, as far as is known. A change is noticed only after some packets.
    fn shares_cache(&mut self, _to: PeerIndex) -> bool {
        false
    }

    /// The body of a buffered arrival; empty for an inline arrival.
    fn arrived(&self, arrival: &Arrival) -> Arrived<'_>;

    /// Frees the slot of a buffered arrival, so that the sender can use it again. The slot of an inline arrival was freed by the poll,
    /// which copied the bytes.
    fn release(&mut self, arrival: Arrival);

    /// Tells `origin` that one of its requests will never be answered, which frees the slot reserved for the answer. The notice takes no
    /// credit, and may travel with the next credits.
    fn waive(&mut self, origin: PeerIndex);
}

/// Memory: allocated, granted to peers, and copied between tasks.
pub trait Memory {
    /// Allocates zeroed memory of the kind that peers access fastest.
    fn alloc(&mut self, len: usize) -> Result<JobBuffer>;

    /// Makes zeroed memory of `len` bytes that other tasks can map as well ([`open_shared`](Self::open_shared)). `None`: this fabric does
    /// not support it.
    fn share(&mut self, _len: usize) -> Result<Option<SharedMemory>> {
        Ok(None)
    }

    /// Maps memory that another task has made by [`share`](Self::share). Must be called before that task calls
    /// [`all_have_opened`](Self::all_have_opened). This task then accesses the parts that others expose like its own memory, by plain
    /// copies and atomic operations.
    ///
    /// # Errors
    /// `System`: there is no such memory, or it cannot be mapped.
    fn open_shared(&mut self, _name: SharedName) -> Result<SharedMemory> {
        Err(Error::System { doing: "opening shared memory", source: "this fabric has none".into() })
    }

    /// Called when all tasks have opened this task's shared memory: frees the resources that only opening needs.
    fn all_have_opened(&mut self, _name: SharedName) {}

    /// Unmaps shared memory from this task.
    fn unshare(&mut self, _memory: SharedMemory) {}

    /// Grants peers access to `memory`, until [`revoke`](Self::revoke). A grant for one operation ([`Access::for_operation`]) has
    /// [`Grant::OPERATION_BIT`] set, and [`revoke`](Self::revoke) always returns [`Posted::Done`] for it: the engine calls `revoke` after
    /// the peer has reported the end of its copies, or has died. `None`, only for such a grant: the limit of memory that peers may access
    /// is reached, and the operation sends its bytes as packets. `user`: the only peer that uses such a grant.
    fn grant(&mut self, memory: RawBuffer, access: Access, user: Option<PeerIndex>) -> Result<Option<Grant>>;

    /// Ends a grant. [`Posted::Done`]: no peer touches the memory from now on. [`Posted::Retry`]: new claims are refused, but a peer is
    /// still copying; try again.
    ///
    /// A grant for reading by one operation may be kept for the next operation with the same memory. A misbehaving peer that uses it after
    /// the operation has ended reads meaningless bytes, and cannot write.
    fn revoke(&mut self, grant: Grant) -> Result<Posted>;

    /// Like [`revoke`](Self::revoke), for a grant for one operation that this task withdraws: the peer has not reported the end of its
    /// copies, and may be copying.
    fn revoke_in_use(&mut self, grant: Grant) -> Result<Posted>;

    /// The memory of this task's own live grant, if the grant gives peers all of `access` ([`Access::OWNER`]: for the owner itself). Only
    /// the engine can call this.
    ///
    /// # Errors
    /// `RemoteRange`: the grant is not live, does not give this access, or is shorter than the range.
    fn granted(
        &self,
        grant: Grant,
        offset: u64,
        len: u64,
        access: Access,
        engine: ForEngine,
    ) -> Result<RawBuffer>;

    /// Writes `from` to granted memory of a peer. The bytes are stored before the write completes, and before the peer sees any later
    /// packet. If this call, [`read`](Self::read) or [`atomic`](Self::atomic) returned `Posted`, an [`Event::Completed`] always follows,
    /// even if the peer dies. Until then the fabric may access the local memory.
    fn write(&mut self, to: RemoteAddress, from: RawBytes, op: OpId) -> Result<Transfer>;

    /// Reads granted memory of a peer. Reads from one region are either all [`Transfer::Unreachable`], or none.
    fn read(&mut self, from: RemoteAddress, to: RawBuffer, op: OpId) -> Result<Transfer>;

    /// Writes several pieces to granted memory of a peer, each to its offset from `to` on, where that is faster than one
    /// [`write`](Self::write) each. `false`: the caller must write each piece. (Some may have been written.)
    ///
    /// # Errors
    /// `RemoteRange`: the range from the first piece to the last is not granted for writing. `PeerFailed`: the peer is dead.
    fn write_pieces(&mut self, _to: RemoteAddress, _pieces: &[(u64, RawBytes)]) -> Result<bool> {
        Ok(false)
    }

    /// Like [`write_pieces`](Self::write_pieces), but reads.
    ///
    /// # Errors
    /// Those of [`write_pieces`](Self::write_pieces).
    fn read_pieces(&mut self, _from: RemoteAddress, _pieces: &[(u64, RawBuffer)]) -> Result<bool> {
        Ok(false)
    }

    /// Finds granted memory of a peer for [`lend_mapped`](Self::lend_mapped); returns whether this task has mapped it. The answer for a
    /// region must be the same in all tasks.
    ///
    /// # Errors
    /// `RemoteRange`: the memory is not granted for the accesses `need`. `PeerFailed`: the peer is dead.
    fn find_mapped(&mut self, _at: RemoteAddress, _len: u64, _need: Access) -> Result<bool> {
        Ok(false)
    }

    /// Calls `call` with memory of a region that [`find_mapped`](Self::find_mapped) has found. The memory stays granted until `call`
    /// returns. `None`, and `call` is not called: the region was not found, is no longer granted, or is not granted for reading and
    /// writing.
    fn lend_mapped<R>(
        &mut self,
        _at: RemoteAddress,
        _len: u64,
        _call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Option<R> {
        None
    }

    /// Writes `bytes` to memory of a region that [`find_mapped`](Self::find_mapped) has found; returns whether they were written. If
    /// not, the region was not found, or is no longer granted for writing.
    #[inline(always)]
    fn write_mapped(&mut self, _at: RemoteAddress, _bytes: &[u8]) -> bool {
        false
    }

    /// Fills `to` with memory of a region that [`find_mapped`](Self::find_mapped) has found; returns whether it did. If not, the region was
    /// not found, or is no longer granted for reading.
    #[inline(always)]
    fn read_mapped(&mut self, _from: RemoteAddress, _to: &mut [u8]) -> bool {
        false
    }

    /// Operates atomically on a word of a region that [`find_mapped`](Self::find_mapped) has found; returns the old value. `None`: the
    /// region was not found, is no longer granted for reading and writing, or the word is not aligned to its size.
    #[inline(always)]
    fn atomic_mapped(&mut self, _at: RemoteAddress, _width: Width, _operation: AtomicOp) -> Option<u64> {
        None
    }

    /// Operates atomically on a word of granted memory of a peer.
    fn atomic(
        &mut self,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        op: OpId,
    ) -> Result<Transfer<u64>>;
}
