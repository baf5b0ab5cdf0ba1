//! The eager protocol: the message goes with its data, and waits at the receiver if its receive is not there yet (seed paper,
//! figure 3).

use am_core::AmOptions;
use am_core::fabric::Fabric;

use crate::early_message::footprint;
use crate::envelope;
use crate::error::Result;
use crate::handlers::{ASK_REPORT, EAGER};
use crate::state::State;

use super::Route;

/// Nobody answers an eager message: it reserves no room for an answer.
const ONE_WAY: AmOptions =
    AmOptions { origin: None, target: None, completion: None, one_way: true, announce: false };

/// Sends a message eagerly and returns when its buffer may be used again.
///
/// # Errors
/// What am-core reports: a dead receiver, for instance.
#[inline(always)]
pub(crate) fn send_eager<F: Fabric>(state: &mut State<F>, route: &Route, bytes: &[u8]) -> Result<()> {
    let verdict = state.handlers().budget.charge(route.task.0, footprint(bytes.len()));
    let header = envelope::to_bytes(&route.envelope, route.destination);
    state.context.amsend(route.task, EAGER, &header, bytes, ONE_WAY)?;
    if verdict.ask { ask_for_report(state, route) } else { Ok(()) }
}

/// Asks how much of what was sent eagerly has been received.
///
/// # Errors
/// What am-core reports.
#[cold]
#[inline(never)]
pub(crate) fn ask_for_report<F: Fabric>(state: &mut State<F>, route: &Route) -> Result<()> {
    state.context.amsend(route.task, ASK_REPORT, &[], &[], AmOptions::default())?;
    Ok(())
}
