//! Progress, and the waits of a context: one loop, which differs in what it does about errors and in how long it goes on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use am_core_engine::progress;
use am_core_engine::protocol::parts_of;
use am_core_engine::protocol::statistics::Statistics;

use crate::buffer::{Arrived, JobBuffer};
use crate::context::Context;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Next, Peer};
use crate::handler::{HandlerId, HandlerSet};
use crate::in_handler;
use crate::record::{self, Event, EventKind, Span};
use crate::task::Target;

/// The longest sleep between two looks at what a blocking call waits for. News end it at once; the limit only bounds what a
/// lost wake-up could cost.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// The same while something waits for a credit of a target, because a target does not ring when it returns credits.
const SLEEP_MAX_FOR_CREDIT: Duration = Duration::from_millis(1);

/// Messages that are received in line in a row: what other peers have sent is looked at after them.
const TAKEN_IN_LINE_MAX: u32 = 16;

/// Errors kept for the next call that can report them, at most.
const STASHED_MAX: usize = 64;

/// What a round of a wait does about errors that are not of what it waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errors {
    /// It ends with them.
    Report,
    /// The failure of a task ends it, unless the context goes on; others are kept for the next probe or wait.
    Failures,
    /// Like [`Failures`](Self::Failures), for a wait for a credit: sleeps are short, because a target does not ring when it returns credits.
    ForCredit,
    /// It keeps all of them: what it waits for uses memory that is about to be given back.
    Keep,
}

