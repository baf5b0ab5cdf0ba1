//! A context for any number of threads, and its two progress modes: polling, and interrupts (`LAPI_Senv` with `INTERRUPT_SET`).
//!
//! One lock guards the context. A waiting thread polls for all threads. It holds the lock for one round at a time; between two rounds other
//! threads can take it. A thread that finds the lock taken rings the context's doorbell, because the owner of the lock may be asleep.
//!
//! In polling mode progress is made only while some thread is in a call. In interrupt mode a separate thread sleeps on the doorbell, and
//! runs handlers when messages arrive, while the program computes. Each message then costs a wake-up of that thread, unless a polling
//! thread handles it first.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::buffer::{JobBuffer, RemoteAddress};
use crate::call_guard;
use crate::context::Context;
use crate::counter::{Counter, CounterName, DestinationStatus};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, NO_SPIN, Waker, World};
use crate::handler::{HandlerSet, HandlerTable};
use crate::transfer::{AtomicOp, Width};
use crate::turns::{Part, Turn, Turns, Waiter};
use crate::verbs::{OwnedHandle, PollReason};
use crate::wait::Errors;

/// Longest sleep of a poller. An arrival, or a thread that wants the lock, ends the sleep.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Time between two rings by a caller that waits for the progress thread to end. Rings are repeated because a ring just before that thread
/// sleeps may be lost.
const RING_AGAIN: Duration = Duration::from_micros(50);

/// A context for several threads, one at a time. Clones share the context; it ends with the last clone.
pub struct SharedContext<F: Fabric, H: HandlerSet = HandlerTable> {
    inner: Arc<Clones<F, H>>,
}

/// What the clones share. The thread of interrupt mode shares only the inner value, so the last clone, and not that thread, ends the
/// context.
struct Clones<F: Fabric, H: HandlerSet> {
    inner: Arc<Inner<F, H>>,
}

impl<F: Fabric, H: HandlerSet> Deref for Clones<F, H> {
    type Target = Inner<F, H>;

    fn deref(&self) -> &Inner<F, H> {
        &self.inner
    }
}

impl<F: Fabric, H: HandlerSet> Drop for Clones<F, H> {
    fn drop(&mut self) {
        let mut thread = lock(&self.interrupts);
        // A copy of the task has no threads of the task. A handler on the thread may drop the last clone; the thread then ends the context.
        let is_joined = |thread: &JoinHandle<()>| {
            !call_guard::is_copy() && thread.thread().id() != std::thread::current().id()
        };
        self.has_interrupts.store(false, Ordering::Release);
        if let Some(thread) = thread.take().filter(is_joined) {
            self.join(thread);
        }
    }
}

struct Inner<F: Fabric, H: HandlerSet> {
    context: Turns<Context<F, H>>,
    /// Counters that a thread waits for without polling.
    waited_for: Mutex<Vec<Counter>>,
    waker: Waker,
    interrupts: Mutex<Option<JoinHandle<()>>>,
    has_interrupts: AtomicBool,
    /// Errors of the progress thread. A call that waits returns the oldest, if there is one.
    met: Mutex<VecDeque<Error>>,
}

impl<F: Fabric, H: HandlerSet> Clone for SharedContext<F, H> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<F: Fabric, H: HandlerSet> fmt::Debug for SharedContext<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedContext")
            .field("interrupts", &self.inner.has_interrupts)
            .finish_non_exhaustive()
    }
}

impl<F: Fabric, H: HandlerSet> SharedContext<F, H> {
    /// Shares `context`, in polling mode.
    #[must_use]
    pub fn new(context: Context<F, H>) -> Self {
        let waker = context.fabric.world().waker();
        Self {
            inner: Arc::new(Clones {
                inner: Arc::new(Inner {
                    context: Turns::new(context),
                    waited_for: Mutex::new(Vec::new()),
                    waker,
                    interrupts: Mutex::new(None),
                    has_interrupts: AtomicBool::new(false),
                    met: Mutex::new(VecDeque::new()),
                }),
            }),
        }
    }

