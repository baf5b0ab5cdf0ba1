//! A network inside one process, with simulated delivery that a seed determines. It delivers as unfavourably as
//! [`Fabric`](crate::fabric::Fabric) allows, and checks the engine's side of the contract.
//!
//! It guarantees exactly what `Fabric` requires:
//!
//! * Packets of one sender arrive in the order in which they were posted, each once. Packets of different senders arrive in any order. With
//!   [`Config::reorder_pieces`], consecutive `Piece` packets of one sender may be reordered among themselves; no other packet is reordered.
//! * A post, transfer or atomic operation may be refused with `Retry` at random ([`Config::retry_one_in`]). A post is also refused if no
//!   credit or answer slot is left. Answers are never refused; an answer without a reserved slot is a bug, and panics.
//! * A poll may return nothing although a packet has arrived ([`Config::delay_one_in`]).
//! * Memory is accessed as [`Config::reach`] says. A posted write is performed late: just before its sender posts its next packet, or
//!   polls. A posted read is performed when its reader polls.
//! * A task can be killed at any time ([`Network::kill`]). Its packets may still arrive before the event of its death, but none after that
//!   event.

mod memory;
mod network;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::buffer::{
    Access, Arrived, Executor, ForEngine, Grant, InlineBytes, JobBuffer, KeepsPromises, MappedRange,
    PacketWriter, RawBuffer, RawBytes, RemoteAddress,
};
use crate::error::{Error, Outcome, Result};
use crate::fabric::{
    Arrival, Event, InLine, Limits, Memory, NextPacket, Payload, Peer, PeerIndex, Post, Traffic, Waker, World,
};
use crate::task::{ContextNumber, Endpoint, TaskId};
use crate::transfer::{Atomic, AtomicOp, Body, Class, OpId, Transfer, Width};

pub use network::Network;
use network::{Bytes, Inner, Job, Polled};

/// How the memory of peers is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// In the call, before it returns.
    Direct,
    /// Later, in a poll or post.
    Posted,
    /// Not directly: the bytes are sent as packets.
    Staged,
    /// One of the other three, chosen for each region by the region's number.
    Mixed,
}

/// The properties of the network.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Tasks in the job.
    pub tasks: u32,
    /// The seed of all random decisions.
    pub seed: u64,
    /// Bytes of the largest packet.
    pub packet_bytes_max: usize,
    /// Maximum number of packets of one sender that one target has not consumed.
    pub credits: u32,
    /// Maximum number of unanswered requests per peer.
    pub requests_max: u32,
    /// One post, transfer or atomic operation in this many is refused although there is a credit; 0: none.
    pub retry_one_in: u32,
    /// One poll in this many returns nothing although a packet has arrived; 0: none.
    pub delay_one_in: u32,
    /// Whether pieces of data may be reordered.
    pub reorder_pieces: bool,
    /// How puts, gets and announced data are carried.
    pub reach: Reach,
    /// How rmws are performed; `Staged`: by the owner.
    pub atomics: Reach,
    /// The number of each task's host. Tasks beyond the list are on host 0.
    pub hosts: &'static [u32],
}

impl Config {
    /// A network that refuses, delays and reorders nothing.
    #[must_use]
    pub fn new(tasks: u32) -> Self {
        Self {
            tasks,
            seed: 1,
            packet_bytes_max: 4096,
            credits: 16,
            requests_max: 8,
            retry_one_in: 0,
            delay_one_in: 0,
            reorder_pieces: false,
            reach: Reach::Direct,
            atomics: Reach::Direct,
            hosts: &[],
        }
    }

    /// A network with all the faults that the contract allows, chosen by this seed.
    #[must_use]
    pub fn hostile(tasks: u32, seed: u64) -> Self {
        Self {
            seed,
            credits: 2,
            requests_max: 2,
            retry_one_in: 5,
            delay_one_in: 4,
            reorder_pieces: true,
            reach: Reach::Mixed,
            atomics: Reach::Mixed,
            ..Self::new(tasks)
        }
    }
}

