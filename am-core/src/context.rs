//! A context: one opened instance of the layer (`LAPI_Init`), used by one thread at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use am_core_engine::protocol::statistics::Statistics;
use am_core_engine::protocol::{Engine, Front};

use crate::buffer::{InlineBytes, Owner, engine_over};
use crate::counter::{Counter, CounterName};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Waker};
use crate::handler::{Answer, HandlerId, HandlerSet, HandlerTable, Message};
use crate::handler_thread::HandlerThread;
use crate::in_handler;
use crate::task::{Endpoint, TaskId};
use crate::user_code::Guarded;

/// How many contexts this process has had.
static CONTEXTS: AtomicU64 = AtomicU64::new(0);

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
    pub(crate) inline: InlineBytes,
    /// The same for the first bytes of one that lies in the NIC's buffer.
    pub(crate) front: Front,
    pub(crate) thread: Option<HandlerThread>,
    /// Errors met while something else was waited for: the next call that waits or probes returns them.
    pub(crate) stashed: VecDeque<Error>,
    /// Tells the regions of this context from those of any other of the process.
    identity: u64,
    /// Messages received in line since the last round of progress.
    pub(crate) taken_in_line: u32,
    /// Whether the program goes on after the failure of a task.
    pub(crate) go_on: bool,
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
            taken_in_line: 0,
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

    /// The number of the host that a task runs on. Only tasks of one host can share memory ([`share`](Self::share)).
    #[must_use]
    pub fn host(&self, task: TaskId) -> u32 {
        self.fabric.host(task)
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

    /// Sets the value (`LAPI_Setcntr`).
    ///
    /// # Errors
    /// A removed counter.
    pub fn set_counter(&mut self, counter: Counter, value: u64) -> Result<()> {
        self.engine.counters.set(counter, value)
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
