//! Messages that a matched probe has taken out of the queue, until they are received.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::matching::Envelope;
use crate::message::early_message::EarlyMessage;
use crate::message::status::Status;

/// A message that was matched by a probe and waits to be received (`MPI_Message`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(u64);

impl MessageId {
    /// The message from [`PROC_NULL`](crate::PROC_NULL) (`MPI_MESSAGE_NO_PROC`): empty, and can be received any number of times.
    pub const NO_PROC: Self = Self(0);
}

/// The messages that were matched and not received yet.
#[derive(Debug, Default)]
pub(crate) struct MatchedMessages {
    messages: HashMap<u64, (Envelope, EarlyMessage)>,
    last: u64,
}

impl MatchedMessages {
    pub(crate) fn put(&mut self, envelope: Envelope, message: EarlyMessage) -> (MessageId, Status) {
        let status = Status::new(envelope.source(), envelope.tag(), message.len());
        self.last += 1;
        self.messages.insert(self.last, (envelope, message));
        (MessageId(self.last), status)
    }

    pub(crate) fn take(&mut self, id: MessageId) -> Result<(Envelope, EarlyMessage)> {
        self.messages.remove(&id.0).ok_or(Error::UnknownMessage { message: id.0 })
    }
}
