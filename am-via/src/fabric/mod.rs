//! am-core's Fabric over VIA: packets by RDMA write with immediate data, credits for posted receives, connections at first use. This file
//! implements am-core's fabric traits.

#![expect(
    clippy::cast_possible_truncation,
    reason = "contexts are below 16 and packets below 4 GiB, both bounded when the job is made"
)]

mod convert;
mod in_line;
mod kept_grants;
#[expect(unsafe_code, reason = "turns am-core's buffers into checked ranges, and back")]
mod memory;
mod peers;
mod refusals;

use std::collections::HashMap;

use am_core::buffer::{
    Access, Arrived, ForEngine, Grant, InlineBytes, JobBuffer, MappedRange, RawBuffer, RawBytes,
    RemoteAddress, SharedMemory, SharedName,
};
use am_core::error::{Error, Result};
use am_core::fabric::{Arrival, Event, InLine, Limits, Memory, Payload, Peer, PeerIndex, Post, Traffic};
use am_core::record::{self, EventKind};
use am_core::task::{Endpoint, TaskId};
use am_core::transfer::{AtomicOp, Body, Class, OpId, Posted, Transfer, Width};

use am_via_nic::{
    Carry, Completion, Device, Entry, FreeSlot, Immediate, InArea, InEntry, News, Nic, Operation, Packets,
    ViNumber, insist,
};
use am_via_nic::{DeviceError, ViState};
use am_via_shm::{CheckedRange, Storing};

use convert::{claim, for_operation, handle, own_address, registration, remote, rights, wrong};
use in_line::ViInLine;
use kept_grants::{Added, KeptGrants};
use peers::Peers;

pub use am_via_nic::CreditPlan;

/// The fabric over a NIC of device `D`.
#[derive(Debug)]
pub struct ViaFabric<D: Device> {
    nic: Nic<D>,
    contexts_max: u8,
    slot_bytes: usize,
    plan: CreditPlan,
    peers: Peers,
    /// Transfers accepted by the device, for error messages. Empty if transfers end at once.
    under_way: HashMap<u64, (RemoteAddress, u64)>,
    kept_grants: KeptGrants,
}

impl<D: Device> ViaFabric<D> {
    /// A fabric over a NIC on `device`. Every task must use the same `plan`.
    #[must_use]
    pub fn new(device: D, plan: CreditPlan) -> Self {
        let nic = Nic::open(device);
        let attributes = nic.device.attributes();
        Self {
            slot_bytes: attributes.slot_bytes,
            plan: plan.within(attributes.ring_lines),
            contexts_max: attributes.contexts_max,
            peers: Peers::new(nic.device.num_tasks()),
            under_way: HashMap::new(),
            kept_grants: KeptGrants::new(attributes.regions_max),
            nic,
        }
    }

    /// Connects to a peer before the first message does. Returns whether the connection is made; if not, call it again after a poll.
    ///
    /// # Errors
    /// There is no such endpoint, or the peer has failed or has closed its context.
    pub fn connect(&mut self, to: Endpoint) -> Result<bool> {
        let PeerIndex(at) = self.peer(to)?.index;
        self.connect_to_post(at, Class::OneWay)
    }

    /// Makes the VI for an endpoint. The VI's index in the NIC's table is the peer's number.
    #[cold]
    #[inline(never)]
    fn new_peer(&mut self, to: Endpoint) -> Result<PeerIndex> {
        to.check(self.nic.device.tasks_end(), self.contexts_max).map_err(Error::no_such_endpoint)?;
        let index = self.nic.create_standing(to, self.plan);
        self.peers.add(to, index);
        Ok(PeerIndex(index))
    }

