//! A context: one opened instance of the layer (`LAPI_Init`), used by one thread at a time.

use std::time::Duration;

use crate::buffer::InlineBytes;
use crate::counter::{Counter, CounterName};
use crate::engine::Engine;
use crate::error::Result;
use crate::fabric::Fabric;
use crate::handler::{Answer, HandlerId, HandlerSet, HandlerTable, Message};
use crate::in_handler;
use crate::progress;
use crate::task::{Endpoint, TaskId};

/// The longest sleep between two looks at what a blocking call waits for. News end it at once; the limit only bounds what a
/// lost wake-up could cost.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// An opened instance of the layer: counters, handlers, and the fabric they are reached by.
///
/// It may move between threads and belongs to one at a time: there is no lock on its message path.
#[derive(Debug)]
pub struct Context<F: Fabric, H: HandlerSet = HandlerTable> {
    pub(crate) fabric: F,
    pub(crate) engine: Engine,
    pub(crate) handlers: H,
    /// Private memory for the bytes of the packet that is being handled, if it came inside its entry.
    inline: InlineBytes,
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
        self.handlers.register(handler).ok_or(crate::error::Error::Exhausted {
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
        Self { fabric, engine: Engine::default(), handlers, inline: InlineBytes::new() }
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
        self.engine.counters.value(counter).ok_or(crate::error::Error::UnknownCounter { counter: name })
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
        self.wait_until(|context| context.engine.counters.try_take(counter, val))
    }

    /// One round of progress (`LAPI_Probe`): handles what has arrived; whether anything had. Never blocks.
    ///
    /// # Errors
    /// What the events report; a call inside a handler.
    #[inline]
    pub fn probe(&mut self) -> Result<bool> {
        in_handler::check("probe")?;
        self.progress()
    }

    /// Makes progress until `done` says so; sleeps when nothing comes. `done` is asked first, and after each round.
    ///
    /// # Errors
    /// What `done` or progress returns.
    #[inline(always)]
    pub fn wait_until(&mut self, mut done: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        let mut polls = 0;
        loop {
            if done(self)? {
                return Ok(());
            }
            if self.progress()? {
                polls = 0;
            } else {
                polls += 1;
                self.fabric.wait(polls, SLEEP_MAX);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn progress(&mut self) -> Result<bool> {
        progress::step(&mut self.fabric, &mut self.engine, &mut self.handlers, &mut self.inline)
    }
}