    /// Runs `call` with the context. Meant for calls that start an operation: a blocking call blocks all other threads. To wait, use
    /// [`wait_for`](Self::wait_for) and similar methods.
    ///
    /// # Errors
    /// [`Error::InHandler`]; the error of `call`.
    pub fn with<R>(&self, call: impl FnOnce(&mut Context<F, H>) -> Result<R>) -> Result<R> {
        call_guard::check("with")?;
        call(&mut self.inner.call())
    }

    /// Makes progress until `done` has a result. Other threads can use the context between two rounds.
    ///
    /// # Errors
    /// [`Error::InHandler`]; the error of `done`; an error while making progress; an earlier error of the progress thread.
    pub fn wait_for<R>(&self, done: impl FnMut(&mut Context<F, H>) -> Result<Option<R>>) -> Result<R> {
        self.wait("wait_for", Errors::Report, done)
    }

    /// The loop of all waits. With [`Errors::Keep`] an error of another operation does not end the wait.
    fn wait<R>(
        &self,
        call: &'static str,
        errors: Errors,
        mut done: impl FnMut(&mut Context<F, H>) -> Result<Option<R>>,
    ) -> Result<R> {
        call_guard::check(call)?;
        let mut waiting = self.inner.call();
        let mut polls = 0;
        loop {
            if errors == Errors::Report
                && let Some(error) = lock(&self.inner.met).pop_front()
            {
                return Err(error);
            }
            if let Some(result) = done(&mut waiting)? {
                return Ok(result);
            }
            let moved = match errors {
                Errors::Report => waiting.probe()?,
                errors => waiting.round(errors)?,
            };
            if moved {
                polls = 0;
                self.inner.context.tell_sleepers();
                if let Some(result) = done(&mut waiting)? {
                    return Ok(result);
                }
                waiting.pass();
            } else {
                polls += 1;
                waiting.rest(polls);
            }
        }
    }

    /// Like [`Context::msgpoll`], but does not wait for the lock: if another thread uses the context, returns [`PollReason::OtherThread`]
    /// at once.
    ///
    /// # Errors
    /// Those of [`wait_for`](Self::wait_for).
    pub fn msgpoll(&self, idle_polls_max: u32) -> Result<PollReason> {
        call_guard::check("msgpoll")?;
        if let Some(error) = lock(&self.inner.met).pop_front() {
            return Err(error);
        }
        let Some(turn) = self.inner.context.try_enter() else { return Ok(PollReason::OtherThread) };
        Call::new(&self.inner, turn).msgpoll(idle_polls_max)
    }

    /// Like [`Context::wait_counter`], without its time-out. Several threads may wait, also for the same counter.
    ///
    /// # Errors
    /// Those of [`wait_for`](Self::wait_for); a removed counter.
    pub fn wait_counter(&self, counter: Counter, val: u64) -> Result<()> {
        self.wait_for(|context| Ok(context.engine.counters.try_take(counter, val)?.then_some(())))
    }

    /// Waits until the counter has reached `val`, and subtracts `val`. Makes no progress meanwhile, so that the processor is free for other
    /// threads (`LAPI_Nopoll_wait`). Another thread must make the progress: the thread of interrupt mode, or a thread that polls.
    ///
    /// # Errors
    /// Another thread waits for the counter in this way. A destination that the counter watches ([`Context::set_counter_watched`]) has
    /// died, or was purged (the counter may still reach the value). A removed counter; a call inside a handler.
    pub fn wait_counter_without_polling(&self, counter: Counter, val: u64) -> Result<()> {
        call_guard::check("wait_counter_without_polling")?;
        let number = CounterName::to_wire(Some(counter.name()));
        {
            let mut waited_for = lock(&self.inner.waited_for);
            if waited_for.contains(&counter) {
                return Err(Error::MultipleWaiters { counter: number });
            }
            waited_for.push(counter);
        }
        let result = self.sleep_until(counter, val);
        lock(&self.inner.waited_for).retain(|&other| other != counter);
        result
    }