/// The time that is left of a wait without a limit.
fn unlimited(_moved: bool) -> Option<Duration> {
    Some(Duration::MAX)
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Makes progress until `done` says so, and sleeps when nothing comes. `done` is asked first, and after each round. `left` is told
    /// whether a round moved anything, and says how much time is left; without any the wait ends. Returns whether `done` said so.
    ///
    /// # Errors
    /// What `done` returns, and what `errors` lets through.
    fn wait(
        &mut self,
        errors: Errors,
        mut left: impl FnMut(bool) -> Option<Duration>,
        mut done: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<bool> {
        let (mut polls, mut has_time) = (0, true);
        loop {
            if done(self)? {
                return Ok(true);
            }
            if !has_time {
                return Ok(false);
            }
            let moved = self.round(errors)?;
            match left(moved) {
                Some(left) => self.sleep_unless(moved, &mut polls, errors, left),
                None => has_time = false,
            }
        }
    }

    /// The same without a limit, until `done` has a result.
    ///
    /// # Errors
    /// What `done` returns, and what `errors` lets through.
    pub(crate) fn wait_for<R>(
        &mut self,
        errors: Errors,
        mut done: impl FnMut(&mut Self) -> Result<Option<R>>,
    ) -> Result<R> {
        let mut result = None;
        loop {
            self.wait(errors, unlimited, |context| {
                result = done(context)?;
                Ok(result.is_some())
            })?;
            if let Some(result) = result.take() {
                return Ok(result);
            }
        }
    }

    /// One round of progress of a wait; whether anything moved.
    fn round(&mut self, errors: Errors) -> Result<bool> {
        if errors == Errors::ForCredit {
            Statistics::add(&mut self.engine.statistics.retries, 1);
            if record::is_on() {
                record::tell(&Event::plain(EventKind::Mark, "stall"));
            }
        }
        match errors {
            Errors::Report if self.engine.attention => self.attend()?,
            Errors::Failures | Errors::ForCredit if !self.go_on => {
                self.engine.first_failure().map_or(Ok(()), Err)?;
            }
            _ => {}
        }
        match self.progress_any() {
            Err(error) if errors != Errors::Report => {
                self.stash(error);
                // An error has moved something: what the caller waits for may have ended with it.
                Ok(true)
            }
            moved => moved,
        }
    }

    /// Counts the rounds in a row in which nothing came, and sleeps after one.
    fn sleep_unless(&mut self, moved: bool, polls: &mut u32, errors: Errors, left: Duration) {
        *polls = if moved { 0 } else { *polls + 1 };
        if !moved {
            self.sleep(*polls, errors, left);
        }
    }

    /// After a poll that brought nothing.
    #[inline(always)]
    fn sleep(&mut self, polls: u32, errors: Errors, left: Duration) {
        let is_for_credit = errors == Errors::ForCredit || self.engine.is_busy() && self.engine.is_eager();
        let limit = if is_for_credit { SLEEP_MAX_FOR_CREDIT } else { SLEEP_MAX };
        if self.fabric.wait(polls, limit.min(left)) {
            self.note_wait(left < Duration::MAX);
        }
    }

    /// Notes what the task waits for, for a person who asks. `may_end_alone`: the wait has a time limit.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_wait(&mut self, may_end_alone: bool) {
        let mut facts = self.engine.wait_facts();
        facts.may_end_alone = may_end_alone;
        self.handlers.add_to_facts(&mut facts);
        self.fabric.note_wait(&facts);
    }

    /// Makes progress until `done` says so; sleeps when nothing comes. `done` is asked first, and after each round.
    ///
    /// # Errors
    /// What `done` or progress returns; the failure of a task, unless the context goes on ([`set_go_on`](Self::set_go_on)).
    #[inline(always)]
    pub fn wait_until(&mut self, mut done: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        // The loop of `wait`, written out for the message path: through it a receive took 8 instructions more.
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
                self.sleep(polls, Errors::Report, Duration::MAX);
            }
        }
    }

    /// Makes progress until `done` says so. Returns in no other case, whatever goes wrong meanwhile: for ending an operation that
    /// uses memory about to be given back. Errors are kept for the next probe or wait, and a panic of the program's code goes on
    /// when `done` has said so. In a copy of a task it returns at once: what the task has begun uses the task's memory.
    pub fn wait_until_ended(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        self.wait_ended(|context| done(context).then_some(()));
    }

    /// The same for a result; `None` in a copy of a task.
    fn wait_ended<R>(&mut self, mut done: impl FnMut(&mut Self) -> Option<R>) -> Option<R> {
        let mut panic = None;
        let ended = loop {
            // Unwind safety: code of the program has panicked, and the engine does not rely on what it left behind.
            match catch_unwind(AssertUnwindSafe(|| {
                self.wait_for(Errors::Keep, |context| {
                    let ended = if in_handler::is_copy() { Some(None) } else { done(context).map(Some) };
                    Ok(ended)
                })
            })) {
                Ok(ended) => break ended.ok().flatten(),
                Err(payload) => drop(panic.get_or_insert(payload)),
            }
        };
        if let Some(payload) = panic
            && !std::thread::panicking()
        {
            resume_unwind(payload);
        }
        ended
    }

    /// One round of a wait for a credit of a target, and a sleep if nothing came. The caller tries again after it.
    ///
    /// # Errors
    /// The failure of a task, unless the context goes on: the credit may never come.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_credit(&mut self, polls: &mut u32) -> Result<()> {
        let moved = self.round(Errors::ForCredit)?;
        self.sleep_unless(moved, polls, Errors::ForCredit, Duration::MAX);
        Ok(())
    }

    /// Waits until nothing waits for a credit of `target`.
    ///
    /// # Errors
    /// The failure of a task, unless the context goes on.
    pub(crate) fn wait_sent(&mut self, target: Peer) -> Result<()> {
        let mut polls = 0;
        while self.engine.pending.has(target) {
            self.wait_for_credit(&mut polls)?;
        }
        Ok(())
    }

    /// Waits until an operation has ended: its result, and the memory it kept. Returns or unwinds only then,
    /// even if progress fails meanwhile, because the operation may be using borrowed memory. In a copy of the task made by fork it
    /// returns at once: the operation uses the memory of the task, not that of the copy.
    pub(crate) fn wait_op(&mut self, op: u32) -> (Result<u64>, Option<JobBuffer>) {
        match self.wait_ended(|context| context.engine.ops.take_ended(op)) {
            Some(ended) => (ended.result.map_err(|error| *error), ended.kept),
            None => (Err(Error::CopiedProcess { call: "a wait for what its task has begun" }), None),
        }
    }

    /// Waits until the counter has reached `val`, then takes `val` off it (`LAPI_Waitcntr`). Makes progress meanwhile, and
    /// sleeps when nothing comes.
    ///
    /// # Errors
    /// A removed counter, a call inside a handler, or an error of progress; nothing has arrived for as long as the time-out of the
    /// context says.
    #[inline]
    pub fn wait_counter(&mut self, counter: Counter, val: u64) -> Result<()> {
        if !in_handler::is_unmarked() || self.timeout.is_some() {
            return self.wait_counter_beside(counter, val);
        }
        self.wait_until(|context| context.engine.counters.try_take(counter, val))
    }

    /// Like [`wait_counter`](Self::wait_counter), where there is a time-out or a recorder, or the call is to be refused.
    #[cold]
    #[inline(never)]
    fn wait_counter_beside(&mut self, counter: Counter, val: u64) -> Result<()> {
        in_handler::check("wait_counter")?;
        let _span = Span::begin("wait_counter");
        let Some(limit) = self.timeout else {
            return self.wait_until(|context| context.engine.counters.try_take(counter, val));
        };
        let mut idle_since = Instant::now();
        let left = |moved| {
            if moved {
                idle_since = Instant::now();
            }
            limit.checked_sub(idle_since.elapsed())
        };
        match self.wait(Errors::Report, left, |context| context.engine.counters.try_take(counter, val))? {
            true => Ok(()),
            false => Err(Error::TimedOut { what: "a wait for a counter", limit }),
        }
    }

    /// Like [`wait_counter`](Self::wait_counter), for at most `limit`. Returns whether the counter has come so far; if not, nothing was
    /// taken off it.
    ///
    /// # Errors
    /// Those of [`wait_counter`](Self::wait_counter).
    pub fn wait_counter_for(&mut self, counter: Counter, val: u64, limit: Duration) -> Result<bool> {
        in_handler::check("wait_counter_for")?;
        let _span = Span::begin("wait_counter_for");
        let begun = Instant::now();
        let left = |_| limit.checked_sub(begun.elapsed());
        self.wait(Errors::Report, left, |context| context.engine.counters.try_take(counter, val))
    }

    /// One round of progress for a caller who looks by itself, after each, whether what it waits for is there; sleeps when nothing
    /// comes. `polls` counts the rounds in a row in which nothing came, and decides between spinning and sleeping. Errors are kept
    /// for the next probe or wait.
    ///
    /// # Errors
    /// A call inside a handler, or in a copy of a task.
    pub fn rest(&mut self, polls: &mut u32) -> Result<()> {
        in_handler::check("rest")?;
        let moved = self.round(Errors::Keep)?;
        self.sleep_unless(moved, polls, Errors::Keep, Duration::MAX);
        Ok(())
    }

    /// Waits a moment for the next message of `source`, and looks at it where it lies, if it is a one-way message for `handler`:
    /// [`parts_of`](Self::parts_of) lends its parts, and [`take_next`](Self::take_next) takes it. A message that is not taken goes to its
    /// header handler with the next round of progress. The caller must be the only one that this message can be meant for. `None`: nothing
    /// came in time, or another message came, or something has to be done first; the caller then makes progress. Messages of one
    /// source do not overtake each other.
    #[inline(always)]
    pub fn look_at_next(&mut self, source: impl Target, handler: HandlerId) -> Option<Next> {
        if !in_handler::is_unmarked() || self.taken_in_line >= TAKEN_IN_LINE_MAX {
            self.taken_in_line = 0;
            return None;
        }
        let source = source.seen_from(self.fabric.endpoint().context);
        self.engine.look_at_next(&mut self.fabric, source, handler, &mut self.inline)
    }

    /// User header and data of the message that the last call of [`look_at_next`](Self::look_at_next) has returned. `None`: the message wants
    /// more than to be received (it names a counter), or has a long user header; it is not to be taken then.
    #[inline(always)]
    pub fn parts_of(&self, next: &Next) -> Option<(&[u8], Arrived<'_>)> {
        parts_of(&self.fabric, next, &self.inline)
    }

    /// Takes the message that the last call of [`look_at_next`](Self::look_at_next) has returned: it has been received, and its sender may
    /// have its room again.
    #[inline(always)]
    pub fn take_next(&mut self, next: Next) {
        self.taken_in_line += 1;
        self.fabric.take_next(next);
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

    /// One round of progress in a call that is done already, for programs that wait by calling it again and again: a lock taken
    /// by rmw, a flag read by get. Whoever holds the lock may need this task's progress.
    pub(crate) fn progress_in_passing(&mut self) {
        if let Err(error) = self.progress_any() {
            self.stash(error);
        }
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
}
