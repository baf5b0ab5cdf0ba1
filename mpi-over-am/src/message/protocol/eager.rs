//! The eager protocol: the message carries its data, and is kept at the receiver until its receive is posted (MPI-LAPI paper, figure 3).

use am_core::AmOptions;
use am_core::error::Outcome;
use am_core::fabric::{Fabric, Posted};

use super::charge::{charge, refused};
use super::{Load, in_pieces, rendezvous};
use crate::error::Result;
use crate::message::early_message::footprint;
use crate::message::envelope;
use crate::message::handlers::EAGER;
use crate::message::route::Route;
use crate::message::state::State;

/// Sends a message as one packet, if the budget and the credits allow it at once; returns whether the message was sent. If not, nothing has
/// changed, and the caller must call [`try_send_again`]. Until a short message is sent, this function calls no other function
/// (`Context::try_amsend_packet`).
#[inline(always)]
pub(crate) fn try_send_packet<F: Fabric>(state: &mut State<F>, route: &Route, bytes: &[u8]) -> bool {
    let &Route { task, destination, envelope } = route;
    if bytes.len() > state.eager_limits.unsplit {
        return false;
    }
    // If the fabric's index of the task is not known, the send fails and its charge is taken back; the general path asks for the index.
    let charged = state.handlers().budget.charge_quietly(task.0, footprint(bytes.len()));
    let Some((index, before)) = charged else { return false };
    let header = envelope::to_bytes(&envelope, destination);
    let target = state.peer(task, index);
    let is_sent = state.context.try_amsend_packet(target, EAGER, &header, bytes);
    if !is_sent {
        state.handlers().budget.set_back(task.0, before);
    }
    is_sent
}

/// Sends a message that [`try_send_packet`] has not sent as one packet, or in pieces, if that is possible at once; returns whether the
/// message was sent. If not, nothing has changed, and the caller must call [`send`].
#[inline(never)]
pub(crate) fn try_send_again<F: Fabric>(
    state: &mut State<F>,
    &Route { task, destination, envelope }: &Route,
    bytes: &[u8],
) -> bool {
    if bytes.len() > state.eager_limits.bytes {
        return in_pieces::try_send(state, Route { task, destination, envelope }, bytes);
    }
    if bytes.len() > state.eager_limits.unsplit
        && in_pieces::try_send_split(state, Route { task, destination, envelope }, bytes)
    {
        return true;
    }
    let charged = state.handlers().budget.charge_quietly(task.0, footprint(bytes.len()));
    let Some((_, before)) = charged else { return false };
    state.learn_peer(task);
    let header = envelope::to_bytes(&envelope, destination);
    let options = AmOptions { target: state.target_counter, ..AmOptions::default() };
    // If the message was refused, `send` gets the same error and returns it.
    let sent = state.context.try_amsend(task, EAGER, &header, bytes, options);
    let is_sent = matches!(sent, Ok(Posted::Done));
    if !is_sent {
        state.handlers().budget.set_back(task.0, before);
    }
    is_sent
}

/// [`try_send_packet`], and [`try_send_again`] if that is needed.
#[inline(always)]
pub(crate) fn try_send<F: Fabric>(state: &mut State<F>, route: &Route, bytes: &[u8]) -> bool {
    try_send_packet(state, route, bytes) || try_send_again(state, route, bytes)
}

/// Sends a message eagerly, or announces it if the budget of early arrivals is used up.
///
/// # Errors
/// An error of am-core, such as a dead receiver.
#[inline]
pub(super) fn send<F: Fabric>(state: &mut State<F>, route: &Route, load: impl Load) -> Result<Outcome> {
    let (task, len) = (route.task, load.len());
    state.learn_peer(task);
    if !charge(state, task, len)? {
        return rendezvous::send(state, *route, load);
    }
    let options = AmOptions { target: state.target_counter, ..AmOptions::default() };
    load.send(state, route, EAGER, options).map_err(|error| refused(state, task, len, error))
}

#[cfg(test)]
mod tests {
    use am_core::task::TaskId;
    use am_double::{Config, network};

    use super::*;
    use crate::matching::{ContextId, Envelope};
    use crate::message::protocol::Borrowed;
    use crate::settings::Settings;

    const DEAD: TaskId = TaskId(1);

    fn route() -> Route {
        Route { task: DEAD, destination: DEAD.0, envelope: Envelope::new(ContextId(0), 0, 0) }
    }

    /// If refused messages shrank the budget, all later messages would be announced.
    #[test]
    fn a_message_that_is_refused_takes_nothing_of_the_budget() {
        let (network, mut fabrics) = network(Config::new(2));
        let mut state = State::new(fabrics.swap_remove(0), &Settings::default()).unwrap();
        state.learn_peer(DEAD);
        network.kill(DEAD);
        let untouched = state.handlers().budget.clone();
        for len in [8, 100] {
            let bytes = vec![7; len];
            assert!(!try_send_packet(&mut state, &route(), &bytes), "{len} bytes went to a dead task");
            assert!(!try_send_again(&mut state, &route(), &bytes), "{len} bytes went to a dead task");
            assert!(send(&mut state, &route(), Borrowed(&bytes)).is_err(), "{len} bytes went to a dead task");
            assert_eq!(state.handlers().budget, untouched, "after {len} bytes");
        }
    }

    /// Later short messages take the fast path, whatever the length of the first message was.
    #[test]
    fn the_first_message_introduces_its_receiver() {
        for len in [8, 100] {
            let (_network, mut fabrics) = network(Config::new(2));
            let mut state = State::new(fabrics.swap_remove(0), &Settings::default()).unwrap();
            assert!(
                !try_send_packet(&mut state, &route(), &[7; 8]),
                "the fabric's number of the task is not known yet"
            );
            assert!(try_send_again(&mut state, &route(), &vec![7; len]), "{len} bytes");
            assert!(try_send_packet(&mut state, &route(), &[7; 8]), "after {len} bytes");
        }
    }

    /// The budget allows some of the messages and no more; messages that are not sent are not charged.
    #[test]
    fn what_does_not_go_now_is_not_charged() {
        let (_network, mut fabrics) = network(Config::new(2));
        let settings = Settings { early_arrival_bytes_max: 4096, ..Settings::default() };
        let mut state = State::new(fabrics.swap_remove(0), &settings).unwrap();
        assert!(
            !try_send_packet(&mut state, &route(), &[7; 8]),
            "the fabric's number of the task is not known yet"
        );
        let first = send(&mut state, &route(), Borrowed(&[7; 8]));
        assert_eq!(first.unwrap(), Outcome::Done);
        let mut sent = [0; 3];
        for turn in (0..3).cycle().take(3000) {
            let before = state.handlers().budget.clone();
            let is_sent = match turn {
                0 => try_send_packet(&mut state, &route(), &[7; 8]),
                1 => try_send_again(&mut state, &route(), &[7; 8]),
                _ => try_send_again(&mut state, &route(), &[7; 100]),
            };
            assert_eq!(is_sent, state.handlers().budget != before, "turn {turn}");
            sent[turn] += u32::from(is_sent);
        }
        assert!(sent.iter().all(|&sent| sent > 0 && sent < 500), "{sent:?} messages went");
    }
}
