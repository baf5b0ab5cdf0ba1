//! The user agent: a NIC as a program written to VIA uses it. VIs with explicit descriptors, completion queues, protection
//! tags and registered memory.
//!
//! One thread at a time may use it. The emulated NIC's engine runs in its caller: a call first looks for a descriptor that is done, then
//! handles the device's events, works on the send queues, and looks again.

mod attempt;
mod channel;
mod client_server;
mod completion_queue;
mod connection;
mod entry;
mod management;
mod memory;
mod notify;
mod peer_to_peer;
#[expect(unsafe_code, reason = "the slots of a receive area")]
mod receiving;
#[expect(unsafe_code, reason = "transfers of memory whose registration cannot end before them")]
mod sending;
#[expect(unsafe_code, reason = "the slots of a receive area")]
mod staged;
mod vi_calls;
mod work;
mod work_queue;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use am_contract::wait::WaitFacts;

use crate::descriptor::{Descriptor, Status};
use crate::error::{AsyncCode, AsyncError, Resource, VipError};
use crate::handle::ViHandle;
use crate::provider::{KernelAgent, NameService, NicLimits};
use crate::user_agent::channel::Channel;
use crate::user_agent::client_server::Listener;
use crate::user_agent::completion_queue::CompletionQueue;
use crate::user_agent::connection::Caller;
use crate::user_agent::entry::Kind;
use crate::user_agent::notify::Notices;
use crate::user_agent::work::{Vi, Work};
use am_via_nic::Nic;
use am_via_nic::Table;
use am_via_nic::ViState;
use am_via_nic::device::{
    ClaimFault, Completion, Device, Endpoint, MemHandle, News, Operation, Payload, TaskId, ViNumber, Waker,
};

pub use client_server::ConnectionRequest;
pub use completion_queue::CqEntry;
pub use entry::{PeerAttributes, request_entry};
pub use management::NicAttributes;
pub use notify::{CqHandler, DescriptorHandler, ErrorHandler};
pub use work_queue::Queue;

/// Maximum number of events that one round of progress takes.
const NEWS_PER_ROUND: u32 = 64;
/// Maximum number of asynchronous errors kept for the program; the oldest are dropped.
const ERRORS_KEPT: usize = 64;
/// Longest sleep of a sender that finds no free line. The receiver does not ring when it frees lines, so the sender has to look again.
const HELD_UP_SLEEP_MAX: Duration = Duration::from_micros(20);
/// Longest sleep of a wait before it looks again.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// An open NIC.
#[derive(Debug)]
pub struct UserAgent<D: Device> {
    pub(super) nic: Nic<D, Work>,
    pub(super) kernel: KernelAgent,
    pub(super) cqs: Table<CompletionQueue>,
    /// The device's connections to other NICs.
    pub(super) channels: HashMap<ViNumber, Channel>,
    next_channel: ViNumber,
    /// Closed channels, which are never reopened.
    pub(super) spent: HashSet<ViNumber>,
    /// The VI of each connection, by the connection's number at this NIC.
    pub(super) by_connection: HashMap<u32, ViHandle>,
    pub(super) last_connection: u32,
    /// VIs with a connection attempt, in the order in which the attempts began. Attempts that have ended are removed when the list is
    /// worked on next.
    pub(super) attempts: Vec<ViHandle>,
    /// Requests of peers that no VI of this NIC has matched yet.
    pub(super) callers: Vec<Caller>,
    /// Requests of clients that the program has received and not answered.
    pub(super) requests: Table<Caller>,
    /// The endpoint at which the program waits for clients.
    pub(super) listener: Option<Listener>,
    pub(super) names: Option<NameService>,
    pub(super) notices: Notices<D>,
    /// Whether a post has found no free line since the last round of progress began.
    pub(super) held_up: bool,
    /// Transfers in flight, with their VIs and their local memory.
    pub(super) transfers: HashMap<u64, (ViHandle, MemHandle)>,
    pub(super) next_transfer: u64,
    errors: VecDeque<AsyncError>,
}

impl<D: Device> UserAgent<D> {
    /// Opens the NIC over `device` (`VipOpenNic`). It closes when the value is dropped.
    #[must_use]
    pub fn open(device: D) -> Self {
        let kernel = KernelAgent::new(&device);
        let nic = kernel.nic();
        Self {
            kernel,
            nic: Nic::numbered(device, nic),
            cqs: Table::new(nic),
            channels: HashMap::new(),
            next_channel: ViNumber(0),
            spent: HashSet::new(),
            by_connection: HashMap::new(),
            last_connection: 0,
            attempts: Vec::new(),
            callers: Vec::new(),
            requests: Table::new(nic),
            listener: None,
            names: None,
            notices: Notices::default(),
            held_up: false,
            transfers: HashMap::new(),
            next_transfer: 0,
            errors: VecDeque::new(),
        }
    }

