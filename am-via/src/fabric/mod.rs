//! am-core's Fabric over VIA: packets by RDMA write with immediate data, credits for posted receives, connections on first
//! use. The only place that names am-core.

#![expect(
    clippy::cast_possible_truncation,
    reason = "contexts are below 16 and packets below 4 GiB, both bounded when the job is made"
)]

mod bounce_buffers;
mod credits;
mod kept_grants;
mod memory;
mod packets;
mod peers;
mod registration_cache;

use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::time::Duration;

use am_core::buffer::{
    Access, Arrived, Executor, ForEngine, Grant, InlineBytes, JobBuffer, RawBuffer, RawBytes, RemoteAddress,
    SharedMemory, SharedName,
};
use am_core::error::{Error, Outcome, RangeFault, Result};
use am_core::fabric::{Arrival, Event, Limits, Memory, Payload, PeerIndex, Post, Traffic, Waker, World};
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::transfer::{Atomic, AtomicOp, Body, Class, OpId, Transfer, Width};

use crate::vipl::nic::{Nic, Received, ViplEvent};
use crate::vipl::{
    Device, DeviceError, MemAttributes, MemHandle, NodeAddress, Posted, RemoteMemory, ViId, WordUpdate,
};

use bounce_buffers::BounceBuffers;
use kept_grants::{KeptGrants, Room};
use packets::Immediate;
use peers::{Peer, Peers};
use registration_cache::{Purpose, RegistrationCache};

pub use credits::CreditPlan;
pub use registration_cache::RegistrationStatistics;

/// The fabric over a NIC of device `D`.
#[derive(Debug)]
pub struct ViaFabric<D: Device> {
    nic: Nic<D>,
    endpoint: Endpoint,
    num_tasks: u32,
    contexts_max: u8,
    slot_bytes: usize,
    plan: CreditPlan,
    peers: Peers,
    /// What the device has accepted and not ended: for the words of an error. Empty where transfers are done at once.
    under_way: HashMap<u64, (RemoteAddress, u64)>,
    /// Where the registered bytes of private memory are limited.
    registrations: Option<RegistrationCache>,
    kept_grants: KeptGrants,
    /// Where short private data are copied for the peers that take them.
    bounces: BounceBuffers,
}

impl<D: Device> ViaFabric<D> {
    /// A fabric over an open NIC. Every task has the same `plan`.
    #[must_use]
    pub fn new(nic: Nic<D>, plan: CreditPlan) -> Self {
        let attributes = nic.attributes();
        let contexts_max = attributes.contexts_max as u8;
        Self {
            endpoint: endpoint(nic.address()),
            num_tasks: attributes.num_tasks,
            slot_bytes: attributes.slot_bytes,
            plan: plan.within(attributes.ring_lines),
            contexts_max,
            peers: Peers::new(attributes.num_tasks, contexts_max),
            under_way: HashMap::new(),
            registrations: None,
            kept_grants: KeptGrants::new(),
            bounces: BounceBuffers::new(0),
            nic,
        }
    }

    /// The same, with at most `bytes` (and at least 64 KiB) of private memory registered at once. Job memory does not count: a NIC registers it
    /// whole when it is opened.
    #[must_use]
    pub fn with_registered_bytes_max(self, bytes: u64) -> Self {
        Self { registrations: Some(RegistrationCache::new(bytes)), ..self }
    }

    /// The same, with private data of up to `bytes` copied into job memory for the peer that takes them: for a device that reaches
    /// job memory faster.
    #[must_use]
    pub fn with_bounce_bytes_max(self, bytes: usize) -> Self {
        Self { bounces: BounceBuffers::new(bytes), ..self }
    }

    /// What became of registrations of private memory, where they are limited.
    #[must_use]
    pub fn registration_statistics(&self) -> Option<RegistrationStatistics> {
        self.registrations.as_ref().map(RegistrationCache::statistics)
    }

