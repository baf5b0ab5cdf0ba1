//! Waiting where several threads take turns with one environment, as those of the C interface do: a thread that waits for other
//! tasks gives the others their turn between two looks, or two threads that make communicators could each hold up what the
//! other one waits for.
//!
//! What tasks arrange by collectives goes by those that do not wait in any case, since only some tasks may have several threads.

use am_core::buffer::RemoteAddress;
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::{Context, RmwHandle};

use super::{Communicator, Space};
use crate::buffer::{lend_buffer, lend_bytes};
use crate::collective::Collective;
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::op;
use crate::protocol::{self, Mode, Receive, Room};
use crate::request::{Request, RequestId, Scope, Tested};
use crate::state::is_over;
use crate::status::Status;

impl<F: Fabric> Communicator<F> {
    /// Makes progress until `done` says so; threads that take turns have theirs between two looks. Nothing of this crate is borrowed
    /// then, and another thread may have changed what the caller has looked up before.
    ///
    /// # Errors
    /// What progress reports.
    pub(crate) fn wait_in_turns(
        &self,
        mut done: impl FnMut(&mut Context<F, MpiHandlers>) -> bool,
    ) -> Result<()> {
        let mut state = self.state()?;
        let Some(give_turn) = state.give_turn else { return state.wait_for(done) };
        let mut polls = 0;
        while state.look(|state| Ok(done(&mut state.context).then_some(())))?.is_none() {
            drop(state);
            give_turn(&mut || self.rest(&mut polls));
            // What other calls have left meanwhile is for the next call, as it is where one thread waits.
            state = self.state_to_end().ok_or(Error::Nested)?;
        }
        Ok(())
    }

    /// Tries until `attempt` finds something, where no news from other tasks would end a sleep; threads that take turns have theirs
    /// between two attempts.
    ///
    /// # Errors
    /// What the attempt returns.
    pub(crate) fn try_in_turns<T>(&self, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let give_turn = self.state()?.give_turn.unwrap_or(|rest| rest());
        loop {
            if let Some(found) = attempt()? {
                return Ok(found);
            }
            give_turn(&mut std::thread::yield_now);
        }
    }

    /// Carries an atomic operation out on a word of another task; threads that take turns have theirs while the word's owner is waited
    /// for. Makes progress.
    ///
    /// # Errors
    /// As for [`Context::rmw`].
    pub(crate) fn rmw_in_turns(&self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Result<u64> {
        let mut state = self.state()?;
        if state.give_turn.is_none() {
            return Ok(state.context.rmw(at, width, operation)?);
        }
        state.probe()?;
        let begun = state.context.rmw_nonblocking(at, width, operation, None)?;
        drop(state);
        self.wait_for_rmw(begun)
    }

    /// Waits for the result of an operation that was begun; threads that take turns have theirs meanwhile.
    pub(crate) fn wait_for_rmw(&self, begun: RmwHandle) -> Result<u64> {
        let (mut begun, mut found) = (Some(begun), Ok(0));
        self.wait_in_turns(|context| {
            if let Some(handle) = begun.take() {
                match context.rmw_result(handle) {
                    Ok(Err(handle)) => begun = Some(handle),
                    Ok(Ok(word)) => found = Ok(word),
                    Err(error) => found = Err(error.into()),
                }
            }
            begun.is_none()
        })?;
        found
    }

    /// Waits until the operation is over.
    pub(crate) fn wait_over_in_turns(&self, request: RequestId) -> Result<()> {
        self.wait_in_turns(|context| is_over(context, request))
    }

    /// Carries a collective out ([`collective_data`](Self::collective_data)); threads that take turns have theirs while it waits.
    ///
    /// # Errors
    /// As for [`collective_data`](Self::collective_data).
    pub fn collective_data_in_turns(&self, collective: &Collective) -> Result<()> {
        if !self.takes_turns()? {
            return self.collective_data(collective);
        }
        let request = self.begin_collective_data(collective)?;
        if let Err(error) = self.wait_over_in_turns(request) {
            self.end_request(request);
            return Err(error);
        }
        self.take_over(request).map(|_| ())
    }

    /// Whether several threads take turns.
    pub(crate) fn takes_turns(&self) -> Result<bool> {
        Ok(self.state()?.give_turn.is_some())
    }

    /// Waits until all tasks have come here.
    pub(crate) fn barrier_in_turns(&self) -> Result<()> {
        self.collective_data_in_turns(&Collective::Barrier)
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