    /// Limits the bytes that are registered at a time. By default only the system limits them.
    #[must_use]
    pub fn with_registered_bytes_max(mut self, bytes: u64) -> Self {
        self.kernel.limit_registered_bytes(bytes);
        self
    }

    /// The limits (`VipQueryNic`).
    #[must_use]
    pub fn limits(&self) -> NicLimits {
        *self.kernel.limits()
    }

    /// The NIC's own address.
    #[must_use]
    pub fn address(&self) -> Endpoint {
        self.nic.device.endpoint()
    }

    /// Closes the NIC (`VipCloseNic`), like dropping it: connections and registrations end, and handles become invalid.
    pub fn close(self) {}

    /// The oldest asynchronous error, if no handler is set ([`error_callback`](Self::error_callback)).
    pub fn next_error(&mut self) -> Option<AsyncError> {
        self.errors.pop_front()
    }

    /// Returns a function with which another thread wakes a wait of this NIC.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.nic.device.waker()
    }

    /// One round of progress: handles the device's events and works on all queues; returns whether there were events. Never blocks. A call
    /// that asks for a completion makes a round only if there is none yet.
    pub fn progress(&mut self) -> bool {
        let mut payload = Payload::default();
        let mut came = false;
        self.held_up = false;
        for _ in 0..NEWS_PER_ROUND {
            let Some(news) = self.nic.device.poll(&mut payload) else { break };
            came = true;
            self.handle(&news, &payload);
        }
        self.pay_all();
        self.go_on_with_attempts();
        for place in 0..self.nic.vis.places() {
            if let Some(slot) = self.nic.vis.handle(place) {
                self.carry_on(ViHandle(slot));
            }
        }
        self.run_notices();
        came
    }

    fn handle(&mut self, news: &News, payload: &Payload) {
        match *news {
            News::Entry(completion) => {
                self.handle_entry(&completion, payload);
                if completion.keeps_slot() {
                    self.nic.device.release(completion.vi);
                }
            }
            News::Connected(peer) => self.handle_connected(peer),
            News::Ended { id, result } => self.handle_ended(id, result),
            News::TaskFailed(task) => self.handle_failure(task),
            News::Rung => {}
            // If the ring was full when the peer closed, the peer's disconnects were not sent.
            News::PeerClosed(peer) => {
                if let Some(number) = self.channel_of(peer) {
                    self.lose_channel(number);
                }
            }
        }
    }

    fn handle_entry(&mut self, completion: &Completion, payload: &Payload) {
        let Completion { vi: number, slot, entry } = *completion;
        if !self.channels.contains_key(&number) {
            return;
        }
        if entry.operation == Operation::Disconnect as u32 {
            return self.lose_channel(number);
        }
        let kind = Kind::of(&entry);
        match kind {
            Some(Kind::Request) => return self.handle_request(number, &entry, payload),
            Some(Kind::Withdraw) => return self.handle_withdraw(number, &entry),
            _ => {}
        }
        // A sender can name only connections of its own channel.
        let (operation, connection) = entry::split(entry.operation);
        let vi = self
            .by_connection
            .get(&connection)
            .copied()
            .filter(|vi| self.nic.vis.get(vi.0).is_some_and(|found| found.linked() == Some(number)));
        if kind == Some(Kind::Accept) {
            return self.handle_accept(number, vi, &entry);
        }
        // The entry was in flight when its connection ended.
        let Some(vi) = vi else { return };
        match (kind, operation) {
            (Some(Kind::Message), Some(Operation::Inline)) => {
                self.handle_message(vi, number, None, &entry, payload)
            }
            (Some(Kind::Message), Some(Operation::Area)) => {
                self.handle_message(vi, number, Some(slot), &entry, payload);
            }
            (Some(Kind::Acknowledge), _) => self.handle_acknowledge(vi),
            (Some(Kind::Broken), _) => self.handle_broken(vi, Status(entry.immediate)),
            (Some(Kind::Refused), _) => self.handle_refused(vi, Status(entry.immediate)),
            (Some(Kind::StagedWrite), _) => self.handle_staged_write(vi, number, slot, &entry),
            (Some(Kind::ReadRequest), _) => self.handle_read_request(vi, payload),
            (Some(Kind::ReadPiece), _) => self.handle_read_piece(vi, number, slot, &entry),
            (Some(Kind::Disconnect), _) => self.lose(vi),
            (Some(Kind::Reject), _) => self.handle_reject(vi, &entry),
            // No correct user agent sends this.
            _ => self.break_connection(vi, Status::TRANSPORT_ERROR),
        }
    }

    fn handle_ended(&mut self, id: u64, result: Result<u64, ClaimFault>) {
        let Some((vi, local)) = self.transfers.remove(&id) else { return };
        self.kernel.registrations.end_transfer(local);
        if let Some(found) = self.nic.vis.get_mut(vi.0) {
            found.work.transfer_ended(id, result);
        }
    }

    fn handle_failure(&mut self, task: TaskId) {
        let of_task = self.channels.iter().filter(|(_, channel)| channel.peer.task == task);
        for number in of_task.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.lose_channel(number);
        }
        // A VI with a connection attempt may not have a channel yet.
        for slot in self.nic.vis.all() {
            let of_task = |vi: &Vi| vi.peer.task == task;
            if self.nic.vis.get(slot).is_some_and(of_task) {
                self.lose(ViHandle(slot));
            }
        }
    }

    /// Handles the loss of a VI's connection: flushes the descriptors, and reports an asynchronous error. If the VI is still asking for the
    /// connection, its attempt fails.
    pub(super) fn lose(&mut self, vi: ViHandle) {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        match (found.state(), found.peer) {
            (ViState::Connected, _) => {
                found.set_state(ViState::Error);
                self.flush(vi);
                self.note_error(vi, AsyncCode::ConnectionLost);
            }
            (ViState::ConnectPending, peer) => self.lose_attempt(vi, peer),
            _ => {}
        }
    }

    /// Breaks the connection, at both ends, after an error that its reliability level does not allow.
    pub(super) fn break_connection(&mut self, vi: ViHandle, for_peer: Status) {
        self.owe_peer(vi, Kind::Broken, for_peer.0);
        self.lose(vi);
    }

    /// Flushes all pending descriptors, in order.
    pub(super) fn flush(&mut self, vi: ViHandle) {
        self.flush_queue(vi, Queue::Send);
        self.flush_queue(vi, Queue::Receive);
        if let Some(found) = self.nic.vis.get_mut(vi.0) {
            found.work.forget_progress();
        }
    }

    pub(super) fn flush_queue(&mut self, vi: ViHandle, queue: Queue) {
        while self.nic.vis.get(vi.0).is_some_and(|found| !found.work.queue(queue).is_idle()) {
            self.complete(vi, queue, |descriptor| {
                let operation = match queue {
                    Queue::Send => descriptor.send_operation(),
                    Queue::Receive => Status::OP_RECEIVE,
                };
                descriptor.status = operation | Status::DESC_FLUSHED_ERROR;
                descriptor.length = 0;
            });
        }
    }

    /// Ends the first descriptor of a work queue, and adds an entry to the queue's completion queue, if it has one.
    pub(super) fn complete(&mut self, vi: ViHandle, queue: Queue, change: impl FnOnce(&mut Descriptor)) {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        found.work.queue_mut(queue).complete(change);
        let Some(cq) = found.work.cq(queue) else { return };
        let noted = self.cqs.get_mut(cq.0).is_none_or(|cq| cq.push(CqEntry { vi, queue }));
        if !noted {
            self.note(AsyncError {
                resource: Resource::CompletionQueue(cq),
                vi,
                code: AsyncCode::CompletionOverrun,
            });
        }
    }

    pub(super) fn note_error(&mut self, vi: ViHandle, code: AsyncCode) {
        self.note(AsyncError { resource: Resource::Vi, vi, code });
    }

    fn note(&mut self, error: AsyncError) {
        if self.errors.len() == ERRORS_KEPT {
            self.errors.pop_front();
        }
        self.errors.push_back(error);
    }

    /// Makes progress until `look` returns a value, without a limit if `timeout` is `None`.
    pub(super) fn wait_for<T>(
        &mut self,
        timeout: Option<Duration>,
        look: impl FnMut(&mut Self) -> Result<Option<T>, VipError>,
    ) -> Result<T, VipError> {
        self.wait_in_steps(timeout, SLEEP_MAX, look)
    }

    /// Like [`wait_for`](Self::wait_for), with no sleep longer than `step`.
    pub(super) fn wait_in_steps<T>(
        &mut self,
        timeout: Option<Duration>,
        step: Duration,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, VipError>,
    ) -> Result<T, VipError> {
        let start = Instant::now();
        let mut polls = 0;
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            polls = if self.progress() { 0 } else { polls + 1 };
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            let left = match timeout {
                Some(timeout) => {
                    timeout.checked_sub(start.elapsed()).ok_or(VipError::Timeout(timeout))?.min(step)
                }
                None => step,
            };
            let left = if self.held_up { left.min(HELD_UP_SLEEP_MAX) } else { left };
            if polls > 0 && self.nic.device.wait(polls, left) {
                let may_end_alone = timeout.is_some();
                self.nic.device.note_wait(WaitFacts { may_end_alone, ..WaitFacts::default() });
            }
        }
    }
}

impl<D: Device> Drop for UserAgent<D> {
    fn drop(&mut self) {
        for &number in self.channels.keys() {
            // If the ring is full, the peer gets no message: a NIC that closes cannot wait.
            let _ = self.nic.device.disconnect(number);
        }
        self.kernel.registrations.close(&mut self.nic.device);
    }
}
