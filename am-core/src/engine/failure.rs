//! The death of a task: all that was under way to it or from it ends, each with an error that names it.

use super::outstanding::State;
use super::reassembly::Stage;
use super::{Engine, Lower};
use crate::error::{Error, Result};
use crate::handler::HandlerSet;
use crate::task::TaskId;

impl Engine {
    /// Ends everything with `task`. What a fabric still holds ends with its completion event.
    ///
    /// # Errors
    /// The first error of an operation that reports it nowhere else.
    #[cold]
    pub(crate) fn handle_failure<L: Lower, H: HandlerSet>(
        &mut self,
        task: TaskId,
        how: String,
        lower: &mut L,
        handlers: &mut H,
    ) -> Result<()> {
        if self.is_dead(task) {
            return Ok(());
        }
        self.failed.push((task, how));
        self.attention = true;
        self.counters.note_purged(task);
        self.purges.forget(task);
        let mut result = Ok(());
        drop(self.pending.drop_where(|endpoint| endpoint.task == task));
        self.drop_streams(|endpoint| endpoint.task == task);
        for key in self.ops.keys(|op| op.peer.task == task && !op.is_posted() && !op.is_over()) {
            let ended = self.end_op(key, Err(self.failure_of(task)), lower, handlers);
            result = result.and(ended);
        }
        let incoming: Vec<u32> = self
            .incoming
            .iter()
            // Data that are here stay acceptable, whatever became of their sender.
            .filter(|(_, message)| {
                message.source.task == task && !matches!(message.stage, Stage::Waiting { kept: Some(_) })
            })
            .map(|(key, _)| key)
            .collect();
        for key in incoming {
            let error = self.failure_of(task);
            result = result.and(self.fail_incoming(key, error, lower, handlers));
        }
        self.fences.retain(|fence| fence.origin().task != task);
        result
    }

    pub(super) fn fail_incoming<L: Lower, H: HandlerSet>(
        &mut self,
        key: u32,
        error: Error,
        lower: &mut L,
        handlers: &mut H,
    ) -> Result<()> {
        let error = Box::new(error);
        let Some(incoming) = self.incoming.get_mut(key) else { return Ok(()) };
        match incoming.stage {
            // Nobody has accepted it: its ticket ends quietly.
            Stage::Waiting { .. } => {
                drop(self.take_incoming(key));
                Ok(())
            }
            // The reads under way still touch its place; the last one ends it.
            Stage::Fetching { in_flight: 1.., .. } => {
                incoming.failed.get_or_insert(error);
                Ok(())
            }
            Stage::Fetching { .. } | Stage::Pieces { .. } => {
                incoming.failed.get_or_insert(error);
                self.end_incoming(key, lower, handlers)
            }
        }
    }

    /// Whether `task` is known to have died.
    pub(crate) fn is_dead(&self, task: TaskId) -> bool {
        self.failed.iter().any(|&(dead, _)| dead == task)
    }

    /// The error for operations with `task`, if it has died.
    pub(crate) fn dead(&self, task: TaskId) -> Option<Error> {
        self.is_dead(task).then(|| self.failure_of(task))
    }

    /// The error for the first task that has died.
    pub(crate) fn first_failure(&self) -> Option<Error> {
        self.failed.first().map(|&(task, _)| self.failure_of(task))
    }

    fn failure_of(&self, task: TaskId) -> Error {
        let how = self.failed.iter().find(|(dead, _)| *dead == task).map(|(_, how)| how.as_str());
        Error::PeerFailed { task, what: how.unwrap_or_default().to_owned() }
    }
}

impl super::outstanding::Op {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }
}
