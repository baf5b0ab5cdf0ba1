//! Schedules: an operation as a list of steps that every progress call moves on. Non-blocking and persistent collectives are
//! made of them.
//!
//! Steps are carried out in their order. Sends and receives are started, and a step [`Wait`](Step::Wait) goes on when all that
//! were started before are over; copies and reductions are done at once. A schedule owns the memory in which it works, and is
//! a request as any other.

use std::sync::Arc;

use am_core::Context;
use am_core::fabric::Fabric;

use super::id::RequestId;
use super::partitioned;
use crate::buffer::{RecvData, Scratch, SendData, with_slice};
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::matching::Pattern;
use crate::op::{Combine, Op};
use crate::protocol::{self, Mode, Route};
use crate::state::{State, is_over};
use crate::status::Status;

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Starts a send.
    Send { route: Route, data: SendData },
    /// Starts a receive of as many bytes as there is room.
    Receive { pattern: Pattern, data: RecvData },
    /// All that was started is over.
    Wait,
    /// Makes each later element what the two come to.
    Combine { earlier: SendData, later: RecvData },
    /// Copies elements.
    Copy { from: SendData, to: RecvData },
    /// Looks at bytes.
    Examine { bytes: SendData, look: fn(&[u8]) -> Result<()> },
}

/// An operation that can be started, again and again if it is kept.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) steps: Vec<Step>,
    pub(crate) op: Option<Op>,
    /// What intermediate results lie in.
    #[expect(dead_code, reason = "the steps have its elements; it only has to live as long as they do")]
    pub(crate) scratch: Vec<Scratch>,
}

/// A schedule under way.
#[derive(Debug)]
struct Running {
    request: RequestId,
    schedule: Arc<Schedule>,
    next: usize,
    pending: Vec<Pending>,
    failure: Option<Error>,
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: RequestId,
    /// Bytes that a receive must get.
    expected: Option<u64>,
}

/// All schedules under way, and what else goes on in whatever call makes progress.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    running: Vec<Running>,
    /// Those whose next step is an operator of the program, which runs outside of the turn if threads take turns.
    at_operators: Vec<Running>,
    /// The requests of those whose operator a thread runs now, outside of its turn.
    outside: Vec<RequestId>,
    /// Partitioned receives whose round has begun, and which cannot post it before they have heard from the sender.
    to_meet: Vec<RequestId>,
}

impl Schedules {
    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
            && self.to_meet.is_empty()
            && self.at_operators.is_empty()
            && self.outside.is_empty()
    }

    /// A partitioned receive has begun its first round: it goes on when it has heard from its sender, whatever the program waits
    /// for then.
    pub(super) fn add_to_meet(&mut self, request: RequestId) {
        self.to_meet.push(request);
    }

    /// Nothing but what is carried out to its end remains.
    pub(crate) fn forget_meetings(&mut self) {
        self.to_meet.clear();
    }

    /// Whether a thread runs an operator for this request, outside of its turn.
    pub(crate) fn is_outside(&self, request: RequestId) -> bool {
        self.outside.contains(&request)
    }

    /// A schedule whose operator is to be run, and its [`end`](Self::end_operator) told.
    pub(crate) fn begin_operator(&mut self) -> Option<AtOperator> {
        let running = self.at_operators.pop()?;
        self.outside.push(running.request);
        Some(AtOperator(running))
    }

    /// An operator has come back with this result; `None` if it has unwound: then it runs again.
    pub(crate) fn end_operator(&mut self, AtOperator(mut running): AtOperator, result: Option<Result<()>>) {
        self.outside.retain(|&request| request != running.request);
        match result {
            None => self.at_operators.push(running),
            Some(result) => {
                running.next += 1;
                running.failure = result.err();
                self.running.push(running);
            }
        }
    }

    /// Whether one can go on.
    pub(crate) fn can_go_on<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) -> bool {
        self.running.iter_mut().any(|running| running.can_go_on(context))
            || self.to_meet.iter().any(|&request| partitioned::has_met(context, request))
    }
}

/// A schedule whose next step is an operator of the program.
#[derive(Debug)]
pub(crate) struct AtOperator(Running);

impl AtOperator {
    /// Runs the operator.
    ///
    /// # Errors
    /// Its own.
    pub(crate) fn run(&self) -> Result<()> {
        let Running { schedule, next, .. } = &self.0;
        match (&schedule.op, schedule.steps.get(*next)) {
            (Some(op), Some(Step::Combine { earlier, later })) => op.combine(earlier, later),
            _ => Ok(()),
        }
    }
}

