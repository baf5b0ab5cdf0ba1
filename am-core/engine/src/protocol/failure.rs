//! The death of a task, or a closed context of a living task: all operations with the task or context end, each with an error that names
//! it.

use super::Engine;
use super::outstanding::State;
use super::reassembly::Stage;
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::HandlerSet;
use crate::task::{Endpoint, TaskId};
use crate::user_code::UserCode;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

impl<U: UserCode> Engine<U> {
    /// Ends all operations with `task`. Those that the fabric holds end with their completion event.
    ///
    /// # Errors
    /// The first error that is reported nowhere else.
    #[cold]
    pub(crate) fn handle_failure<F: Fabric, H: HandlerSet>(
        &mut self,
        task: TaskId,
        how: String,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        if self.is_dead(task) {
            return Ok(());
        }
        self.failed.push((task, how));
        self.note_losses();
        self.attention = true;
        self.counters.note_purged(task);
        self.purges.forget(|endpoint| endpoint.task == task);
        let result = self.end_all_of(|endpoint| endpoint.task == task, fabric, handlers);
        handlers.peer_is_gone(task, &|| self.failure_of(task));
        self.note_calls();
        result
    }

    /// Ends all operations with a context that its task has closed.
    ///
    /// # Errors
    /// The first error that is reported nowhere else.
    #[cold]
    pub(crate) fn handle_closed<F: Fabric, H: HandlerSet>(
        &mut self,
        endpoint: Endpoint,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        if self.is_gone(endpoint) {
            return Ok(());
        }
        self.closed.push(endpoint);
        self.note_losses();
        if endpoint.context == self.own.context {
            self.counters.note_purged(endpoint.task);
        }
        self.purges.forget(|other| other == endpoint);
        let result = self.end_all_of(|other| other == endpoint, fabric, handlers);
        if endpoint.context == self.own.context {
            handlers.peer_is_gone(endpoint.task, &|| self.closed_error(endpoint));
            self.note_calls();
        }
        result
    }

    fn end_all_of<F: Fabric, H: HandlerSet>(
        &mut self,
        is_gone: impl Fn(Endpoint) -> bool,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let mut result = Ok(());
        self.pending.drop_where(|peer| is_gone(peer.endpoint));
        self.drop_streams(|peer| is_gone(peer.endpoint));
        for key in self.ops.keys(|op| is_gone(op.peer.endpoint) && !op.is_posted() && !op.is_over()) {
            let Some(error) = self.ops.get(key).and_then(|op| self.gone(op.peer.endpoint)) else { continue };
            result = result.and(self.end_op(key, Err(error), fabric, handlers));
        }
        let incoming: Vec<(u32, Peer)> = self
            .incoming
            .iter()
            // Data that have arrived can still be accepted after their sender has gone.
            .filter(|(_, message)| {
                is_gone(message.source.endpoint) && !matches!(message.stage, Stage::Waiting { kept: Some(_) })
            })
            .map(|(key, message)| (key, message.source))
            .collect();
        for (key, source) in incoming {
            let Some(error) = self.gone(source.endpoint) else { continue };
            result = result.and(self.fail_incoming(key, error, fabric, handlers));
        }
        for fence in self.fences.extract_if(.., |fence| is_gone(fence.origin().endpoint)) {
            self.asked_by.subtract(fence.origin());
        }
        result
    }

    pub(super) fn fail_incoming<F: Fabric, H: HandlerSet>(
        &mut self,
        key: u32,
        error: Error,
        fabric: &mut F,
        handlers: &mut H,
    ) -> Result<()> {
        let error = Box::new(error);
        let Some(incoming) = self.incoming.get_mut(key) else { return Ok(()) };
        match incoming.stage {
            // A ticket that was not accepted becomes invalid without an error.
            Stage::Waiting { .. } => {
                drop(self.take_incoming(key));
                Ok(())
            }
            // Reads in flight still use the destination; the last of them ends the message.
            Stage::Fetching { in_flight: 1.., .. } => {
                incoming.failed.get_or_insert(error);
                Ok(())
            }
            Stage::Fetching { .. } | Stage::Pieces { .. } => {
                incoming.failed.get_or_insert(error);
                self.end_incoming(key, fabric, handlers)
            }
        }
    }

    /// Forgets that `task`, which has ended, has failed or has closed its contexts. Returns `false`, and forgets nothing, if something with
    /// the task is not over. `peers`: the fabric's numbers of the task's contexts.
    pub fn forget(&mut self, task: TaskId, peers: &[Peer]) -> bool {
        let has_work = |peer: &Peer| {
            self.pending.has(*peer) || self.unfinished_from.has(*peer) || self.asked_by.has(*peer)
        };
        let has_op = !self.ops.keys(|op| op.peer.endpoint.task == task && !op.is_over()).is_empty();
        if has_op || peers.iter().any(has_work) {
            return false;
        }
        peers.iter().for_each(|&peer| self.touched.clear(peer));
        self.untold.retain(|(peer, _)| peer.endpoint.task != task);
        self.purges.forget(|endpoint| endpoint.task == task);
        self.failed.retain(|&(dead, _)| dead != task);
        self.closed.retain(|closed| closed.task != task);
        self.note_losses();
        true
    }

    /// Whether `task` is known to have died.
    pub fn is_dead(&self, task: TaskId) -> bool {
        self.failed.iter().any(|&(dead, _)| dead == task)
    }

    /// Whether `endpoint` is gone: its task has died or has closed it.
    pub(crate) fn is_gone(&self, endpoint: Endpoint) -> bool {
        self.is_dead(endpoint.task) || self.closed.contains(&endpoint)
    }

    /// Finds out [`has_lost_nobody`](Self::has_lost_nobody) again, after a loss or the end of a purge.
    pub(super) fn note_losses(&mut self) {
        self.has_lost_nobody =
            self.failed.is_empty() && self.closed.is_empty() && self.purges.refuses_nobody();
    }

    /// The error for operations with `endpoint`, if it is gone.
    pub fn gone(&self, endpoint: Endpoint) -> Option<Error> {
        if self.is_dead(endpoint.task) {
            return Some(self.failure_of(endpoint.task));
        }
        self.closed.contains(&endpoint).then(|| self.closed_error(endpoint))
    }

    fn closed_error(&self, endpoint: Endpoint) -> Error {
        let after = self.failed.first().map(|(task, how)| match how.as_str() {
            "" => format!("{task} has failed"),
            how => how.to_owned(),
        });
        Error::ContextClosed { endpoint, after: after.unwrap_or_default() }
    }

    /// The error for the first task that has died.
    pub fn first_failure(&self) -> Option<Error> {
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
