//! The rendezvous protocol: the message is announced, and its data are transferred when the receive is posted (MPI-LAPI paper, figures 4, 6
//! and 7).
//!
//! The paper uses two active messages; this library uses one announced message of am-core. The request to send is the announcement. The
//! acknowledgement is the destination that the message's header handler (or, later, the receive) returns. The receiver fetches the data; if
//! it cannot, it asks the sender to send them. The send ends when the data have been transferred, and therefore after the receive has
//! started, as the synchronous mode requires (MPI 5.0 section 3.4).

use am_core::AmOptions;
use am_core::error::Outcome;
use am_core::fabric::Fabric;

use super::Load;
use crate::error::Result;
use crate::events::{self, EventKind, Fact};
use crate::message::handlers::REQUEST_TO_SEND;
use crate::message::route::Route;
use crate::message::state::State;

/// The options of an announced message.
pub(super) const ANNOUNCED: AmOptions =
    AmOptions { origin: None, target: None, completion: None, answerable: false, announce: true };

/// Announces a message.
///
/// # Errors
/// An error of am-core, such as a dead receiver.
#[inline(never)]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, load: impl Load) -> Result<Outcome> {
    events::tell(EventKind::RendezvousBegun, || {
        let fact = Fact::of_message(&route.envelope, load.len() as u64);
        Fact { rank: route.destination, task: Some(route.task.0), ..fact }
    });
    load.send(state, &route, REQUEST_TO_SEND, ANNOUNCED)
}