    /// Registers the local end of a transfer for its time, if that has to be. `Err`: the outcome, where there is no room.
    #[inline]
    fn hold_local_end(&mut self, at: NonNull<u8>, len: usize) -> Result<Option<Range<u64>>, Transfer> {
        let Some(cache) = &mut self.registrations else { return Ok(None) };
        // What fits into a packet goes through the NIC's own buffers.
        if len <= self.slot_bytes || !self.nic.is_private(at, len) {
            return Ok(None);
        }
        match cache.hold(at.addr().get() as u64, len as u64, Purpose::LocalEnd) {
            Some(pages) => Ok(Some(pages)),
            None if len as u64 <= cache.local_end_bytes_max() => Err(Transfer::Retry),
            None => Err(Transfer::Staged),
        }
    }

    /// The transfer that `held` was for has been started, or not.
    #[inline]
    fn let_go_local_end(&mut self, held: Option<Range<u64>>, done: &Result<Transfer>, op: OpId) {
        let (Some(cache), Some(pages)) = (&mut self.registrations, held) else { return };
        if matches!(done, Ok(Transfer::Posted)) {
            cache.keep_for_transfer(u64::from(op.0), pages);
        } else {
            cache.let_go(&pages);
        }
    }

    /// Gives a peer its number.
    #[cold]
    #[inline(never)]
    fn new_peer(&mut self, to: Endpoint) -> Result<PeerIndex> {
        to.check(self.num_tasks, self.contexts_max)?;
        let unknown = Error::UnknownTask { endpoint: to, num_tasks: self.num_tasks };
        self.peers.add(to, self.plan).ok_or(unknown)
    }

    /// Why a peer has no room for a packet. It may not be connected yet: then it is now, if that can be, and the answer is `true`.
    #[cold]
    #[inline(never)]
    fn may_send_now(&mut self, to: PeerIndex, class: Class) -> Result<bool> {
        let Some(peer) = self.peers.get(to) else { return Err(unknown_peer(to)) };
        let endpoint = peer.endpoint;
        if peer.is_closed {
            return Err(Error::ContextClosed { endpoint });
        }
        if peer.vi.is_some() {
            return Ok(false);
        }
        if let Some(how) = self.nic.failure(endpoint.task.0) {
            return Err(Error::PeerFailed { task: endpoint.task, what: how });
        }
        if let Some(vi) = self.nic.connect_peer(node(endpoint)).map_err(|error| wrong(endpoint, error))? {
            self.peers.connected(endpoint, vi, self.plan);
        }
        Ok(self.peers.get(to).is_some_and(|peer| peer.credits.may_send(class)))
    }