    /// The general path of a post: takes credits that the peer has returned, and connects if necessary.
    #[inline(never)]
    fn post_slowly(
        &mut self,
        PeerIndex(at): PeerIndex,
        class: Class,
        (operation, label, in_entry): (Operation, u16, usize),
        bytes: &mut impl Carry<D>,
    ) -> Result<Posted> {
        // The entry is built here, from values that fit into registers: built by the caller, it would be in memory on the fast path, too.
        let entry = packet(operation, label, in_entry);
        let is_connected = self.connect_to_post(at, class)?;
        let Some((vi, device)) = self.nic.vi(at).filter(|_| is_connected) else { return Ok(Posted::Retry) };
        let to = vi.peer;
        if !vi.may_send_now(device, class) {
            return Ok(Posted::Retry);
        }
        let entry = Entry { immediate: vi.immediate(class, entry.immediate), ..entry };
        let posted = match class {
            Class::Answer => insist(|| vi.post_slowly(device, class, entry, bytes)),
            Class::OneWay | Class::Request => vi.post_slowly(device, class, entry, bytes),
        };
        posted.map_err(|error| self.post_failed(to, error))
    }

    /// Begins to connect the VI to a peer if it is not connected. Returns whether packets of this class may be posted if there are credits.
    ///
    /// # Errors
    /// The peer has failed, or has closed its context.
    #[cold]
    fn connect_to_post(&mut self, at: u32, class: Class) -> Result<bool> {
        let Some((vi, _)) = self.nic.vi(at) else { return Ok(false) };
        let (state, is_open, to) = (vi.state(), vi.is_open(), vi.peer);
        let is_closed = vi.is_peer_closed;
        match state {
            _ if is_open => Ok(true),
            ViState::Error if class == Class::Answer => Ok(true),
            ViState::Error if is_closed => Err(self.closed(to)),
            ViState::Error => Err(self.post_failed(to, DeviceError::Closed(ViNumber(at)))),
            ViState::Connected | ViState::Idle | ViState::ConnectPending => {
                if let Some(what) = self.nic.device.failure(to.task) {
                    return Err(Error::PeerFailed { task: to.task, what });
                }
                self.nic.connect_standing(at).map_err(|error| self.post_failed(to, error))
            }
        }
    }

    fn post_failed(&self, to: Endpoint, error: DeviceError) -> Error {
        match self.nic.device.failure(to.task) {
            Some(what) => Error::PeerFailed { task: to.task, what },
            None if matches!(error, DeviceError::PeerClosed(_)) => self.closed(to),
            None => wrong(to, error),
        }
    }

    #[inline(always)]
    fn received(&mut self, completion: &Completion) -> Option<Event> {
        let Completion { vi: ViNumber(at), slot, entry } = completion;
        let payload = self.payload(*slot, entry);
        let (Some(payload), Some((vi, device))) = (payload, self.nic.vi(*at)) else {
            self.nic.discard(ViNumber(*at), entry.operation);
            return None;
        };
        let word = Immediate(entry.immediate);
        let class = vi.take(device, word, matches!(payload, Payload::Inline))?;
        let from = Peer { endpoint: vi.peer, index: PeerIndex(*at) };
        Some(Event::Arrival(Arrival { from, class, label: word.label(), payload }))
    }

    /// The location of a packet's bytes; `None` if the entry is not a packet.
    #[inline(always)]
    fn payload(&self, slot: u32, entry: &Entry) -> Option<Payload> {
        if entry.operation == Operation::Inline as u32 {
            Some(Payload::Inline)
        } else if entry.operation == Operation::Area as u32 {
            Some(Payload::Buffered { place: u64::from(slot), len: entry.length.min(self.slot_bytes as u32) })
        } else {
            None
        }
    }

