//! A context: one opened instance of the layer (`LAPI_Init`), used by one thread at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use am_core_engine::protocol::statistics::Statistics;
use am_core_engine::protocol::{Engine, Front};

use crate::buffer::{InlineBytes, MappedParts, Owner, engine_over};
use crate::call_guard;
use crate::counter::{Counter, CounterName};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer, SystemError, UnderWay, Waker, World};
use crate::handler::{Answer, HandlerId, HandlerSet, HandlerTable, Message};
use crate::handler_thread::HandlerThread;
use crate::task::{Endpoint, Target, TaskId};
use crate::user_code::Guarded;

/// Number of contexts that this process has opened.
static CONTEXTS: AtomicU64 = AtomicU64::new(0);

/// An opened instance of the layer: its counters, its handlers and its fabric.
///
/// A context can move between threads, but only one thread can use it at a time, because there is no lock on its message path.
///
/// ```compile_fail,E0277
/// # use am_core::Context;
/// # use am_double::Double;
/// fn seen_by_several_threads<T: Sync>() {}
/// seen_by_several_threads::<Context<Double>>();
/// ```
#[derive(Debug)]
pub struct Context<F: Fabric, H: HandlerSet = HandlerTable> {
    pub(crate) fabric: F,
    pub(crate) engine: Engine<Guarded>,
    pub(crate) handlers: H,
    /// Private memory for the bytes in the completion entry of the packet that is being handled.
    pub(crate) inline: InlineBytes,
    /// Private memory for a packet's head that is too long for the completion entry.
    pub(crate) front: Front,
    pub(crate) thread: Option<HandlerThread>,
    /// Memory of all tasks that this context has mapped.
    pub(crate) mapped: MappedParts,
    /// Errors that a call could not report. Later calls that wait or probe return them, one each.
    pub(crate) stashed: VecDeque<Error>,
    /// Distinguishes regions of this context from those of every other context of the process.
    pub(crate) identity: u64,
    /// Number of messages received in line since the last round of progress.
    pub(crate) taken_in_line: u32,
    /// Number of gets and rmws that ended in their call: see `progress_at_times`.
    pub(crate) calls_at_once: u32,
    /// Number of accesses in place until the next round of progress: see `is_round_due`.
    pub(crate) accesses_to_round: u32,
    /// Whether the program goes on after the failure of a task.
    pub(crate) go_on: bool,
    /// Whether this task may share something with tasks of other worlds.
    pub(crate) is_connected: bool,
    /// How long a wait for a counter lasts without any arrival before it fails.
    pub(crate) timeout: Option<Duration>,
    /// What the layer above waits for: see [`describe_wait`](Self::describe_wait).
    pub(crate) described: Option<Description>,
}

/// Tells what a layer above waits for, when the report of a hang asks.
pub struct Description(Box<dyn Fn() -> UnderWay + Send>);

impl Description {
    /// A description by `describe`, which is called while the task waits, at most once a second.
    #[must_use]
    pub fn new(describe: impl Fn() -> UnderWay + Send + 'static) -> Self {
        Self(Box::new(describe))
    }

    pub(crate) fn get(&self) -> UnderWay {
        (self.0)()
    }
}

impl std::fmt::Debug for Description {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

/// The limits of a context (`LAPI_Qenv`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of contexts of a task. Context numbers are below it.
    pub contexts_max: u8,
    /// Maximum bytes of a user header (`MAX_UHDR_SZ`).
    pub uhdr_bytes_max: usize,
    /// Maximum bytes of a packet (`MAX_PKT_SZ`). Data that fit into it, together with the head and the user header, need only one packet.
    pub packet_bytes_max: usize,
    /// Maximum bytes of a packet that is stored in its completion entry.
    pub inline_bytes_max: usize,
    /// Maximum number of handlers (`LOC_ADDRTBL_SZ`).
    pub handlers_max: usize,
    /// Maximum number of counters at a time.
    pub counters_max: usize,
    /// Maximum number of one-way packets of one sender that one target has not consumed.
    pub credits: u32,
    /// Maximum number of unanswered requests per peer.
    pub requests_max: u32,
    /// Maximum bytes that a task contributes to an exchange.
    pub contribution_bytes_max: usize,
}

impl<F: Fabric> Context<F, HandlerTable> {
    /// A context over `fabric`, without handlers yet.
    #[must_use]
    pub fn new(fabric: F) -> Self {
        Self::with_handlers(fabric, HandlerTable::default())
    }