    /// Posts a packet by `post`, and books it.
    #[inline(always)]
    fn post(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        mut post: impl FnMut(&mut Nic<D>, ViId, Immediate) -> Result<Posted, DeviceError>,
    ) -> Result<Outcome> {
        if !self.peers.get(to).is_some_and(|peer| peer.credits.may_send(class))
            && !self.may_send_now(to, class)?
        {
            return Ok(Outcome::Retry);
        }
        let Some(peer) = self.peers.get_mut(to) else { return Ok(Outcome::Retry) };
        let Some(vi) = peer.vi else { return Ok(Outcome::Retry) };
        let immediate = peer.credits.immediate(class, label);
        let mut posted = post(&mut self.nic, vi, immediate);
        if class == Class::Answer && matches!(posted, Ok(Posted::Retry)) {
            posted = insist(|| post(&mut self.nic, vi, immediate));
        }
        match posted {
            Ok(Posted::Done) => {
                peer.credits.sent(class);
                Ok(Outcome::Done)
            }
            Ok(Posted::Retry) => Ok(Outcome::Retry),
            Err(error) => {
                let endpoint = peer.endpoint;
                Err(self.post_failed(endpoint, error))
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn post_failed(&self, to: Endpoint, error: DeviceError) -> Error {
        match self.nic.failure(to.task.0) {
            Some(what) => Error::PeerFailed { task: to.task, what },
            None => wrong(to, error),
        }
    }

    #[inline(always)]
    fn received(&mut self, received: &Received) -> Option<Event> {
        let immediate = Immediate(received.immediate);
        let len = received.length.min(self.slot_bytes as u32);
        if !self.peers.knows(received.vi) {
            self.first_from(received.vi);
        }
        let (index, peer) = self.peers.by_vi(received.vi)?;
        peer.credits.returned(immediate.credits(), immediate.unused_answers());
        let Some(class) = immediate.class() else {
            // Credits alone: nothing for the engine.
            self.nic.release(received.vi);
            return None;
        };
        let payload = if received.is_inline {
            // The bytes are copied: the place goes back now, while the accounts are at hand.
            self.nic.release(received.vi);
            peer.credits.consumed(class);
            if peer.credits.must_return() {
                Self::return_credits(&mut self.nic, peer, received.vi);
            }
            Payload::Inline
        } else {
            Payload::Buffered { place: u64::from(received.slot), len }
        };
        let from = am_core::fabric::Peer { endpoint: peer.endpoint, index };
        Some(Event::Arrival(Arrival { from, class, label: immediate.label(), payload }))
    }

    /// A message on a VI whose connection was not reported yet: it came in the same poll.
    #[cold]
    #[inline(never)]
    fn first_from(&mut self, vi: ViId) {
        if let Some(from) = self.nic.peer(vi) {
            self.peers.connected(endpoint(from), vi, self.plan);
        }
    }

    #[cold]
    #[inline(never)]
    #[expect(
        clippy::boxed_local,
        reason = "by value it would keep the frequent kind in memory: see `poll_rest` of the device"
    )]
    fn rare(&mut self, event: Box<ViplEvent>) -> Option<Box<Event>> {
        match *event {
            ViplEvent::Connected(vi, from) => {
                self.peers.connected(endpoint(from), vi, self.plan);
                None
            }
            ViplEvent::Ended { id, result } => {
                let op = OpId(u32::try_from(id).ok()?);
                if let Some(cache) = &mut self.registrations {
                    cache.end_transfer(id);
                }
                let (at, len) = self.under_way.remove(&id)?;
                let result = result.map_err(|fault| Box::new(refused(at, len, fault.into())));
                Some(Box::new(Event::Completed { op, result }))
            }
            ViplEvent::TaskFailed(task) => Some(Box::new(Event::TaskFailed(TaskId(task)))),
            ViplEvent::Rung => Some(Box::new(Event::Rung)),
            ViplEvent::PeerClosed(peer) => {
                let index = self.peers.number(endpoint(peer))?;
                let closed = self.peers.get_mut(index).filter(|closed| closed.vi.is_some())?;
                closed.is_closed = true;
                closed.credits.stop();
                Some(Box::new(Event::ContextClosed(endpoint(peer))))
            }
            ViplEvent::Disconnected(_) | ViplEvent::Received(_) => None,
        }
    }

    /// What became of a write or a read.
    fn started(
        &mut self,
        done: Result<crate::vipl::Transfer, DeviceError>,
        at: RemoteAddress,
        len: u64,
        op: OpId,
    ) -> Result<Transfer> {
        let done = done.map(outcome).map_err(|error| refused(at, len, error))?;
        if done == Transfer::Posted {
            self.under_way.insert(u64::from(op.0), (at, len));
        }
        Ok(done)
    }

    /// Ends a grant. `finished`: whoever it was for has said that it copies no more, or is dead.
    fn end_grant(&mut self, grant: Grant, finished: bool) -> Result<Outcome> {
        match self.nic.deregister_mem(handle(grant), finished) {
            Ok(Posted::Done) => {
                if let Some(cache) = &mut self.registrations {
                    cache.end_grant(handle(grant).region);
                }
                Ok(Outcome::Done)
            }
            Ok(Posted::Retry) => Ok(Outcome::Retry),
            Err(error) => Err(refused(own_address(self.endpoint, grant, 0), 0, error)),
        }
    }

    /// Sends back credits that no message carried, when a peer is owed many.
    #[cold]
    #[inline(never)]
    fn return_credits(nic: &mut Nic<D>, peer: &mut Peer, vi: ViId) {
        let (credits, unused) = peer.credits.take_owed();
        let immediate = Immediate::credits_only(credits, unused);
        // The places for this are apart. If the peer fills them with something else, or is gone, it is told with the next
        // packet, or never.
        if !matches!(insist(|| nic.post_inline(vi, immediate.0, &[0; 5], 0)), Ok(Posted::Done)) {
            peer.credits.owe(credits, unused);
        }
    }
}

/// Posts what has a reserved place, an answer or returned credits. It is taken at once but by a device that refuses at random;
/// only a peer that takes more than its share can keep its ring full, and then it is the one to suffer.
#[cold]
#[inline(never)]
fn insist(mut post: impl FnMut() -> Result<Posted, DeviceError>) -> Result<Posted, DeviceError> {
    (0..INSIST_TRIES).map(|_| post()).find(|posted| !matches!(posted, Ok(Posted::Retry))).unwrap_or({
        Err(DeviceError::Exhausted {
            resource: "reserved places in a peer's receive queue",
            needed: 1,
            available: 0,
            remedy: "the peer breaks the protocol: it asks for more answers than it has places for",
        })
    })
}

#[cold]
fn unknown_peer(PeerIndex(index): PeerIndex) -> Error {
    Error::Exhausted {
        resource: "peers with a number",
        needed: u64::from(index) + 1,
        available: 0,
        remedy: "use the numbers that this fabric gave out",
    }
}

/// How often something is posted before its refusal is taken to be the peer's doing.
const INSIST_TRIES: u32 = 100;

fn endpoint(address: NodeAddress) -> Endpoint {
    Endpoint::new(TaskId(address.task), ContextNumber(address.context as u8))
}

fn node(endpoint: Endpoint) -> NodeAddress {
    NodeAddress { task: endpoint.task.0, context: u32::from(endpoint.context.0) }
}

/// A device's error in am-core's words.
#[cold]
fn wrong(peer: Endpoint, error: DeviceError) -> Error {
    match error {
        DeviceError::UnknownTask { num_tasks, .. } => Error::UnknownTask { endpoint: peer, num_tasks },
        DeviceError::UnknownContext { contexts_max, .. } => {
            Error::UnknownContext { endpoint: peer, contexts_max: contexts_max as u8 }
        }
        DeviceError::Exhausted { resource, needed, available, remedy } => {
            Error::Exhausted { resource, needed, available, remedy }
        }
        DeviceError::System { doing, source } => Error::System { doing, source },
        DeviceError::PeerClosed(at) => Error::ContextClosed { endpoint: endpoint(at) },
        DeviceError::NotConnected(_) | DeviceError::Closed(_) => {
            Error::PeerFailed { task: peer.task, what: "its connection is closed".to_owned() }
        }
        other => Error::Protocol { peer, what: other.to_string() },
    }
}

fn remote(at: RemoteAddress) -> RemoteMemory {
    RemoteMemory {
        task: at.task.0,
        handle: handle(at.grant),
        offset: at.offset,
        ptag: tag(at.grant.is_for_operation()),
    }
}

fn own_address(Endpoint { task, context }: Endpoint, grant: Grant, offset: u64) -> RemoteAddress {
    RemoteAddress { task, context, executor: Executor::Anyone, grant, offset }
}

fn handle(grant: Grant) -> MemHandle {
    MemHandle { region: grant.region & !Grant::OPERATION_BIT, generation: grant.generation }
}

/// The grant of one operation.
fn for_operation(handle: MemHandle) -> Grant {
    Grant { region: handle.region | Grant::OPERATION_BIT, generation: handle.generation }
}

fn mem_attributes(access: Access) -> MemAttributes {
    MemAttributes { ptag: tag(access.for_operation), rdma_write: access.write, rdma_read: access.read }
}

/// The protection tag of what one operation has lent to peers, or of what a program has exposed: neither is reached by a claim to the
/// other, whatever grant it makes up.
fn tag(for_operation: bool) -> u32 {
    u32::from(for_operation)
}

#[cold]
fn refused(at: RemoteAddress, len: u64, error: DeviceError) -> Error {
    use crate::vipl::ClaimFault;
    let why = match error {
        DeviceError::Refused(ClaimFault::Stale | ClaimFault::Tag) => RangeFault::Stale,
        DeviceError::Refused(ClaimFault::Bounds { len }) => RangeFault::Bounds { region_len: len },
        DeviceError::Refused(ClaimFault::NotWritable) => RangeFault::Access("write"),
        DeviceError::Refused(ClaimFault::NotReadable) => RangeFault::Access("read"),
        DeviceError::Refused(ClaimFault::Misaligned) => {
            return Error::Misaligned { offset: at.offset, size: len };
        }
        DeviceError::Refused(ClaimFault::PeerDead) => {
            return Error::PeerFailed { task: at.task, what: String::new() };
        }
        other => return wrong(Endpoint::new(at.task, ContextNumber(0)), other),
    };
    Error::RemoteRange {
        task: at.task,
        region: at.grant.region & !Grant::OPERATION_BIT,
        generation: at.grant.generation,
        offset: at.offset,
        len,
        why,
    }
}

fn outcome(transfer: crate::vipl::Transfer) -> Transfer {
    match transfer {
        crate::vipl::Transfer::Done => Transfer::Done,
        crate::vipl::Transfer::Posted => Transfer::Posted,
        crate::vipl::Transfer::Retry => Transfer::Retry,
        crate::vipl::Transfer::NoWay => Transfer::Staged,
    }
}

fn update(operation: AtomicOp) -> WordUpdate {
    match operation {
        AtomicOp::FetchAdd(value) => WordUpdate::Add(value),
        AtomicOp::FetchOr(value) => WordUpdate::Or(value),
        AtomicOp::FetchAnd(value) => WordUpdate::And(value),
        AtomicOp::FetchXor(value) => WordUpdate::Xor(value),
        AtomicOp::FetchMin(value) => WordUpdate::Min(value),
        AtomicOp::FetchMax(value) => WordUpdate::Max(value),
        AtomicOp::FetchMinSigned(value) => WordUpdate::MinSigned(value),
        AtomicOp::FetchMaxSigned(value) => WordUpdate::MaxSigned(value),
        AtomicOp::FetchAddFloat(value) => WordUpdate::AddFloat(value),
        AtomicOp::FetchMinFloat(value) => WordUpdate::MinFloat(value),
        AtomicOp::FetchMaxFloat(value) => WordUpdate::MaxFloat(value),
        AtomicOp::Swap(value) => WordUpdate::Swap(value),
        AtomicOp::CompareSwap { expected, new } => WordUpdate::CompareSwap { expected, new },
    }
}

impl<D: Device> Post for ViaFabric<D> {
    #[inline(always)]
    fn peer(&mut self, endpoint: Endpoint) -> Result<am_core::fabric::Peer> {
        let index = match self.peers.number(endpoint) {
            Some(index) => index,
            None => self.new_peer(endpoint)?,
        };
        Ok(am_core::fabric::Peer { endpoint, index })
    }

