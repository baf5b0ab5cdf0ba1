//! A wire in one process, for the NICs of several tasks; each task is usually a thread. A network object joins the NICs: it copies through
//! queues, delays connections, injects seeded faults, and has none of the shortcuts of shared memory.
//!
//! The wire shows that the layers above need only what a network can do, and serves to test them under loss, reordering, refusal and death.
//! Reliable VIs (all VIs before [`Device::allow_loss`]) repair faults by sequence numbers and retransmission; unreliable VIs expose them.

mod faults;
mod in_line;
mod link;
mod network;
mod options;
mod rdma;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use am_contract::task::{NoSuchEndpoint, TaskId};
use am_contract::transfer::{AtomicOp, Transfer};
use am_contract::wait::Waker;
use am_contract::world::{SystemError, World};
use am_via_nic::device::NICS_MAX;
use am_via_nic::{ClaimFault, DeviceAttributes, DeviceError, Endpoint, MemHandle, Posted};
use am_via_nic::{Completion, Device, Entry, FreeSlot, Link, News, Payload, ViNumber};
use am_via_os::sched;
use am_via_shm::layout::{ACCESS_READ, ACCESS_WRITE};
use am_via_shm::regions::{Claim, Registration, update_word};
use am_via_shm::{CheckedRange, HeapBlock, HeldRange, PrivateBytes, Storing};

pub use faults::{Kill, WireFaults, WireStatistics};
pub use options::{Reach, WireOptions};

use in_line::WireLink;
use link::{Area, Frame};
use network::{Network, NicEvent, State};
use rdma::Kind;

/// The network, which clones share.
#[derive(Clone, Debug)]
pub struct WireNetwork(Arc<Network>);

impl WireNetwork {
    /// A network without NICs.
    #[must_use]
    pub fn new(options: WireOptions) -> Self {
        Self(Arc::new(Network::new(options)))
    }

    /// Opens the NIC of a context of a task.
    ///
    /// # Errors
    /// The address is invalid on this wire, or the NIC is open, or was closed after it had connections.
    pub fn open(&self, address: Endpoint) -> Result<Wire, DeviceError> {
        address.check(self.0.options.num_tasks, NICS_MAX)?;
        let mut state = self.0.lock();
        if state.has_closed(address) && !state.open_again(address) {
            return Err(DeviceError::ContextUsed { context: address.context });
        }
        let nic = state.nic(address);
        if std::mem::replace(&mut nic.open, true) {
            return Err(DeviceError::Exhausted {
                resource: "NICs with this address",
                needed: 2,
                available: 1,
                remedy: "open each context of a task once",
            });
        }
        drop(state);
        Ok(Wire { address, network: Arc::clone(&self.0), vis: Vec::new(), connects_late: 0 })
    }

    /// The network's counts so far.
    #[must_use]
    pub fn statistics(&self) -> WireStatistics {
        self.0.lock().statistics
    }

    /// Marks a task as dead, as the launcher of a job does.
    pub fn fail_task(&self, task: u32, why: &str) {
        self.0.lock().fail(task, why);
    }

    /// Makes the next end of a registration of this task fail with an error of the system.
    pub fn fail_next_deregister(&self, task: u32) {
        self.0.lock().fails_deregister.insert(task);
    }

    /// How often the NIC has slept in a wait, and the longest limit of such a sleep.
    #[must_use]
    pub fn sleeps(&self, nic: Endpoint) -> (u64, Duration) {
        self.0.lock().nic(nic).sleeps
    }
}

/// Number of empty polls after which a wait sleeps. Before that, it only yields the processor.
const YIELD_POLLS: u32 = 20;

/// A NIC on a wire.
#[derive(Debug)]
pub struct Wire {
    address: Endpoint,
    network: Arc<Network>,
    /// The ends of connections, indexed by the numbers that the owner gave them.
    vis: Vec<Option<End>>,
    /// Number of connection requests that are answered with "not yet" although the connection exists.
    connects_late: u32,
}

/// An end of a connection.
#[derive(Debug)]
struct End {
    /// The number of this end in the network.
    on_network: u32,
    /// The frames in the slots that the owner keeps, oldest first.
    taken: VecDeque<Arc<Frame>>,
    first_slot: u32,
}

