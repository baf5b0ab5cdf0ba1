//! The device's use of the job's files: which are mapped, and how two tasks agree on a connection.
//!
//! A connection is made by one side alone: that side claims the word of the pair in the control file of the lower-numbered end, takes a
//! free VI slot at both ends, writes the peer's task and VI into each, publishes the word, and sets the peer's attention bit. If both sides
//! try at the same time, the word decides which side makes the connection, and both use it. So the first message to a peer needs no
//! progress of that peer.

use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::{
    ContextNumber, DeviceError, Endpoint, NICS_MAX, NoSuchEndpoint, SystemError, TaskId, Waker,
};
use am_via_job::{Carrier, HazardLines, Job, SLEEP};
use am_via_os::atomics::{AtomicU64, Ordering};
use am_via_os::limits::{Resource, limit};
use am_via_os::memory;
use am_via_shm::layout::{
    ATTENTION_OFFSET, Attention, CONTEXTS_MAX, ControlHeader, ControlLayout, DOORBELL_OFFSET, Hazard,
    PairWord,
};
use am_via_shm::regions::PeerMemory;
use am_via_shm::{Bell, Connection, Draft, ViSlot};
use am_via_shm::{Doorbell, Mapping, Shared, SleepBarrier};

use super::far::StandIn;

/// Longest wait for the launcher's report of a death that a transfer has noticed. The launcher usually needs milliseconds; it waits up to
/// two seconds for the cause of a death behind a wrapper.
const REPORTED_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait for the report of a failure after a task has unexposed memory that a peer still uses: a failing task does so before its
/// failure is known.
const FAILED_WITHIN: Duration = Duration::from_millis(200);
/// The time between two such waits if the first found no failure. A program that keeps using memory after its end then gets most errors at
/// once.
const FAILED_NOT_BEFORE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The job's files, opened as needed.
#[derive(Debug)]
pub(super) struct Files {
    job: Arc<Job>,
    pub(super) layout: ControlLayout,
    /// The head of each task's control file, as far as they were opened. Indexed by the task.
    heads: Vec<Option<Arc<Mapping>>>,
    /// The memory of each task, likewise.
    memories: Vec<Option<PeerMemory>>,
    /// Empty until memory that peers may be using is first deregistered.
    hazards: HazardLines,
    /// When the last wait for a failure ended without one.
    no_failure_at: Cell<Option<Instant>>,
}

impl Files {
    pub(super) fn new(job: Arc<Job>, layout: ControlLayout) -> Self {
        Self {
            job,
            layout,
            heads: Vec::new(),
            memories: Vec::new(),
            hazards: HazardLines::default(),
            no_failure_at: Cell::new(None),
        }
    }

    pub(super) fn end_of_job(&self) -> Option<String> {
        self.job.failure().filter(|_| !self.job.continues_on_failure()).map(|first| first.to_string())
    }

    /// Waits until the launcher has reported the death of a task whose process is gone. The wait is limited, since the launcher may be
    /// gone, too.
    #[cold]
    pub(super) fn wait_for_report(&self, task: u32) {
        self.wait_until(REPORTED_WITHIN, || self.job.is_failed(task));
    }

    /// Waits briefly for a first failure of the job. Returns at once in a job of one task, in which no other task can fail, and shortly
    /// after a wait without a failure: each invalid handle would cost the whole wait.
    #[cold]
    pub(super) fn wait_for_failure(&self) {
        let is_recent = |at: Instant| at.elapsed() < FAILED_NOT_BEFORE;
        if self.job.tasks().nth(1).is_none() || self.no_failure_at.get().is_some_and(is_recent) {
            return;
        }
        self.wait_until(FAILED_WITHIN, || self.job.failure().is_some());
        if self.job.failure().is_none() {
            self.no_failure_at.set(Some(Instant::now()));
        }
    }