    #[inline(always)]
    fn post_inline(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<Outcome> {
        self.post(to, class, label, |nic, vi, immediate| {
            nic.post_inline(vi, immediate.0, bytes.words(), bytes.len() as u32)
        })
    }

    #[inline(always)]
    fn post_packet(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        head: &[u8],
        body: &mut impl Body,
    ) -> Result<Outcome> {
        let len = head.len() + body.len();
        debug_assert!(len <= self.slot_bytes, "the engine cuts messages into packets");
        self.post(to, class, label, |nic, vi, immediate| {
            nic.post_rdma_write_area(vi, immediate.0, len, |room| {
                let mut room = memory::room(room);
                room.put_slice(head);
                body.write(&mut room);
                room.used()
            })
        })
    }

    #[inline(always)]
    fn poll(&mut self, inline: &mut InlineBytes) -> Option<Event> {
        match self.nic.poll(inline.words_mut())? {
            ViplEvent::Received(received) => {
                inline.set_len(received.length as usize);
                self.received(&received)
            }
            event => self.rare(Box::new(event)).map(|event| *event),
        }
    }

    #[inline(always)]
    fn arrived(&self, arrival: &Arrival) -> Arrived<'_> {
        let vi = self.peers.get(arrival.from.index).and_then(|peer| peer.vi);
        match (&arrival.payload, vi) {
            (&Payload::Buffered { place, len }, Some(vi)) => {
                memory::arrived(self.nic.area(vi, place as u32, len))
            }
            _ => Arrived::private(&[]),
        }
    }

