//! Ready mode: the receive must have been posted, so the message is sent at once, without a charge to the budget of early arrivals
//! (MPI-LAPI paper, figure 5).
//!
//! If the receive was not posted, the message is lost and both sides get an error: the receiver when it receives, and the sender from one
//! of its next calls, through the answer to the message.

use am_core::AmOptions;
use am_core::error::Outcome;
use am_core::fabric::Fabric;

use super::Load;
use crate::error::Result;
use crate::message::handlers::READY;
use crate::message::route::Route;
use crate::message::state::State;

/// Sends a message in ready mode. If its data do not fit into a packet, am-core announces it.
///
/// # Errors
/// An error of am-core, such as a dead receiver.
#[inline(never)]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, load: impl Load) -> Result<Outcome> {
    load.send(state, &route, READY, AmOptions { answerable: true, ..AmOptions::default() })
}