/// One endpoint of the network.
#[derive(Debug)]
pub struct Loopback {
    network: Arc<Inner>,
    own: TaskId,
    config: Config,
    /// Buffered packets that were delivered but not released.
    held: HashMap<u64, Box<[u8]>>,
    next_place: u64,
    fails_revoke: bool,
}

impl Loopback {
    /// Changes the maximum number of unanswered requests per peer that this endpoint reports to its engine. The other endpoints keep the
    /// old maximum.
    pub fn say_requests_max(&mut self, requests_max: u32) {
        self.config.requests_max = requests_max;
    }

    /// Makes the next end of a grant that a peer may be using fail.
    pub fn fail_next_revoke(&mut self) {
        self.fails_revoke = true;
    }
}

/// Creates a network of `config.tasks` endpoints, in the order of their task numbers.
#[must_use]
pub fn network(config: Config) -> (Network, Vec<Loopback>) {
    let inner = Arc::new(Inner::new(config));
    let endpoints = (0..config.tasks)
        .map(|task| Loopback {
            network: Arc::clone(&inner),
            own: TaskId(task),
            config,
            held: HashMap::new(),
            next_place: 0,
            fails_revoke: false,
        })
        .collect();
    (Network::new(inner), endpoints)
}

impl Loopback {
    /// Posts a packet if there is a credit; `bytes` is called only in that case.
    fn post(
        &mut self,
        PeerIndex(to): PeerIndex,
        class: Class,
        label: u16,
        bytes: impl FnOnce() -> Result<Bytes>,
    ) -> Result<Outcome> {
        let to = TaskId(to);
        // Only the sender's thread uses up credits, so the one found here stays available.
        if self.network.lock().has_credit(self.own, endpoint(to), class)? == Outcome::Retry {
            return Ok(Outcome::Retry);
        }
        let bytes = bytes()?;
        self.network.lock().post(self.own, to, class, label, bytes);
        self.network.notify(to);
        Ok(Outcome::Done)
    }

    fn give_back(&mut self, sender: TaskId, class: Class) {
        self.network.lock().release(self.own, sender, class);
        self.network.notify(sender);
    }
}

/// The packets of one sender, taken in line.
struct LoopbackInLine<'a> {
    loopback: &'a mut Loopback,
    from: TaskId,
    looked_at: Bytes,
}

impl InLine for LoopbackInLine<'_> {
    fn look(&mut self, label: u16) -> Option<NextPacket<'_>> {
        let Loopback { network, own, .. } = &*self.loopback;
        self.looked_at = network.lock().look_at_next(*own, self.from, label)?.clone();
        let (entry, buffered) = match &self.looked_at {
            Bytes::Inline(entry) => (entry, None),
            Bytes::Buffered(entry, bytes) => (entry, Some(Arrived::private(bytes))),
        };
        let front = *entry.words().first_chunk().expect("an entry has more words than its front");
        let in_entry = entry.len() as u64;
        Some(NextPacket { front, in_entry, entry: Arrived::private(entry.as_slice()), buffered })
    }

    fn take(&mut self) {
        self.loopback.network.lock().take_next(self.loopback.own, self.from);
        self.loopback.give_back(self.from, Class::OneWay);
    }
}

// SAFETY: user memory is accessed only under the network's lock: in the call itself, or for posted transfers and grants while the network
// lists them. The entry is removed when the completion is reported or the grant revoked.
#[allow(unsafe_code, reason = "the promise of every fabric")]
unsafe impl KeepsPromises for Loopback {}

impl Post for Loopback {
    /// A task has one context, so the task number determines the peer.
    fn peer(&mut self, endpoint: Endpoint) -> Result<Peer> {
        endpoint.check(self.config.tasks, CONTEXTS_MAX)?;
        Ok(peer(endpoint.task))
    }