    #[cold]
    #[inline(never)]
    #[expect(
        clippy::boxed_local,
        reason = "passed by value it would put the frequent kind into memory: see `poll_rest` of the device"
    )]
    fn rare(&mut self, news: Box<News>) -> Option<Box<Event>> {
        match *news {
            News::Connected(from) => {
                let PeerIndex(at) = self.peer(from).ok()?.index;
                // If connecting fails, a packet to that peer returns the error.
                let _ = self.nic.connect_standing(at);
                None
            }
            News::Ended { id, result } => {
                let op = OpId(u32::try_from(id).ok()?);
                let (at, len) = self.under_way.remove(&id)?;
                let result = result.map_err(|fault| Box::new(self.refused(at, len, fault.into())));
                Some(Box::new(Event::Completed { op, result }))
            }
            News::TaskFailed(task) => {
                self.nic.lose(|vi| vi.peer.task == task);
                Some(Box::new(Event::TaskFailed(task)))
            }
            News::Rung => Some(Box::new(Event::Rung)),
            News::PeerClosed(peer) => {
                let number = self.peers.number(peer);
                if let Some((vi, _)) = number.and_then(|PeerIndex(at)| self.nic.vi(at)) {
                    vi.is_peer_closed = true;
                }
                self.nic.lose(|vi| vi.peer == peer);
                Some(Box::new(Event::ContextClosed(peer)))
            }
            News::Entry(_) => None,
        }
    }

    /// The outcome of a write or a read.
    fn started(
        &mut self,
        done: Result<Transfer, DeviceError>,
        at: RemoteAddress,
        len: u64,
        op: OpId,
    ) -> Result<Transfer> {
        let done = done.map_err(|error| self.refused(at, len, error))?;
        if done == Transfer::Posted {
            self.under_way.insert(u64::from(op.0), (at, len));
        }
        Ok(done)
    }

    /// Ends a grant. `finished`: the peer that used the grant has reported the end of its copies, or is dead. `Retry` while a peer may
    /// still use it.
    fn end_grant(&mut self, grant: Grant, finished: bool) -> Result<Posted> {
        let ended = self.nic.device.deregister(handle(grant), finished);
        let ended = ended
            .map_err(|error| self.refused(own_address(self.nic.device.endpoint(), grant, 0), 0, error))?;
        if ended == Posted::Done && grant.is_for_operation() {
            self.kept_grants.ended();
        }
        Ok(ended)
    }
}

/// Writes a body to a receive area; returns the number of bytes. `None`: the body returned an error, which is then in `failed`.
#[inline(always)]
fn write(
    body: &mut impl Body,
    failed: &mut Option<Error>,
    area: CheckedRange<'_>,
    storing: Storing,
) -> Option<usize> {
    let mut writer = memory::writer(area, storing);
    match body.write(&mut writer) {
        Ok(()) => Some(writer.used()),
        Err(error) => {
            *failed = Some(error);
            None
        }
    }
}

/// The entry of a packet, with the label in place of the immediate word. `in_entry`: number of bytes in the entry. The extra word has this
/// number, too, because the device sets the length of an entry with an area to the number of bytes in the area.
#[inline(always)]
fn packet(operation: Operation, label: u16, in_entry: usize) -> Entry {
    let length = in_entry as u32;
    Entry { immediate: u32::from(label), length, operation: operation as u32, extra: u64::from(length) }
}

impl<D: Device> Post for ViaFabric<D> {
    type World = D;

    #[inline(always)]
    fn world(&self) -> &D {
        &self.nic.device
    }

    #[inline(always)]
    fn world_mut(&mut self) -> &mut D {
        &mut self.nic.device
    }

    fn limits(&self) -> Limits {
        Limits {
            contexts_max: self.contexts_max,
            packet_bytes_max: self.slot_bytes,
            credits: self.plan.credits,
            requests_max: self.plan.answers,
        }
    }

    fn traffic(&self, PeerIndex(peer): PeerIndex) -> Traffic {
        let Packets { sent, received } = self.nic.packets(peer);
        Traffic { packets_sent: sent, packets_received: received }
    }

    #[inline(always)]
    fn peer(&mut self, endpoint: Endpoint) -> Result<Peer> {
        let index = match self.peers.number(endpoint) {
            Some(index) => index,
            None => self.new_peer(endpoint)?,
        };
        Ok(Peer { endpoint, index })
    }

