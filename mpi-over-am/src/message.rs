//! What a call says of a message: where it goes or comes from, where its data go, and in which mode it is sent.

use am_core::buffer::RawBuffer;
use am_core::task::TaskId;

use crate::matching::{Envelope, Pattern};

/// The communication modes (MPI 4.1 section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `MPI_Send`: the library decides whether it buffers.
    Standard,
    /// `MPI_Rsend`: the receive has been posted.
    Ready,
    /// `MPI_Ssend`: complete when the receive has started.
    Synchronous,
    /// `MPI_Bsend`: complete at once, from the attached buffer.
    Buffered,
}

/// Where a message goes, and what it says about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) task: TaskId,
    /// The receiver's rank.
    pub(crate) destination: u32,
    pub(crate) envelope: Envelope,
}

/// What a receive takes, and where it puts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) pattern: Pattern,
    pub(crate) buffer: ReceiveBuffer,
}

/// Where a receive puts its message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReceiveBuffer {
    /// Into these bytes.
    Bytes(RawBuffer),
    /// Where the layout says that its request holds.
    Layout,
}

/// The longest messages that go with their data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EagerLimits {
    /// In bytes, of the standard and the buffered mode.
    pub(crate) bytes: usize,
    /// One byte more than the longest of the synchronous mode; 0: none does.
    pub(crate) synchronous_end: usize,
}
