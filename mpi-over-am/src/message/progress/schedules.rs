//! Schedules: operations as lists of steps that every call with progress advances. Non-blocking and persistent collectives are schedules.
//!
//! Steps are executed in order. A send or a receive is only started. The step [`Wait`](Step::Wait) is done when all sends and receives
//! before it are complete, and [`WaitForReceives`](Step::WaitForReceives) when the receives before it are. Copies and reductions are done
//! at once. A schedule owns its scratch memory, and is a request like any other.

use std::sync::Arc;

use am_core::Context;
use am_core::fabric::Fabric;

use super::{end as end_operation, is_over, parts};
use crate::data::buffer::with_slice;
use crate::data::op::{Combine, Op};
use crate::error::{Error, Result};
use crate::message::board::{Boards, Ticket};
use crate::message::handlers::MpiHandlers;
use crate::message::helper_thread::Work;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::request_table::{Act, NO_SCOPE, Schedule, Step};
use crate::message::route::Mode;
use crate::message::state::State;
use crate::message::status::Status;
use crate::message::under_way::{Pending, Running, Schedules};
use crate::rank::ANY_SOURCE;

impl Schedules {
    /// Whether a schedule waits at a board with a counter.
    pub(crate) fn are_at_counter(&self) -> bool {
        self.running.iter().any(|running| {
            let step = running.schedule.steps.get(running.next);
            matches!(step, Some(Step::AtBoard(Act::Arrive { .. } | Act::Meet)))
        })
    }

    /// Whether a schedule can be advanced. With `may_sleep`, this task will be rung when that becomes so at a board.
    pub(crate) fn can_go_on<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        may_sleep: bool,
    ) -> bool {
        let Self { running, boards, to_meet, .. } = self;
        running.iter_mut().any(|running| running.can_go_on(context, boards, may_sleep))
            || to_meet.iter().any(|&request| parts::has_met(context, request))
    }
}

impl Schedule {
    /// Why the schedule cannot be carried out: a task of its communicator has failed. A schedule on a board finds that itself.
    #[cold]
    fn trouble(&self, handlers: &MpiHandlers) -> Option<Error> {
        handlers.trouble_of_all(self.context_id()?)
    }
}

impl Running {
    /// Whether the next step can be executed: the messages that it waits for are complete, or what it waits for at a board has happened.
    /// With `may_sleep`, this task will be rung when the latter happens.
    fn can_go_on<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        boards: &mut Boards,
        may_sleep: bool,
    ) -> bool {
        if let Some(ticket) = self.ticket
            && !boards.is_next(ticket)
        {
            return false;
        }
        let are_receives = matches!(self.schedule.steps.get(self.next), Some(Step::WaitForReceives));
        let is_waited_for = |pending: &Pending| !are_receives || pending.expected.is_some();
        // From the last message backwards: complete messages leave the list, and are not checked again.
        while let Some(at) = self.pending.iter().rposition(is_waited_for) {
            let Pending { request, expected } = self.pending[at];
            if !is_over(context, request) {
                return false;
            }
            self.pending.remove(at);
            let result = context.handlers_mut().requests.take(request);
            let result = result.and_then(|status| check_len(status, expected));
            if let (Err(error), None) = (result, &self.failure) {
                self.failure = Some(error);
            }
        }
        let (act, ticket) = match (self.schedule.steps.get(self.next), self.ticket) {
            (Some(Step::ByHelper(outcome)), _) => return outcome.is_over(),
            (Some(Step::AtBoard(act)), Some(ticket)) if self.failure.is_none() => (act, ticket),
            _ => return true,
        };
        act.can_be_carried_out(boards, context, ticket.board(), may_sleep).unwrap_or_else(|error| {
            self.failure = Some(error);
            true
        })
    }
}

