//! The device: rings and areas in job memory, copies by plain stores or by the kernel, and the network for tasks on other hosts.
//!
//! The engine of this NIC runs in its caller: a posted entry has been carried out when `post` returns. All unsafe code is in the layer
//! below, `am_via_shm`. This file manages connections and polling.

#![expect(
    clippy::cast_possible_truncation,
    reason = "an area slot is below 4 GiB, bounded by the setting packet_bytes"
)]

mod connecting;
mod control_events;
mod far;
mod files;
mod heap;
mod in_line;
mod mapped;
mod pinned;
mod pipes;
mod stale_registrations;
mod world;

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::{
    AtomicOp, Completion, ContextNumber, Device, DeviceAttributes, DeviceError, Endpoint, Entry, FreeSlot,
    HeapBlock, Link, Mapping, MemHandle, NICS_MAX, News, Operation, Payload, Posted, Registration,
    SharedFileName, Storing, TaskId, Transfer, ViNumber,
};
use am_via_job::{Carrier, Job, NOTED_AFTER, OpenContext};
use am_via_os::{private_memory, sched};
use am_via_shm::layout::{
    ACCESS_READ, ACCESS_WRITE, Attention, ControlLayout, HAZARD_OFFSET, Hazard, REGIONS_PER_CONTEXT,
    RING_LINES,
};
use am_via_shm::layout_job::TASKS_MAX;
use am_via_shm::regions::{self, Claim, ClaimFault, Claimer, OwnRegions, Ways, is_quiet, update_word};
use am_via_shm::{CheckedRange, Connection, FreeLine, TELL_AFTER, Written};
use am_via_shm::{Doorbell, MappedRegions, Quiet, Shared, SharedFiles, SleepBarrier, Spin, WaitPolicy};

use far::Far;
use files::Files;
pub use heap::OwnHeap;
use in_line::ShmLink;
use mapped::transfer;
use pinned::Pinned;
use pipes::Pipes;

/// Options of a task's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmOptions {
    /// The context of the device.
    pub context: ContextNumber,
    /// Bytes of the largest packet; the same in all tasks.
    pub packet_bytes: u32,
    /// The ways to access peers' memory; the same in all tasks.
    pub ways: Ways,
    /// Spinning and yielding before a sleep.
    pub wait: WaitPolicy,
    /// Minimum bytes of a message in private memory that both tasks copy, through a pipe in job memory. `usize::MAX`: no pipes.
    pub pipe_bytes_min: usize,
}

/// Number of consecutive polls without an event after which quiet rings leave the poll set.
const PARK_AFTER_POLLS: u32 = 4096;
/// Number of entries after which a poll looks at everything besides the rings, and moves on to the next ring.
const ENTRIES_BEFORE_MOVING_ON: u32 = 16;
/// Added to the index of the ring whose entry was the last before a poll moves on. No index is as large.
const MOVES_ON: usize = 1 << (usize::BITS - 1);
/// How long peers wait before they report that a task has closed its contexts: a failure report, which names the cause, may follow.
const TIME_TO_FAIL: Duration = Duration::from_millis(50);
/// Quiet rings leave the poll set only while it has more rings than this.
const NEVER_PARK_BELOW: usize = 4;

