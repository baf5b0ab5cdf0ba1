//! The additional state of a program's VI: the numbers of its connection, its work queues, and the state of their heads.

use crate::device::Operation;
use crate::table::CqHandle;
use crate::user_agent::attempt::Attempt;
use crate::user_agent::channel::word;
use crate::user_agent::connection::PeerAttributes;
use crate::user_agent::receiving::Receiving;
use crate::user_agent::sending::Sending;
use crate::user_agent::staged::Serving;
use crate::user_agent::work_queue::{Queue, WorkQueue};

/// A VI with work queues.
pub(crate) type Vi = crate::vi::Vi<Work>;

/// The additional state of a program's VI.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The number of this VI's connection at this NIC and at the peer's; 0: none.
    pub(crate) connection: u32,
    pub(crate) their_connection: u32,
    pub(crate) theirs: Option<PeerAttributes>,
    /// The VI's connection attempt, until the program has got the result.
    pub(crate) attempt: Option<Attempt>,
    pub(crate) sends: WorkQueue,
    pub(crate) receives: WorkQueue,
    pub(crate) send_cq: Option<CqHandle>,
    pub(crate) receive_cq: Option<CqHandle>,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
    pub(crate) serving: Option<Serving>,
}

impl Vi {
    pub(crate) fn queue(&self, queue: Queue) -> &WorkQueue {
        match queue {
            Queue::Send => &self.work.sends,
            Queue::Receive => &self.work.receives,
        }
    }

    pub(crate) fn queue_mut(&mut self, queue: Queue) -> &mut WorkQueue {
        match queue {
            Queue::Send => &mut self.work.sends,
            Queue::Receive => &mut self.work.receives,
        }
    }

    pub(crate) fn cq(&self, queue: Queue) -> Option<CqHandle> {
        match queue {
            Queue::Send => self.work.send_cq,
            Queue::Receive => self.work.receive_cq,
        }
    }

    /// Forgets how far the first descriptors of both queues had got, after all descriptors have been flushed.
    pub(crate) fn forget_progress(&mut self) {
        self.work.sending = Sending::default();
        self.work.receiving = Receiving::default();
        self.work.serving = None;
    }

    /// The operation word of an entry for the peer's VI.
    pub(crate) fn operation(&self, operation: Operation) -> u32 {
        word(operation, self.work.their_connection)
    }
}