impl Wire {
    /// Answers the next connection requests of this NIC with "not yet", this number of times.
    pub fn connect_late(&mut self, times: u32) {
        self.connects_late = times;
    }

    fn end(&self, vi: ViNumber) -> Option<&End> {
        self.vis.get(vi.0 as usize)?.as_ref()
    }

    /// The network's number of a connection.
    fn on_network(&self, vi: ViNumber) -> Result<u32, DeviceError> {
        self.end(vi).map(|end| end.on_network).ok_or(DeviceError::NotConnected(vi))
    }

    /// The number and the end of the connection with this network number.
    fn known_as(&mut self, on_network: u32) -> Option<(ViNumber, &mut End)> {
        let ends =
            (0..).zip(&mut self.vis).filter_map(|(number, end)| Some((ViNumber(number), end.as_mut()?)));
        ends.into_iter().find(|(_, end)| end.on_network == on_network)
    }

    /// The state of the network, if the task and its memory can be accessed.
    fn access(&self, (task, claim): (TaskId, Claim)) -> Result<MutexGuard<'_, State>, DeviceError> {
        let num_tasks = self.network.options.num_tasks;
        if task.0 >= num_tasks {
            return Err(NoSuchEndpoint::task(task.0, num_tasks).into());
        }
        let state = self.network.lock();
        if [task, self.address.task].iter().any(|&task| state.failure(task.0).is_some()) {
            return Err(ClaimFault::PeerDead.into());
        }
        if state.is_ending(task.0, MemHandle::of(claim)) {
            return Err(ClaimFault::Stale.into());
        }
        Ok(state)
    }

    /// Begins a transfer, or carries it out, as `reach` says.
    fn start(
        &self,
        reach: Reach,
        at: (TaskId, Claim),
        id: u64,
        kind: Kind,
    ) -> Result<Transfer<u64>, DeviceError> {
        let reach = reach.of(at.1);
        if reach == Reach::Staged {
            return Ok(Transfer::Unreachable);
        }
        let mut state = self.access(at)?;
        let transfer = rdma::Transfer { by: self.address, at, id, kind };
        if reach == Reach::Direct {
            if state.refuses() {
                return Ok(Transfer::Retry);
            }
            let ended = state.carry_out_now(transfer);
            drop(state);
            return Ok(Transfer::Done(ended.store()?));
        }
        Ok(if state.start_transfer(transfer) { Transfer::Posted } else { Transfer::Retry })
    }

    /// Whether peers' memory is mapped: only on a wire where all accesses are direct.
    fn maps_memory(&self) -> bool {
        let WireOptions { reach, atomics, .. } = self.network.options;
        (reach, atomics) == (Reach::Direct, Reach::Direct)
    }

    /// Calls `call` with registered memory of a peer, under the lock of the network, if the memory is mapped.
    fn with_mapped<R>(
        &self,
        at: (TaskId, Claim),
        need: u32,
        call: impl FnOnce(CheckedRange<'_>) -> R,
    ) -> Result<Option<R>, DeviceError> {
        if !self.maps_memory() {
            return Ok(None);
        }
        let state = self.access(at)?;
        let (task, claim) = at;
        Ok(Some(call(state.regions[task.index()].claim(claim, need)?)))
    }
}

/// The outcome of a write or a read.
fn without_value(transfer: Transfer<u64>) -> Transfer {
    match transfer {
        Transfer::Done(_) => Transfer::Done(()),
        Transfer::Posted => Transfer::Posted,
        Transfer::Retry => Transfer::Retry,
        Transfer::Unreachable => Transfer::Unreachable,
    }
}

fn bounce(len: usize) -> Result<PrivateBytes, DeviceError> {
    PrivateBytes::new(len).ok_or(DeviceError::Exhausted {
        resource: "memory",
        needed: len as u64,
        available: 0,
        remedy: "send smaller pieces, or have fewer transfers in flight",
    })
}

/// A slot that the network may still refuse.
#[derive(Debug)]
pub struct WireSlot<'a> {
    wire: &'a mut Wire,
    vi: ViNumber,
}

impl FreeSlot for WireSlot<'_> {
    fn post(self, entry: Entry, payload: &Payload) -> bool {
        matches!(self.wire.post(self.vi, entry, payload), Ok(Posted::Done))
    }

    fn post_outside(self, entry: Entry, payload: &Payload, bytes: &[u8]) -> bool {
        let fill = |area: CheckedRange<'_>, _| {
            area.copy_from_slice(bytes);
            Some(bytes.len())
        };
        matches!(self.wire.post_area(self.vi, entry, payload, bytes.len(), fill), Ok(Posted::Done))
    }
}

