//! Memory for the buffered sends of several threads.

use am_core::fabric::Fabric;

use super::{Inner, SharedEnvironment, WORLD, Waiting};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::protocol::{self, BufferOwner};
use crate::state::is_over;

impl<F: Fabric> SharedEnvironment<F> {
    /// As [`Environment::attach_buffer`].
    ///
    /// # Errors
    /// As there.
    pub fn attach_buffer(&self, memory: Vec<u8>) -> Result<()> {
        self.shared.inner.with_environment(|environment| environment.attach_buffer(memory))
    }

    /// As [`Environment::flush_buffer`]. What other threads send meanwhile is waited for too.
    ///
    /// # Errors
    /// As there.
    pub fn flush_buffer(&self) -> Result<()> {
        self.shared.inner.when_all_have_gone(Environment::flush_buffer)
    }

    /// As [`Environment::detach_buffer`].
    ///
    /// # Errors
    /// As there.
    pub fn detach_buffer(&self) -> Result<Option<Vec<u8>>> {
        self.shared.inner.when_all_have_gone(Environment::detach_buffer)
    }
}

impl<F: Fabric> Inner<F> {
    pub(super) fn with_environment<R: Send>(
        &self,
        call: impl FnOnce(&Environment<F>) -> Result<R>,
    ) -> Result<R> {
        let mut turn = self.enter()?;
        call(turn.value().environment.as_ref().ok_or(Error::Finalized)?)
    }

    /// Makes a call that would wait for the messages in the buffer, in a turn in which it does not.
    fn when_all_have_gone<R: Send>(&self, call: impl Fn(&Environment<F>) -> Result<R>) -> Result<R> {
        loop {
            let first = {
                let mut turn = self.enter()?;
                let under_way = {
                    let world = turn.value().communicator(WORLD)?;
                    protocol::first_under_way(&mut *world.state()?, BufferOwner::Process)
                };
                match under_way {
                    None => return call(turn.value().environment.as_ref().ok_or(Error::Finalized)?),
                    Some(request) => request,
                }
            };
            // Somebody else may take its room, and with it the request, which is over then as well.
            self.wait_until(WORLD, |context| is_over(context, first), |_| Ok(()))
                .map_err(Waiting::into_error)?;
        }
    }
}
