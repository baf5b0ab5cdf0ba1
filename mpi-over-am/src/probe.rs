//! Looking at a message without receiving it (MPI 4.1 section 3.8.1).

use std::ops::ControlFlow;

use am_core::Context;
use am_core::fabric::Fabric;

use crate::communicator::{Communicator, Space};
use crate::early_message::EarlyMessage;
use crate::error::Result;
use crate::handlers::MpiHandlers;
use crate::matching::{Envelope, Pattern};
use crate::policy::LockPolicy;
use crate::rank::Source;
use crate::request::from_nobody;
use crate::state::State;
use crate::status::Status;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// The message that a receive from `source` with `tag` would take now, if there is one (`MPI_Iprobe`). Makes progress.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, what progress reports.
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let (source, tag) = (source.into(), tag.into());
        let pattern = match self.pattern(Space::PointToPoint, source, tag) {
            Ok(pattern) => pattern,
            Err(error) => return from_nobody(source, tag, error).map(Some),
        };
        let mut state = self.state()?;
        state.look(|state| Ok(look(state, &pattern)))
    }

    /// Shows `look` the messages of this communicator's collectives that have come from anybody and were not expected: source and tag,
    /// those of one source in their order, until it breaks with what it has found, or, with nothing, leaves out the rest of the source.
    pub(crate) fn look_at_early_collectives<T>(
        &self,
        context: &mut Context<F, MpiHandlers>,
        mut look: impl FnMut(u32, i32) -> ControlFlow<Option<T>>,
    ) -> Option<T> {
        let context_id = self.route(Space::Collective, 0, 0).ok()?.envelope.context_id();
        let early = &mut context.handlers_mut().early_collective;
        // A few are looked at all together: all the same if some are left out too late.
        let is_short = early.is_short();
        for source in if is_short { 0..1 } else { 0..self.size() } {
            let pattern = Pattern::new(context_id, (!is_short).then_some(source), None);
            for envelope in early.matching(&pattern) {
                match look(envelope.source(), envelope.tag()) {
                    ControlFlow::Break(Some(found)) => return Some(found),
                    ControlFlow::Break(None) if !is_short => break,
                    ControlFlow::Break(None) | ControlFlow::Continue(()) => {}
                }
            }
        }
        None
    }

    /// Waits for a message that a receive from `source` with `tag` would take (`MPI_Probe`).
    ///
    /// # Errors
    /// As for [`iprobe`](Self::iprobe).
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let (source, tag) = (source.into(), tag.into());
        let pattern = match self.pattern(Space::PointToPoint, source, tag) {
            Ok(pattern) => pattern,
            Err(error) => return from_nobody(source, tag, error),
        };
        let mut state = self.state()?;
        let mut found = None;
        state.wait_for(|context| {
            found = context.handlers_mut().early.peek_match(&pattern).map(status_of);
            found.is_some()
        })?;
        Ok(found.expect("the wait ended because something was found"))
    }
}

fn look<F: Fabric>(state: &mut State<F>, pattern: &Pattern) -> Option<Status> {
    state.handlers().early.peek_match(pattern).map(status_of)
}

fn status_of((envelope, message): (&Envelope, &EarlyMessage)) -> Status {
    Status { source: envelope.source(), tag: envelope.tag(), len: message.len() }
}