    fn sleep_until(&self, counter: Counter, val: u64) -> Result<()> {
        let mut context = self.inner.enter();
        loop {
            if context.engine.counters.try_take(counter, val)? {
                return Ok(());
            }
            let gone = context.engine.counters.destinations(counter).and_then(|all| {
                let is_gone =
                    |status| matches!(status, DestinationStatus::Purged | DestinationStatus::PurgedReceived);
                all.iter().find(|&&(_, status)| is_gone(status))
            });
            if let Some(&(task, _)) = gone {
                return Err(Error::Purged { task, by: context.task() });
            }
            context = self.inner.sleep(context);
        }
    }

    /// Like [`Context::wait_owned`].
    ///
    /// # Errors
    /// Those of [`Context::wait_owned`].
    pub fn wait_owned(&self, handle: OwnedHandle) -> Result<(JobBuffer, Result<()>)> {
        let mut handle = Some(handle);
        // The buffer would be lost with the handle if an error of another operation ended the wait.
        self.wait("wait_owned", Errors::Keep, |context| match handle.take() {
            None => Ok(None),
            Some(taken) => match context.try_owned(taken)? {
                Ok(ended) => Ok(Some(ended)),
                Err(again) => {
                    handle = Some(again);
                    Ok(None)
                }
            },
        })
    }

    /// Like [`Context::rmw`].
    ///
    /// # Errors
    /// Those of [`Context::rmw`].
    pub fn rmw(&self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Result<u64> {
        let mut handle = Some(self.with(|context| context.rmw_nonblocking(at, width, operation, None))?);
        self.wait("rmw", Errors::Keep, |context| match handle.take() {
            None => Ok(None),
            Some(taken) => match context.rmw_result(taken)? {
                Ok(old) => Ok(Some(old)),
                Err(again) => {
                    handle = Some(again);
                    Ok(None)
                }
            },
        })
    }

    /// Whether a separate thread makes progress (`INTERRUPT_SET`).
    #[must_use]
    pub fn has_interrupts(&self) -> bool {
        // Relaxed: this is a query, and orders nothing.
        self.inner.has_interrupts.load(Ordering::Relaxed)
    }
}

impl<F: Fabric + Send + 'static, H: HandlerSet + Send + 'static> SharedContext<F, H> {
    /// Switches between interrupt mode (`true`) and polling mode, at any time. Returns when the switch is done: from then on, in polling
    /// mode, no handler runs outside the program's calls, except on the handler thread.
    ///
    /// # Errors
    /// The thread can't be started; a call inside a handler, which would wait for itself.
    pub fn set_interrupts(&self, on: bool) -> Result<()> {
        call_guard::check("set_interrupts")?;
        let mut thread = lock(&self.inner.interrupts);
        if on == thread.is_some() {
            return Ok(());
        }
        // Release: pairs with the Acquire in `serve`. The thread sees the switch at its next round, for which the rings below wake it.
        self.inner.has_interrupts.store(on, Ordering::Release);
        if on {
            let inner = Arc::clone(&self.inner.inner);
            let serve = move || {
                while inner.has_interrupts.load(Ordering::Acquire) {
                    inner.serve_a_while();
                }
            };
            let started = std::thread::Builder::new().name("interrupts".to_owned()).spawn(serve);
            match started {
                Ok(started) => *thread = Some(started),
                Err(source) => {
                    self.inner.has_interrupts.store(false, Ordering::Release);
                    return Err(Error::System {
                        doing: "starting the progress thread",
                        source: source.into(),
                    });
                }
            }
        } else if let Some(thread) = thread.take() {
            self.inner.join(thread);
        }
        Ok(())
    }
}

impl<F: Fabric, H: HandlerSet> Inner<F, H> {
    /// Waits until the thread of interrupt mode, which is switched off, has ended.
    fn join(&self, thread: JoinHandle<()>) {
        while !thread.is_finished() {
            (self.waker)();
            std::thread::sleep(RING_AGAIN);
        }
        // The thread does not panic: a handler's panic is returned as an error.
        let _ = thread.join();
    }

    fn enter(&self) -> Turn<'_, Context<F, H>> {
        self.context.enter(|| (self.waker)())
    }

