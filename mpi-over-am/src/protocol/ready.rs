//! Ready mode: the receive has been posted, so the message goes at once and takes nothing of the early arrivals' budget (seed
//! paper, figure 5).
//!
//! If the receive has not been posted after all, the message is lost and both sides learn of it: the receiver when it
//! receives, the sender by the answer that the message may have, with one of its next calls.

use am_core::AmOptions;
use am_core::error::Outcome;
use am_core::fabric::Fabric;

use super::Load;
use crate::error::Result;
use crate::handlers::READY;
use crate::message::Route;
use crate::state::State;

/// Sends a message in ready mode. Where its data do not fit into a packet am-core announces it by itself.
///
/// # Errors
/// What am-core reports: a dead receiver, for instance.
#[inline(never)]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, load: impl Load) -> Result<Outcome> {
    load.send(state, &route, READY, AmOptions { answerable: true, ..AmOptions::default() })
}
