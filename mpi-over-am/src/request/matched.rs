//! Matched probes and receives (MPI 5.0 sections 3.8.2 and 3.8.3): one call takes a message out of the queue and another receives it, so
//! that no other receive can take it in between.

use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::data::buffer::{BufferMut, RecvData};
use crate::error::Result;
use crate::matching::Pattern;
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::request_table::MessageId;
use crate::message::state::State;
use crate::message::status::Status;
use crate::policy::LockPolicy;
use crate::rank::Source;
use crate::request::blocking::wait_here;
use crate::request::probe::wait_for_message;
use crate::tag::Tag;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Takes the message that a receive from `source` with `tag` would match now, if there is one (`MPI_Improbe`). Makes
    /// progress.
    ///
    /// # Errors
    /// An unknown rank, a tag out of range, an error while making progress.
    pub fn improbe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<(MessageId, Status)>> {
        let (source, tag) = (source.into(), tag.into());
        let Some(pattern) = self.pattern_or_nobody(source, tag)? else {
            return Ok(Some((MessageId::NO_PROC, Status::OF_PROC_NULL)));
        };
        let mut state = self.state_to_start()?;
        let found = state.look(|state| Ok(take_match(state, &pattern)))?;
        if found.is_none() && state.handlers().is_unusual() {
            state.handlers().why_not_probe(&pattern).map_or(Ok(()), Err)?;
        }
        Ok(found)
    }

    /// Waits for a message that a receive from `source` with `tag` would match, and takes it (`MPI_Mprobe`).
    ///
    /// # Errors
    /// Those of [`improbe`](Self::improbe).
    pub fn mprobe(&self, source: impl Into<Source>, tag: impl Into<Tag>) -> Result<(MessageId, Status)> {
        let (source, tag) = (source.into(), tag.into());
        let Some(pattern) = self.pattern_or_nobody(source, tag)? else {
            return Ok((MessageId::NO_PROC, Status::OF_PROC_NULL));
        };
        let mut state = self.state_to_start()?;
        wait_for_message(&mut state, &pattern, |_| ())?;
        Ok(take_match(&mut state, &pattern).expect("the wait has found it"))
    }

    /// Receives a matched message into `buffer` (`MPI_Mrecv`).
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv); [`Error::UnknownMessage`](crate::Error::UnknownMessage).
    pub fn mrecv<B: BufferMut + ?Sized>(&self, buffer: &mut B, message: MessageId) -> Result<Status> {
        buffer.incoming()?.lend_data(|data| self.mrecv_data(&data, message))
    }

    /// Like [`mrecv`](Self::mrecv), for elements of a datatype.
    ///
    /// # Errors
    /// Those of [`mrecv`](Self::mrecv).
    pub fn mrecv_data(&self, data: &RecvData, message: MessageId) -> Result<Status> {
        if message == MessageId::NO_PROC {
            return Ok(Status::OF_PROC_NULL);
        }
        let mut state = self.state()?;
        let taken = state.matched.take(message)?;
        let request = protocol::start_matched(&mut state, taken, data);
        wait_here(&mut state, request)
    }

    /// Starts to receive a matched message (`MPI_Imrecv`).
    ///
    /// # Errors
    /// Those of [`mrecv`](Self::mrecv).
    pub fn imrecv_data(&self, data: &RecvData, message: MessageId) -> Result<RequestId> {
        if message == MessageId::NO_PROC {
            return Ok(RequestId::RECEIVED_FROM_NOBODY);
        }
        let mut state = self.state()?;
        let taken = state.matched.take(message)?;
        Ok(protocol::start_matched(&mut state, taken, data))
    }
}

fn take_match<F: Fabric>(state: &mut State<F>, pattern: &Pattern) -> Option<(MessageId, Status)> {
    let (envelope, message) = state.handlers().early.take_match(pattern)?;
    Some(state.matched.put(envelope, message))
}