    #[inline(always)]
    fn release(&mut self, arrival: Arrival) {
        if matches!(arrival.payload, Payload::Inline) {
            return;
        }
        let Some(peer) = self.peers.get_mut(arrival.from.index) else { return };
        let Some(vi) = peer.vi else { return };
        self.nic.release(vi);
        peer.credits.consumed(arrival.class);
        if peer.credits.must_return() {
            Self::return_credits(&mut self.nic, peer, vi);
        }
    }

    #[inline(always)]
    fn waive(&mut self, origin: PeerIndex) {
        if let Some(peer) = self.peers.get_mut(origin) {
            peer.credits.waive();
            if let Some(vi) = peer.vi.filter(|_| peer.credits.must_return()) {
                Self::return_credits(&mut self.nic, peer, vi);
            }
        }
    }
}

impl<D: Device> Memory for ViaFabric<D> {
    fn alloc(&mut self, len: usize) -> Result<JobBuffer> {
        let block = self.nic.alloc(len).map_err(|error| wrong(self.endpoint, error))?;
        Ok(memory::job_buffer(block))
    }

    fn share(&mut self, len: usize) -> Result<Option<SharedMemory>> {
        let made = self.nic.make_shared_file(len).map_err(|error| wrong(self.endpoint, error))?;
        Ok(made.map(|(name, mapping)| memory::shared_memory(name, mapping)))
    }