/// Refuses a message whose length is not the expected one: the tasks disagree about the lengths of their buffers.
///
/// # Errors
/// [`Error::Count`].
#[inline(always)]
pub(crate) fn check_len(status: Status, expected: Option<u64>) -> Result<()> {
    match expected {
        Some(expected) if expected != status.len() => Err(Error::UnequalParts {
            source_rank: Some(status.source()).filter(|&rank| rank < ANY_SOURCE),
            sent: status.len(),
            expected,
        }),
        _ => Ok(()),
    }
}

/// Starts a schedule as a new request of a scope, or of none ([`NO_SCOPE`]).
pub(crate) fn start_schedule<F: Fabric>(
    state: &mut State<F>,
    (schedule, ticket): (Arc<Schedule>, Option<Ticket>),
    scope: u32,
) -> RequestId {
    let request = state.handlers().requests.insert(false);
    if scope != NO_SCOPE {
        state.handlers().requests.set_scope(request, scope);
    }
    let starting = StartUnwinds { state, request };
    start_schedule_as(starting.state, (schedule, ticket), request);
    std::mem::forget(starting);
    request
}

/// Dropped if an operator unwinds out of the start of a schedule. The caller gets no request then, so it cannot keep the memory for the
/// schedule, which therefore ends here.
struct StartUnwinds<'a, F: Fabric> {
    state: &'a mut State<F>,
    request: RequestId,
}

impl<F: Fabric> Drop for StartUnwinds<'_, F> {
    fn drop(&mut self) {
        end_operation(self.state, self.request);
        // The caller gets the panic.
        let _ = self.state.handlers().requests.take(self.request);
    }
}

/// Starts a schedule for an existing request.
pub(crate) fn start_schedule_as<F: Fabric>(
    state: &mut State<F>,
    (schedule, ticket): (Arc<Schedule>, Option<Ticket>),
    request: RequestId,
) {
    let running = Running { request, schedule, ticket, next: 0, pending: Vec::new(), failure: None };
    state.schedules.running.push(running);
    drive_schedules(state);
}

/// Starts work for the helper thread, as a new request.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn start_by_helper<F: Fabric>(state: &mut State<F>, work: Work) -> Result<RequestId> {
    let State { context, schedules, .. } = &mut *state;
    let outcome = schedules.helper.carry_out(work, || context.waker())?;
    let schedule = Schedule { steps: vec![Step::ByHelper(outcome)], op: None, scratch: Vec::new() };
    let request = start_schedule(state, (Arc::new(schedule), None), NO_SCOPE);
    state.handlers().requests.by_helper(request);
    Ok(request)
}

/// Advances all schedules that can be advanced.
pub(crate) fn drive_schedules<F: Fabric>(state: &mut State<F>) {
    let State { context, schedules, .. } = state;
    schedules.to_meet.retain(|&request| {
        let has_met = parts::has_met(context, request);
        if has_met {
            parts::drive(context, request);
        }
        !has_met
    });
    let mut index = 0;
    while index < state.schedules.running.len() {
        let State { context, schedules, .. } = state;
        let Schedules { running, boards, .. } = schedules;
        if !running[index].can_go_on(context, boards, false) {
            index += 1;
            continue;
        }
        // A schedule is not in the list while it runs. It is put back even if an operator unwinds.
        let running = running.swap_remove(index);
        let mut driven = Driven { state, running: Some(running) };
        let advanced = driven.advance();
        let running = driven.running.take();
        drop(driven);
        let Some(running) = running else { continue };
        match advanced {
            Advanced::Over => end(state, running),
            Advanced::AtOperator => state.schedules.at_operators.push(running),
            Advanced::Waits => {
                state.schedules.running.push(running);
                let last = state.schedules.running.len() - 1;
                state.schedules.running.swap(index, last);
                index += 1;
            }
        }
    }
}

/// Ends the operation of a request, if it is a schedule. Nothing uses the schedule's memory afterwards.
pub(crate) fn abandon_schedule<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let Schedules { running, at_operators, .. } = &mut state.schedules;
    let found = [running, at_operators].into_iter().find_map(|list| {
        list.iter().position(|running| running.request == request).map(|index| list.swap_remove(index))
    });
    if let Some(mut running) = found {
        if let Some(Step::ByHelper(outcome)) = running.schedule.steps.get(running.next) {
            outcome.wait();
        }
        running.failure.get_or_insert(Error::Cancelled);
        end(state, running);
    }
}