/// The device.
#[derive(Debug)]
pub struct Shm {
    address: Endpoint,
    layout: ControlLayout,
    barrier: SleepBarrier,
    ways: Ways,
    /// Number of empty polls after which a wait calls [`wait_longer`](Self::wait_longer).
    eager_polls: u32,
    spin: Spin,
    /// Maximum number of polls that yield the processor, after the spin.
    yield_polls_max: u32,
    doorbell: Shared<Doorbell>,
    attention: Shared<Attention>,
    hazard: Shared<Hazard>,
    /// The connections, indexed by the numbers that the caller gave them.
    vis: Vec<Option<Vi>>,
    /// Numbers of the connections whose rings every poll checks.
    polled: Vec<u32>,
    /// Index of the ring that the next poll checks first, or that of the last ring and [`MOVES_ON`].
    next_polled: usize,
    /// Number of entries until a poll moves on.
    entries_left: u32,
    quiet_polls: u32,
    quiet: Quiet,
    /// Connections made by peers, not numbered yet.
    accepted: Vec<Vi>,
    /// Peers that connected and have to be reported.
    connected: Vec<Endpoint>,
    failure_epoch: u32,
    failures_told: BTreeSet<u32>,
    failures_due: Vec<u32>,
    /// Peers that have closed, with the time at which to report this.
    closing: Vec<(Endpoint, Instant)>,
    /// The connections to tasks on other hosts, if the job has such tasks.
    far: Option<Far>,
    /// The outcomes of reads that have ended, of memory on other hosts.
    reads_ended: Vec<(u64, Result<u64, ClaimFault>)>,
    /// Whether a poll with empty rings has more to check: a list of rare events that is not empty, or the network.
    looks_further: bool,
    regions: OwnRegions,
    pinned: Pinned,
    shared: SharedFiles,
    /// Mapped regions of peers that were found before.
    mapped: MappedRegions,
    /// Declared before the heap, which contains the pipes, so that the pipes are dropped before it.
    pipes: Pipes,
    heap: Arc<OwnHeap>,
    job: Arc<Job>,
    files: Files,
    /// Dropped last, after everything else of the context.
    _open: OpenContext,
}

#[derive(Debug)]
struct Vi {
    connection: Connection,
    /// The VI's slot in this task's control file, which peers use as the VI's name.
    slot: u32,
    peer: Endpoint,
    consumed_when_last_counted: u32,
}

/// The outcome of a post on a VI.
#[inline(always)]
fn posted(written: Written, vi: ViNumber) -> Result<Posted, DeviceError> {
    match written {
        Written::Done => Ok(Posted::Done),
        Written::Full | Written::Nothing => Ok(Posted::Retry),
        Written::Closed => Err(DeviceError::Closed(vi)),
    }
}

impl Shm {
    /// Opens the device of this task's context `options.context`; `heap` is shared by the contexts of the task.
    ///
    /// # Errors
    /// The context is open in this process, was connected before it was closed, or has too high a number. The job's files cannot be mapped,
    /// or have another layout. The network cannot be opened.
    pub fn open(job: Arc<Job>, heap: Arc<OwnHeap>, options: ShmOptions) -> Result<Self, DeviceError> {
        let address = Endpoint::new(TaskId(job.task()), options.context);
        address.check(job.tasks_end(), NICS_MAX)?;
        let context = u32::from(address.context.0);
        let open = job.open_context(context).ok_or(DeviceError::ContextOpen { context: options.context })?;
        let barrier = job.barrier();
        if let Some(launcher) = copier_by_kernel(options.ways, job.launcher_pid()) {
            private_memory::allow_descendants_of(launcher);
        }
        let layout =
            ControlLayout { num_tasks: TASKS_MAX, packet_bytes: options.packet_bytes, vis: job.vis() };
        let mut files = Files::new(Arc::clone(&job), layout);
        let task = address.task;
        let own = files.open_head(task.0)?;
        files.set_open(address)?;
        let doorbell = files::doorbell(&own, options.context)?;
        let far = Far::open(&job, address, layout.packet_bytes as usize, doorbell.clone())?;
        // Without peers on this host, pipes have no reader.
        let has_near_peers = job.tasks().any(|peer| peer != task.0 && !job.is_far(peer));
        let pipe_bytes_min =
            if far.is_some() && !has_near_peers { usize::MAX } else { options.pipe_bytes_min };
        tracing::debug!(?address, ways = ?options.ways, wait = ?options.wait, "a NIC is opened");
        Ok(Self {
            address,
            layout,
            barrier,
            ways: options.ways,
            eager_polls: options.wait.eager_polls(),
            spin: Spin::new(options.wait.spin_max),
            yield_polls_max: options.wait.yield_polls_max,
            doorbell,
            attention: files::attention(&own, options.context)?,
            hazard: files::within(
                own.atomics(HAZARD_OFFSET + context as usize * size_of::<Hazard>()),
                task.0,
            )?,
            vis: Vec::new(),
            polled: Vec::new(),
            next_polled: 0,
            entries_left: ENTRIES_BEFORE_MOVING_ON,
            quiet_polls: 0,
            quiet: Quiet::default(),
            accepted: Vec::new(),
            connected: Vec::new(),
            failure_epoch: 0,
            failures_told: BTreeSet::new(),
            failures_due: Vec::new(),
            closing: Vec::new(),
            looks_further: far.is_some(),
            far,
            reads_ended: Vec::new(),
            regions: OwnRegions::new(own, Arc::clone(heap.mapping()), context, options.ways),
            pinned: Pinned::new(u64::MAX),
            shared: SharedFiles::default(),
            mapped: MappedRegions::default(),
            pipes: Pipes::new(pipe_bytes_min),
            heap,
            job,
            files,
            _open: open,
        })
    }