    /// Registers the next header handler (`LAPI_Addr_set`). Every task must register the same handlers in the same order before the first
    /// message.
    ///
    /// # Errors
    /// Called inside a handler, or more than [`HandlerId::COUNT_MAX`] handlers.
    pub fn register_handler(
        &mut self,
        handler: impl FnMut(&Message<'_>) -> Answer + Send + 'static,
    ) -> Result<HandlerId> {
        call_guard::check("register_handler")?;
        self.handlers.register(handler).ok_or(Error::Exhausted {
            resource: "handler numbers",
            needed: HandlerId::COUNT_MAX as u64 + 1,
            available: HandlerId::COUNT_MAX as u64,
            remedy: "share one handler among several purposes, told apart by a byte of the user header",
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
            mapped: MappedParts::default(),
            stashed: VecDeque::new(),
            // Relaxed: the number only has to be unique; it publishes no other memory.
            identity: CONTEXTS.fetch_add(1, Ordering::Relaxed),
            taken_in_line: 0,
            calls_at_once: 0,
            accesses_to_round: 1,
            go_on: false,
            is_connected: true,
            timeout: None,
            described: None,
        }
    }

    /// This context as the owner of what it exposes.
    pub(crate) fn owner(&self) -> Owner {
        Owner { endpoint: self.endpoint(), identity: self.identity }
    }

    /// The limits (`LAPI_Qenv`).
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

    /// Counts since the context was opened (`LAPI_Qenv` with `QUERY_STATISTICS`).
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics
    }

    /// Sets whether the program goes on when a task fails. If not (the default), every blocking call then returns the failure. If so, only
    /// operations with the failed task return it.
    pub fn set_go_on(&mut self, go_on: bool) {
        self.go_on = go_on;
        self.engine.attention = true;
    }

    /// Sets what the layer above waits for in the waits of this context, for the report of a hang: something that am-core does not know,
    /// such as a word of memory that another task is to change. `None`: only what am-core knows is reported.
    pub fn describe_wait(&mut self, description: Option<Description>) {
        self.described = description;
    }

    /// This task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.fabric.world().endpoint().task
    }

