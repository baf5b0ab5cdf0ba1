//! Looking at a message without receiving it (MPI 5.0 section 3.8.1).

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::error::Result;
use crate::matching::{Envelope, Pattern};
use crate::message::early_message::EarlyMessage;
use crate::message::state::State;
use crate::message::status::Status;
use crate::message::turn::Turn;
use crate::policy::LockPolicy;
use crate::rank::Source;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// The message that a receive from `source` with `tag` would match now, if there is one (`MPI_Iprobe`). Makes progress.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, an error while making progress.
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let (source, tag) = (source.into(), tag.into());
        let Some(pattern) = self.pattern_or_nobody(source, tag)? else {
            return Ok(Some(Status::OF_PROC_NULL));
        };
        let mut state = self.state_to_start()?;
        let found = state.look(|state| Ok(look(state, &pattern)))?;
        if found.is_none() && state.handlers().is_unusual() {
            state.handlers().why_not_probe(&pattern).map_or(Ok(()), Err)?;
        }
        Ok(found)
    }

    /// Waits for a message that a receive from `source` with `tag` would match (`MPI_Probe`).
    ///
    /// # Errors
    /// Those of [`iprobe`](Self::iprobe).
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        let (source, tag) = (source.into(), tag.into());
        let Some(pattern) = self.pattern_or_nobody(source, tag)? else { return Ok(Status::OF_PROC_NULL) };
        let mut state = self.state_to_start()?;
        let mut found = None;
        wait_for_message(&mut state, &pattern, |message| found = Some(status_of(message)))?;
        Ok(found.expect("the wait has found one"))
    }
}

/// Waits for a message that a receive with `pattern` would match, and calls `see` with it.
///
/// # Errors
/// An error while making progress.
pub(crate) fn wait_for_message<F: Fabric, L: LockPolicy>(
    turn: &mut Turn<'_, F, L>,
    pattern: &Pattern,
    mut see: impl FnMut((&Envelope, &EarlyMessage)),
) -> Result<()> {
    let (mut is_noted, mut why_not) = (false, None);
    let waited = turn.wait_for(&mut |context| {
        let handlers = context.handlers_mut();
        let is_found = handlers.early.peek_match(pattern).map(&mut see).is_some();
        if !is_found && handlers.is_unusual() {
            why_not = handlers.why_not_probe(pattern);
            if why_not.is_some() {
                return true;
            }
        }
        if !is_found && !is_noted {
            handlers.probed.push(*pattern);
            is_noted = true;
        }
        is_found
    });
    if is_noted {
        let probed = &mut turn.handlers().probed;
        // Threads that probe for the same message have equal entries.
        if let Some(at) = probed.iter().position(|noted| noted == pattern) {
            probed.swap_remove(at);
        }
    }
    waited?;
    why_not.map_or(Ok(()), Err)
}

fn look<F: Fabric>(state: &mut State<F>, pattern: &Pattern) -> Option<Status> {
    state.handlers().early.peek_match(pattern).map(status_of)
}

fn status_of((envelope, message): (&Envelope, &EarlyMessage)) -> Status {
    Status::new(envelope.source(), envelope.tag(), message.len())
}