    fn post_inline(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        bytes: &InlineBytes,
    ) -> Result<Outcome> {
        self.post(to, class, label, || Ok(Bytes::Inline(*bytes)))
    }

    fn post_packet(
        &mut self,
        to: PeerIndex,
        class: Class,
        label: u16,
        head: &InlineBytes,
        body: &mut impl Body,
    ) -> Result<Outcome> {
        assert!(head.len() + body.len() <= self.config.packet_bytes_max, "a packet longer than the limit");
        self.post(to, class, label, || Ok(Bytes::Buffered(*head, body_to_vec(body)?.into())))
    }

    fn poll(&mut self, inline: &mut InlineBytes) -> Option<Event> {
        let polled = self.network.lock().poll(self.own)?;
        match polled {
            Polled::Event(event) => Some(event),
            Polled::Packet { from, class, label, bytes } => {
                let payload = match bytes {
                    Bytes::Inline(bytes) => {
                        *inline = bytes;
                        self.give_back(from, class);
                        Payload::Inline
                    }
                    Bytes::Buffered(head, bytes) => {
                        *inline = head;
                        let place = self.next_place;
                        self.next_place += 1;
                        let len = bytes.len() as u32;
                        self.held.insert(place, bytes);
                        Payload::Buffered { place, len }
                    }
                };
                Some(Event::Arrival(Arrival { from: peer(from), class, label, payload }))
            }
        }
    }

    fn in_line(&mut self, PeerIndex(from): PeerIndex) -> Option<impl InLine> {
        let looked_at = Bytes::Inline(InlineBytes::new());
        (from < self.config.tasks).then_some(LoopbackInLine { loopback: self, from: TaskId(from), looked_at })
    }

    fn shares_cache(&mut self, _to: PeerIndex) -> bool {
        true
    }

    fn takes_pieces(&mut self, PeerIndex(to): PeerIndex, _len: usize, packets: u32) -> Result<bool> {
        Ok(self.network.lock().takes(self.own, TaskId(to), packets))
    }

    fn pieces_may_wait(&mut self, _to: PeerIndex, _len: usize, packets: u32) -> bool {
        self.network.lock().takes_some_time(packets)
    }

    fn arrived(&self, arrival: &Arrival) -> Arrived<'_> {
        match arrival.payload {
            Payload::Inline => Arrived::private(&[]),
            Payload::Buffered { place, .. } => {
                Arrived::private(self.held.get(&place).expect("an arrival is looked at before its release"))
            }
        }
    }

    fn release(&mut self, arrival: Arrival) {
        if let Payload::Buffered { place, .. } = arrival.payload {
            // Overwritten, so that a use after release is detected.
            let mut bytes = self.held.remove(&place).expect("an arrival is released once");
            bytes.fill(0xDD);
            self.give_back(arrival.from.endpoint.task, arrival.class);
        }
    }

    fn waive(&mut self, PeerIndex(origin): PeerIndex) {
        self.network.lock().waive(self.own, TaskId(origin));
        self.network.notify(TaskId(origin));
    }
}

impl Memory for Loopback {
    fn alloc(&mut self, len: usize) -> Result<JobBuffer> {
        Ok(JobBuffer::zeroed(len))
    }

    fn grant(
        &mut self,
        memory: RawBuffer,
        access: Access,
        _user: Option<PeerIndex>,
    ) -> Result<Option<Grant>> {
        Ok(Some(self.network.lock().grant(self.own, memory, access)))
    }

    fn revoke(&mut self, grant: Grant) -> Result<Outcome> {
        self.network.lock().revoke(self.own, grant)
    }

    fn revoke_in_use(&mut self, grant: Grant) -> Result<Outcome> {
        if std::mem::take(&mut self.fails_revoke) {
            return Err(Error::System { doing: "ending a grant", source: "as the test wants it".into() });
        }
        self.network.lock().revoke_in_use(self.own, grant)
    }