    /// This context's name in the job.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        self.fabric.world().endpoint()
    }

    /// The name and the fabric's number of `target`. A caller that keeps the result saves the look-up for each message.
    ///
    /// # Errors
    /// A target that the job cannot have.
    pub fn peer(&mut self, target: impl Target) -> Result<Peer> {
        self.fabric.peer(target.seen_from(self.fabric.world().endpoint().context))
    }

    /// Whether `packets` messages can be sent to `target` now, and would carry `len` bytes in pieces sooner than one announced message: see
    /// [`Post::takes_pieces`](crate::fabric::Post::takes_pieces).
    ///
    /// # Errors
    /// The target has failed, or has closed its context.
    pub fn takes_pieces(&mut self, target: Peer, len: usize, packets: u32) -> Result<bool> {
        self.fabric.takes_pieces(target.index, len, packets)
    }

    /// Whether `packets` messages would carry `len` bytes to `target` sooner than one announced message even if they had to wait for
    /// credits: see [`Post::pieces_may_wait`](crate::fabric::Post::pieces_may_wait).
    pub fn pieces_may_wait(&mut self, target: Peer, len: usize, packets: u32) -> bool {
        self.fabric.pieces_may_wait(target.index, len, packets)
    }

    /// Whether the processors of this task and of `target` share a cache, as far as is known: see
    /// [`Post::shares_cache`](crate::fabric::Post::shares_cache).
    pub fn shares_cache(&mut self, target: Peer) -> bool {
        self.fabric.shares_cache(target.index)
    }

    /// Number of tasks that were started together with this one, at the start of the job or later by a task. Collectives are theirs.
    #[must_use]
    pub fn num_tasks(&self) -> u32 {
        self.fabric.world().num_tasks()
    }

    /// The first of these tasks; the others follow it. Task 0, unless a task has started this one.
    #[must_use]
    pub fn first_task(&self) -> TaskId {
        self.fabric.world().first_task()
    }

    /// The numbers of all tasks of the job, also of those that tasks have started so far, are lower than this.
    #[must_use]
    pub fn tasks_end(&self) -> u32 {
        self.fabric.world().tasks_end()
    }

    /// Number of tasks that the job began with.
    #[must_use]
    pub fn tasks_at_start(&self) -> u32 {
        self.fabric.world().tasks_at_start()
    }

    /// A number that no other world of the job has; 0 for the tasks that the job began with.
    #[must_use]
    pub fn world(&self) -> u32 {
        self.fabric.world().world()
    }

    /// Notes that this task may name `task` as a target, so that no other task gets that number, until [`forget`](Self::forget). Returns
    /// whether the job has such a task, which may have ended: `false` if the number was given up before this call.
    #[must_use]
    pub fn hold(&self, task: TaskId) -> bool {
        self.fabric.world().hold(task)
    }

    /// The tasks that this task has named, or that have sent to it, and that have ended.
    #[must_use]
    pub fn held_and_ended(&self) -> Vec<TaskId> {
        self.fabric.world().held_and_ended()
    }

    /// Forgets a task that has ended, so that another task may get its number: the caller no longer names it. Returns `false`, and forgets
    /// nothing, if something with the task is not over.
    ///
    /// # Errors
    /// The system's error.
    pub fn forget(&mut self, task: TaskId) -> Result<bool> {
        let peers = self.fabric.peers_of(task);
        if !self.engine.forget(task, &peers) {
            return Ok(false);
        }
        self.fabric.forget(task).map(|()| true)
    }

    /// Checks that the job can have this endpoint.
    pub(crate) fn check_exists(&self, endpoint: Endpoint) -> Result<()> {
        endpoint.check(self.tasks_end(), self.limits().contexts_max).map_err(Error::no_such_endpoint)
    }

    /// Says whether this task shares anything with tasks of other worlds, which its failure then concerns. If not, fences of all targets
    /// do not ask these tasks, which may end when they like.
    pub fn set_connected(&mut self, is_connected: bool) {
        self.is_connected = is_connected;
        self.fabric.world().set_connected(is_connected);
    }

    /// The number of the host that a task runs on. Only tasks on one host can share memory ([`share`](Self::share)).
    #[must_use]
    pub fn host(&self, task: TaskId) -> u32 {
        self.fabric.world().host(task)
    }

    /// The tasks that were started together with this one, including this one.
    pub fn tasks(&self) -> impl DoubleEndedIterator<Item = TaskId> + use<F, H> {
        let first = self.first_task().0;
        (first..first + self.num_tasks()).map(TaskId)
    }

    /// The handlers.
    #[inline(always)]
    pub fn handlers(&self) -> &H {
        &self.handlers
    }

    /// The handlers, for the library that supplied them.
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
    /// [`Error::Exhausted`]: too many counters.
    pub fn counter(&mut self) -> Result<Counter> {
        self.engine.counters.insert()
    }

    /// Number of header handlers.
    #[must_use]
    pub fn handlers_count(&self) -> usize {
        self.handlers.count()
    }

    /// Marks this task as failed, for all peers to see: for a program that cannot continue.
    pub fn fail(&mut self, why: &str) {
        self.fabric.world_mut().fail(why);
    }

    /// Ends the current or next wait of another task's context, after a change in memory: see [`World::ring`](crate::fabric::World::ring).
    ///
    /// # Errors
    /// [`Error::UnknownTask`], [`Error::UnknownContext`], or [`Error::System`]: the context's doorbell cannot be opened.
    pub fn ring(&mut self, to: Endpoint) -> Result<()> {
        self.check_exists(to)?;
        let rung = self.fabric.world_mut().ring(to);
        rung.map_err(|SystemError { doing, source }| Error::System { doing, source })
    }

    /// Whether the process of `task` has certainly ended: see [`World::has_ended`](crate::fabric::World::has_ended).
    #[must_use]
    pub fn has_ended(&self, task: TaskId) -> bool {
        self.fabric.world().has_ended(task)
    }

    /// The error of operations with `endpoint`, if its task is known to have failed or to have closed its context.
    #[must_use]
    pub fn gone(&self, endpoint: Endpoint) -> Option<Error> {
        self.engine.gone(endpoint)
    }

    /// A function that wakes this context's owner from any thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.fabric.world().waker()
    }

    /// Removes a counter.
    pub fn remove_counter(&mut self, counter: Counter) {
        self.engine.counters.remove(counter);
    }

    /// The counter's value now (`LAPI_Getcntr`). Makes no progress.
    ///
    /// # Errors
    /// [`Error::UnknownCounter`]: the counter was removed.
    pub fn counter_value(&self, counter: Counter) -> Result<u64> {
        let name = CounterName::to_wire(Some(counter.name()));
        self.engine.counters.value(counter).ok_or(Error::UnknownCounter { counter: name })
    }

    /// Sets the counter's value (`LAPI_Setcntr`).
    ///
    /// # Errors
    /// [`Error::UnknownCounter`]: the counter was removed.
    pub fn set_counter(&mut self, counter: Counter, value: u64) -> Result<()> {
        self.engine.counters.set(counter, value)
    }
}

impl<F: Fabric, H: HandlerSet> Drop for Context<F, H> {
    fn drop(&mut self) {
        // A handler's panic is never silent: if no call has returned it, the task is marked as failed.
        if let Some(error) = self.stashed.iter().find(|error| error.is_panic()) {
            self.fabric.world_mut().fail(&error.to_string());
        }
    }
}
