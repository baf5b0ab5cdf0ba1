//! A NIC as a program written to VIA sees it: the user agent. VIs with explicit descriptors, completion queues, protection
//! tags and registered memory.
//!
//! One thread at a time. The emulated NIC's engine runs in its caller: whatever is asked of a user agent, it first hands out
//! what is done already, then looks at the device, carries on with the send queues, and looks again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::device::{
    ClaimFault, Completion, Device, MemHandle, News, NodeAddress, Operation, Payload, ViNumber, Waker,
};
use crate::provider::{KernelAgent, NameService, NicLimits};
use crate::vipl::completion_queue::{CompletionQueue, CqEntry};
use crate::vipl::connection::Stranger;
use crate::vipl::descriptor::{Descriptor, Status};
use crate::vipl::error::{AsyncCode, AsyncError, VipError};
use crate::vipl::table::Table;
use crate::vipl::vi::{ViHandle, ViState, VirtualInterface};
use crate::vipl::work_queue::Queue;

/// News that one round of progress takes, at most.
const NEWS_PER_ROUND: u32 = 64;
/// Asynchronous errors that are kept for the program; older ones are forgotten.
const ERRORS_KEPT: usize = 64;
/// The longest sleep between two looks.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// An open NIC.
#[derive(Debug)]
pub struct UserAgent<D: Device> {
    pub(super) device: D,
    pub(super) kernel: KernelAgent,
    pub(super) vis: Table<VirtualInterface>,
    pub(super) cqs: Table<CompletionQueue>,
    /// The VI that uses a connection of the device.
    pub(super) by_number: HashMap<ViNumber, ViHandle>,
    /// Connections that peers have made and no VI has asked for yet.
    pub(super) strangers: Vec<Stranger>,
    /// Connections that are closed and stay so.
    pub(super) spent: HashSet<ViNumber>,
    /// Transfers under way: whose, and what local memory they use.
    pub(super) transfers: HashMap<u64, (ViHandle, MemHandle)>,
    pub(super) next_transfer: u64,
    errors: VecDeque<AsyncError>,
}

impl<D: Device> UserAgent<D> {
    /// Opens the NIC over `device` (`VipOpenNic`). It closes when the value is dropped.
    #[must_use]
    pub fn open(device: D) -> Self {
        Self {
            kernel: KernelAgent::new(&device),
            device,
            vis: Table::new(),
            cqs: Table::new(),
            by_number: HashMap::new(),
            strangers: Vec::new(),
            spent: HashSet::new(),
            transfers: HashMap::new(),
            next_transfer: 0,
            errors: VecDeque::new(),
        }
    }

    /// The limits (`VipQueryNic`).
    #[must_use]
    pub fn limits(&self) -> NicLimits {
        *self.kernel.limits()
    }

    /// The NIC's own address.
    #[must_use]
    pub fn address(&self) -> NodeAddress {
        self.device.address()
    }

    /// The address of a NIC by its name (`VipNSGetHostByName`).
    ///
    /// # Errors
    /// No NIC of the job has that name.
    pub fn host_by_name(&self, name: &str) -> Result<NodeAddress, VipError> {
        let num_tasks = self.device.attributes().num_tasks;
        NameService::new(num_tasks)
            .host_by_name(name)
            .ok_or_else(|| VipError::NameService { name: name.to_owned(), last: num_tasks.saturating_sub(1) })
    }

    /// What went wrong without a call, oldest first (what `VipErrorCallback` would be told).
    pub fn next_error(&mut self) -> Option<AsyncError> {
        self.errors.pop_front()
    }

