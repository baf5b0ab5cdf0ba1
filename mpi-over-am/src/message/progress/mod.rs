//! Progress: arrivals, completions, and operations that run in the background.

pub(crate) mod at_board;
mod in_line;
mod parts;
mod schedules;

use am_core::Context;
use am_core::fabric::Fabric;

use crate::error::{Error, Result};
use crate::message::handlers::MpiHandlers;
use crate::message::protocol::give_up;
use crate::message::request_id::RequestId;
use crate::message::request_table::Phase;
use crate::message::state::State;
use crate::message::under_way::Schedules;

pub(crate) use in_line::{receive_in_line, receive_packets, receive_pieces};
pub(crate) use parts::{abandon, has_arrived, release, start_parts};
pub(crate) use schedules::{check_len, drive_schedules, start_by_helper, start_schedule, start_schedule_as};

/// Number of waits and tests with nothing to wait for until one of them makes progress, so that a program that only sends and waits still
/// serves other tasks.
const WAITS_WITHOUT_PROGRESS_MAX: u32 = 64;
/// Number of looks at a board with a counter, each with a yield of the processor, before a task may sleep.
pub(crate) const LOOKS_AWAKE: u32 = 40;
/// Maximum rounds of progress in a call that handles all arrivals, because peers may send without end.
const LOOKS_MAX: u32 = 1 << 12;

/// The outcome of [`State::look_at_boards`].
pub(crate) enum Looked {
    /// What the call waits for has happened.
    Done,
    /// A schedule can be advanced.
    GoOn,
    /// The task may sleep.
    InVain,
}

impl<F: Fabric> State<F> {
    /// One round of progress, including schedules; returns whether anything arrived.
    ///
    /// # Errors
    /// An error while making progress.
    #[inline]
    pub(crate) fn probe(&mut self) -> Result<bool> {
        let moved = self.context.probe()?;
        if !self.schedules.is_empty() {
            drive_schedules(self);
        }
        Ok(moved)
    }

    /// Handles all arrivals, but stops when `done` returns a value, and returns that value. Never waits. One round is not enough: the
    /// message that a program tests for may be behind many others.
    ///
    /// # Errors
    /// An error while making progress; the error of `done`.
    #[inline]
    pub(crate) fn look<T>(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        for _ in 0..LOOKS_MAX {
            if let Some(found) = done(self)? {
                return Ok(Some(found));
            }
            if !self.probe()? {
                break;
            }
        }
        done(self)
    }

    /// For waits and tests with nothing to wait for: makes progress in one of [`WAITS_WITHOUT_PROGRESS_MAX`] calls.
    ///
    /// # Errors
    /// An error while making progress.
    #[inline(always)]
    pub(crate) fn waited_for_nothing(&mut self) -> Result<()> {
        if self.may_skip_progress() { Ok(()) } else { self.progress_at_last() }
    }

    /// Counts a wait or a test with nothing to wait for; returns whether it may return without progress. If not, the caller must call
    /// [`waited_for_nothing`](Self::waited_for_nothing).
    #[inline(always)]
    pub(crate) fn may_skip_progress(&mut self) -> bool {
        self.waits_without_progress += 1;
        self.waits_without_progress < WAITS_WITHOUT_PROGRESS_MAX
    }

    /// Like [`may_skip_progress`](Self::may_skip_progress), for an update of a window. An update may skip progress once more than a wait,
    /// since the flush that usually follows makes progress with fewer instructions.
    #[inline(always)]
    pub(crate) fn may_leave_progress_to_flush(&mut self) -> bool {
        self.waits_without_progress += 1;
        self.waits_without_progress <= WAITS_WITHOUT_PROGRESS_MAX
    }

    #[cold]
    #[inline(never)]
    fn progress_at_last(&mut self) -> Result<()> {
        self.waits_without_progress = 0;
        self.probe().map(|_| ())
    }

    /// Handles all arrivals. Never waits.
    ///
    /// # Errors
    /// An error while making progress.
    pub(crate) fn take_in(&mut self) -> Result<()> {
        self.look(|_| Ok(None::<()>)).map(drop)
    }

    /// Makes progress, including schedules, until `done` returns true.
    ///
    /// # Errors
    /// An error while making progress.
    #[inline(always)]
    pub(crate) fn wait_for(
        &mut self,
        mut done: impl FnMut(&mut Context<F, MpiHandlers>) -> bool,
    ) -> Result<()> {
        if self.schedules.is_empty() {
            return Ok(self.context.wait_until(|context| Ok(done(context)))?);
        }
        self.wait_and_drive(&mut done)
    }

