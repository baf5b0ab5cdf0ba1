//! Progress, and the waits of a context: one loop, with different rules for errors and for the end of the wait.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use am_core_engine::progress;
use am_core_engine::protocol::MessagesInLine;
use am_core_engine::protocol::statistics::Statistics;

use crate::buffer::JobBuffer;
use crate::call_guard;
use crate::context::Context;
use crate::counter::Counter;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, InLine, NO_SPIN, Peer, PeerIndex, World};
use crate::handler::HandlerSet;
use crate::record::{self, Event, EventKind, Span};

/// Longest sleep between two checks of a blocking call. An event ends the sleep at once; the limit only bounds the cost of a lost wake-up.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Number of calls that end at once for each round of progress. A program that repeats such a call needs progress soon, not each time.
const CALLS_PER_ROUND: u32 = 64;

/// Longest sleep while something waits for a credit, or has to be tried again, or while a peer copies from or to memory whose exposure
/// ends: no event tells the end of the copy. Returned credits are an event, which ends the sleep at once.
/// But a fabric may refuse a post or an access for another reason, such as a full network queue, and no event tells when the reason is
/// gone.
pub(crate) const SLEEP_MAX_FOR_CREDIT: Duration = Duration::from_millis(1);

/// Maximum number of errors kept for the next call that can report them.
const STASHED_MAX: usize = 64;

/// What a wait does about errors of other operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errors {
    /// Returns the errors.
    Report,
    /// Returns the failure of a task, unless the program goes on after failures ([`Context::set_go_on`]). Keeps other errors for the next
    /// probe or wait.
    Failures,
    /// Like [`Failures`](Self::Failures), for a wait for a credit, with short sleeps ([`SLEEP_MAX_FOR_CREDIT`]).
    ForCredit,
    /// Keeps all errors, for an operation whose memory is about to be returned.
    Keep,
    /// Like [`Keep`](Self::Keep), while a peer may be copying, with short sleeps ([`SLEEP_MAX_FOR_CREDIT`]).
    KeepForCopy,
}

/// The time left of a wait without a limit.
fn unlimited(_moved: bool) -> Option<Duration> {
    Some(Duration::MAX)
}

impl<F: Fabric, H: HandlerSet> Context<F, H> {
    /// Makes progress until `done` returns true, and sleeps when there is nothing to do. `done` is called first, and after each round.
    /// `left` gets whether a round did anything, and returns the time left; `None` ends the wait. Returns whether `done` returned true.
    ///
    /// # Errors
    /// The errors of `done`, and those that `errors` returns.
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

    /// Like [`wait`](Self::wait), without a limit, until `done` has a result.
    ///
    /// # Errors
    /// The errors of `done`, and those that `errors` returns.
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

