//! Waiting where several threads take turns with one environment, as those of the C interface do: a thread that waits for other
//! tasks gives the others their turn between two looks, or two threads that make communicators could each hold up what the
//! other one waits for.
//!
//! What tasks arrange by collectives goes by those that do not wait in any case, since only some tasks may have several threads.

use am_core::fabric::Fabric;

use super::{Communicator, Space};
use crate::buffer::{lend_buffer, lend_bytes};
use crate::error::{Error, Result};
use crate::op;
use crate::protocol::{self, Mode, Receive, Room};
use crate::request::{Request, RequestId, Scope, Tested};
use crate::status::Status;

impl<F: Fabric> Communicator<F> {
    /// Waits until the operation is over.
    pub(super) fn wait_over_in_turns(&self, request: RequestId) -> Result<()> {
        let Some(give_turn) = self.state()?.give_turn else {
            return self.state()?.wait_over(request);
        };
        let mut polls = 0;
        while !self.state()?.is_over_after_progress(request)? {
            give_turn(&mut || self.rest(&mut polls));
        }
        Ok(())
    }

    /// After a look (a test, a probe) that has not found what the caller waits for: one round of progress, and sleep when nothing
    /// comes, until something does. `polls` counts the rounds in a row in which nothing came, and decides between spinning and
    /// sleeping; the caller sets it to 0 at first. For waits that take turns with other threads between two looks. Whatever goes
    /// wrong is reported by the next look.
    pub fn rest(&self, polls: &mut u32) {
        if let Some(mut state) = self.state_to_end() {
            // Refused inside a handler, as the look is.
            let _ = state.rest(polls);
        }
    }

    /// Each word becomes all of its bits that any task has set.
    pub(super) fn combine_in_turns(&self, words: &mut [u64]) -> Result<()> {
        let own = words.to_vec();
        self.scope(|s| finish(s, s.iallreduce(&own, words, op::BitwiseOr)?))?;
        Ok(())
    }

    /// What one task has, everybody has.
    pub(super) fn broadcast_in_turns(&self, words: &mut [u64], root: u32) -> Result<()> {
        self.scope(|s| finish(s, s.ibroadcast(words, root)?))?;
        Ok(())
    }

    /// Sends words to a peer and gets as many from it, on the space of the library.
    pub(super) fn exchange_words(&self, peer: u32, tag: i32, out: &[u64], into: &mut [u64]) -> Result<()> {
        let route = self.route(Space::Management, peer, tag)?;
        let pattern = self.pattern(Space::Management, peer.into(), tag.into())?;
        let room = size_of_val(into) as u64;
        let status = self.scope(|s| {
            let mut state = self.state()?;
            let receive = Receive { pattern, room: Room::Bytes(lend_buffer(s, into)) };
            let arriving = s.opened(protocol::start_receive(&mut state, receive, s.number()));
            let bytes = lend_bytes(s, out);
            let leaving = protocol::start_send(&mut state, Mode::Standard, &route, bytes, s.number())?;
            drop(state);
            finish(s, s.opened(leaving))?;
            finish(s, arriving)
        })?;
        if status.len() == room {
            return Ok(());
        }
        Err(Error::Protocol { peer, what: "a list of another length than it announced" })
    }
}

/// Waits for an operation of a scope.
fn finish<'scope, F: Fabric>(
    scope: &'scope Scope<'scope, '_, F>,
    mut request: Request<'scope>,
) -> Result<Status> {
    let Some(give_turn) = scope.communicator().state()?.give_turn else { return scope.wait(request) };
    let mut polls = 0;
    loop {
        match scope.test(request)? {
            Tested::Done(status) => return Ok(status),
            Tested::Pending(same) => request = same,
        }
        give_turn(&mut || scope.communicator().rest(&mut polls));
    }
}