    /// Begins a call with its first turn.
    fn call(&self) -> Call<'_, F, H> {
        Call::new(self, self.enter())
    }

    /// Ends the turn until another thread tells this one to look, and waits for the next turn.
    fn sleep<'a>(&'a self, turn: Turn<'a, Context<F, H>>) -> Turn<'a, Context<F, H>> {
        self.context.sleep(turn, || (self.waker)())
    }

    /// Makes progress until there is nothing to do or another thread wants the lock, and then lets the progress thread sleep once. While a
    /// thread of the program waits for long, that thread makes the progress.
    fn serve_a_while(&self) {
        let mut context = self.enter();
        if self.context.has_poller() {
            drop(self.sleep(context));
            return;
        }
        loop {
            match context.probe() {
                Ok(true) => self.context.tell_sleepers(),
                Ok(false) => break,
                Err(error) => {
                    lock(&self.met).push_back(error);
                    self.context.tell_sleepers();
                    break;
                }
            }
            if self.context.is_wanted() {
                break;
            }
        }
        self.context.rest(context, |context| {
            if context.fabric.world_mut().wait(NO_SPIN, SLEEP_MAX) {
                // Another thread may do the work for which this thread waits.
                context.note_wait(false, true);
            }
        });
    }
}

/// A call of a thread of the program, in one turn after another.
struct Call<'a, F: Fabric, H: HandlerSet> {
    inner: &'a Inner<F, H>,
    waiter: Waiter,
    /// `None` only while the call waits for its next turn.
    turn: Option<Turn<'a, Context<F, H>>>,
}

impl<'a, F: Fabric, H: HandlerSet> Call<'a, F, H> {
    fn new(inner: &'a Inner<F, H>, turn: Turn<'a, Context<F, H>>) -> Self {
        Self { inner, waiter: Waiter::default(), turn: Some(turn) }
    }

    /// Lets the threads that want a turn have one.
    fn pass(&mut self) {
        if self.inner.context.is_wanted() {
            self.turn = None;
            self.inner.context.give_way();
            self.turn = Some(self.inner.enter());
        }
    }

    /// After a poll without arrivals: sleeps, in this turn or until another thread tells this one to look, or lets other threads have a
    /// turn.
    fn rest(&mut self, polls: u32) {
        let turns = &self.inner.context;
        let part = turns.part(&mut self.waiter);
        if part == Part::Sleeps {
            self.turn = self.turn.take().map(|turn| self.inner.sleep(turn));
            // If the thread that polls for all has left, something has happened, and this one polls for a while. Otherwise it only looks.
            if !turns.has_poller() {
                self.waiter = Waiter::default();
            }
            return;
        }
        if turns.is_wanted() {
            return self.pass();
        }
        let begun = Instant::now();
        let polls = if part == Part::PollsForAll { NO_SPIN } else { polls };
        if self.fabric.world_mut().wait(polls, SLEEP_MAX) {
            // Another thread may do the work for which this thread waits.
            self.note_wait(false, true);
        }
        if part == Part::PollsForAll {
            turns.after_sleep(&mut self.waiter, begun.elapsed() < SLEEP_MAX);
        }
    }
}

impl<F: Fabric, H: HandlerSet> Drop for Call<'_, F, H> {
    fn drop(&mut self) {
        if self.turn.is_some() {
            let turns = &self.inner.context;
            turns.leave(&mut self.waiter);
            turns.end_call();
            turns.tell_sleepers();
        }
    }
}

impl<F: Fabric, H: HandlerSet> Deref for Call<'_, F, H> {
    type Target = Context<F, H>;

    fn deref(&self) -> &Context<F, H> {
        self.turn.as_ref().expect("a call uses the context in its turn")
    }
}

impl<F: Fabric, H: HandlerSet> DerefMut for Call<'_, F, H> {
    fn deref_mut(&mut self) -> &mut Context<F, H> {
        self.turn.as_mut().expect("a call uses the context in its turn")
    }
}

/// Locks a mutex, even after a panic: the value is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
