//! The eager protocol: the message goes with its data, and waits at the receiver if its receive is not there yet (seed paper,
//! figure 3).

use am_core::AmOptions;
use am_core::buffer::RawBytes;
use am_core::error::Outcome;
use am_core::fabric::Fabric;
use am_core::task::TaskId;

use super::{Load, Route, rendezvous};
use crate::buffer;
use crate::early_message::footprint;
use crate::error::Result;
use crate::handlers::{ASK_REPORT, EAGER};
use crate::state::State;

/// Sends a message eagerly, or announces it where the budget of early arrivals has come to its end.
///
/// # Errors
/// What am-core reports: a dead receiver, for instance.
#[inline(always)]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: &Route, load: impl Load) -> Result<Outcome> {
    if !charge(state, route.task, load.len())? {
        return rendezvous::send(state, *route, load);
    }
    let options = AmOptions { target: state.target_counter, ..AmOptions::default() };
    match load.try_send(state, route, EAGER, options)? {
        Outcome::Done => Ok(Outcome::Done),
        _ => send_later(state, *route, load, options),
    }
}

/// Whether a message of `len` bytes may go with its data now; if so, charges it. Asks for a report if that is due.
///
/// # Errors
/// What am-core reports.
#[inline(always)]
pub(super) fn charge<F: Fabric>(state: &mut State<F>, task: TaskId, len: usize) -> Result<bool> {
    let verdict = state.handlers().budget.charge(task.0, footprint(len));
    if verdict.ask {
        ask_for_report(state, task)?;
    }
    Ok(verdict.eager)
}

/// There is no room now, or more than one packet is needed. Apart, and with the route by value: the short way keeps it in registers.
#[inline(never)]
fn send_later<F: Fabric>(
    state: &mut State<F>,
    route: Route,
    load: impl Load,
    options: AmOptions,
) -> Result<Outcome> {
    load.send(state, &route, EAGER, options)
}

/// Asks how much of what was sent eagerly has been received. Does not wait.
///
/// # Errors
/// What am-core reports.
#[cold]
#[inline(never)]
fn ask_for_report<F: Fabric>(state: &mut State<F>, task: TaskId) -> Result<()> {
    let (question, nothing) = ((ASK_REPORT, &[][..]), RawBytes::EMPTY);
    let options = AmOptions { answerable: true, ..AmOptions::default() };
    let sent = buffer::amsend(&mut state.context, task, question, nothing, options, None)?;
    // Done or Posted: it goes when there is room, and nobody waits for it.
    let _ = sent;
    Ok(())
}
