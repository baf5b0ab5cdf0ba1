//! The synchronous mode up to the eager limit: the message carries its data, and its receiver acknowledges the match.
//!
//! The message names its sender's request. If a receive has been posted, the header handler answers the message; the sender has reserved
//! the credit for the answer. If not, the name is kept with the early message, and the receive that takes the message sends the
//! acknowledgement as a one-way message. Until the acknowledgement gets a credit, the message keeps its part of the budget, which bounds
//! the number of waiting acknowledgements. A message that cannot be sent at once, or is beyond the budget, is announced, like all
//! synchronous messages without [`Settings::eager_synchronous`](crate::settings::Settings::eager_synchronous).

use am_core::buffer::RawBytes;
use am_core::error::Outcome;
use am_core::fabric::{Fabric, Posted};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};

use super::charge::{charge, refused};
use super::{Held, Load, rendezvous};
use crate::data::buffer;
use crate::error::Result;
use crate::message::early_message::{self, footprint};
use crate::message::envelope;
use crate::message::handlers::{EAGER_SYNCHRONOUS, MATCHED, MpiHandlers, WITHDRAW};
use crate::message::request_id::RequestId;
use crate::message::route::Route;
use crate::message::state::State;

/// Options of the message, and of the request to withdraw it: the receiver may answer both.
const ANSWERABLE: AmOptions =
    AmOptions { origin: None, target: None, completion: None, answerable: true, announce: false };

/// Sends a message with its data if that is possible at once; otherwise announces it.
///
/// # Errors
/// An error of am-core, such as a dead receiver.
#[inline(never)]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: Route, mut load: impl Load) -> Result<Outcome> {
    if charge(state, route.task, load.len())? {
        match load.try_synchronous(state, &route) {
            Ok(Outcome::Retry) => state.handlers().budget.take_back(route.task.0, footprint(load.len())),
            Err(error) => return Err(refused(state, route.task, load.len(), error)),
            sent => return sent,
        }
    }
    rendezvous::send(state, route, load)
}

/// Sends a message whose request ends with the acknowledgement. Returns `Posted`, or `Retry` if the message cannot be sent at once.
///
/// # Errors
/// An error of am-core; nothing was sent then.
pub(super) fn try_send<F: Fabric>(state: &mut State<F>, route: &Route, load: Held) -> Result<Outcome> {
    let name = envelope::name_of(load.request.handle());
    let header = envelope::to_bytes_with_word(&route.envelope, route.destination, name);
    let sent = buffer::with_slice(load.bytes, |bytes| {
        state.context.try_amsend(route.task, EAGER_SYNCHRONOUS, &header, bytes, ANSWERABLE)
    })?;
    if sent != Posted::Done {
        return Ok(Outcome::Retry);
    }
    state.handlers().requests.await_acknowledgement(load.request, route.task);
    Ok(Outcome::Posted)
}

/// Tells the sender of an early message that a receive has taken the message; `request` is the name in the message. Returns true if the
/// acknowledgement was sent, or never will be. If the acknowledgement is still to be sent, returns false, and am-core reports its end under
/// the number that [`early_message::part_of_number`] decodes.
#[cold]
#[inline(never)]
pub(super) fn acknowledge<F: Fabric>(
    context: &mut Context<F, MpiHandlers>,
    (task, footprint): (u32, u64),
    request: u32,
) -> bool {
    let (name, options) = (request.to_le_bytes(), AmOptions::default());
    let number = Some(early_message::number_of_part(task, footprint));
    let sent = buffer::amsend(context, TaskId(task), (MATCHED, &name), RawBytes::EMPTY, options, number);
    // A sender that has ended expects no acknowledgement.
    !matches!(sent, Ok(Outcome::Posted))
}

/// Withdraws a send whose match has not been reported to this task. The request always ends: as cancelled, or with the result of the
/// message.
pub(crate) fn give_up<F: Fabric>(state: &mut State<F>, request: RequestId) {
    let Some(task) = state.handlers().requests.acknowledged_by(request) else {
        return state.context.give_up(request.number());
    };
    let name = envelope::name_of(request.handle()).to_le_bytes();
    // The receiver answers if it still has the message. If not, the acknowledgement is under way.
    let asked =
        buffer::amsend(&mut state.context, task, (WITHDRAW, &name), RawBytes::EMPTY, ANSWERABLE, None);
    if let Err(error) = asked {
        state.handlers().requests.acknowledged(request, task, Some(error.into()));
    }
}

#[cfg(test)]
mod tests {
    use am_core::buffer::RawBuffer;
    use am_double::{Config, network};

    use super::*;
    use crate::matching::{ContextId, Envelope, Pattern};
    use crate::message::protocol::{Borrowed, send_bytes_or_start, start_receive, try_send};
    use crate::message::route::{Mode, Receive, ReceiveBuffer};
    use crate::settings::Settings;

    /// A receiver that has no credit for the acknowledgement sends it later. Until then the message keeps its part of the budget.
    #[test]
    fn an_acknowledgement_without_a_credit_keeps_the_part_of_its_message() {
        let (_network, fabrics) = network(Config::new(2));
        let states = fabrics.into_iter().map(|fabric| State::new(fabric, &Settings::default()).unwrap());
        let [mut receiver, mut sender] = <[State<_>; 2]>::try_from(states.collect::<Vec<_>>()).unwrap();
        let envelope = Envelope::new(ContextId(0), 1, 5);
        let route = Route { task: TaskId(0), destination: 0, envelope };
        let sent = send_bytes_or_start(&mut sender, Mode::Synchronous, &route, RawBytes::EMPTY).unwrap();
        receiver.probe().unwrap();
        assert_eq!(receiver.handlers().early.len(), 1);
        let back = Route { task: TaskId(1), destination: 1, envelope: Envelope::new(ContextId(0), 0, 6) };
        // The first message introduces the peer.
        let first = crate::message::protocol::send(&mut receiver, Mode::Standard, &back, Borrowed(&[0; 8]));
        assert_eq!(first.unwrap(), Outcome::Done);
        while try_send(&mut receiver, &back, &[0; 8]) {}
        let before = receiver.handlers().budget.clone();
        let buffer = ReceiveBuffer::Bytes(RawBuffer::EMPTY);
        let request = start_receive(&mut receiver, Receive { pattern: Pattern::of(&envelope), buffer });
        assert!(receiver.handlers().requests.is_over(request));
        receiver.probe().unwrap();
        assert!(receiver.handlers().budget == before, "the acknowledgement was sent without a credit");
        for _ in 0..100 {
            sender.probe().unwrap();
            receiver.probe().unwrap();
        }
        assert!(sender.handlers().requests.is_over(sent), "the sender was not told");
        assert!(receiver.handlers().budget != before, "the part was not returned");
    }
}