    fn open_shared(&mut self, name: SharedName) -> Result<SharedMemory> {
        let file = memory::shared_file_name(name).ok_or_else(|| Error::System {
            doing: "opening shared memory",
            source: std::io::Error::other("its name is none"),
        })?;
        let opened = self.nic.open_shared_file(file).map_err(|error| wrong(self.endpoint, error))?;
        Ok(memory::shared_memory(file, opened))
    }

    fn all_have_opened(&mut self, SharedName([.., inode, _]): SharedName) {
        self.nic.close_shared_file(inode);
    }

    fn unshare(&mut self, memory: SharedMemory) {
        let SharedName([.., inode, _]) = memory.name();
        self.nic.forget_shared_file(inode);
    }

    fn grant(&mut self, memory: RawBuffer, access: Access) -> Result<Option<Grant>> {
        let (at, len) = (memory.at(), memory.len() as u64);
        let to_read_once = access.for_operation && !access.write;
        let keep = to_read_once && self.nic.is_job_memory(at, memory.len());
        if keep && let Some(grant) = self.kept_grants.take(at.addr(), memory.len()) {
            return Ok(Some(grant));
        }
        if to_read_once && !keep {
            let lent =
                self.bounces.lend(&mut self.nic, memory).map_err(|error| wrong(self.endpoint, error))?;
            if lent.is_some() {
                return Ok(lent);
            }
        }
        let mut held = None;
        if let Some(cache) = self.registrations.as_mut().filter(|_| self.nic.is_private(at, memory.len())) {
            held = cache.hold(at.addr().get() as u64, len, Purpose::Peers);
            if held.is_none() && access.for_operation {
                return Ok(None);
            }
            if held.is_none() {
                return Err(Error::Exhausted {
                    resource: "registered private memory, in bytes",
                    needed: len,
                    available: cache.available_for_peers(),
                    remedy: "unexpose memory that peers need no more, wait for long sends to end, use memory of `alloc`, \
                             or raise the setting registered_bytes_max (AM_REGISTERED_BYTES_MAX), of which a quarter is \
                             kept for transfers that this task begins",
                });
            }
        }
        let attributes = mem_attributes(access);
        let registered = self.nic.register_mem(memory::range(memory), attributes, None);
        if let (Some(cache), Some(pages)) = (&mut self.registrations, held) {
            match &registered {
                Ok(handle) => cache.keep_for_grant(handle.region, pages),
                Err(_) => cache.let_go(&pages),
            }
        }
        let handle = registered.map_err(|error| wrong(self.endpoint, error))?;
        let grant = if access.for_operation {
            for_operation(handle)
        } else {
            Grant { region: handle.region, generation: handle.generation }
        };
        if keep && let Room::InsteadOf(old) = self.kept_grants.add(at.addr(), memory.len(), grant) {
            // Nobody copies by it, so that it ends at once.
            let _ = self.end_grant(old, true)?;
        }
        Ok(Some(grant))
    }

