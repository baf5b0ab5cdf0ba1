//! The arguments of messages: peer, envelope, buffer and mode.

use am_core::buffer::RawBuffer;
use am_core::task::TaskId;

use crate::matching::{Envelope, Pattern};

/// The communication modes (MPI 5.0 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `MPI_Send`: the library decides whether to buffer.
    Standard,
    /// `MPI_Rsend`: the receive must have been posted.
    Ready,
    /// `MPI_Ssend`: complete when the receive has started.
    Synchronous,
    /// `MPI_Bsend`: complete at once; the message is sent from the attached buffer.
    Buffered,
}

/// The receiver of a message, and its envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) task: TaskId,
    /// The receiver's rank.
    pub(crate) destination: u32,
    pub(crate) envelope: Envelope,
}

/// The pattern of a receive, and its buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) pattern: Pattern,
    pub(crate) buffer: ReceiveBuffer,
}

/// The destination of a received message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReceiveBuffer {
    /// These bytes.
    Bytes(RawBuffer),
    /// The layout that the receive's request holds.
    Layout,
}

/// A message of at most this many bytes is always sent as one packet, if a packet can hold it; longer ones: `protocol::in_pieces`.
pub(crate) const UNSPLIT_BYTES_MAX: usize = 12 << 10;

/// Maximum lengths of messages that are sent without a rendezvous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EagerLimits {
    /// For the standard and the buffered mode, in bytes.
    pub(crate) bytes: usize,
    /// For messages of the standard mode that are always sent as one packet, in bytes.
    pub(crate) unsplit: usize,
    /// For the synchronous mode: the maximum in bytes plus 1; 0 if every synchronous message uses a rendezvous.
    pub(crate) synchronous_end: usize,
    /// For messages of the standard mode in pieces, in bytes; 0 if none is sent in pieces.
    pub(crate) in_pieces: usize,
}
