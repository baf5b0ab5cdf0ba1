//! The emulated NIC below the VI provider: its contract, and its implementation for the tasks of a job.
//!
//! The contract contains only what a network can do: post an entry, write and read registered memory of a peer, poll for completions,
//! connect, wait. Inside a host, over shared memory, a [`Transfer`] or an atomic operation is done when the call returns; otherwise it may
//! be carried out later. A device that cannot carry it out returns [`Transfer::Unreachable`], and the layer above uses messages.

mod contract;
pub mod shm;

/// Not public: programs open a device and pass it on, and only the layers above call it.
pub use contract::{Device, FreeSlot, Link};

pub use am_contract::task::{ContextNumber, Endpoint, NoSuchEndpoint, TaskId};
pub use am_contract::transfer::{AtomicOp, OpId, Posted, Transfer};
pub use am_contract::wait::{WaitFacts, Waker};
pub use am_contract::world::{SystemError, World};
use am_via_shm::CheckedRange;
pub use am_via_shm::HeapBlock;
pub(crate) use am_via_shm::HeapOwner;
use am_via_shm::layout::{ACCESS_READ, ACCESS_WRITE, CONTEXTS_MAX};
pub use am_via_shm::regions::{Claim, ClaimFault, Registration};
pub use am_via_shm::{
    Entry, LINE_PAYLOAD_BYTES as INLINE_BYTES_MAX, Mapping, Payload, Seen, SharedFileName, Storing,
};

/// Maximum number of NICs of a task: one for each context.
#[expect(clippy::cast_possible_truncation, reason = "16")]
pub const NICS_MAX: u8 = CONTEXTS_MAX as u8;

/// The number of a connection, chosen by its owner: the index of a VI with standing receives in the table of its NIC, or the number of the
/// channel that programs' VIs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViNumber(pub u32);

/// The name of registered memory (VIA's memory handle). 64 bits instead of VIA's 32: the generation is a full word, so that a stale handle
/// never matches a new registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemHandle {
    /// Slot in the owner's region table.
    pub region: u32,
    /// Generation of the slot.
    pub generation: u32,
}

impl MemHandle {
    /// The registration that a claim names.
    #[doc(hidden)]
    #[must_use]
    pub fn of(Claim { region, generation, .. }: Claim) -> Self {
        Self { region, generation }
    }
}

/// Tag and rights of a registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemAttributes {
    /// The protection tag.
    pub ptag: u32,
    /// Whether peers may write (VIA's EnableRdmaWrite).
    pub rdma_write: bool,
    /// Whether peers may read (VIA's EnableRdmaRead).
    pub rdma_read: bool,
}

impl MemAttributes {
    /// Rights and protection tag, as a table of registrations has them.
    #[doc(hidden)]
    #[must_use]
    pub fn registration(self) -> Registration {
        let read = if self.rdma_read { ACCESS_READ } else { 0 };
        let write = if self.rdma_write { ACCESS_WRITE } else { 0 };
        Registration { access: read | write, ptag: self.ptag }
    }
}

/// The kind of an entry, in its `operation` word. Layers above may use the other bits of that word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// The payload is in the entry.
    Inline = 1,
    /// The bytes are in the receive area, in the slot of this entry.
    Area = 2,
    /// The peer closed the connection.
    Disconnect = 4,
}

impl Operation {
    /// The operation that a word claims.
    #[inline(always)]
    #[must_use]
    pub fn of(word: u32) -> Option<Self> {
        match word {
            1 => Some(Self::Inline),
            2 => Some(Self::Area),
            4 => Some(Self::Disconnect),
            _ => None,
        }
    }
}

/// An entry that has arrived on a VI.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The VI.
    pub vi: ViNumber,
    /// The slot of the receive area that belongs to the entry.
    pub slot: u32,
    /// The entry itself.
    pub entry: Entry,
}

impl Completion {
    /// Whether the entry keeps its slot of the receive area until [`Device::release`], because its bytes are in the slot. The upper bits of
    /// the operation word belong to the layers above.
    #[inline(always)]
    #[must_use]
    pub fn keeps_slot(&self) -> bool {
        self.entry.operation & 0xff == Operation::Area as u32
    }
}

/// The result of a poll.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// An entry.
    Entry(Completion),
    /// A peer has connected to this NIC. The connection gets its number from [`Device::connect`]; nothing arrives over it before that.
    Connected(Endpoint),
    /// A posted write, read or atomic has ended. For an atomic, the result is the old value.
    Ended {
        /// The caller's number.
        id: u64,
        /// Whether the transfer was carried out.
        result: Result<u64, ClaimFault>,
    },
    /// A task has died.
    TaskFailed(TaskId),
    /// A peer rang ([`World::ring`]).
    Rung,
    /// A living peer has closed its NIC, and polls have returned everything that it sent. Not all devices can report this.
    PeerClosed(Endpoint),
}

/// Errors of the set-up path and of posting.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A NIC that the job cannot have.
    #[error(transparent)]
    NoSuchEndpoint(#[from] NoSuchEndpoint),
    /// A context that is already open.
    #[error(
        "context {context} is open in this process: use it where it is open, close it first, or open another number"
    )]
    ContextOpen {
        /// The context.
        context: ContextNumber,
    },
    /// A context that was closed after it had connections.
    #[error(
        "context {context} was connected before it was closed, and peers keep state about it: open another number"
    )]
    ContextUsed {
        /// The context.
        context: ContextNumber,
    },
    /// A VI that is not connected.
    #[error("VI {} is not connected", .0.0)]
    NotConnected(ViNumber),
    /// A connection that has ended.
    #[error("the connection of VI {} is closed", .0.0)]
    Closed(ViNumber),
    /// A NIC that its owner has closed.
    #[error("NIC {} of {} was closed by its owner", .0.context.0, .0.task)]
    PeerClosed(Endpoint),
    /// Something ran out.
    #[error("out of {resource}: {needed} needed, {available} available; {remedy}")]
    Exhausted {
        /// The resource.
        resource: &'static str,
        /// Amount needed.
        needed: u64,
        /// Amount available.
        available: u64,
        /// What the user can do.
        remedy: &'static str,
    },
    /// All registrations of the NIC are in use.
    #[error(
        "all {max} registrations are in use: deregister memory that peers no longer need, or register larger pieces"
    )]
    TooManyRegistrations {
        /// Maximum number of registrations.
        max: u32,
    },
    /// A claim that was refused.
    #[error("access to registered memory was refused: {0}")]
    Refused(#[from] ClaimFault),
    /// The control memory of a task is invalid.
    #[error(
        "the control memory of task {task} is damaged, or was made by another version of this library or with other settings: {what}"
    )]
    Damaged {
        /// The task.
        task: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// A call of the operating system failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

impl DeviceError {
    /// A call of the operating system, or of a library below this one, that failed.
    pub(crate) fn system(
        doing: &'static str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::System { doing, source: std::io::Error::other(error) }
    }
}

/// Attributes that are fixed while a device is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Number of tasks that can be reached, including this one.
    pub num_tasks: u32,
    /// Maximum number of NICs of a task: one for each context.
    pub contexts_max: u8,
    /// Bytes of one slot of a receive area.
    pub slot_bytes: usize,
    /// Maximum number of entries in flight in one direction of a connection.
    pub ring_lines: u32,
    /// Maximum number of open VIs.
    pub vis_max: u32,
    /// Maximum number of registrations.
    pub regions_max: u32,
    /// Maximum bytes registered at a time; `u64::MAX`: no limit.
    pub registered_bytes_max: u64,
}