    /// Wakes a wait of this NIC from another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.device.waker()
    }

    /// One round of progress: looks at the device, carries on with all queues; whether anything came. Never blocks. Every
    /// call that asks for a completion makes progress by itself.
    pub fn progress(&mut self) -> bool {
        let mut payload = Payload::default();
        let mut came = false;
        for _ in 0..NEWS_PER_ROUND {
            let Some(news) = self.device.poll(&mut payload) else { break };
            came = true;
            self.handle(&news, &payload);
        }
        for slot in self.vis.all() {
            self.carry_on(ViHandle(slot));
        }
        came
    }

    fn handle(&mut self, news: &News, payload: &Payload) {
        match *news {
            News::Entry(completion) => {
                self.handle_entry(&completion, payload);
                self.device.release(completion.vi);
            }
            News::Connected(number, _) => self.handle_connected(number),
            News::Ended { id, result } => self.handle_ended(id, result),
            News::TaskFailed(task) => self.handle_failure(task),
        }
    }

    fn handle_entry(&mut self, completion: &Completion, payload: &Payload) {
        let Completion { vi: number, slot, entry } = *completion;
        let operation = Operation::of(entry.operation);
        let Some(&vi) = self.by_number.get(&number) else {
            self.handle_stranger(number, operation, &entry, payload);
            return;
        };
        match operation {
            Some(Operation::Attributes) => self.handle_attributes(vi, &entry, payload),
            Some(Operation::Send | Operation::SendArea | Operation::Written) => {
                self.handle_message(vi, number, slot, &entry, payload);
            }
            Some(Operation::Acknowledge) => self.handle_acknowledge(vi),
            Some(Operation::Broken) => self.handle_broken(vi, Status(entry.immediate)),
            Some(Operation::StagedWrite) => self.handle_staged_write(vi, number, slot, &entry),
            Some(Operation::ReadRequest) => self.handle_read_request(vi, payload),
            Some(Operation::ReadPiece) => self.handle_read_piece(vi, number, slot, &entry),
            Some(Operation::Disconnect) => self.lose(vi),
            // What no user agent sends: the peer is none, or damaged.
            Some(Operation::Inline | Operation::Area) | None => {
                self.break_connection(vi, Status::TRANSPORT_ERROR);
            }
        }
    }

    fn handle_ended(&mut self, id: u64, result: Result<u64, ClaimFault>) {
        let Some((vi, local)) = self.transfers.remove(&id) else { return };
        self.kernel.registrations.end_transfer(local);
        if let Some(found) = self.vis.get_mut(vi.0) {
            found.transfer_ended(id, result);
        }
    }

    fn handle_failure(&mut self, task: u32) {
        for slot in self.vis.all() {
            let of_task = |vi: &VirtualInterface| vi.peer.is_some_and(|peer| peer.task == task);
            if self.vis.get(slot).is_some_and(of_task) {
                self.lose(ViHandle(slot));
            }
        }
    }

    /// The connection is gone, and it was not asked for here: what is queued is flushed, and the program is told.
    pub(super) fn lose(&mut self, vi: ViHandle) {
        let Some(found) = self.vis.get_mut(vi.0) else { return };
        if !matches!(found.state, ViState::Connected | ViState::ConnectPending) {
            return;
        }
        let was_connected = found.state == ViState::Connected;
        found.state = ViState::Error;
        self.flush(vi);
        if was_connected {
            self.note_error(vi, AsyncCode::ConnectionLost);
        }
    }

    /// Something on this VI broke the rules of its reliability level: the connection ends for both.
    pub(super) fn break_connection(&mut self, vi: ViHandle, for_peer: Status) {
        if let Some(found) = self.vis.get_mut(vi.0) {
            found.reply(Operation::Broken, for_peer.0);
            found.send_replies(&mut self.device);
        }
        self.lose(vi);
    }

    /// Every descriptor that waits ends as flushed, in order.
    pub(super) fn flush(&mut self, vi: ViHandle) {
        self.flush_queue(vi, Queue::Send);
        self.flush_queue(vi, Queue::Receive);
        if let Some(found) = self.vis.get_mut(vi.0) {
            found.forget_progress();
        }
    }

    pub(super) fn flush_queue(&mut self, vi: ViHandle, queue: Queue) {
        while self.vis.get(vi.0).is_some_and(|found| !found.queue(queue).is_idle()) {
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

    /// Ends the head of a work queue and tells its completion queue.
    pub(super) fn complete(&mut self, vi: ViHandle, queue: Queue, change: impl FnOnce(&mut Descriptor)) {
        let Some(found) = self.vis.get_mut(vi.0) else { return };
        found.queue_mut(queue).complete(change);
        let Some(cq) = found.cq(queue) else { return };
        let noted = self.cqs.get_mut(cq.0).is_none_or(|cq| cq.push(CqEntry { vi, queue }));
        if !noted {
            self.note_error(vi, AsyncCode::CompletionOverrun);
        }
    }

    pub(super) fn note_error(&mut self, vi: ViHandle, code: AsyncCode) {
        if self.errors.len() == ERRORS_KEPT {
            self.errors.pop_front();
        }
        self.errors.push_back(AsyncError { vi, code });
    }

    /// Makes progress until `look` finds something, for ever if `timeout` is `None`.
    pub(super) fn wait_for<T>(
        &mut self,
        timeout: Option<Duration>,
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
                    timeout.checked_sub(start.elapsed()).ok_or(VipError::Timeout(timeout))?.min(SLEEP_MAX)
                }
                None => SLEEP_MAX,
            };
            if polls > 0 {
                self.device.wait(polls, left);
            }
        }
    }
}

impl<D: Device> Drop for UserAgent<D> {
    fn drop(&mut self) {
        for slot in self.vis.all() {
            if let Some(number) = self.vis.get(slot).and_then(|vi| vi.number) {
                // The peer hears of it if there is room; a NIC that closes can do no more.
                let _ = self.device.disconnect(number);
            }
        }
        self.kernel.registrations.close(&mut self.device);
    }
}