/// Ends the request of a schedule, and after a failure also the messages that are still under way.
fn end<F: Fabric>(state: &mut State<F>, mut running: Running) {
    for pending in std::mem::take(&mut running.pending) {
        end_operation(state, pending.request);
        // Only the first failure is reported.
        let _ = state.handlers().requests.take(pending.request);
    }
    let State { context, schedules, .. } = &mut *state;
    if let Some(ticket) = running.ticket {
        schedules.boards.end(context, ticket);
    }
    context.handlers_mut().requests.end(running.request, running.failure.take());
}

/// Why a schedule stopped.
enum Advanced {
    Over,
    /// Messages are in flight.
    Waits,
    /// A user-defined operator has to run outside the turn.
    AtOperator,
}

/// A schedule that is being executed.
struct Driven<'a, F: Fabric> {
    state: &'a mut State<F>,
    running: Option<Running>,
}

impl<F: Fabric> Drop for Driven<'_, F> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.state.schedules.running.push(running);
        }
    }
}

impl<F: Fabric> Driven<'_, F> {
    /// Executes the steps that can be executed.
    fn advance(&mut self) -> Advanced {
        let Self { state, running: Some(running) } = self else { return Advanced::Over };
        let mut runs_outside = false;
        if state.handlers().is_unusual() {
            runs_outside =
                state.handlers().has_threads() && running.schedule.op.as_ref().is_some_and(Op::is_of_program);
            if running.failure.is_none() {
                running.failure = running.schedule.trouble(state.handlers());
            }
        }
        let schedule = Arc::clone(&running.schedule);
        while running.failure.is_none() {
            let Some(step) = schedule.steps.get(running.next) else {
                let State { context, schedules, .. } = &mut **state;
                let is_over = running.can_go_on(context, &mut schedules.boards, false);
                return if is_over { Advanced::Over } else { Advanced::Waits };
            };
            if matches!(step, Step::Wait | Step::WaitForReceives | Step::AtBoard(_) | Step::ByHelper(_)) {
                let State { context, schedules, .. } = &mut **state;
                if !running.can_go_on(context, &mut schedules.boards, false) {
                    return Advanced::Waits;
                }
                if running.failure.is_some() {
                    break;
                }
            }
            let done = match step {
                Step::Wait | Step::WaitForReceives => Ok(()),
                Step::AtBoard(act) => running.ticket.map_or(Ok(()), |ticket| {
                    let op = schedule.op.as_ref().map(|op| op as &dyn Combine);
                    act.carry_out(state, ticket.board(), op)
                }),
                Step::ByHelper(outcome) => outcome.take().map_or(Ok(()), |result| {
                    result.map(|status| state.handlers().requests.set_status(running.request, status))
                }),
                Step::Combine { .. } if runs_outside => return Advanced::AtOperator,
                Step::Send { route, data } => protocol::start_send_data(state, Mode::Standard, route, data)
                    .map(|request| running.pending.push(Pending { request, expected: None })),
                Step::Receive { pattern, data } => {
                    let request = protocol::start_receive_data(state, *pattern, data);
                    let expected = Some(data.packed_len());
                    running.pending.push(Pending { request, expected });
                    Ok(())
                }
                Step::Combine { earlier, later } => {
                    schedule.op.as_ref().map_or(Ok(()), |op| op.combine(earlier, later))
                }
                Step::Copy { from, to } => {
                    from.copy_to(to);
                    Ok(())
                }
                Step::Examine { bytes, look } => {
                    bytes.as_bytes().map_or(Ok(()), |bytes| with_slice(bytes, *look))
                }
            };
            running.next += 1;
            if let Err(error) = done {
                running.failure = Some(error);
            }
        }
        Advanced::Over
    }
}
