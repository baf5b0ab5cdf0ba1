//! Looking at messages, for several threads. What [`probe`](SharedCommunicator::probe) has seen another thread may receive first; what
//! [`mprobe`](SharedCommunicator::mprobe) has taken is this thread's (MPI 5.0 section 3.8.2).

use am_core::Context;
use am_core::fabric::Fabric;
use bytemuck::AnyBitPattern;

use super::communicator::Handle;
use super::{SharedCommunicator, Waiting};
use crate::buffer::{RecvData, lend_to_receive};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::handlers::MpiHandlers;
use crate::rank::Source;
use crate::request::MessageId;
use crate::status::Status;
use crate::tag::Tag;

impl<F: Fabric> SharedCommunicator<F> {
    /// Waits for a message that a receive would take (`MPI_Probe`). Another thread may take it first.
    ///
    /// # Errors
    /// As for [`Communicator::probe`].
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status> {
        self.look_until(source.into(), tag.into(), |inside, source, tag| inside.iprobe(source, tag))
    }

    /// The message that a receive would take now, if there is one (`MPI_Iprobe`). Another thread may take it first.
    ///
    /// # Errors
    /// As for [`probe`](Self::probe).
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Status>> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, |inside| inside.iprobe(source, tag))
    }

    /// Waits for a message that a receive would take, and takes it (`MPI_Mprobe`): [`mrecv`](Self::mrecv) receives it, in any thread.
    ///
    /// # Errors
    /// As for [`Communicator::mprobe`].
    pub fn mprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<(MessageId, Status)> {
        self.look_until(source.into(), tag.into(), |inside, source, tag| inside.improbe(source, tag))
    }

    /// Takes the message that a receive would take now, if there is one (`MPI_Improbe`).
    ///
    /// # Errors
    /// As for [`mprobe`](Self::mprobe).
    pub fn improbe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<(MessageId, Status)>> {
        let Handle { shared, number } = &*self.handle;
        shared.inner.with(*number, |inside| inside.improbe(source, tag))
    }

    /// Receives a message that [`mprobe`](Self::mprobe) or [`improbe`](Self::improbe) has taken (`MPI_Mrecv`).
    ///
    /// # Errors
    /// As for [`Communicator::mrecv`].
    pub fn mrecv<T: AnyBitPattern>(&self, buffer: &mut [T], message: MessageId) -> Result<Status> {
        let Handle { shared, number } = &*self.handle;
        // The operation has ended when `carry_out` returns or unwinds.
        lend_to_receive(buffer, |room| {
            let data = RecvData::from_buffer(room);
            shared.inner.carry_out(*number, |inside| inside.imrecv_data(&data, message))
        })
    }

    /// Looks in a way that does not wait, then waits until that would find something, and looks again in the same turn.
    fn look_until<R: Send>(
        &self,
        source: Source,
        tag: Tag,
        look: impl Fn(&Communicator<F>, Source, Tag) -> Result<Option<R>>,
    ) -> Result<R> {
        let Handle { shared, number } = &*self.handle;
        if let Some(found) = shared.inner.with(*number, |inside| look(inside, source, tag))? {
            return Ok(found);
        }
        let pattern = shared.inner.with(*number, |inside| inside.probe_pattern(source, tag))?;
        let is_there = |context: &mut Context<F, MpiHandlers>| {
            context.handlers_mut().early.peek_match(&pattern).is_some()
        };
        let found = shared.inner.wait_until(*number, is_there, |inside| look(inside, source, tag));
        Ok(found.map_err(Waiting::into_error)?.expect("it was there, and this thread still has its turn"))
    }
}