    fn granted(
        &self,
        grant: Grant,
        offset: u64,
        len: u64,
        access: Access,
        _engine: ForEngine,
    ) -> Result<RawBuffer> {
        let address = RemoteAddress {
            task: self.own,
            context: ContextNumber(0),
            executor: Executor::Anyone,
            grant,
            offset,
        };
        self.network.lock().range(address, len, access)
    }

    fn write(&mut self, to: RemoteAddress, from: RawBytes, op: OpId) -> Result<Transfer> {
        self.network.lock().transfer(self.own, Job::Write { to, from }, op)
    }

    fn read(&mut self, from: RemoteAddress, to: RawBuffer, op: OpId) -> Result<Transfer> {
        self.network.lock().transfer(self.own, Job::Read { from, to }, op)
    }

    fn find_mapped(&mut self, at: RemoteAddress, len: u64, need: Access) -> Result<bool> {
        self.network.lock().find_mapped(self.own, at, len, need)
    }

    fn lend_mapped<R>(
        &mut self,
        at: RemoteAddress,
        len: u64,
        call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Option<R> {
        self.network.lock().lend_mapped(self.own, at, len, call)
    }

    fn write_mapped(&mut self, at: RemoteAddress, bytes: &[u8]) -> bool {
        self.network.lock().write_mapped(self.own, at, bytes)
    }

    fn atomic(&mut self, at: RemoteAddress, width: Width, operation: AtomicOp, op: OpId) -> Result<Atomic> {
        self.network.lock().atomic(self.own, Job::Atomic { at, width, operation }, op)
    }
}

impl World for Loopback {
    fn endpoint(&self) -> Endpoint {
        endpoint(self.own)
    }

    fn num_tasks(&self) -> u32 {
        self.config.tasks
    }

    fn host(&self, task: TaskId) -> u32 {
        self.config.hosts.get(task.index()).copied().unwrap_or(0)
    }

    fn limits(&self) -> Limits {
        Limits {
            contexts_max: CONTEXTS_MAX,
            packet_bytes_max: self.config.packet_bytes_max,
            credits: self.config.credits,
            requests_max: self.config.requests_max,
            read_bytes_max: u64::MAX,
        }
    }

    fn wait(&mut self, _polls: u32, limit: Duration) -> bool {
        self.network.sleep(self.own, limit);
        false
    }

    fn failure(&self, task: TaskId) -> Option<String> {
        self.network.lock().failure(task)
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.failure(task).is_some()
    }

    fn ring(&mut self, to: Endpoint) -> Result<()> {
        self.network.wake(to.task);
        Ok(())
    }

    fn traffic(&self, PeerIndex(peer): PeerIndex) -> Traffic {
        self.network.lock().traffic(self.own, TaskId(peer))
    }

    fn fail(&mut self, why: &str) {
        self.network.kill(self.own, why);
    }

    fn waker(&self) -> Waker {
        let (network, own) = (Arc::clone(&self.network), self.own);
        Arc::new(move || network.wake(own))
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.network.lock().leave(self.own);
        for task in 0..self.config.tasks {
            self.network.notify(TaskId(task));
        }
    }
}

/// Each task opens one context.
const CONTEXTS_MAX: u8 = 1;

/// The endpoint of a task's only context.
fn endpoint(task: TaskId) -> Endpoint {
    Endpoint::new(task, ContextNumber(0))
}

fn peer(task: TaskId) -> Peer {
    Peer { endpoint: endpoint(task), index: PeerIndex(task.0) }
}

/// The bytes that a body writes.
fn body_to_vec(body: &mut impl Body) -> Result<Vec<u8>> {
    let mut bytes = vec![0; body.len()];
    let mut writer = PacketWriter::over(&mut bytes);
    body.write(&mut writer)?;
    let used = writer.used();
    bytes.truncate(used);
    Ok(bytes)
}