    fn revoke(&mut self, grant: Grant) -> Result<Outcome> {
        if grant.is_for_operation() && (self.kept_grants.give_back(grant) || self.bounces.give_back(grant)) {
            return Ok(Outcome::Done);
        }
        self.end_grant(grant, grant.is_for_operation())
    }

    fn revoke_in_use(&mut self, grant: Grant) -> Result<Outcome> {
        self.kept_grants.forget(grant);
        let outcome = self.end_grant(grant, false)?;
        if outcome == Outcome::Done {
            self.bounces.ended(grant);
        }
        Ok(outcome)
    }

    #[inline(always)]
    fn granted(
        &self,
        grant: Grant,
        offset: u64,
        len: u64,
        access: Access,
        _engine: ForEngine,
    ) -> Result<RawBuffer> {
        let need = Access { for_operation: grant.is_for_operation(), ..access };
        match self.nic.registered(handle(grant), offset, len, mem_attributes(need)) {
            Ok(range) => Ok(memory::raw_buffer(range)),
            Err(fault) => {
                let at = own_address(self.endpoint, grant, offset);
                Err(refused(at, len, fault.into()))
            }
        }
    }

    fn write(&mut self, to: RemoteAddress, from: RawBytes, op: OpId) -> Result<Transfer> {
        let held = match self.hold_local_end(from.at(), from.len()) {
            Ok(held) => held,
            Err(outcome) => return Ok(outcome),
        };
        let done = self.nic.rdma_write(remote(to), memory::source(from), u64::from(op.0));
        let started = self.started(done, to, from.len() as u64, op);
        self.let_go_local_end(held, &started, op);
        started
    }

    fn read(&mut self, from: RemoteAddress, to: RawBuffer, op: OpId) -> Result<Transfer> {
        let held = match self.hold_local_end(to.at(), to.len()) {
            Ok(held) => held,
            Err(outcome) => return Ok(outcome),
        };
        let done = self.nic.rdma_read(remote(from), memory::range(to), u64::from(op.0));
        let started = self.started(done, from, to.len() as u64, op);
        self.let_go_local_end(held, &started, op);
        started
    }

    fn atomic(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp, op: OpId) -> Result<Atomic> {
        use crate::vipl::AtomicTransfer;
        match self.nic.atomic(remote(at), width.bytes(), update(operation), u64::from(op.0)) {
            Ok(AtomicTransfer::Done(old)) => Ok(Atomic::Done(old)),
            Ok(AtomicTransfer::Posted) => {
                self.under_way.insert(u64::from(op.0), (at, width.bytes()));
                Ok(Atomic::Posted)
            }
            Ok(AtomicTransfer::Retry) => Ok(Atomic::Retry),
            Ok(AtomicTransfer::NoWay) => Ok(Atomic::AtOwner),
            Err(error) => Err(refused(at, width.bytes(), error)),
        }
    }
}

impl<D: Device> World for ViaFabric<D> {
    fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    fn num_tasks(&self) -> u32 {
        self.num_tasks
    }

    fn limits(&self) -> Limits {
        Limits {
            contexts_max: self.contexts_max,
            packet_bytes_max: self.slot_bytes,
            credits: self.plan.credits,
            requests_max: self.plan.answers,
            read_bytes_max: self
                .registrations
                .as_ref()
                .map_or(u64::MAX, RegistrationCache::local_end_bytes_max),
        }
    }

    #[inline(always)]
    fn wait(&mut self, polls: u32, limit: Duration) {
        self.nic.wait(polls, limit);
    }

    fn failure(&self, task: TaskId) -> Option<String> {
        self.nic.failure(task.0)
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.nic.has_ended(task.0)
    }

    fn ring(&mut self, to: Endpoint) -> Result<()> {
        if to.task.0 >= self.num_tasks {
            return Err(Error::UnknownTask { endpoint: to, num_tasks: self.num_tasks });
        }
        self.nic.ring(node(to)).map_err(|error| wrong(to, error))
    }

    fn traffic(&self, peer: PeerIndex) -> Traffic {
        self.peers.get(peer).map_or_else(Traffic::default, |peer| peer.credits.traffic())
    }

    fn fail(&mut self, why: &str) {
        self.nic.fail(why);
    }

    fn waker(&self) -> Waker {
        self.nic.waker()
    }
}
