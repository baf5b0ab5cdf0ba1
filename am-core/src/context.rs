//! A context: one opened instance of the layer (`LAPI_Init`), used by one thread at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use am_core_engine::progress;
use am_core_engine::protocol::statistics::Statistics;
use am_core_engine::protocol::{Engine, Front};

use crate::buffer::{InlineBytes, JobBuffer, Owner, engine_over};
use crate::counter::{Counter, CounterName};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer, Waker};
use crate::handler::{Answer, HandlerId, HandlerSet, HandlerTable, Message};
use crate::handler_thread::HandlerThread;
use crate::in_handler;
use crate::task::{Endpoint, TaskId};
use crate::user_code::Guarded;

/// The longest sleep between two looks at what a blocking call waits for. News end it at once; the limit only bounds what a
/// lost wake-up could cost.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// The same while something waits for room at a target: the room's return may wake nobody.
const SLEEP_MAX_FOR_ROOM: Duration = Duration::from_millis(1);

/// How many contexts this process has had.
static CONTEXTS: AtomicU64 = AtomicU64::new(0);

/// Errors kept for the next call that can report them, at most.
const STASHED_MAX: usize = 64;

/// An opened instance of the layer: counters, handlers, and the fabric they are reached by.
///
/// It may move between threads and belongs to one at a time: there is no lock on its message path.
///
/// ```compile_fail,E0277
/// # use am_core::{Context, testing::loopback::Loopback};
/// fn seen_by_several_threads<T: Sync>() {}
/// seen_by_several_threads::<Context<Loopback>>();
/// ```
#[derive(Debug)]
pub struct Context<F: Fabric, H: HandlerSet = HandlerTable> {
    pub(crate) fabric: F,
    pub(crate) engine: Engine<Guarded>,
    pub(crate) handlers: H,
    /// Private memory for the bytes of the packet that is being handled, if it came inside its entry.
    inline: InlineBytes,
    /// The same for the first bytes of one that lies in the NIC's buffer.
    front: Front,
    pub(crate) thread: Option<HandlerThread>,
    /// Errors met while something else was waited for: the next call that waits or probes returns them.
    stashed: VecDeque<Error>,
    /// Tells the regions of this context from those of any other of the process.
    identity: u64,
    /// Whether the program goes on after the failure of a task.
    go_on: bool,
    /// How long a wait for a counter may see nothing arrive.
    pub(crate) timeout: Option<Duration>,
}

/// What a context allows (`LAPI_Qenv`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Contexts that a task may open: they have the numbers below this.
    pub contexts_max: u8,
    /// Bytes of the longest user header (`MAX_UHDR_SZ`).
    pub uhdr_bytes_max: usize,
    /// Bytes of a packet: user data up to this, less heads and user header, travel in one (`MAX_PKT_SZ`).
    pub packet_bytes_max: usize,
    /// Bytes that travel inside a completion entry.
    pub inline_bytes_max: usize,
    /// Handlers at once (`LOC_ADDRTBL_SZ`).
    pub handlers_max: usize,
    /// Counters at once.
    pub counters_max: usize,
    /// Packets that one sender may have under way to one target.
    pub credits: u32,
    /// Requests that may be unanswered, per peer.
    pub requests_max: u32,
    /// Bytes that each task may contribute to an exchange.
    pub contribution_bytes_max: usize,
}

impl<F: Fabric> Context<F, HandlerTable> {
    /// A context over `fabric`, without handlers yet.
    #[must_use]
    pub fn new(fabric: F) -> Self {
        Self::with_handlers(fabric, HandlerTable::default())
    }

