//! The rendezvous protocol: the message is announced, and its data go when the receive is there (seed paper, figures 4, 6
//! and 7).
//!
//! What the paper does with two active messages is one announced message of am-core: the request to send is the announcement,
//! the acknowledgement is the place that its header handler (or, later, the receive) names, and the data are fetched by the
//! receiver, or sent where it cannot fetch. The origin's operation ends when the data have been taken, and so not before
//! the receive has started: that is what the synchronous mode asks for too (MPI 4.1 section 3.4).

use am_core::AmOptions;
use am_core::error::Outcome;
use am_core::fabric::Fabric;

use super::Load;
use crate::error::Result;
use crate::events::{self, EventKind, Fact};
use crate::handlers::REQUEST_TO_SEND;
use crate::message::Route;
use crate::state::State;

/// How an announced message is sent.
pub(super) const ANNOUNCED: AmOptions =
    AmOptions { origin: None, target: None, completion: None, answerable: false, announce: true };

/// Announces a message.
///
/// # Errors
/// What am-core reports: a dead receiver, for instance.
#[inline(never)]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, load: impl Load) -> Result<Outcome> {
    events::tell(EventKind::RendezvousBegun, || {
        let fact = Fact::of_message(&route.envelope, load.len() as u64);
        Fact { rank: route.destination, task: Some(route.task.0), ..fact }
    });
    load.send(state, &route, REQUEST_TO_SEND, ANNOUNCED)
}