// SAFETY: a transfer is carried out before its end is reported, by the thread that polls, or under the lock of the network, as long as the
// registration is in the table; the table of a NIC that is dropped is emptied.
unsafe impl Device for Wire {
    type FreeSlot<'a> = WireSlot<'a>;

    fn attributes(&self) -> DeviceAttributes {
        let options = &self.network.options;
        DeviceAttributes {
            num_tasks: options.num_tasks,
            contexts_max: NICS_MAX,
            slot_bytes: options.slot_bytes as usize,
            ring_lines: options.ring_lines,
            vis_max: u32::MAX,
            regions_max: options.regions_max,
            registered_bytes_max: u64::MAX,
        }
    }

    fn connect(&mut self, new: ViNumber, to: Endpoint) -> Result<Option<ViNumber>, DeviceError> {
        let made = self.network.lock().connect(self.address, to)?;
        if self.connects_late > 0 {
            self.connects_late -= 1;
            return Ok(None);
        }
        let Some(on_network) = made else { return Ok(None) };
        if let Some((known, _)) = self.known_as(on_network) {
            return Ok(Some(known));
        }
        let index = new.0 as usize;
        if self.vis.len() <= index {
            self.vis.resize_with(index + 1, || None);
        }
        self.vis[index] = Some(End { on_network, taken: VecDeque::new(), first_slot: 0 });
        Ok(Some(new))
    }

    fn disconnect(&mut self, vi: ViNumber) -> Result<(), DeviceError> {
        let on_network = self.on_network(vi)?;
        self.network.lock().disconnect(self.address, on_network);
        Ok(())
    }

    fn allow_loss(&mut self, vi: ViNumber, allowed: bool) {
        if let Ok(on_network) = self.on_network(vi) {
            self.network.lock().allow_loss(self.address, on_network, allowed);
        }
    }

    fn post(&mut self, vi: ViNumber, entry: Entry, payload: &Payload) -> Result<Posted, DeviceError> {
        let on_network = self.on_network(vi)?;
        let mut state = self.network.lock();
        let admitted = state.admit(self.address, on_network)?;
        if admitted == Posted::Done {
            state.post(self.address, on_network, entry, *payload, None);
        }
        Ok(admitted)
    }