    /// Registers the next header handler (`LAPI_Addr_set`). Every task registers the same ones in the same order before it
    /// sends the first message.
    ///
    /// # Errors
    /// Called inside a handler, or more than [`HandlerId::COUNT_MAX`] handlers.
    pub fn register_handler(
        &mut self,
        handler: impl FnMut(&Message<'_>) -> Answer + Send + 'static,
    ) -> Result<HandlerId> {
        in_handler::check("register_handler")?;
        self.handlers.register(handler).ok_or(Error::Exhausted {
            resource: "handler numbers",
            needed: HandlerId::COUNT_MAX as u64 + 1,
            available: HandlerId::COUNT_MAX as u64,
            remedy: "let one handler serve several purposes by a byte in the user header",
        })
    }
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// A context over `fabric` with a set of handlers known at compile time.
    #[must_use]
    pub fn with_handlers(fabric: F, handlers: H) -> Self {
        let engine = engine_over(&fabric);
        Self {
            fabric,
            engine,
            handlers,
            inline: InlineBytes::new(),
            front: Front::default(),
            thread: None,
            stashed: VecDeque::new(),
            // Relaxed: only the number has to be unique; it publishes no other memory.
            identity: CONTEXTS.fetch_add(1, Ordering::Relaxed),
            go_on: false,
            timeout: None,
        }
    }

    /// This context as the owner of what it exposes.
    pub(crate) fn owner(&self) -> Owner {
        Owner { endpoint: self.endpoint(), identity: self.identity }
    }

    /// What the context allows (`LAPI_Qenv`).
    #[must_use]
    pub fn limits(&self) -> Limits {
        let fabric = self.fabric.limits();
        Limits {
            contexts_max: fabric.contexts_max,
            uhdr_bytes_max: self.engine.uhdr_bytes_max(),
            packet_bytes_max: fabric.packet_bytes_max,
            inline_bytes_max: crate::buffer::INLINE_BYTES_MAX,
            handlers_max: HandlerId::COUNT_MAX,
            counters_max: crate::counter::Counters::COUNT_MAX,
            credits: fabric.credits,
            requests_max: fabric.requests_max,
            contribution_bytes_max: am_core_engine::protocol::collective::CONTRIBUTION_BYTES_MAX,
        }
    }

    /// What the context has done so far (`LAPI_Qenv` with `QUERY_STATISTICS`).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics
    }

    /// Whether the program goes on when a task fails. If not (the default), every blocking call returns that failure from
    /// then on; if so, only operations that name the failed task do.
    pub fn set_go_on(&mut self, go_on: bool) {
        self.go_on = go_on;
        self.engine.attention = true;
    }