    fn wait_until(&self, limit: Duration, is_so: impl Fn() -> bool) {
        let end = Instant::now() + limit;
        while !is_so() && self.job.launcher_alive() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(super) fn cause_of_death(&self, task: u32) -> Option<String> {
        self.wait_for_report(task);
        self.job.failure_of(task)
    }

    pub(super) fn has_certainly_ended(&self, task: u32) -> bool {
        // The system is asked only about tasks that the launcher has reported as failed.
        self.job.is_failed(task) && (self.job.is_far(task) || self.job.has_ended(task))
    }

    pub(super) fn job_is_about_to_end(&self) -> bool {
        self.wait_for_failure();
        self.end_of_job().is_some()
    }

    pub(super) fn fail(&self, why: &str) {
        if std::thread::panicking() {
            // The end of the process reports the failure, with its cause and the panic's message.
            self.job.set_last_words(why);
        } else {
            self.job.mark_failed(why);
        }
    }

    /// Records, if there is a recorder, that this task sleeps while `sleep` runs.
    pub(super) fn recorded<T>(&self, sleep: impl FnOnce() -> T) -> T {
        let Some(recorder) = self.job.recorder() else { return sleep() };
        recorder.begin(SLEEP);
        let result = sleep();
        recorder.end();
        result
    }

    /// The head of a task's control file, with its layout checked.
    pub(super) fn open_head(&self, task: u32) -> Result<Arc<Mapping>, DeviceError> {
        // SAFETY: mapped for the device, which changes what the layout leaves to this task.
        let file = unsafe { self.job.control_file(task) }
            .map_err(|error| DeviceError::system("opening a control file", error))?;
        let head = Mapping::new(file.as_fd(), 0, self.layout.head_bytes())
            .map_err(|error| DeviceError::system("mapping a control file", error))?;
        let header: Shared<ControlHeader> = within(head.atomics(0), task)?;
        self.layout.check(&header).map_err(|what| DeviceError::Damaged { task, what })?;
        Ok(head)
    }

    fn head(&mut self, task: u32) -> Result<&Arc<Mapping>, DeviceError> {
        if self.heads.get(task as usize).is_none_or(Option::is_none) {
            // Before the file is opened: otherwise another task could get the number in between, and this would be the file of the old one.
            if !self.job.hold(task) {
                return Err(NoSuchEndpoint::task(task, self.job.tasks_end()).into());
            }
            let head = self.open_head(task)?;
            *place(&mut self.heads, task) = Some(head);
        }
        let found = self.heads.get(task as usize).and_then(Option::as_ref);
        found.ok_or_else(|| NoSuchEndpoint::task(task, self.job.tasks_end()).into())
    }

    /// The memory of a task, which must be open.
    #[inline]
    pub(super) fn memory(&self, task: u32) -> Result<&PeerMemory, DeviceError> {
        let found = self.memories.get(task as usize).and_then(Option::as_ref);
        found.ok_or_else(|| NoSuchEndpoint::task(task, self.job.tasks_end()).into())
    }

    /// Maps a peer's memory, once; returns whether the memory can be mapped.
    #[inline]
    pub(super) fn open_peer(&mut self, task: u32) -> Result<bool, DeviceError> {
        match self.memory(task) {
            Ok(memory) if memory.has_process() => Ok(true),
            _ => self.open_peer_first(task),
        }
    }

    #[cold]
    #[inline(never)]
    fn open_peer_first(&mut self, task: u32) -> Result<bool, DeviceError> {
        if let Some(Some(memory)) = self.memories.get_mut(task as usize) {
            // The memory may have been opened before the peer's process started, when its PID was not known.
            // SAFETY: the process of this task, as the launcher or the task itself has recorded it.
            unsafe { memory.set_process(self.job.pid(task)) };
            return Ok(true);
        }
        if task < self.job.tasks_end() && self.job.is_far(task) {
            return Ok(false);
        }
        let head = Arc::clone(self.head(task)?);
        let heap = open_heap(&self.job, task)?;
        // SAFETY: the task's files and process, by the job's table. The device passes its own hazard line, and the barrier of the job, and
        // is used by one thread at a time.
        let memory = unsafe { PeerMemory::new(task, self.job.pid(task), head, heap) };
        *place(&mut self.memories, task) = Some(memory);
        Ok(true)
    }

    /// The hazard lines of all contexts of all tasks, with the tasks.
    pub(super) fn hazards(&mut self) -> Result<impl Iterator<Item = (u32, &Shared<Hazard>)>, DeviceError> {
        let lines = self.hazards.of_all(&self.job);
        lines.map_err(|error| DeviceError::system("looking at what tasks are copying", error))
    }

    /// Forgets all that this context holds of a task that has ended, and gives back what belonged to its connections, of which `slots` are
    /// this task's VI slots. Then another task may get the number, unless other contexts of this task hold something of it.
    ///
    /// # Errors
    /// The task's file, or this task's own, cannot be opened; the system does not take the slots' memory back.
    pub(super) fn forget(&mut self, me: Endpoint, task: u32, slots: &[u32]) -> Result<(), DeviceError> {
        let own = me.task.0;
        let low = own.min(task);
        let head = Arc::clone(self.head(low)?);
        let (mut slots, mut is_used) = (slots.to_vec(), false);
        for (low_context, high_context) in
            (0..CONTEXTS_MAX).flat_map(|low| (0..CONTEXTS_MAX).map(move |high| (low, high)))
        {
            let offset = self.layout.pair_offset(low_context, own.max(task), high_context);
            let pair: &PairWord = within(head.atomics_at(offset), low)?;
            let own_context = if own == low { low_context } else { high_context };
            if own_context != u32::from(me.context.0) {
                is_used |= pair.is_used();
                continue;
            }
            // A connection that this context has not taken up yet.
            let made = pair.agree(|| Err(())).ok().flatten();
            slots.extend(made.map(|(low_vi, high_vi)| if own == low { low_vi } else { high_vi }));
            pair.forget();
        }
        slots.sort_unstable();
        slots.dedup();
        self.give_back_used(me, &slots)?;
        self.heads.get_mut(task as usize).into_iter().for_each(|head| *head = None);
        self.memories.get_mut(task as usize).into_iter().for_each(|memory| *memory = None);
        if !is_used {
            self.job.let_go(task);
        }
        Ok(())
    }

    /// Gives back VI slots of this task that were used.
    fn give_back_used(&mut self, me: Endpoint, slots: &[u32]) -> Result<(), DeviceError> {
        let own = me.task.0;
        let header = self.header(own)?;
        let attention = attention(self.head(own)?, me.context)?;
        for &vi in slots.iter().filter(|&&vi| vi < self.layout.vis) {
            // SAFETY: the pages of slots that belong to connections of this task with a task that has ended; this task uses them no more.
            let file = unsafe { self.job.control_file(own) }
                .map_err(|error| DeviceError::system("opening a control file", error))?;
            memory::punch_hole(
                file.as_fd(),
                self.layout.vi_slot_offset(vi),
                self.layout.vi_slot_bytes() as u64,
            )
            .map_err(|error| DeviceError::system("returning the memory of a connection", error))?;
            // The peer may have raised it when it closed. Its next request to look at the slot is about another connection.
            attention.withdraw(vi);
            header.vis_free.give_back(vi);
        }
        Ok(())
    }

    fn slot(&self, task: u32, vi: u32) -> Result<ViSlot, DeviceError> {
        if vi >= self.layout.vis {
            return Err(DeviceError::Damaged { task, what: "a VI number beyond the last slot" });
        }
        // SAFETY: mapped for the device, which changes what the layout leaves to this task.
        let file = unsafe { self.job.control_file(task) }
            .map_err(|error| DeviceError::system("opening a control file", error))?;
        let mapping = Mapping::new(file.as_fd(), self.layout.vi_slot_offset(vi), self.layout.vi_slot_bytes())
            .map_err(|error| DeviceError::system("mapping a VI", error))?;
        // SAFETY: a slot is taken once (`take_vi`), by the two NICs of one connection, each of which makes one `Connection` of it.
        unsafe { ViSlot::new(mapping, self.layout) }
            .ok_or(DeviceError::Damaged { task, what: "a VI slot shorter than its parts" })
    }

    /// Connects `me` to `to`, or finds the connection that the peer has made. Returns the connection and its slot here, or `None` while the
    /// peer is making it.
    pub(super) fn connect(
        &mut self,
        me: Endpoint,
        to: Endpoint,
        barrier: SleepBarrier,
    ) -> Result<Option<(Connection, u32)>, DeviceError> {
        let (low, high) = if me <= to { (me, to) } else { (to, me) };
        let offset =
            self.layout.pair_offset(u32::from(low.context.0), high.task.0, u32::from(high.context.0));
        let pair: Shared<PairWord> = within(self.head(low.task.0)?.atomics(offset), low.task.0)?;
        if !self.job.hold_both(to.task.0) {
            return Err(NoSuchEndpoint::task(to.task.0, self.job.tasks_end()).into());
        }
        let Some((low_vi, high_vi)) = pair.agree(|| self.make(low, high))? else { return Ok(None) };
        let (own_vi, their_vi) = if me == low { (low_vi, high_vi) } else { (high_vi, low_vi) };
        let connection = self.open(me, own_vi, to, their_vi, barrier)?;
        connection.raise_attention();
        // This barrier is after the store of the attention bit. A closing peer checks its attention after it has set its closed bit. So
        // this task sees the closed bit, or the peer sees the attention bit ("context closed").
        barrier.before_look();
        if me != to && self.is_closed(to)? {
            return Err(DeviceError::PeerClosed(to));
        }
        Ok(Some((connection, own_vi)))
    }

    /// Makes both ends of a connection to a task on another host. Takes a VI slot of this task and also returns its number; the peer's slot
    /// is a stand-in in private memory.
    pub(super) fn make_far(
        &mut self,
        me: Endpoint,
        barrier: SleepBarrier,
    ) -> Result<(Connection, StandIn, u32), DeviceError> {
        let vi = self.take_vi(me.task.0)?;
        let made = self.make_far_in(me, vi, barrier);
        if made.is_err() {
            self.give_back_vi((me.task.0, vi));
        }
        made.map(|(near, stand_in)| (near, stand_in, vi))
    }

    fn make_far_in(
        &mut self,
        me: Endpoint,
        vi: u32,
        barrier: SleepBarrier,
    ) -> Result<(Connection, StandIn), DeviceError> {
        let (_file, stand_in) = Mapping::anonymous(self.layout.vi_slot_bytes())
            .map_err(|error| DeviceError::system("making the slot of a far peer", error))?;
        let head = self.head(me.task.0)?;
        let bell = Bell {
            doorbell: doorbell(head, me.context)?,
            attention: attention(head, me.context)?,
            outlet: None,
        };
        let damaged = |what| DeviceError::Damaged { task: me.task.0, what };
        let draft = Arc::new(Draft::default());
        let stand_in = || {
            // SAFETY: a new slot, for the two connections below.
            let slot = unsafe { ViSlot::new(Arc::clone(&stand_in), self.layout) };
            let slot = slot.map(|slot| slot.with_draft(Arc::clone(&draft)));
            slot.ok_or(damaged("a VI slot shorter than its parts"))
        };
        let outside = "a ring outside its VI slot";
        // Both ends belong to this task, so the bytes should stay in its caches for the next read.
        let bypass = usize::MAX;
        let near = Connection::new(self.slot(me.task.0, vi)?, stand_in()?, vi, bell.clone(), barrier, bypass);
        let end = Connection::new(stand_in()?, self.slot(me.task.0, vi)?, vi, bell, barrier, bypass);
        let stand_in = StandIn { end: end.ok_or(damaged(outside))?, draft };
        Ok((near.ok_or(damaged(outside))?, stand_in))
    }

    /// Ends the current or next wait of a context.
    pub(super) fn ring(&mut self, to: Endpoint, barrier: SleepBarrier) -> Result<(), SystemError> {
        let bell = match self.bell(to) {
            Ok(bell) => bell,
            Err(fault) => return Err(SystemError { doing: "ringing another task", source: Box::new(fault) }),
        };
        bell.0.raise_ring();
        barrier.after_store();
        bell.1.ring();
        Ok(())
    }

    /// The attention word and the doorbell of a context.
    fn bell(&mut self, to: Endpoint) -> Result<(&Attention, &Doorbell), DeviceError> {
        to.check(self.job.tasks_end(), NICS_MAX)?;
        let head = self.head(to.task.0)?;
        let attention = within(head.atomics_at(attention_offset(to.context)), to.task.0)?;
        Ok((attention, within(head.atomics_at(doorbell_offset(to.context)), to.task.0)?))
    }

    /// Whether the task has closed the context `at`.
    ///
    /// # Errors
    /// There is no such context; the task's file cannot be opened.
    pub(super) fn is_closed(&mut self, at: Endpoint) -> Result<bool, DeviceError> {
        at.check(self.job.tasks_end(), NICS_MAX)?;
        let header = self.header(at.task.0)?;
        // Acquire ("context closed"): pairs with the Release in `set_closed`; everything that the context sent before
        // is visible.
        Ok(header.contexts_closed.load(Ordering::Acquire) & 1 << at.context.0 != 0)
    }

    /// Records that a context of this task is open.
    ///
    /// # Errors
    /// `ContextUsed`: the context had connections when it was open before.
    pub(super) fn set_open(&mut self, own: Endpoint) -> Result<(), DeviceError> {
        let header = self.header(own.task.0)?;
        let bit = 1 << own.context.0;
        // Relaxed: only this task writes its own bits.
        if header.contexts_closed.load(Ordering::Relaxed) & bit << CONTEXTS_MAX != 0 {
            return Err(DeviceError::ContextUsed { context: own.context });
        }
        header.contexts_closed.fetch_and(!bit, Ordering::AcqRel);
        Ok(())
    }

    /// Records that a context of this task is closed, and whether it has had connections.
    pub(super) fn set_closed(&mut self, own: Endpoint, was_connected: bool) -> Result<(), DeviceError> {
        let bits = (1 | u32::from(was_connected) << CONTEXTS_MAX) << own.context.0;
        // Release ("context closed"): pairs with the Acquire in `is_closed`.
        self.header(own.task.0)?.contexts_closed.fetch_or(bits, Ordering::AcqRel);
        Ok(())
    }

    pub(super) fn header(&mut self, task: u32) -> Result<Shared<ControlHeader>, DeviceError> {
        within(self.head(task)?.atomics(0), task)
    }

    /// Takes a VI slot at both ends and writes the peer's task and VI into each. For a NIC's connection to itself, one slot serves both
    /// ends.
    fn make(&mut self, low: Endpoint, high: Endpoint) -> Result<(u32, u32), DeviceError> {
        let low_vi = self.take_vi(low.task.0)?;
        let made = self.make_for((low, low_vi), high);
        if made.is_err() {
            self.give_back_vi((low.task.0, low_vi));
        }
        made.map(|high_vi| (low_vi, high_vi))
    }

    /// Like [`make`](Self::make), with the slot of one end. Returns the slot of the other.
    fn make_for(&mut self, (low, low_vi): (Endpoint, u32), high: Endpoint) -> Result<u32, DeviceError> {
        if low == high {
            return self.name_peers((low, low_vi), (high, low_vi)).map(|()| low_vi);
        }
        let high_vi = self.take_vi(high.task.0)?;
        let named = self.name_peers((low, low_vi), (high, high_vi));
        if named.is_err() {
            self.give_back_vi((high.task.0, high_vi));
        }
        named.map(|()| high_vi)
    }

    /// Writes the peer's task and VI into the slots of both ends.
    fn name_peers(
        &self,
        (low, low_vi): (Endpoint, u32),
        (high, high_vi): (Endpoint, u32),
    ) -> Result<(), DeviceError> {
        for (own, own_vi, peer, peer_vi) in [(low, low_vi, high, high_vi), (high, high_vi, low, low_vi)] {
            let slot = self.slot(own.task.0, own_vi)?;
            slot.header().identity.write([
                u32::from(own.context.0),
                peer.task.0,
                u32::from(peer.context.0),
                peer_vi,
            ]);
        }
        Ok(())
    }

    /// Gives back the VI slot of a connection that could not be made, unless another slot of the task was taken meanwhile, or the slot was
    /// used before: then the slot stays unused.
    pub(super) fn give_back_vi(&mut self, (task, vi): (u32, u32)) {
        if let Ok(header) = self.header(task) {
            // Relaxed, like all accesses to this count: no task uses the slot yet, so the count publishes no other memory.
            let _ = header.vis_used.compare_exchange(vi + 1, vi, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn take_vi(&mut self, task: u32) -> Result<u32, DeviceError> {
        let header = self.header(task)?;
        if let Some(vi) = header.vis_free.take() {
            return Ok(vi);
        }
        let vi = header.vis_used.fetch_add(1, Ordering::Relaxed);
        if vi < self.layout.vis {
            return Ok(vi);
        }
        header.vis_used.fetch_sub(1, Ordering::Relaxed);
        Err(DeviceError::Exhausted {
            resource: "VI slots",
            needed: u64::from(vi) + 1,
            available: u64::from(self.layout.vis),
            remedy: "connect fewer pairs of contexts",
        })
    }

    fn open(
        &mut self,
        me: Endpoint,
        own_vi: u32,
        to: Endpoint,
        their_vi: u32,
        barrier: SleepBarrier,
    ) -> Result<Connection, DeviceError> {
        let head = self.head(to.task.0)?;
        let bell = Bell {
            doorbell: doorbell(head, to.context)?,
            attention: attention(head, to.context)?,
            outlet: None,
        };
        let own = self.slot(me.task.0, own_vi)?;
        let theirs = self.slot(to.task.0, their_vi)?;
        let bypass = usize::try_from(self.job.settings().cache_bypass_bytes_min).unwrap_or(usize::MAX);
        Connection::new(own, theirs, their_vi, bell, barrier, bypass)
            .ok_or(DeviceError::Damaged { task: to.task.0, what: "a ring outside its VI slot" })
    }

    /// Opens the connection that a peer has made in VI slot `vi` of `me`, and returns it with the peer's address. `None` if the slot
    /// belongs to another context of this task.
    pub(super) fn open_accepted(
        &mut self,
        me: Endpoint,
        vi: u32,
        barrier: SleepBarrier,
    ) -> Result<Option<(Connection, Endpoint)>, DeviceError> {
        let slot = self.slot(me.task.0, vi)?;
        let [own_context, task, context, their_vi] = slot.header().identity.read();
        if own_context != u32::from(me.context.0) {
            return Ok(None);
        }
        let peer = Endpoint::new(TaskId(task), ContextNumber(u8::try_from(context).unwrap_or(u8::MAX)));
        peer.check(self.job.tasks_end(), NICS_MAX)
            .map_err(|_| DeviceError::Damaged { task: me.task.0, what: "a VI whose peer does not exist" })?;
        let connection = self.open(me, vi, peer, their_vi, barrier)?;
        Ok(Some((connection, peer)))
    }
}

/// The place of a task in a table that grows.
fn place<T>(table: &mut Vec<Option<T>>, task: u32) -> &mut Option<T> {
    let at = task as usize;
    if table.len() <= at {
        table.resize_with(at + 1, || None);
    }
    &mut table[at]
}

/// Maps a task's heap file, up to the length that this process maps of every heap file.
pub(super) fn open_heap(job: &Job, task: u32) -> Result<Arc<Mapping>, DeviceError> {
    // SAFETY: mapped for the device, which accesses this task's own blocks, and what peers have registered.
    let file =
        unsafe { job.heap_file(task) }.map_err(|error| DeviceError::system("opening a heap file", error))?;
    let bytes =
        job.heap_bytes_mapped().map_err(|error| DeviceError::system("looking at a heap file", error))?;
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Mapping::new(file.as_fd(), 0, bytes).map_err(|error| {
        match (error.kind(), limit(Resource::AddressSpace).soft) {
            (std::io::ErrorKind::OutOfMemory, Some(soft)) => DeviceError::Exhausted {
                resource: "address space to map a heap file (RLIMIT_AS)",
                needed: bytes as u64,
                available: soft,
                remedy: "raise the limit (ulimit -v), or ask for less with AM_HEAP_BYTES",
            },
            _ => DeviceError::system("mapping a heap file (AM_HEAP_BYTES makes them smaller)", error),
        }
    })
}

/// The error of a shared file, which takes a mapping of the process.
pub(super) fn shared_file_error(doing: &'static str, source: std::io::Error) -> DeviceError {
    let doing = match source.kind() {
        std::io::ErrorKind::OutOfMemory => {
            "mapping a shared memory file: no memory, or as many mappings as /proc/sys/vm/max_map_count allows (free some, or raise it)"
        }
        _ => doing,
    };
    DeviceError::System { doing, source }
}

pub(super) fn heap_file(job: &Job, task: u32) -> Result<File, DeviceError> {
    // SAFETY: as in `open_heap`.
    let file =
        unsafe { job.heap_file(task) }.map_err(|error| DeviceError::system("opening a heap file", error))?;
    let owned = file
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| DeviceError::system("opening a heap file", error))?;
    Ok(File::from(owned))
}

pub(super) fn waker(doorbell: Shared<Doorbell>) -> Waker {
    Arc::new(move || doorbell.ring_always())
}

fn doorbell_offset(ContextNumber(context): ContextNumber) -> usize {
    DOORBELL_OFFSET + usize::from(context) * size_of::<Doorbell>()
}

fn attention_offset(ContextNumber(context): ContextNumber) -> usize {
    ATTENTION_OFFSET + usize::from(context) * size_of::<Attention>()
}

pub(super) fn doorbell(head: &Arc<Mapping>, context: ContextNumber) -> Result<Shared<Doorbell>, DeviceError> {
    within(head.atomics(doorbell_offset(context)), 0)
}

pub(super) fn attention(
    head: &Arc<Mapping>,
    context: ContextNumber,
) -> Result<Shared<Attention>, DeviceError> {
    within(head.atomics(attention_offset(context)), 0)
}

pub(super) fn within<T>(found: Option<T>, task: u32) -> Result<T, DeviceError> {
    found.ok_or(DeviceError::Damaged { task, what: "a structure outside the control file" })
}

const _: () = assert!(size_of::<PairWord>() == size_of::<AtomicU64>());