    fn free_slot(&mut self, vi: ViNumber) -> Option<WireSlot<'_>> {
        Some(WireSlot { wire: self, vi })
    }

    fn post_area(
        &mut self,
        vi: ViNumber,
        entry: Entry,
        payload: &Payload,
        len: usize,
        fill: impl FnOnce(CheckedRange<'_>, Storing) -> Option<usize>,
    ) -> Result<Posted, DeviceError> {
        let on_network = self.on_network(vi)?;
        if self.network.lock().admit(self.address, on_network)? == Posted::Retry {
            return Ok(Posted::Retry);
        }
        // Filled without the lock: only this NIC posts here, so the free line stays free.
        let slot_bytes = self.network.options.slot_bytes;
        let area = Area::new(bounce(len.min(slot_bytes as usize))?);
        let Some(filled) = fill(area.range(), Storing::ThroughCaches) else { return Ok(Posted::Retry) };
        let filled = u32::try_from(filled).unwrap_or(slot_bytes);
        let entry = Entry { length: filled, ..entry };
        self.network.lock().post(self.address, on_network, entry, *payload, Some(area));
        Ok(Posted::Done)
    }

    fn poll(&mut self, payload: &mut Payload) -> Option<News> {
        let mut state = self.network.lock();
        state.tick(self.address);
        let event = state.next_event(self.address)?;
        drop(state);
        Some(match event {
            NicEvent::Frame { vi: on_network, frame } => {
                let address = self.address;
                let network = Arc::clone(&self.network);
                // Entries of a connection are ignored until the owner has numbered the connection.
                let (vi, end) = self.known_as(on_network)?;
                *payload = frame.payload;
                let entry = frame.entry;
                let slot = end.first_slot.wrapping_add(u32::try_from(end.taken.len()).ok()?);
                let completion = Completion { vi, slot, entry };
                if completion.keeps_slot() {
                    end.taken.push_back(frame);
                } else {
                    network.lock().release(address, on_network, frame.lossy);
                }
                News::Entry(completion)
            }
            // No entry of a connection is returned before the connection itself.
            NicEvent::Connected { .. } if self.connects_late > 0 => return None,
            NicEvent::Connected { peer } => News::Connected(peer),
            NicEvent::Ended { id, end } => News::Ended { id, result: end.store() },
            NicEvent::TaskFailed(task) => News::TaskFailed(TaskId(task)),
            NicEvent::PeerClosed(peer) => News::PeerClosed(peer),
        })
    }

    fn link(&mut self, vi: ViNumber) -> Option<impl Link> {
        let on_network = self.end(vi)?.on_network;
        Some(WireLink::new(self, vi, on_network))
    }

    unsafe fn area(&self, vi: ViNumber, slot: u32, len: u32) -> CheckedRange<'_> {
        let found = self.end(vi).and_then(|end| {
            let frame = end.taken.get(slot.wrapping_sub(end.first_slot) as usize)?;
            let range = frame.area.as_ref()?.range();
            range.part(0, (len as usize).min(range.len()))
        });
        found.unwrap_or_else(CheckedRange::empty)
    }

    fn release(&mut self, vi: ViNumber) {
        let Some(Some(end)) = self.vis.get_mut(vi.0 as usize) else { return };
        if let Some(frame) = end.taken.pop_front() {
            frame.overwrite();
            end.first_slot = end.first_slot.wrapping_add(1);
            self.network.lock().release(self.address, end.on_network, frame.lossy);
        }
    }

    fn alloc(&mut self, len: usize) -> Result<HeapBlock, DeviceError> {
        HeapBlock::private(len).ok_or(DeviceError::Exhausted {
            resource: "memory",
            needed: len as u64,
            available: 0,
            remedy: "free buffers",
        })
    }

    unsafe fn register(
        &mut self,
        memory: CheckedRange<'_>,
        registration: Registration,
    ) -> Result<MemHandle, DeviceError> {
        let mut state = self.network.lock();
        let table = &mut state.regions[self.address.task.index()];
        let context = u32::from(self.address.context.0);
        // SAFETY: the caller's contract: the device removes the registration in `deregister`, or when it is dropped.
        let inserted = unsafe { table.insert(memory, registration, context) };
        let max = self.network.options.regions_max;
        let (region, generation) = inserted.ok_or(DeviceError::TooManyRegistrations { max })?;
        Ok(MemHandle { region, generation })
    }

    fn set_registration(&mut self, handle: MemHandle, registration: Registration) -> Result<(), DeviceError> {
        let mut state = self.network.lock();
        let table = &mut state.regions[self.address.task.index()];
        if table.set_registration(handle.region, handle.generation, registration) {
            Ok(())
        } else {
            Err(ClaimFault::Stale.into())
        }
    }

    /// A copy by a peer is under way from when its transfer is posted until it is carried out.
    fn deregister(&mut self, handle: MemHandle, finished: bool) -> Result<Posted, DeviceError> {
        let mut state = self.network.lock();
        let owner = self.address.task.0;
        if state.fails_deregister.remove(&owner) {
            let source = std::io::Error::other("as the test wants it");
            return Err(DeviceError::System { doing: "ending a registration", source });
        }
        if state.is_in_use(owner, handle) {
            assert!(!finished, "task {owner} says that no peer copies, but one does: {handle:?}");
            state.begin_end(owner, handle);
            return Ok(Posted::Retry);
        }
        state.end_registration(owner, handle)
    }

    fn registered(&self, claim: Claim, need: u32) -> Result<CheckedRange<'_>, ClaimFault> {
        let state = self.network.lock();
        let table = &state.regions[self.address.task.index()];
        let found = table.own(u32::from(self.address.context.0), claim, need)?;
        // SAFETY: this NIC has registered the memory (`own`), so it stays registered, and so live and left to such copies (`register`'s
        // contract), until a call of this NIC ends the registration: the NIC is borrowed as long as the range.
        Ok(unsafe { HeldRange::hold(found).range() })
    }

    unsafe fn rdma_write(
        &mut self,
        to: (TaskId, Claim),
        from: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        let bytes = bounce(from.len())?;
        let fitted = bytes.range().copy_from(from);
        debug_assert!(fitted, "the bounce buffer has the length of the source");
        self.start(self.network.options.reach, to, id, Kind::Write(bytes)).map(without_value)
    }

    unsafe fn rdma_read(
        &mut self,
        from: (TaskId, Claim),
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        let to = Kind::Read(HeldRange::hold(to));
        self.start(self.network.options.reach, from, id, to).map(without_value)
    }

    fn find_mapped(&mut self, at: (TaskId, Claim), need: u32) -> Result<bool, DeviceError> {
        self.with_mapped(at, need, |_| ()).map(|found| found.is_some())
    }

    fn lend_mapped<R>(&mut self, at: (TaskId, Claim), call: impl FnOnce(CheckedRange<'_>) -> R) -> Option<R> {
        self.with_mapped(at, ACCESS_READ | ACCESS_WRITE, call).ok().flatten()
    }

    fn write_mapped(&mut self, at: (TaskId, Claim), bytes: &[u8]) -> bool {
        matches!(self.with_mapped(at, ACCESS_WRITE, |to| to.copy_from_slice(bytes)), Ok(Some(())))
    }

    fn read_mapped(&mut self, at: (TaskId, Claim), to: &mut [u8]) -> bool {
        matches!(self.with_mapped(at, ACCESS_READ, |from| from.copy_to_slice(to)), Ok(Some(())))
    }

    fn atomic_mapped(&mut self, at: (TaskId, Claim), operation: AtomicOp) -> Option<u64> {
        self.lend_mapped(at, |word| update_word(word, operation))?.ok()
    }

    fn atomic(
        &mut self,
        at: (TaskId, Claim),
        operation: AtomicOp,
        id: u64,
    ) -> Result<Transfer<u64>, DeviceError> {
        self.start(self.network.options.atomics, at, id, Kind::Atomic(operation))
    }

    fn prefers_pieces(&self, _to: Endpoint, _len: usize, _entries: u32) -> bool {
        self.network.options.prefers_pieces
    }

    fn pieces_may_wait(&self, _to: Endpoint) -> bool {
        self.network.options.prefers_pieces
    }

    /// The tasks are threads of one process.
    fn shares_cache(&self, _vi: ViNumber) -> bool {
        true
    }
}