    #[inline(always)]
    fn post_inline(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<Posted> {
        if self.try_post(to, class, label, bytes, &[]) {
            return Ok(Posted::Done);
        }
        self.post_slowly(to, class, (Operation::Inline, label, bytes.len()), &mut InEntry(bytes.words()))
    }

    #[inline(always)]
    fn try_post(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        front: &InlineBytes,
        data: &[u8],
    ) -> bool {
        let Some((vi, device)) = self.nic.vi(to.0) else { return false };
        let Some(slot) = vi.free_slot(device, class) else { return false };
        let mut bytes = *front;
        // Two calls, so that the compiler makes two separate paths, of which the short one knows nothing of the other.
        let is_posted = if bytes.push(data) {
            let entry = packet(Operation::Inline, label, bytes.len());
            slot.post(Entry { immediate: vi.immediate(class, entry.immediate), ..entry }, bytes.words())
        } else {
            let entry = Entry { length: data.len() as u32, ..packet(Operation::Area, label, front.len()) };
            slot.post_outside(
                Entry { immediate: vi.immediate(class, entry.immediate), ..entry },
                front.words(),
                data,
            )
        };
        if is_posted {
            vi.sent(class);
        }
        is_posted
    }

    /// Not inlined: its closures keep their captures in memory, which would slow down the callers' fast paths.
    #[inline(never)]
    fn post_packet(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        head: &InlineBytes,
        body: &mut impl Body,
    ) -> Result<Posted> {
        debug_assert!(body.len() <= self.slot_bytes, "the engine cuts messages into packets");
        let entry = packet(Operation::Area, label, head.len());
        let mut failed = None;
        let mut bytes = InArea(head.words(), body.len(), |area: CheckedRange<'_>, storing| {
            write(body, &mut failed, area, storing)
        });
        if let Some((vi, device)) = self.nic.vi(to.0)
            && vi.post(
                device,
                class,
                Entry { immediate: vi.immediate(class, entry.immediate), ..entry },
                &mut bytes,
            )
        {
            return Ok(Posted::Done);
        }
        if let Some(error) = failed {
            // A body is not called again after its error.
            return Err(error);
        }
        let mut bytes = InArea(head.words(), body.len(), |area: CheckedRange<'_>, storing| {
            write(body, &mut failed, area, storing)
        });
        let posted = self.post_slowly(to, class, (Operation::Area, label, head.len()), &mut bytes);
        failed.map_or(posted, Err)
    }

    #[inline(always)]
    fn waive(&mut self, PeerIndex(origin): PeerIndex) {
        if let Some((vi, device)) = self.nic.vi(origin) {
            vi.waive(device);
        }
    }

    #[inline(always)]
    fn poll(&mut self, inline: &mut InlineBytes) -> Option<Event> {
        match self.nic.device.poll(inline.words_mut())? {
            News::Entry(completion) => {
                inline.set_len(completion.entry.extra as usize);
                self.received(&completion)
            }
            news => self.rare(Box::new(news)).map(|event| *event),
        }
    }

    #[inline(always)]
    fn in_line(&mut self, PeerIndex(from): PeerIndex) -> Option<impl InLine> {
        let (vi, device) = self.nic.vi(from)?;
        vi.in_line(device).map(ViInLine)
    }

    fn peers_of(&self, task: TaskId) -> Vec<Peer> {
        self.peers.of(task).collect()
    }

    fn forget(&mut self, task: TaskId) -> Result<()> {
        self.peers.of(task).for_each(|peer| self.nic.start_again(peer.index.0, self.plan));
        let to = Endpoint::new(task, self.nic.device.endpoint().context);
        self.nic.device.forget(task).map_err(|error| wrong(to, error))
    }

    fn takes_pieces(&mut self, PeerIndex(to): PeerIndex, len: usize, packets: u32) -> Result<bool> {
        let Some((vi, device)) = self.nic.vi(to) else { return Ok(false) };
        if !device.prefers_pieces(vi.peer, len, packets) {
            return Ok(false);
        }
        if vi.may_send_several(device, packets) {
            device.expect_posts(vi.peer, packets);
            return Ok(true);
        }
        self.connect_to_post(to, Class::OneWay).map(|_| false)
    }

    fn pieces_may_wait(&mut self, PeerIndex(to): PeerIndex, len: usize, packets: u32) -> bool {
        self.nic.vi(to).is_some_and(|(vi, device)| {
            device.pieces_may_wait(vi.peer)
                && device.prefers_pieces(vi.peer, len, packets)
                && vi.gets_credits_for(packets)
        })
    }

    fn shares_cache(&mut self, PeerIndex(to): PeerIndex) -> bool {
        self.nic.vi(to).is_some_and(|(vi, device)| device.shares_cache(vi.link()))
    }

    #[inline(always)]
    fn arrived(&self, arrival: &Arrival) -> Arrived<'_> {
        match arrival.payload {
            Payload::Buffered { place, len } => {
                memory::arrived_in_area(&self.nic, arrival.from.index.0, place as u32, len)
            }
            Payload::Inline => Arrived::private(&[]),
        }
    }

    #[inline(always)]
    fn release(&mut self, arrival: Arrival) {
        if matches!(arrival.payload, Payload::Inline) {
            return;
        }
        if let Some((vi, device)) = self.nic.vi(arrival.from.index.0) {
            vi.release(device, arrival.class);
        }
    }
}

