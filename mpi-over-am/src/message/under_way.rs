//! The schedules that are under way, and other work that every call with progress continues.

use std::sync::Arc;

use crate::data::op::Combine;
use crate::error::{Error, Result};
use crate::message::board::{Boards, Ticket};
use crate::message::helper_thread::HelperThread;
use crate::message::request_id::RequestId;
use crate::message::request_table::{Schedule, Step};

/// A schedule under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) request: RequestId,
    pub(crate) schedule: Arc<Schedule>,
    /// If the schedule has steps at a board. The first of its steps begins when all earlier collectives on that board have ended.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) next: usize,
    pub(crate) pending: Vec<Pending>,
    pub(crate) failure: Option<Error>,
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) request: RequestId,
    /// Number of bytes that a receive must get; `None` for a send.
    pub(crate) expected: Option<u64>,
}

/// All schedules under way, and other work that every call with progress continues.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    pub(crate) boards: Boards,
    pub(crate) running: Vec<Running>,
    /// Schedules whose next step is a user-defined operator, which runs outside the lock if threads take turns.
    pub(crate) at_operators: Vec<Running>,
    /// Requests of schedules whose operator a thread is running outside the lock.
    outside: Vec<RequestId>,
    /// Partitioned receives whose round has begun, and which wait for the sender's description.
    pub(crate) to_meet: Vec<RequestId>,
    pub(crate) helper: HelperThread,
}

impl Schedules {
    /// Whether nothing is under way.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.to_meet.is_empty() && self.are_over()
    }

    /// Whether no schedule is under way; partitioned receives may wait for their sender's description.
    #[inline(always)]
    pub(crate) fn are_over(&self) -> bool {
        self.running.is_empty() && self.at_operators.is_empty() && self.outside.is_empty()
    }

    /// Adds a partitioned receive in its first round, which continues when the sender's description arrives, whichever call makes progress.
    pub(crate) fn add_to_meet(&mut self, request: RequestId) {
        self.to_meet.push(request);
    }

    /// Whether a thread is running an operator for this request, outside the lock.
    pub(crate) fn is_outside(&self, request: RequestId) -> bool {
        self.outside.contains(&request)
    }

    /// Whether an operator has to run.
    pub(crate) fn is_at_operator(&self) -> bool {
        !self.at_operators.is_empty()
    }

    /// Takes a schedule whose operator has to run. The caller must report the operator's end with [`end_operator`](Self::end_operator).
    pub(crate) fn begin_operator(&mut self) -> Option<AtOperator> {
        let running = self.at_operators.pop()?;
        self.outside.push(running.request);
        Some(AtOperator(running))
    }

    /// Takes back a schedule whose operator has ended with this result; `None` if the operator unwound, and will run again.
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
}

/// A schedule whose next step is a user-defined operator.
#[derive(Debug)]
pub(crate) struct AtOperator(Running);

impl AtOperator {
    /// Runs the operator.
    ///
    /// # Errors
    /// The error of the operator.
    pub(crate) fn run(&self) -> Result<()> {
        let Running { schedule, next, .. } = &self.0;
        match (&schedule.op, schedule.steps.get(*next)) {
            (Some(op), Some(Step::Combine { earlier, later })) => op.combine(earlier, later),
            _ => Ok(()),
        }
    }
}

impl Drop for Running {
    /// Peers may still write to the memory of incomplete messages, so the memory is leaked.
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            std::mem::forget(Arc::clone(&self.schedule));
        }
    }
}
