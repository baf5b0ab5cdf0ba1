//! How calls wait, and how two tasks exchange words.

use am_core::buffer::RemoteAddress;
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::{Context, RmwHandle};

use super::Communicator;
use crate::context_id::Space;
use crate::data::buffer::{Buffer, BufferMut};
use crate::error::{Error, Result};
use crate::message::handlers::MpiHandlers;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::route::Mode;
use crate::policy::LockPolicy;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Makes progress until `done` returns true ([`Turn::wait_for`](crate::message::turn::Turn::wait_for)).
    ///
    /// # Errors
    /// An error while making progress.
    pub(crate) fn wait_until(
        &self,
        done: &mut dyn FnMut(&mut Context<F, MpiHandlers>) -> bool,
    ) -> Result<()> {
        self.state()?.wait_for(done)
    }

    /// Repeats `attempt` until it returns a value, for conditions whose change does not wake a sleeper. Between attempts, makes progress,
    /// since the condition may depend on an answer of this task, and lets other threads have their turns.
    ///
    /// # Errors
    /// The error of `attempt`; an error while making progress.
    pub(crate) fn try_until<T>(&self, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        loop {
            if let Some(found) = attempt()? {
                return Ok(found);
            }
            let mut turn = self.state()?;
            turn.take_in()?;
            turn.pass();
            drop(turn);
            std::thread::yield_now();
        }
    }

    /// Executes an atomic operation on a word of a task, and returns the word's old value. Also makes progress; if the word is mapped, only
    /// some calls do so.
    ///
    /// # Errors
    /// Those of [`Context::rmw`].
    pub(crate) fn rmw(&self, at: RemoteAddress, width: Width, operation: AtomicOp) -> Result<u64> {
        let mut state = self.state()?;
        let mapped = state.context.with_mapped(at, width.bytes(), |word| word.atomic(0, width, operation))?;
        if let Some(Some(old)) = mapped {
            return state.waited_for_nothing().map(|()| old);
        }
        if !L::takes_turns() {
            return Ok(state.context.rmw(at, width, operation)?);
        }
        state.probe()?;
        let begun = state.context.rmw_nonblocking(at, width, operation, None)?;
        drop(state);
        self.wait_for_rmw(begun)
    }

    /// Waits for the result of an operation that was begun.
    pub(crate) fn wait_for_rmw(&self, begun: RmwHandle) -> Result<u64> {
        let (mut begun, mut found) = (Some(begun), Ok(0));
        // `state_to_end` instead of `state`: the operation is under way, and the error of an earlier call must not hide its result.
        self.state_to_end().ok_or(Error::Nested)?.wait_for(&mut |context| {
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

    /// Waits until the operation is complete.
    pub(crate) fn wait_over(&self, request: RequestId) -> Result<()> {
        self.state()?.wait_over(request)
    }

    /// Exchanges words with a peer, in the library's message space; both must send the same number of words.
    pub(super) fn exchange_words(&self, peer: u32, tag: i32, out: &[u64], into: &mut [u64]) -> Result<()> {
        let route = self.route(Space::Management, peer, tag)?;
        let pattern = self.pattern(Space::Management, peer.into(), tag.into())?;
        let capacity = size_of_val(into) as u64;
        let status = self.scope(|s| {
            let mut state = self.state()?;
            let into = into.incoming()?.lend_to_scope(s);
            let arriving = protocol::start_receive_data(&mut state, pattern, &into);
            let arriving = s.opened(&mut state, arriving);
            let out = out.outgoing()?.lend_to_scope(s);
            let leaving = protocol::start_send_data(&mut state, Mode::Standard, &route, &out)?;
            let leaving = s.opened(&mut state, leaving);
            drop(state);
            s.wait(leaving)?;
            s.wait(arriving)
        })?;
        if status.len() == capacity {
            return Ok(());
        }
        Err(Error::Protocol { peer: route.task.0, what: "a list with another length than announced" })
    }
}