    #[cold]
    #[inline(never)]
    fn wait_and_drive(&mut self, done: &mut dyn FnMut(&mut Context<F, MpiHandlers>) -> bool) -> Result<()> {
        loop {
            drive_schedules(self);
            match self.look_at_boards(&mut |context, _| done(context), || false)? {
                Looked::Done => return Ok(()),
                Looked::GoOn => continue,
                Looked::InVain => {}
            }
            let Self { context, schedules, .. } = self;
            let mut is_done = false;
            context.wait_until(|context| {
                is_done = done(context);
                Ok(is_done || schedules.can_go_on(context, true))
            })?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// While a schedule waits at a board for tasks that may share this task's processor: looks a number of times, with a yield of the
    /// processor after each look, before the task may sleep. `stop` ends the looks early.
    pub(crate) fn look_at_boards(
        &mut self,
        done: &mut dyn FnMut(&mut Context<F, MpiHandlers>, &Schedules) -> bool,
        stop: impl Fn() -> bool,
    ) -> Result<Looked> {
        let mut looks = 0;
        while looks < LOOKS_AWAKE && self.schedules.are_at_counter() && !stop() {
            let Self { context, schedules, .. } = &mut *self;
            if done(context, schedules) {
                return Ok(Looked::Done);
            }
            if schedules.can_go_on(context, false) {
                return Ok(Looked::GoOn);
            }
            // Usually the step ends while the other tasks run. A look at all rings before would only displace lines from the caches.
            if looks > 0 {
                context.probe()?;
            }
            std::thread::yield_now();
            looks += 1;
        }
        Ok(Looked::InVain)
    }

    /// Makes progress until the blocking receive is complete; returns the error of making progress, if there is one. Only for policies
    /// whose threads take no turns.
    #[inline(never)]
    pub(crate) fn wait_receive_over(&mut self) -> Option<Box<Error>> {
        self.wait_for(is_receive_over).err().map(Box::new)
    }

    /// Handles arrivals; returns whether the operation is then complete.
    ///
    /// # Errors
    /// An error while making progress; the operation may then still be under way.
    #[inline]
    pub(crate) fn is_over_after_progress(&mut self, request: RequestId) -> Result<bool> {
        Ok(self.look(|state| Ok(is_over(&mut state.context, request).then_some(())))?.is_some())
    }
}

/// Ends an operation: withdraws it if it is unmatched, and waits for transfers under way.
pub(crate) fn end<F: Fabric>(state: &mut State<F>, request: RequestId) {
    if !state.schedules.is_empty() {
        schedules::abandon_schedule(state, request);
    }
    match state.handlers().requests.phase(request) {
        Phase::Posted => state.handlers().requests.withdraw(request, Error::Cancelled),
        Phase::Moving if !state.handlers().requests.is_receive(request) => {
            give_up(state, request);
        }
        Phase::Parts => abandon(state, request),
        Phase::ByProgram => state.handlers().requests.end(request, Some(Error::Cancelled)),
        Phase::Moving | Phase::ByHelper | Phase::Done | Phase::Inactive | Phase::Free => {}
    }
    state.context.wait_until_ended(|context| is_over(context, request));
}

/// Whether the operation is complete; or whether it is a receive for which no call must wait, because a task has failed.
#[inline(always)]
pub(crate) fn is_over<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) -> bool {
    let handlers = context.handlers();
    match handlers.requests.phase(request) {
        Phase::Free | Phase::Done | Phase::Inactive => true,
        Phase::Parts => is_over_by_now(context, request),
        _ if handlers.completions.needs_look() => is_over_by_now(context, request),
        _ => false,
    }
}

/// Whether the blocking receive is complete.
#[inline(always)]
fn is_receive_over<F: Fabric>(context: &mut Context<F, MpiHandlers>) -> bool {
    let handlers = context.handlers();
    handlers.requests.is_blocking_over()
        || handlers.completions.needs_look() && is_over_by_now(context, RequestId::BLOCKING_RECEIVE)
}

#[cold]
#[inline(never)]
fn is_over_by_now<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) -> bool {
    if !context.handlers().completions.are_in_context() {
        mark_completed(context);
    }
    if context.handlers().requests.phase(request) == Phase::Parts {
        parts::drive(context, request);
    }
    if context.handlers_mut().is_hopeless_send(request) {
        context.give_up(request.number());
    }
    let handlers = context.handlers();
    handlers.requests.is_over(request) || handlers.is_in_doubt(request).is_some()
}

/// Marks requests as complete that a handler thread or a counter has completed (`AM_COMPLETION`), instead of a handler in context.
#[cold]
#[inline(never)]
pub(crate) fn mark_completed<F: Fabric>(context: &mut Context<F, MpiHandlers>) {
    let handlers = context.handlers_mut();
    while let Some((request, delivered)) = handlers.completions.next_by_thread() {
        handlers.requests.complete(request, delivered);
    }
    let Some(mut awaited) = handlers.completions.take_awaited() else { return };
    awaited.retain(|awaited| {
        let counter = context.handlers().completions.counter(awaited.task);
        let is_counted = counter
            .and_then(|counter| context.counter_value(counter).ok())
            .is_some_and(|value| value >= awaited.number);
        if is_counted {
            context.handlers_mut().requests.delivered(awaited.request, awaited.len, awaited.placed);
        }
        !is_counted
    });
    context.handlers_mut().completions.put_awaited(awaited);
}