impl Running {
    /// Whether the messages that the next step waits for are over.
    fn can_go_on<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) -> bool {
        // The last one first: what is over leaves the list, and is not looked at again.
        while let Some(&Pending { request, expected }) = self.pending.last() {
            if !is_over(context, request) {
                return false;
            }
            self.pending.pop();
            let result = context.handlers_mut().requests.take(request);
            let result = result.and_then(|status| check_len(status, expected));
            if let (Err(error), None) = (result, &self.failure) {
                self.failure = Some(error);
            }
        }
        true
    }
}

impl Drop for Running {
    /// Peers may still write to the memory of messages that are not over: it is given up, not freed.
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            std::mem::forget(Arc::clone(&self.schedule));
        }
    }
}

/// Refuses a message of another length than this task expects: the tasks disagree about the lengths of their buffers.
///
/// # Errors
/// [`Error::Count`].
pub(crate) fn check_len(status: Status, expected: Option<u64>) -> Result<()> {
    match expected {
        Some(expected) if expected != status.len() => {
            let [given, expected] =
                [status.len(), expected].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            let call = "a collective got a part from a task that counts otherwise, in bytes";
            Err(Error::Count { call, given, expected })
        }
        _ => Ok(()),
    }
}

/// Starts a schedule as a new request of a scope (0: none).
pub(crate) fn start_schedule<F: Fabric>(
    state: &mut State<F>,
    schedule: Arc<Schedule>,
    scope: u32,
) -> RequestId {
    let request = state.handlers().requests.insert(false);
    state.handlers().requests.set_scope(request, scope);
    start_schedule_as(state, schedule, request);
    request
}

/// Starts a schedule for a request that is there.
pub(crate) fn start_schedule_as<F: Fabric>(
    state: &mut State<F>,
    schedule: Arc<Schedule>,
    request: RequestId,
) {
    let running = Running { request, schedule, next: 0, pending: Vec::new(), failure: None };
    state.schedules.running.push(running);
    drive_schedules(state);
}

/// Moves on all schedules that can go on.
pub(crate) fn drive_schedules<F: Fabric>(state: &mut State<F>) {
    let State { context, schedules, .. } = state;
    schedules.to_meet.retain(|&request| {
        let has_met = partitioned::has_met(context, request);
        if has_met {
            partitioned::drive(context, request);
        }
        !has_met
    });
    let mut index = 0;
    while index < state.schedules.running.len() {
        let State { context, schedules, .. } = state;
        if !schedules.running[index].can_go_on(context) {
            index += 1;
            continue;
        }
        // It is out of the table while it is carried out, and comes back even if an operator unwinds.
        let running = schedules.running.swap_remove(index);
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

/// Gives the operation of a request up, if it is a schedule: nothing uses its memory any more then.
pub(crate) fn abandon_schedule<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let Schedules { running, at_operators, .. } = &mut state.schedules;
    let found = [running, at_operators].into_iter().find_map(|list| {
        list.iter().position(|running| running.request == request).map(|index| list.swap_remove(index))
    });
    if let Some(mut running) = found {
        running.failure.get_or_insert(Error::Cancelled);
        end(state, running);
    }
}

/// Ends the request of a schedule, and what is still under way of it after a failure.
fn end<F: Fabric>(state: &mut State<F>, mut running: Running) {
    for pending in std::mem::take(&mut running.pending) {
        protocol::end(state, pending.request);
        // The first failure is the one to be told.
        let _ = state.handlers().requests.take(pending.request);
    }
    state.handlers().requests.end(running.request, running.failure.take());
}

/// How far a schedule has come.
enum Advanced {
    Over,
    /// Messages are under way.
    Waits,
    /// An operator of the program is to be run outside of the turn.
    AtOperator,
}

/// A schedule that is being carried out.
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
    /// Carries out what can be.
    fn advance(&mut self) -> Advanced {
        let Self { state, running: Some(running) } = self else { return Advanced::Over };
        let runs_outside =
            state.handlers().has_threads && running.schedule.op.as_ref().is_some_and(Op::is_of_program);
        let schedule = Arc::clone(&running.schedule);
        while running.failure.is_none() {
            let Some(step) = schedule.steps.get(running.next) else {
                let is_over = running.can_go_on(&mut state.context);
                return if is_over { Advanced::Over } else { Advanced::Waits };
            };
            let done = match step {
                Step::Wait if running.can_go_on(&mut state.context) => Ok(()),
                Step::Wait => return Advanced::Waits,
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