    /// Limits the private memory that is registered at a time. By default it is unlimited.
    #[must_use]
    pub fn with_registered_bytes_max(mut self, bytes: u64) -> Self {
        self.pinned = Pinned::new(bytes);
        self
    }

    #[inline(always)]
    fn vi(&mut self, vi: ViNumber) -> Result<&mut Vi, DeviceError> {
        match self.vis.get_mut(vi.0 as usize) {
            Some(Some(found)) => Ok(found),
            _ => Err(DeviceError::NotConnected(vi)),
        }
    }

    /// The connection to a peer, with its number. There is at most one.
    fn connection_to(&self, peer: Endpoint) -> Option<(ViNumber, &Connection)> {
        let found = (0..)
            .zip(&self.vis)
            .find_map(|(number, vi)| Some((number, vi.as_ref()?)).filter(|(_, vi)| vi.peer == peer));
        found.map(|(number, vi)| (ViNumber(number), &vi.connection))
    }

    /// Gives a connection its number. From then on, polls check the connection's ring.
    fn insert(&mut self, ViNumber(number): ViNumber, vi: Vi) {
        let index = number as usize;
        if self.vis.len() <= index {
            self.vis.resize_with(index + 1, || None);
        }
        tracing::debug!(number, peer = ?vi.peer, "connected");
        self.vis[index] = Some(vi);
        self.polled.push(number);
    }

    /// Everything that a poll checks besides the rings. Each check is one load of a line that rarely changes.
    ///
    /// The result is boxed, like every rare result on the message path: an unboxed one would force the frequent result through memory at
    /// each level.
    #[inline(always)]
    fn poll_rest(&mut self) -> Option<Box<News>> {
        if self.attention.is_raised() || self.job.failure_epoch() != self.failure_epoch {
            return self.poll_rare();
        }
        if self.looks_further
            && let Some(news) = self.next_rare()
        {
            return Some(news);
        }
        if self.pipes.has_work() {
            self.pipes.stage_some(&self.regions);
        }
        None
    }

    /// The index of the ring after the last one. There may be fewer rings than before.
    fn move_on(&mut self) -> usize {
        let next = (self.next_polled & !MOVES_ON) + 1;
        self.next_polled = if next < self.polled.len() { next } else { 0 };
        self.next_polled
    }

    #[cold]
    #[inline(never)]
    fn wait_longer(&mut self, polls: u32, limit: Duration) -> bool {
        // While a receiver takes pieces of a message of this task, the end of the transfer is near.
        if self.spin.pause(polls) || self.pipes.has_moved() && self.spin.prolong(polls) {
            return false;
        }
        // A closed peer has to be reported in time.
        let limit = if self.closing.is_empty() { limit } else { limit.min(TIME_TO_FAIL) };
        let Self { address, doorbell, vis, polled, attention, job, files, failure_epoch, quiet, far, .. } =
            self;
        let is_near = |vi: &Vi| vi.peer != *address && !job.is_far(vi.peer.task.0);
        // A yield is useful if a peer can run on this processor, or a message of this task is still unsent.
        let may_yield = far.as_ref().is_none_or(|far| far.has_unsent() || vis.iter().flatten().any(is_near));
        if may_yield && polls - self.eager_polls < self.yield_polls_max {
            sched::yield_now();
            return false;
        }
        let began = quiet.begin_sleep();
        let barrier = self.barrier;
        let has_news = || {
            let ready = |number: &u32| {
                vis.get(*number as usize).and_then(Option::as_ref).is_some_and(|vi| vi.connection.is_ready())
            };
            polled.iter().any(ready) || attention.is_raised() || job.failure_epoch() != *failure_epoch
        };
        let without_news = match far {
            Some(far) => {
                let has_news = || has_news() || !far.wakes();
                files.recorded(|| doorbell.sleep(barrier, limit.min(far.longest_sleep()), has_news))
            }
            None => files.recorded(|| doorbell.sleep(barrier, limit, has_news)),
        };
        if !without_news {
            self.spin.news_after_sleep(polls);
        }
        quiet.end_sleep(began, without_news) >= NOTED_AFTER
    }