impl<D: Device> Memory for ViaFabric<D> {
    fn alloc(&mut self, len: usize) -> Result<JobBuffer> {
        let block = self.nic.device.alloc(len).map_err(|error| wrong(self.nic.device.endpoint(), error))?;
        Ok(memory::job_buffer(block))
    }

    fn share(&mut self, len: usize) -> Result<Option<SharedMemory>> {
        let made = self
            .nic
            .device
            .make_shared_file(len)
            .map_err(|error| wrong(self.nic.device.endpoint(), error))?;
        Ok(made.map(|(name, mapping)| memory::shared_memory(name, mapping)))
    }

    fn open_shared(&mut self, name: SharedName) -> Result<SharedMemory> {
        let file = memory::shared_file_name(name).ok_or_else(|| Error::System {
            doing: "opening shared memory",
            source: "this is not a name of shared memory".into(),
        })?;
        let opened = self
            .nic
            .device
            .open_shared_file(file)
            .map_err(|error| wrong(self.nic.device.endpoint(), error))?;
        Ok(memory::shared_memory(file, opened))
    }

    fn all_have_opened(&mut self, SharedName([.., inode, _]): SharedName) {
        self.nic.device.close_shared_file(inode);
    }

    fn unshare(&mut self, memory: SharedMemory) {
        let SharedName([.., inode, _]) = memory.name();
        self.nic.device.forget_shared_file(inode);
    }

    fn grant(&mut self, memory: RawBuffer, access: Access, user: Option<PeerIndex>) -> Result<Option<Grant>> {
        let at = memory.at();
        let to_read_once = access.for_operation && !access.write;
        let keep = to_read_once && self.nic.device.is_job_memory(at, memory.len());
        if keep && let Some(grant) = self.kept_grants.take(at.addr(), memory.len()) {
            return Ok(Some(grant));
        }
        if access.for_operation && !self.kept_grants.may_open() {
            return Ok(None);
        }
        let registration = registration(access);
        let registered = memory::register(&mut self.nic.device, memory, registration);
        let handle = match registered {
            Err(DeviceError::Exhausted { .. } | DeviceError::TooManyRegistrations { .. })
                if access.for_operation =>
            {
                return Ok(None);
            }
            registered => registered.map_err(|error| wrong(self.nic.device.endpoint(), error))?,
        };
        let grant = if access.for_operation {
            self.kept_grants.opened();
            for_operation(handle)
        } else {
            Grant { region: handle.region, generation: handle.generation }
        };
        if to_read_once
            && !keep
            && let Some(PeerIndex(user)) = user
            && let Some((vi, device)) = self.nic.vi(user)
        {
            device.expect_one_read(vi.peer, handle, registration.ptag);
        }
        if keep && let Added::InsteadOf(old) = self.kept_grants.add(at.addr(), memory.len(), grant) {
            // No peer copies through this grant, so it ends at once.
            let _ = self.end_grant(old, true)?;
        }
        Ok(Some(grant))
    }

    fn revoke(&mut self, grant: Grant) -> Result<Posted> {
        if grant.is_for_operation() && self.kept_grants.give_back(grant) {
            return Ok(Posted::Done);
        }
        self.end_grant(grant, grant.is_for_operation())
    }