    /// One round of progress of a wait; returns whether the round did anything.
    pub(crate) fn round(&mut self, errors: Errors) -> Result<bool> {
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
                // The awaited operation may have ended with this error.
                Ok(true)
            }
            moved => moved,
        }
    }

    /// Counts consecutive idle rounds, and sleeps after each.
    fn sleep_unless(&mut self, moved: bool, polls: &mut u32, errors: Errors, left: Duration) {
        *polls = if moved { 0 } else { *polls + 1 };
        if !moved {
            self.sleep(*polls, errors, left);
        }
    }

    /// Sleeps after an idle poll.
    #[inline(always)]
    fn sleep(&mut self, polls: u32, errors: Errors, left: Duration) {
        let is_for_credit = matches!(errors, Errors::ForCredit | Errors::KeepForCopy)
            || self.engine.is_busy() && self.engine.is_eager();
        let limit = if is_for_credit { SLEEP_MAX_FOR_CREDIT } else { SLEEP_MAX };
        if self.fabric.world_mut().wait(polls, limit.min(left)) {
            self.note_wait(left < Duration::MAX, false);
        }
    }

    /// Notes what the task waits for, for the report of a hang. `may_end_alone`: the wait has a time limit. `has_threads`: other threads of
    /// the task may make calls.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_wait(&mut self, may_end_alone: bool, has_threads: bool) {
        let mut facts = self.engine.wait_facts();
        (facts.may_end_alone, facts.has_threads) = (may_end_alone, has_threads);
        self.handlers.add_to_facts(&mut facts);
        facts.operations.extend(self.described.as_ref().map(crate::context::Description::get));
        self.fabric.world_mut().note_wait(facts);
    }

    /// Makes progress until `done` returns true; sleeps when there is nothing to do. `done` is called first, and after each round.
    ///
    /// # Errors
    /// The error of `done`; an error while making progress; the failure of a task, unless the program goes on after failures
    /// ([`set_go_on`](Self::set_go_on)).
    #[inline(always)]
    pub fn wait_until(&mut self, mut done: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        // The loop of `wait`, written out for the message path: a receive that called `wait` took 8 instructions more.
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

    /// Makes progress until `done` returns true, even if progress fails meanwhile: for an operation that uses memory about to be returned.
    /// Errors are kept for the next probe or wait. The first panic of the program's code is resumed after the wait, unless the thread is
    /// already panicking. In a forked copy of a task the call returns at once: the operation uses the task's memory, not the copy's.
    pub fn wait_until_ended(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        self.wait_ended(|context| done(context).then_some(()));
    }

    /// Like [`wait_until_ended`](Self::wait_until_ended), for a result; `None` in a forked copy of a task.
    fn wait_ended<R>(&mut self, mut done: impl FnMut(&mut Self) -> Option<R>) -> Option<R> {
        let mut panic = None;
        let ended = loop {
            // Unwind safety: code of the program panicked, and the engine does not rely on what that code left behind.
            match catch_unwind(AssertUnwindSafe(|| {
                self.wait_for(Errors::Keep, |context| {
                    let ended = if call_guard::is_copy() { Some(None) } else { done(context).map(Some) };
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

    /// One round of a wait for a credit, with a sleep if nothing arrived. The caller then retries.
    ///
    /// # Errors
    /// The failure of a task, whose credit may never come; not after [`set_go_on(true)`](Self::set_go_on).
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_credit(&mut self, polls: &mut u32) -> Result<()> {
        let moved = self.round(Errors::ForCredit)?;
        self.sleep_unless(moved, polls, Errors::ForCredit, Duration::MAX);
        Ok(())
    }

    /// Waits until no packet waits for a credit of `target`.
    ///
    /// # Errors
    /// The failure of a task; not after [`set_go_on(true)`](Self::set_go_on).
    pub(crate) fn wait_sent(&mut self, target: Peer) -> Result<()> {
        let mut polls = 0;
        while self.engine.pending.has(target) {
            self.wait_for_credit(&mut polls)?;
        }
        Ok(())
    }

    /// Waits until an operation has ended; returns its result and the memory it kept. The call returns or unwinds only then, even if
    /// progress fails, because the operation may be using borrowed memory. In a forked copy of a task the call returns `CopiedProcess` at
    /// once: the operation uses the task's memory, not the copy's.
    pub(crate) fn wait_op(&mut self, op: u32) -> (Result<u64>, Option<JobBuffer>) {
        match self.wait_ended(|context| context.engine.ops.take_ended(op)) {
            Some(ended) => (ended.result.map_err(|error| *error), ended.kept),
            None => (Err(Error::CopiedProcess { call: "wait for an operation" }), None),
        }
    }

    /// Waits until the counter has reached `val`, then subtracts `val` (`LAPI_Waitcntr`). Makes progress meanwhile, and sleeps when there
    /// is nothing to do.
    ///
    /// # Errors
    /// A removed counter, a call inside a handler, or an error while making progress; [`Error::TimedOut`]: nothing has arrived within the
    /// context's time-out.
    #[inline]
    pub fn wait_counter(&mut self, counter: Counter, val: u64) -> Result<()> {
        if !call_guard::is_unmarked() || self.timeout.is_some() {
            return self.wait_counter_beside(counter, val);
        }
        self.wait_until(|context| context.engine.counters.try_take(counter, val))
    }

    /// The slow path of [`wait_counter`](Self::wait_counter): a time-out, a recorder, or a call that is refused.
    #[cold]
    #[inline(never)]
    fn wait_counter_beside(&mut self, counter: Counter, val: u64) -> Result<()> {
        call_guard::check("wait_counter")?;
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

    /// Like [`wait_counter`](Self::wait_counter), for at most `limit`, whatever the context's time-out. Returns false, and subtracts
    /// nothing, if the counter has not reached `val` by then.
    ///
    /// # Errors
    /// Those of [`wait_counter`](Self::wait_counter), except [`Error::TimedOut`].
    pub fn wait_counter_for(&mut self, counter: Counter, val: u64, limit: Duration) -> Result<bool> {
        call_guard::check("wait_counter_for")?;
        let _span = Span::begin("wait_counter_for");
        let begun = Instant::now();
        let left = |_| limit.checked_sub(begun.elapsed());
        self.wait(Errors::Report, left, |context| context.engine.counters.try_take(counter, val))
    }

    /// One round of progress for a caller that checks its own condition after each round; sleeps when there is nothing to do. `polls`
    /// counts consecutive idle rounds, and decides between spinning and sleeping. Errors are kept for the next probe or wait.
    ///
    /// # Errors
    /// A call inside a handler, or in a copy of a task.
    pub fn rest(&mut self, polls: &mut u32) -> Result<()> {
        call_guard::check("rest")?;
        let moved = self.round(Errors::Keep)?;
        self.sleep_unless(moved, polls, Errors::Keep, Duration::MAX);
        Ok(())
    }

    /// One round of [`wait_until`](Self::wait_until) without a spin, for a thread that waits for others, too. Returns false if nothing has
    /// happened until the end of the longest sleep.
    ///
    /// # Errors
    /// Those of [`wait_until`](Self::wait_until).
    pub fn wait_round(&mut self) -> Result<bool> {
        let begun = Instant::now();
        let moved = self.round(Errors::Report)?;
        self.sleep_unless(moved, &mut { NO_SPIN }, Errors::Report, Duration::MAX);
        Ok(moved || begun.elapsed() < SLEEP_MAX)
    }

    /// Borrows the messages of `source`, to take them in line, and the handlers. The caller must be the only possible receiver of these
    /// messages. `None`: the caller has to make progress first, or the fabric does not support it.
    #[inline(always)]
    pub fn in_line(
        &mut self,
        source: PeerIndex,
    ) -> Option<(MessagesInLine<'_, impl InLine + use<'_, F, H>>, &mut H)> {
        if !call_guard::is_unmarked() {
            return None;
        }
        let Self { engine, fabric, handlers, taken_in_line, .. } = self;
        Some((engine.in_line(fabric, source, taken_in_line)?, handlers))
    }

    /// One round of progress (`LAPI_Probe`): handles one event, and does some of the waiting work; returns whether there was anything to
    /// do. Never blocks.
    ///
    /// # Errors
    /// The error of an event or of waiting work; an error that an earlier call has kept; the failure of a task, unless the program goes on
    /// after failures ([`set_go_on`](Self::set_go_on)); a call inside a handler.
    #[inline]
    pub fn probe(&mut self) -> Result<bool> {
        call_guard::check("probe")?;
        if self.engine.attention {
            return self.probe_with_attention();
        }
        self.progress()
    }

    /// The rest of [`probe`](Self::probe): errors are kept, a task has failed, or a purge drops packets. Kept errors are returned first;
    /// the failure of a task does not stop progress.
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
        self.taken_in_line = 0;
        let Self { fabric, engine, handlers, inline, front, .. } = self;
        let moved = progress::step(fabric, engine, handlers, (inline, front))?;
        if self.engine.is_busy() { Ok(self.work()? | moved) } else { Ok(moved) }
    }

    /// A round of progress. During a purge, takes the slow path, which drops the packets of the purged operations.
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
        // A forked copy has nothing to work on: the operations are the task's, and use the task's memory.
        if call_guard::is_copy() {
            return Ok(false);
        }
        let moved = self.engine.work(&mut self.fabric, &mut self.handlers)?;
        Ok(self.work_on_thread()? | moved)
    }

    /// One round of progress in a call that is already done, for programs that poll by repeating the call: a lock taken by rmw, a flag read
    /// by get. The lock's holder may need this task's progress.
    pub(crate) fn progress_in_passing(&mut self) {
        if let Err(error) = self.progress_any() {
            self.stash(error);
        }
    }

    /// [`progress_in_passing`](Self::progress_in_passing) in one of [`CALLS_PER_ROUND`] calls: for calls that take less time than a round.
    #[inline(always)]
    pub(crate) fn progress_at_times(&mut self) {
        self.calls_at_once = self.calls_at_once.wrapping_add(1);
        if self.calls_at_once.is_multiple_of(CALLS_PER_ROUND) {
            self.progress_now_and_then();
        }
    }

    #[cold]
    #[inline(never)]
    fn progress_now_and_then(&mut self) {
        self.progress_in_passing();
    }

    /// Returns the oldest kept error, or the failure of a task unless the program goes on after failures.
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

    /// Returns the oldest kept error.
    ///
    /// # Errors
    /// That error.
    #[inline]
    pub(crate) fn take_stashed(&mut self) -> Result<()> {
        self.stashed.pop_front().map_or(Ok(()), Err)
    }

    /// Returns the oldest kept error of a handler's panic, if there is one.
    ///
    /// # Errors
    /// That error.
    #[inline]
    pub(crate) fn take_stashed_panic(&mut self) -> Result<()> {
        let at = self.stashed.iter().position(Error::is_panic);
        at.and_then(|at| self.stashed.remove(at)).map_or(Ok(()), Err)
    }

    fn stash(&mut self, error: Error) {
        self.engine.attention = true;
        if self.stashed.len() == STASHED_MAX {
            // Too many errors: the new one is dropped, except that a handler's panic displaces the newest error of another kind.
            let newest = self.stashed.iter().rposition(|kept| !kept.is_panic());
            let Some(at) = newest.filter(|_| error.is_panic()) else { return };
            self.stashed.remove(at);
        }
        self.stashed.push_back(error);
    }
}
