//! The charge of an eager message to the budget of early arrivals at its receiver.

use am_core::AmOptions;
use am_core::buffer::RawBytes;
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use crate::data::buffer;
use crate::error::{Error, Result};
use crate::message::early_message::footprint;
use crate::message::handlers::ASK_REPORT;
use crate::message::state::State;

/// Whether a message of `len` bytes may be sent eagerly now; if so, charges it to the budget. Asks for a report if one is due.
///
/// # Errors
/// An error of am-core; nothing is charged then.
#[inline(always)]
pub(super) fn charge<F: Fabric>(state: &mut State<F>, task: TaskId, len: usize) -> Result<bool> {
    let verdict = state.handlers().budget.charge(task.0, footprint(len));
    match if verdict.ask { ask_for_report(state, task) } else { Ok(()) } {
        Err(error) if verdict.eager => Err(refused(state, task, len, error)),
        asked => asked.map(|()| verdict.eager),
    }
}

/// Takes back the charge of a message of `len` bytes that was not sent, and returns the error.
#[cold]
#[inline(never)]
pub(super) fn refused<F: Fabric>(state: &mut State<F>, task: TaskId, len: usize, error: Error) -> Error {
    state.handlers().budget.take_back(task.0, footprint(len));
    error
}

/// Asks the receiver how many eager bytes it has received. Does not wait.
///
/// # Errors
/// An error of am-core.
#[cold]
#[inline(never)]
fn ask_for_report<F: Fabric>(state: &mut State<F>, task: TaskId) -> Result<()> {
    let (question, nothing) = ((ASK_REPORT, &[][..]), RawBytes::EMPTY);
    let options = AmOptions { answerable: true, ..AmOptions::default() };
    let sent = buffer::amsend(&mut state.context, task, question, nothing, options, None)?;
    // Done or Posted: the question is sent when there is a credit, and no call waits for that.
    let _ = sent;
    Ok(())
}
