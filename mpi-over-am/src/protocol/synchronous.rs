//! The synchronous mode up to the eager limit: the message goes with its data, and its receiver acknowledges the match.
//!
//! The message names its sender's request. If a receive is posted, the header handler answers it, for which the sender has reserved
//! the credit. If not, the name lies in the early arrival, and the receive that takes it sends the acknowledgement as a one-way message;
//! without a credit that is queued in am-core, so that there is at most one for each early message that the budget lets in. A message
//! that cannot go at once, or is beyond the budget, is announced, as all synchronous ones are without
//! [`Settings::eager_synchronous`](crate::settings::Settings::eager_synchronous).

use am_core::buffer::RawBytes;
use am_core::error::Outcome;
use am_core::fabric::Fabric;
use am_core::task::TaskId;
use am_core::{AmOptions, Context};

use super::{Held, Load, eager, rendezvous};
use crate::buffer;
use crate::early_message::footprint;
use crate::envelope;
use crate::error::Result;
use crate::handlers::{EAGER_SYNCHRONOUS, MATCHED, MpiHandlers, WITHDRAW};
use crate::message::Route;
use crate::request_id::RequestId;
use crate::state::State;

/// The message, and the question to withdraw it, may be answered.
const ANSWERABLE: AmOptions =
    AmOptions { origin: None, target: None, completion: None, answerable: true, announce: false };

/// Sends a message with its data if it can go at once, and announces it if not.
///
/// # Errors
/// What am-core reports: a dead receiver, for instance.
#[inline(never)]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, mut load: impl Load) -> Result<Outcome> {
    if eager::charge(state, route.task, load.len())? {
        match load.try_synchronous(state, &route) {
            Ok(Outcome::Retry) => state.handlers().budget.take_back(route.task.0, footprint(load.len())),
            Err(error) => return Err(eager::refused(state, route.task, load.len(), error)),
            sent => return sent,
        }
    }
    rendezvous::send(state, route, load)
}

/// Sends a message whose request ends by the acknowledgement: `Posted`, or `Retry` if it cannot go at once.
///
/// # Errors
/// What am-core reports; nothing was sent then.
pub(super) fn try_send<F: Fabric>(state: &mut State<F>, route: &Route, load: Held) -> Result<Outcome> {
    let request = load.request.handle();
    let header = envelope::to_bytes_with_request(&route.envelope, route.destination, request);
    let sent = buffer::with_slice(load.bytes, |bytes| {
        state.context.try_amsend(route.task, EAGER_SYNCHRONOUS, &header, bytes, ANSWERABLE)
    })?;
    if sent != Outcome::Done {
        return Ok(Outcome::Retry);
    }
    state.handlers().requests.await_acknowledgement(load.request, route.task);
    Ok(Outcome::Posted)
}

/// Tells the sender of an early message that its receive has started. `request`: the name that the message gave.
#[cold]
#[inline(never)]
pub(super) fn acknowledge<F: Fabric>(context: &mut Context<F, MpiHandlers>, task: u32, request: u32) {
    let (name, options) = (request.to_le_bytes(), AmOptions::default());
    // Queued if there is no credit. A sender that is gone waits for nothing.
    let _ = buffer::amsend(context, TaskId(task), (MATCHED, &name), RawBytes::EMPTY, options, None);
}

/// Gives up a send that has not met its receive, as far as its request can know. The request ends in every case: as withdrawn, or as
/// the message ends.
pub(crate) fn give_up<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let Some(task) = state.handlers().requests.acknowledged_by(request) else {
        return state.context.give_up(request.number());
    };
    let name = envelope::name_of(request.handle());
    // The receiver answers if the message is still there. If not, the acknowledgement is on its way.
    let asked =
        buffer::amsend(&mut state.context, task, (WITHDRAW, &name), RawBytes::EMPTY, ANSWERABLE, None);
    if let Err(error) = asked {
        state.handlers().requests.acknowledged(request, task, Some(error.into()));
    }
}