impl World for Wire {
    fn endpoint(&self) -> Endpoint {
        self.address
    }

    fn num_tasks(&self) -> u32 {
        self.network.options.num_tasks
    }

    fn wait(&mut self, polls: u32, limit: Duration) -> bool {
        if polls < YIELD_POLLS {
            sched::yield_now();
            return false;
        }
        let mut state = self.network.lock();
        let nic = state.nic(self.address);
        if std::mem::take(&mut nic.rung) || !nic.events.is_empty() || state.skip_to_next(self.address) {
            return false;
        }
        let nic = state.nic(self.address);
        nic.sleeps = (nic.sleeps.0 + 1, nic.sleeps.1.max(limit));
        let bell = Arc::clone(&nic.bell);
        // Woken, timed out or poisoned: the caller looks again in each case.
        drop(bell.wait_timeout(state, limit));
        false
    }

    fn failure(&self, TaskId(task): TaskId) -> Option<String> {
        self.network.lock().failure(task).map(str::to_owned)
    }

    fn has_closed(&mut self, nic: Endpoint) -> bool {
        self.network.lock().has_closed(nic)
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.failure(task).is_some()
    }

    fn host(&self, task: TaskId) -> u32 {
        self.network.options.hosts.get(task.index()).copied().unwrap_or(0)
    }

    fn ring(&mut self, to: Endpoint) -> Result<(), SystemError> {
        // An RDMA write or an atomic operation changes the memory of `to` without an event there, so the NIC may be asleep.
        self.network.lock().nic(to).ring();
        Ok(())
    }

    fn fail(&mut self, why: &str) {
        self.network.lock().fail(self.address.task.0, why);
    }

    fn waker(&self) -> Waker {
        let (network, address) = (Arc::clone(&self.network), self.address);
        Arc::new(move || network.lock().nic(address).ring())
    }
}

impl Drop for Wire {
    /// A panicking task does not leave: its peers learn of its failure otherwise.
    fn drop(&mut self) {
        self.network.lock().close(self.address, !std::thread::panicking());
    }
}
