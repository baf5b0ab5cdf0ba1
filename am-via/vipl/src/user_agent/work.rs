//! The additional state of a program's VI: its connection or its attempt to get one, its work queues, and the state of their heads. What
//! changes the state is in the files of its kinds: `attempt`, `sending`, `receiving`, `staged`.

use std::time::{Duration, Instant};

use crate::address::{Discriminator, NetAddress};
use crate::attributes::ViAttributes;
use crate::error::VipError;
use crate::handle::CqHandle;
use crate::user_agent::entry::{PeerAttributes, word};
use crate::user_agent::work_queue::{Queue, WorkQueue};
use am_via_nic::device::{ClaimFault, MemHandle, Operation};

/// A VI with work queues.
pub(crate) type Vi = am_via_nic::Vi<Work>;

/// The additional state of a program's VI.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) attributes: ViAttributes,
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

impl Work {
    /// No connection and empty queues.
    pub(crate) fn new(
        attributes: ViAttributes,
        send_cq: Option<CqHandle>,
        receive_cq: Option<CqHandle>,
    ) -> Self {
        Self {
            attributes,
            connection: 0,
            their_connection: 0,
            theirs: None,
            attempt: None,
            sends: WorkQueue::default(),
            receives: WorkQueue::default(),
            send_cq,
            receive_cq,
            sending: Sending::default(),
            receiving: Receiving::default(),
            serving: None,
        }
    }
}

/// Whether the connection is to a server or to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Client,
    Peer,
}

/// A connection that a VI is asking for.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) way: Way,
    pub(crate) local: Discriminator,
    pub(crate) to: NetAddress,
    /// When the attempt began, and its time limit; `None`: no limit.
    pub(super) asked: Instant,
    pub(super) timeout: Option<Duration>,
    /// Whether the request was sent.
    pub(super) sent: bool,
    /// Why the attempt failed.
    pub(super) failed: Option<VipError>,
}

/// State of the first descriptor of a send queue (its head).
#[derive(Debug, Default)]
pub(crate) struct Sending {
    /// Bytes moved.
    pub(crate) moved: u32,
    /// Pieces posted.
    pub(super) pieces: u32,
    pub(crate) phase: Phase,
}

/// The next action of the head, or what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Bytes have to be moved.
    #[default]
    Moving,
    /// The device is moving `len` bytes.
    Transferring { id: u64, len: u32, end: Option<Result<(), ClaimFault>> },
    /// The device cannot access the peer's memory. Pieces have to be sent, and the peer stores them.
    Staging,
    /// All pieces are sent: the head waits for the peer's acknowledgement.
    Staged,
    /// All bytes are stored: the immediate data have to be sent.
    Announcing,
    /// The head waits for the acknowledgement that everything was received.
    AwaitingAcknowledgement,
    /// The head waits for the bytes of a read, which the peer sends.
    Reading,
}

impl Phase {
    /// Whether the head waits for the peer: for an acknowledgement, or for the data of a read.
    pub(crate) fn awaits_peer(self) -> bool {
        matches!(self, Self::Staged | Self::AwaitingAcknowledgement | Self::Reading)
    }
}

/// State of the message that is arriving.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    pub(super) placed: u32,
    pub(super) next_piece: u32,
    /// Whether the rest of this message is dropped: it had no descriptor, or its descriptor ended with an error.
    pub(super) discarding: bool,
}

/// A read that this side serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serving {
    pub(super) handle: MemHandle,
    pub(super) offset: u64,
    pub(super) left: u64,
}

impl Work {
    pub(crate) fn queue(&self, queue: Queue) -> &WorkQueue {
        match queue {
            Queue::Send => &self.sends,
            Queue::Receive => &self.receives,
        }
    }

    pub(crate) fn queue_mut(&mut self, queue: Queue) -> &mut WorkQueue {
        match queue {
            Queue::Send => &mut self.sends,
            Queue::Receive => &mut self.receives,
        }
    }

    pub(crate) fn cq(&self, queue: Queue) -> Option<CqHandle> {
        match queue {
            Queue::Send => self.send_cq,
            Queue::Receive => self.receive_cq,
        }
    }

    /// Forgets how far the first descriptors of both queues had got, after all descriptors have been flushed.
    pub(crate) fn forget_progress(&mut self) {
        self.sending = Sending::default();
        self.receiving = Receiving::default();
        self.serving = None;
    }

    /// The operation word of an entry for the peer's VI.
    pub(crate) fn operation(&self, operation: Operation) -> u32 {
        word(operation, self.their_connection)
    }
}