    fn claimer(&self) -> Claimer<'_> {
        let Self { address, ref hazard, barrier, ways, ref shared, .. } = *self;
        Claimer { task: address.task.0, hazard, barrier, ways, shared }
    }
}

/// The launcher, if kernel copies are used: its descendants may then copy from and to this process through the kernel.
fn copier_by_kernel(ways: Ways, launcher: Option<u32>) -> Option<u32> {
    launcher.filter(|_| ways.kernel)
}

impl FreeSlot for FreeLine<'_> {
    #[inline(always)]
    fn post(self, entry: Entry, payload: &Payload) -> bool {
        FreeLine::post(self, entry, payload);
        true
    }

    #[inline(always)]
    fn post_outside(self, entry: Entry, payload: &Payload, bytes: &[u8]) -> bool {
        FreeLine::post_outside(self, entry, payload, bytes);
        true
    }
}

// SAFETY: transfers within a host are over when the call returns; `Far` reports the end of others. `deregister` returns `Done` when no
// hazard line names the region and no peer holds a key. A dropped device closes its registrations, and its endpoint.
unsafe impl Device for Shm {
    type FreeSlot<'a> = FreeLine<'a>;

    fn attributes(&self) -> DeviceAttributes {
        DeviceAttributes {
            num_tasks: self.job.num_tasks(),
            contexts_max: NICS_MAX,
            slot_bytes: self.layout.packet_bytes as usize,
            // The reader reports its progress late: up to `TELL_AFTER - 1` free lines are not known to be free.
            ring_lines: RING_LINES - (TELL_AFTER - 1),
            vis_max: self.layout.vis,
            regions_max: REGIONS_PER_CONTEXT,
            registered_bytes_max: self.pinned.bytes_max,
        }
    }

    fn forget(&mut self, TaskId(task): TaskId) -> Result<(), DeviceError> {
        self.forget_ended(task)
    }

    fn connect(&mut self, new: ViNumber, to: Endpoint) -> Result<Option<ViNumber>, DeviceError> {
        to.check(self.job.tasks_end(), NICS_MAX)?;
        if let Some((known, _)) = self.connection_to(to) {
            return Ok(Some(known));
        }
        let vi = match self.accepted.iter().position(|vi| vi.peer == to) {
            Some(at) => self.accepted.swap_remove(at),
            None => match self.make_connection(to)? {
                Some(vi) => vi,
                None => return Ok(None),
            },
        };
        self.insert(new, vi);
        Ok(Some(new))
    }

    fn disconnect(&mut self, vi: ViNumber) -> Result<(), DeviceError> {
        let found = self.vi(vi)?;
        found.connection.close();
        let goodbye = Entry { operation: Operation::Disconnect as u32, ..Entry::default() };
        let _ = found.connection.post(goodbye, &Payload::default());
        Ok(())
    }

    #[inline(always)]
    fn post(&mut self, vi: ViNumber, entry: Entry, payload: &Payload) -> Result<Posted, DeviceError> {
        posted(self.vi(vi)?.connection.post(entry, payload), vi)
    }