    fn revoke_in_use(&mut self, grant: Grant) -> Result<Posted> {
        self.kept_grants.forget(grant);
        self.end_grant(grant, false)
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
        match self.nic.device.registered(claim(grant, offset, len), rights(access)) {
            Ok(range) => Ok(memory::raw_buffer(range)),
            Err(fault) => {
                let at = own_address(self.nic.device.endpoint(), grant, offset);
                Err(self.not_in_range(at, len, fault.into()))
            }
        }
    }

    fn write(&mut self, to: RemoteAddress, from: RawBytes, op: OpId) -> Result<Transfer> {
        tell_copy("copied to peer", to, from.len());
        let done =
            memory::rdma_write(&mut self.nic.device, remote(to, from.len() as u64), from, u64::from(op.0));
        self.started(done, to, from.len() as u64, op)
    }

    fn read(&mut self, from: RemoteAddress, to: RawBuffer, op: OpId) -> Result<Transfer> {
        tell_copy("copied from peer", from, to.len());
        let done =
            memory::rdma_read(&mut self.nic.device, remote(from, to.len() as u64), to, u64::from(op.0));
        self.started(done, from, to.len() as u64, op)
    }

    fn write_pieces(&mut self, to: RemoteAddress, pieces: &[(u64, RawBytes)]) -> Result<bool> {
        let len = pieces.iter().map(|(_, from)| from.len()).sum();
        let pieces =
            pieces.iter().map(|&(offset, from)| (to.offset.wrapping_add(offset), memory::source(from)));
        let done = self.nic.device.rdma_write_pieces(remote(to, 0), pieces);
        if let Ok(true) = done {
            tell_copy("copied to peer", to, len);
        }
        done.map_err(|error| self.refused(to, len as u64, error))
    }

    fn read_pieces(&mut self, from: RemoteAddress, pieces: &[(u64, RawBuffer)]) -> Result<bool> {
        let len = pieces.iter().map(|(_, to)| to.len()).sum();
        let pieces = pieces.iter().map(|&(offset, to)| (from.offset.wrapping_add(offset), memory::range(to)));
        let done = self.nic.device.rdma_read_pieces(remote(from, 0), pieces);
        if let Ok(true) = done {
            tell_copy("copied from peer", from, len);
        }
        done.map_err(|error| self.refused(from, len as u64, error))
    }

    fn find_mapped(&mut self, at: RemoteAddress, len: u64, need: Access) -> Result<bool> {
        let found = self.nic.device.find_mapped(remote(at, len), rights(need));
        found.map_err(|error| self.refused(at, len, error))
    }

    #[inline(always)]
    fn lend_mapped<R>(
        &mut self,
        at: RemoteAddress,
        len: u64,
        call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Option<R> {
        self.nic.device.lend_mapped(remote(at, len), |range| call(memory::mapped(range)))
    }

    #[inline(always)]
    fn write_mapped(&mut self, at: RemoteAddress, bytes: &[u8]) -> bool {
        self.nic.device.write_mapped(remote(at, bytes.len() as u64), bytes)
    }

    #[inline(always)]
    fn read_mapped(&mut self, from: RemoteAddress, to: &mut [u8]) -> bool {
        self.nic.device.read_mapped(remote(from, to.len() as u64), to)
    }

    #[inline(always)]
    fn atomic_mapped(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Option<u64> {
        self.nic.device.atomic_mapped(remote(at, width.bytes()), operation)
    }

    fn atomic(
        &mut self,
        at: RemoteAddress,
        width: Width,
        operation: AtomicOp,
        op: OpId,
    ) -> Result<Transfer<u64>> {
        let done = self.nic.device.atomic(remote(at, width.bytes()), operation, u64::from(op.0));
        let done = done.map_err(|error| self.refused(at, width.bytes(), error))?;
        if done == Transfer::Posted {
            self.under_way.insert(u64::from(op.0), (at, width.bytes()));
        }
        Ok(done)
    }
}

/// Records that this task copies bytes from or to another task's memory.
#[inline]
fn tell_copy(name: &str, at: RemoteAddress, len: usize) {
    if record::is_on() {
        let plain = record::Event::plain(EventKind::Moved, name);
        record::tell(&record::Event { peer: Some(at.task.0), amount: len as u64, ..plain });
    }
}