    /// This task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.fabric.endpoint().task
    }

    /// This context's name in the job.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.fabric.endpoint()
    }

    /// Tasks in the job.
    #[must_use]
    pub fn num_tasks(&self) -> u32 {
        self.fabric.num_tasks()
    }

    /// All tasks of the job, this one too.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = TaskId> + use<F, H> {
        (0..self.num_tasks()).map(TaskId)
    }

    /// The handlers.
    #[inline(always)]
    pub fn handlers(&self) -> &H {
        &self.handlers
    }

    /// The handlers, for the library that brought them.
    #[inline(always)]
    pub fn handlers_mut(&mut self) -> &mut H {
        &mut self.handlers
    }

    /// The fabric, for queries.
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// A new counter, at 0.
    ///
    /// # Errors
    /// Too many counters.
    pub fn counter(&mut self) -> Result<Counter> {
        self.engine.counters.insert()
    }

    /// How many header handlers there are.
    #[must_use]
    pub fn handlers_count(&self) -> usize {
        self.handlers.count()
    }

    /// Marks this task as failed, so that its peers see it: for a program that gives up.
    pub fn fail(&mut self, why: &str) {
        self.fabric.fail(why);
    }

    /// Ends a counter.
    pub fn remove_counter(&mut self, counter: Counter) {
        self.engine.counters.remove(counter);
    }

    /// The value now (`LAPI_Getcntr`). Makes no progress.
    ///
    /// # Errors
    /// A removed counter.
    pub fn counter_value(&self, counter: Counter) -> Result<u64> {
        let name = CounterName::to_wire(Some(counter.name()));
        self.engine.counters.value(counter).ok_or(Error::UnknownCounter { counter: name })
    }

    /// How often this context's counters have been bumped so far, all together: who looks after many need not look before it changes.
    #[inline(always)]
    #[must_use]
    pub const fn counter_bumps(&self) -> u64 {
        self.engine.counters.bumps()
    }

    /// Sets the value (`LAPI_Setcntr`).
    ///
    /// # Errors
    /// A removed counter.
    pub fn set_counter(&mut self, counter: Counter, value: u64) -> Result<()> {
        self.engine.counters.set(counter, value)
    }

    /// Waits until the counter has reached `val`, then takes `val` off it (`LAPI_Waitcntr`). Makes progress meanwhile, and
    /// sleeps when nothing comes.
    ///
    /// # Errors
    /// A removed counter, a call inside a handler, or what progress reports.
    #[inline]
    pub fn wait_counter(&mut self, counter: Counter, val: u64) -> Result<()> {
        in_handler::check("wait_counter")?;
        if self.timeout.is_some() {
            return self.wait_counter_timed(counter, val);
        }
        self.wait_until(|context| context.engine.counters.try_take(counter, val))
    }

    /// Ends when nothing has arrived for as long as the time-out says.
    #[cold]
    #[inline(never)]
    fn wait_counter_timed(&mut self, counter: Counter, val: u64) -> Result<()> {
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let mut idle_since = Instant::now();
        let mut polls = 0;
        while !self.engine.counters.try_take(counter, val)? {
            if self.engine.attention {
                self.attend()?;
            }
            if self.progress_any()? {
                (polls, idle_since) = (0, Instant::now());
                continue;
            }
            let Some(left) = limit.checked_sub(idle_since.elapsed()) else {
                return Err(Error::TimedOut { what: "a wait for a counter", limit });
            };
            polls += 1;
            self.sleep(polls, self.sleep_max().min(left), true);
        }
        Ok(())
    }

    /// One round of progress (`LAPI_Probe`): handles what has arrived; whether anything had. Never blocks.
    ///
    /// # Errors
    /// What the events report; a call inside a handler.
    #[inline]
    pub fn probe(&mut self) -> Result<bool> {
        in_handler::check("probe")?;
        if self.engine.attention {
            return self.probe_with_attention();
        }
        self.progress()
    }

    /// Older errors come first; the failure of a task hinders no progress.
    #[cold]
    #[inline(never)]
    fn probe_with_attention(&mut self) -> Result<bool> {
        if let Some(error) = self.stashed.pop_front() {
            return Err(error);
        }
        let moved = self.progress_any()?;
        self.attend().map(|()| moved)
    }

    /// Makes progress until `done` says so; sleeps when nothing comes. `done` is asked first, and after each round.
    ///
    /// # Errors
    /// What `done` or progress returns; the failure of a task, unless the context goes on ([`set_go_on`](Self::set_go_on)).
    #[inline(always)]
    pub fn wait_until(&mut self, mut done: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        let mut polls = 0;
        loop {
            if done(self)? {
                return Ok(());
            }
            let moved = if self.engine.attention {
                self.attend()?;
                self.progress_any()?
            } else {
                self.progress()?
            };
            if moved {
                polls = 0;
            } else {
                polls += 1;
                self.sleep(polls, self.sleep_max(), false);
            }
        }
    }

    /// As [`wait_until`](Self::wait_until), and gives up when `left` has no time left for the next sleep.
    pub(crate) fn wait_until_or(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<bool>,
        left: impl Fn(&Self) -> Option<Duration>,
    ) -> Result<()> {
        let mut polls = 0;
        while !done(self)? {
            if self.engine.attention {
                self.attend()?;
            }
            let moved = self.progress_any()?;
            let Some(left) = left(self) else {
                done(self)?;
                return Ok(());
            };
            if moved {
                polls = 0;
            } else {
                polls += 1;
                self.sleep(polls, self.sleep_max().min(left), true);
            }
        }
        Ok(())
    }

    /// Makes progress until `done` says so, and returns in no other case, whatever else goes wrong: for ending an operation that
    /// uses memory about to be given back. Errors are kept for the next probe or wait, and a panic of the program's code goes on
    /// when `done` has said so. In a copy of a task it returns at once: what the task has begun uses the task's memory.
    pub fn wait_until_ended(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let mut panic = None;
        // Unwind safety: a gatherer or a handler has panicked, and the engine does not rely on what they left behind.
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| {
            let mut polls = 0;
            while !in_handler::is_copy() && !done(self) {
                self.progress_quietly(&mut polls);
            }
        })) {
            panic.get_or_insert(payload);
        }
        if let Some(payload) = panic
            && !std::thread::panicking()
        {
            resume_unwind(payload);
        }
    }

    /// One round of progress.
    #[inline(always)]
    pub(crate) fn progress(&mut self) -> Result<bool> {
        let Self { fabric, engine, handlers, inline, front, .. } = self;
        let moved = progress::step(fabric, engine, handlers, (inline, front))?;
        if self.engine.is_busy() { Ok(self.work()? | moved) } else { Ok(moved) }
    }

    /// One round of progress, beside the shortest path: while a purge is under way, what belongs to it is dropped.
    #[inline]
    fn progress_any(&mut self) -> Result<bool> {
        if !self.engine.purges.is_filtering() {
            return self.progress();
        }
        let Self { fabric, engine, handlers, inline, front, .. } = self;
        let moved = progress::step_filtered(fabric, engine, handlers, (inline, front))?;
        Ok(self.work()? | moved)
    }

    #[cold]
    #[inline(never)]
    fn work(&mut self) -> Result<bool> {
        // What its task has begun is its task's, and the memory that was lent for it is free here.
        if in_handler::is_copy() {
            return Ok(false);
        }
        let moved = self.engine.work(&mut self.fabric, &mut self.handlers)?;
        Ok(self.work_on_thread()? | moved)
    }

    /// After a poll that brought nothing. `may_end_alone`: the wait has a time limit.
    #[inline(always)]
    fn sleep(&mut self, polls: u32, limit: Duration, may_end_alone: bool) {
        if self.fabric.wait(polls, limit) {
            self.note_wait(may_end_alone);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn note_wait(&mut self, may_end_alone: bool) {
        let mut facts = self.engine.wait_facts();
        facts.may_end_alone = may_end_alone;
        self.handlers.add_to_facts(&mut facts);
        self.fabric.note_wait(&facts);
    }

    #[inline(always)]
    fn sleep_max(&self) -> Duration {
        if self.engine.is_busy() && self.engine.is_eager() { SLEEP_MAX_FOR_ROOM } else { SLEEP_MAX }
    }

    /// Reports what has gone wrong beside the call that asks.
    #[cold]
    #[inline(never)]
    fn attend(&mut self) -> Result<()> {
        if let Some(error) = self.stashed.pop_front() {
            return Err(error);
        }
        match self.engine.first_failure() {
            Some(error) if !self.go_on => Err(error),
            _ => {
                self.engine.attention = self.engine.purges.is_filtering();
                Ok(())
            }
        }
    }

    /// One round of progress on behalf of a call that must not end because of somebody else's error: that is kept for the
    /// next probe or wait. Sleeps when nothing comes.
    pub(crate) fn progress_quietly(&mut self, polls: &mut u32) {
        match self.progress_any() {
            Ok(true) => *polls = 0,
            Ok(false) => {
                *polls += 1;
                self.sleep(*polls, self.sleep_max(), false);
            }
            Err(error) => self.stash(error),
        }
    }

    /// One round of progress for a caller who looks by itself, after each, whether what it waits for is there; sleeps when nothing
    /// comes. `polls` counts the rounds in a row in which nothing came, and decides between spinning and sleeping. Errors are kept
    /// for the next probe or wait.
    ///
    /// # Errors
    /// A call inside a handler, or in a copy of a task.
    pub fn rest(&mut self, polls: &mut u32) -> Result<()> {
        in_handler::check("rest")?;
        self.progress_quietly(polls);
        Ok(())
    }

    /// Ends the wait of another task's context, or the next one that it begins, for news that lies in memory: see [`World::ring`](crate::fabric::World::ring).
    ///
    /// # Errors
    /// No such task, or its doorbell cannot be reached.
    pub fn ring(&mut self, to: Endpoint) -> Result<()> {
        self.fabric.ring(to)
    }

    /// Whether the process of `task` has certainly ended: see [`World::has_ended`](crate::fabric::World::has_ended).
    #[must_use]
    pub fn has_ended(&self, task: TaskId) -> bool {
        self.fabric.has_ended(task)
    }

    /// What ends a sleep of this context's owner, from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.fabric.waker()
    }

    /// One round of progress in a call that is done already, for programs that wait by calling it again and again: a lock taken
    /// by rmw, a flag read by get. Whoever holds the lock may need this task's progress.
    pub(crate) fn progress_in_passing(&mut self) {
        if let Err(error) = self.progress_any() {
            self.stash(error);
        }
    }

    /// The oldest of the errors that were kept for a call that can report them.
    ///
    /// # Errors
    /// That one.
    #[inline]
    pub(crate) fn take_stashed(&mut self) -> Result<()> {
        self.stashed.pop_front().map_or(Ok(()), Err)
    }

    /// The oldest kept error that says that a handler has panicked.
    ///
    /// # Errors
    /// That one.
    #[inline]
    pub(crate) fn take_stashed_panic(&mut self) -> Result<()> {
        let at = self.stashed.iter().position(Error::is_panic);
        at.and_then(|at| self.stashed.remove(at)).map_or(Ok(()), Err)
    }

    fn stash(&mut self, error: Error) {
        // What a handler's panic says is never pushed out by other errors.
        if self.stashed.len() < STASHED_MAX || error.is_panic() {
            self.stashed.truncate(STASHED_MAX - 1);
            self.stashed.push_back(error);
        }
        self.engine.attention = true;
    }

    /// As [`wait_until`](Self::wait_until), for a call that only the failure of a task may end early: other errors are kept
    /// for the next probe or wait.
    pub(crate) fn wait_quietly(&mut self, mut done: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        let mut polls = 0;
        while !done(self)? {
            match self.engine.first_failure() {
                Some(error) if !self.go_on => return Err(error),
                _ => self.progress_quietly(&mut polls),
            }
        }
        Ok(())
    }

    /// Makes progress because there is no room at a target.
    ///
    /// # Errors
    /// The failure of a task, unless the context goes on: the room may never come.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_room(&mut self, polls: &mut u32) -> Result<()> {
        Statistics::add(&mut self.engine.statistics.retries, 1);
        match self.engine.first_failure() {
            Some(error) if !self.go_on => Err(error),
            _ => {
                match self.progress_any() {
                    Ok(true) => *polls = 0,
                    Ok(false) => {
                        *polls += 1;
                        self.sleep(*polls, SLEEP_MAX_FOR_ROOM, false);
                    }
                    Err(error) => self.stash(error),
                }
                Ok(())
            }
        }
    }

    /// Waits until an operation has ended: its result, and the memory it kept. Returns or unwinds only then,
    /// even if progress fails meanwhile, because the operation may be using borrowed memory. In a copy of the task made by fork it
    /// returns at once: the operation uses the memory of the task, not that of the copy.
    pub(crate) fn wait_op(&mut self, op: u32) -> (Result<u64>, Option<JobBuffer>) {
        let mut ended = None;
        self.wait_until_ended(|context| {
            ended = context.engine.ops.take_ended(op);
            ended.is_some()
        });
        match ended {
            Some(ended) => (ended.result.map_err(|error| *error), ended.kept),
            None => (Err(Error::CopiedProcess { call: "a wait for what its task has begun" }), None),
        }
    }

    /// Waits until nothing waits for room at `target`.
    ///
    /// # Errors
    /// The failure of a task, unless the context goes on.
    pub(crate) fn wait_sent(&mut self, target: Peer) -> Result<()> {
        let mut polls = 0;
        while self.engine.pending.has(target) {
            self.wait_for_room(&mut polls)?;
        }
        Ok(())
    }
}

impl<F: Fabric, H: HandlerSet> Drop for Context<F, H> {
    fn drop(&mut self) {
        // The panic of a handler is never silent: where no call has returned it, the task has failed.
        if let Some(error) = self.stashed.iter().find(|error| error.is_panic()) {
            self.fabric.fail(&error.to_string());
        }
    }
}