    #[inline(always)]
    fn free_slot(&mut self, vi: ViNumber) -> Option<FreeLine<'_>> {
        match self.vis.get_mut(vi.0 as usize) {
            Some(Some(found)) => found.connection.free_line(),
            _ => None,
        }
    }

    #[inline(always)]
    fn post_area(
        &mut self,
        vi: ViNumber,
        entry: Entry,
        payload: &Payload,
        len: usize,
        fill: impl FnOnce(CheckedRange<'_>, Storing) -> Option<usize>,
    ) -> Result<Posted, DeviceError> {
        let finish = |filled: usize| Entry { length: filled as u32, ..entry };
        posted(self.vi(vi)?.connection.post_area(payload, len, fill, finish), vi)
    }

    #[inline(always)]
    fn poll(&mut self, payload: &mut Payload) -> Option<News> {
        let count = self.polled.len();
        let mut at = self.next_polled;
        if at >= count {
            at = self.move_on();
            if let Some(news) = self.poll_rest() {
                return Some(*news);
            }
        }
        for _ in 0..count {
            let number = self.polled[at];
            if let Some(Some(vi)) = self.vis.get_mut(number as usize)
                && let Some((entry, slot)) = vi.connection.poll(payload)
            {
                let completion = Completion { vi: ViNumber(number), slot, entry };
                if completion.keeps_slot() {
                    // SAFETY: the entry has just arrived, and keeps its slot.
                    unsafe { vi.connection.prefetch_area(slot, entry.length) };
                } else {
                    vi.connection.release();
                }
                // Stay with a ring that had an entry, as its next line is probably in the cache already, but only for some entries:
                // otherwise a task that keeps sending to itself would check neither its peers nor its connections and failures.
                self.next_polled = at;
                self.entries_left -= 1;
                if self.entries_left == 0 {
                    self.entries_left = ENTRIES_BEFORE_MOVING_ON;
                    self.next_polled = at + MOVES_ON;
                }
                self.quiet_polls = 0;
                return Some(News::Entry(completion));
            }
            at = if at + 1 < count { at + 1 } else { 0 };
        }
        self.quiet_polls += 1;
        if self.quiet_polls >= PARK_AFTER_POLLS && count > NEVER_PARK_BELOW {
            self.park_quiet();
        }
        self.poll_rest().map(|news| *news)
    }

    #[inline(always)]
    fn link(&mut self, vi: ViNumber) -> Option<impl Link> {
        let Self { vis, attention, job, failure_epoch, eager_polls, next_polled, .. } = self;
        let Some(Some(Vi { connection, .. })) = vis.get_mut(vi.0 as usize) else { return None };
        Some(ShmLink { connection, attention, job, failure_epoch, eager_polls, next_polled })
    }

    #[inline(always)]
    unsafe fn area(&self, vi: ViNumber, slot: u32, len: u32) -> CheckedRange<'_> {
        let Some(Some(found)) = self.vis.get(vi.0 as usize) else { return CheckedRange::empty() };
        // SAFETY: the caller's contract.
        unsafe { found.connection.area(slot, len) }
    }

    #[inline(always)]
    fn release(&mut self, vi: ViNumber) {
        if let Some(Some(found)) = self.vis.get_mut(vi.0 as usize) {
            found.connection.release();
        }
    }

    fn alloc(&mut self, len: usize) -> Result<HeapBlock, DeviceError> {
        self.heap.alloc(len)
    }

    fn is_job_memory(&self, at: NonNull<u8>, len: usize) -> bool {
        self.heap.contains(at, len)
    }

    /// Far peers get pieces if one message of the network carries them all. Near peers get pieces if pipes are used: both tasks then have a
    /// core, and copy at the same time. They get pieces even of job memory, which they could read directly: when the owner's program writes
    /// to the memory again, each line that a peer has read is transferred back.
    fn prefers_pieces(&self, to: Endpoint, len: usize, entries: u32) -> bool {
        match &self.far {
            Some(far) if self.job.is_far(to.task.0) => far.carries_together(entries as usize, len),
            _ => self.pipes.are_used(),
        }
    }

    /// To a far peer a read takes two more messages of the network. A near peer copies the bytes itself, without waiting for credits.
    fn pieces_may_wait(&self, to: Endpoint) -> bool {
        self.far.is_some() && self.job.is_far(to.task.0)
    }

    fn shares_cache(&self, ViNumber(vi): ViNumber) -> bool {
        let found = self.vis.get(vi as usize).and_then(Option::as_ref);
        found.is_some_and(|found| found.connection.shares_cache())
    }

    fn expect_posts(&mut self, to: Endpoint, entries: u32) {
        if let Some(far) = &self.far
            && self.job.is_far(to.task.0)
        {
            far.expect_posts(to, entries);
        }
    }

    fn make_shared_file(
        &mut self,
        len: usize,
    ) -> Result<Option<(SharedFileName, Arc<Mapping>)>, DeviceError> {
        let made = self.shared.make(len);
        made.map(Some).map_err(|source| files::shared_file_error("making a shared memory file", source))
    }

    fn open_shared_file(&mut self, name: SharedFileName) -> Result<Arc<Mapping>, DeviceError> {
        let opened = self.shared.open(name);
        opened.map_err(|source| files::shared_file_error("opening a shared memory file", source))
    }

    fn close_shared_file(&mut self, inode: u64) {
        self.shared.close_descriptor(inode);
    }

    fn forget_shared_file(&mut self, inode: u64) {
        self.shared.remove(inode);
        self.mapped.clear();
    }

    unsafe fn register(
        &mut self,
        memory: CheckedRange<'_>,
        registration: Registration,
    ) -> Result<MemHandle, DeviceError> {
        let (at, len) = (memory.at(), memory.len());
        let is_counted = self.pinned.is_limited()
            && !(self.heap.contains(at, len) || self.shared.place_of(at, len).is_some());
        if is_counted {
            self.pinned.check(len as u64)?;
        }
        // SAFETY: the caller's contract: `deregister` returns `Done` after `remove`, when no copy is under way.
        let opened = unsafe { self.regions.insert(memory, registration, &self.shared) };
        let Some((region, generation)) = opened else {
            return Err(DeviceError::TooManyRegistrations { max: REGIONS_PER_CONTEXT });
        };
        if is_counted {
            self.pinned.add(region, len as u64);
        }
        Ok(MemHandle { region, generation })
    }

    fn set_registration(&mut self, handle: MemHandle, registration: Registration) -> Result<(), DeviceError> {
        if self.regions.set_registration(handle.region, handle.generation, registration) {
            if let Some(far) = &self.far {
                // The keys that peers hold become invalid, and peers request new keys.
                far.end_lent(handle, false);
            }
            Ok(())
        } else {
            Err(ClaimFault::Stale.into())
        }
    }

    fn expect_one_read(&mut self, by: Endpoint, handle: MemHandle, ptag: u32) {
        let Self { pipes, regions, heap, far, job, .. } = self;
        match far {
            Some(far) if job.is_far(by.task.0) => {
                if let Some(memory) = regions.open_memory(handle.region, handle.generation) {
                    far.offer(by, handle, ptag, memory);
                }
            }
            _ => pipes.begin(handle, regions, heap.mapping(), |len| heap.alloc(len)),
        }
    }

    fn deregister(&mut self, handle: MemHandle, finished: bool) -> Result<Posted, DeviceError> {
        if !self.regions.remove(handle.region, handle.generation) {
            return Err(ClaimFault::Stale.into());
        }
        if !finished {
            self.barrier.before_look();
            for (task, hazard) in self.files.hazards()? {
                if is_quiet(std::iter::once(&**hazard), self.address.task.0, handle.region) {
                    continue;
                }
                // A copy whose end is never reported ends only with its process: a task that failed, or was stopped, may still write.
                if !self.job.has_ended(task) {
                    return Ok(Posted::Retry);
                }
                regions::clear(hazard);
            }
        }
        if let Some(far) = &self.far
            && !far.end_lent(handle, finished)
        {
            return Ok(Posted::Retry);
        }
        self.pipes.end(handle, &mut self.regions);
        self.regions.recycle(handle.region);
        self.pinned.remove(handle.region);
        Ok(Posted::Done)
    }

    #[inline(always)]
    fn registered(&self, claim: Claim, need: u32) -> Result<CheckedRange<'_>, ClaimFault> {
        self.regions.memory(claim, need)
    }

    unsafe fn rdma_write(
        &mut self,
        (to, claim): (TaskId, Claim),
        from: CheckedRange<'_>,
        _id: u64,
    ) -> Result<Transfer, DeviceError> {
        if !self.files.open_peer(to.0)? {
            return Ok(Transfer::Unreachable);
        }
        let peer = self.files.memory(to.0)?;
        transfer(peer.write(&self.claimer(), claim, from))
    }

    unsafe fn rdma_read(
        &mut self,
        (from, claim): (TaskId, Claim),
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        if !self.files.open_peer(from.0)? {
            return self.read_far((from, claim), to, id);
        }
        let Self { address, ref hazard, barrier, ways, ref shared, ref mut pipes, ref regions, .. } = *self;
        let claimer = Claimer { task: address.task.0, hazard, barrier, ways, shared };
        let peer = self.files.memory(from.0)?;
        let idle = || pipes.has_work() && pipes.stage(regions);
        transfer(peer.read(&claimer, claim, to, idle))
    }

    fn rdma_write_pieces<'a>(
        &mut self,
        (to, claim): (TaskId, Claim),
        pieces: impl Iterator<Item = (u64, CheckedRange<'a>)> + Clone,
    ) -> Result<bool, DeviceError> {
        if !self.files.open_peer(to.0)? {
            return Ok(false);
        }
        Ok(self.files.memory(to.0)?.write_pieces(&self.claimer(), claim, pieces)?)
    }

    fn rdma_read_pieces<'a>(
        &mut self,
        (from, claim): (TaskId, Claim),
        pieces: impl Iterator<Item = (u64, CheckedRange<'a>)> + Clone,
    ) -> Result<bool, DeviceError> {
        if !self.files.open_peer(from.0)? {
            return Ok(false);
        }
        Ok(self.files.memory(from.0)?.read_pieces(&self.claimer(), claim, pieces)?)
    }

    fn find_mapped(&mut self, at: (TaskId, Claim), need: u32) -> Result<bool, DeviceError> {
        // All tasks must use the same method: otherwise some would change a word in place while others read it and write it back.
        if self.far.is_some() { Ok(false) } else { self.find(at, need) }
    }

    #[inline(always)]
    fn lend_mapped<R>(&mut self, at: (TaskId, Claim), call: impl FnOnce(CheckedRange<'_>) -> R) -> Option<R> {
        let lent = self.lend(at, ACCESS_READ | ACCESS_WRITE)?;
        Some(call(lent.range()))
    }

    #[inline(always)]
    fn write_mapped(&mut self, at: (TaskId, Claim), bytes: &[u8]) -> bool {
        let Some(lent) = self.lend(at, ACCESS_WRITE) else { return false };
        lent.range().copy_from_slice(bytes);
        true
    }

    #[inline(always)]
    fn read_mapped(&mut self, at: (TaskId, Claim), to: &mut [u8]) -> bool {
        let Some(lent) = self.lend(at, ACCESS_READ) else { return false };
        lent.range().copy_to_slice(to);
        true
    }

    #[inline(always)]
    fn atomic_mapped(&mut self, at: (TaskId, Claim), operation: AtomicOp) -> Option<u64> {
        let lent = self.lend(at, ACCESS_READ | ACCESS_WRITE)?;
        update_word(lent.range(), operation).ok()
    }

    fn atomic(
        &mut self,
        at: (TaskId, Claim),
        operation: AtomicOp,
        _id: u64,
    ) -> Result<Transfer<u64>, DeviceError> {
        if !self.find(at, ACCESS_READ | ACCESS_WRITE)? {
            return Ok(Transfer::Unreachable);
        }
        let updated = self.lend_mapped(at, |word| update_word(word, operation));
        if self.far.is_some() {
            // The region was found for this word only: if it stayed cached, it could be lent to a program, which `find_mapped` forbids.
            self.mapped.clear();
        }
        match updated {
            Some(old) => Ok(Transfer::Done(old?)),
            None => Err(ClaimFault::Stale.into()),
        }
    }
}

#[cfg(test)]
mod tests;
