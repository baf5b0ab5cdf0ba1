//! The emulated NIC below the VI provider: what it must do, and the two that do it.
//!
//! Nothing here is beyond what a network can do: post an entry, write and read registered memory of a peer, poll for
//! completions, connect, wait. What only shared memory can do (storing straight into a peer's area, copying through the
//! kernel, peer atomics) shows up as a [`Transfer`] that is done when the call returns; a device that can't do it answers
//! [`Transfer::NoWay`], and the layer above goes another way.

pub(crate) mod contract;
pub mod shm;
pub mod wire;

use std::sync::Arc;

/// A program opens a device and hands it over; what a device does with memory is between it and the layers above.
pub(crate) use contract::Device;

use am_via_shm::CheckedRange;
pub use am_via_shm::HeapBlock;
pub(crate) use am_via_shm::HeapOwner;
use am_via_shm::layout::{ACCESS_READ, ACCESS_WRITE, CONTEXTS_MAX};
pub use am_via_shm::regions::ClaimFault;
use am_via_shm::regions::Registration;
pub use am_via_shm::{
    AtomicOp, Entry, LINE_PAYLOAD_BYTES as INLINE_BYTES_MAX, Mapping, Payload, SharedFileName, Storing,
};

/// The address of a NIC: one is open for each context of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress {
    /// The task.
    pub task: u32,
    /// The context inside the task.
    pub context: u32,
}

impl NodeAddress {
    /// Checks that a job of `num_tasks` tasks can have a NIC of this address. The one check of an address that a program or a peer
    /// names: what lies behind it in shared memory is computed from its two numbers. Says nothing of whether the NIC is open.
    ///
    /// # Errors
    /// [`DeviceError::UnknownTask`] or [`DeviceError::UnknownContext`].
    pub fn check(self, num_tasks: u32) -> Result<(), DeviceError> {
        let Self { task, context } = self;
        if task >= num_tasks {
            return Err(DeviceError::UnknownTask { task, num_tasks });
        }
        if context >= CONTEXTS_MAX {
            return Err(DeviceError::UnknownContext { task, context, contexts_max: CONTEXTS_MAX });
        }
        Ok(())
    }
}

/// The number of a connection, chosen by its owner: the place of a VI with standing receives in the table of its NIC, or the number of
/// the channel that the VIs of programs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViNumber(pub u32);

/// The name of registered memory (VIA's memory handle). 64 bits instead of VIA's 32: the generation is a full word, so that a
/// stale handle is never taken for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemHandle {
    /// Slot in the owner's region table.
    pub region: u32,
    /// How often the slot was given out.
    pub generation: u32,
}

/// What a registration allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemAttributes {
    /// The protection tag.
    pub ptag: u32,
    /// Peers may write (VIA's EnableRdmaWrite).
    pub rdma_write: bool,
    /// Peers may read (VIA's EnableRdmaRead).
    pub rdma_read: bool,
}

impl MemAttributes {
    /// The rights, as bits of a registration.
    #[inline(always)]
    fn access(self) -> u32 {
        let read = if self.rdma_read { ACCESS_READ } else { 0 };
        let write = if self.rdma_write { ACCESS_WRITE } else { 0 };
        read | write
    }

    fn registration(self) -> Registration {
        Registration { access: self.access(), ptag: self.ptag }
    }
}

/// A place in registered memory of a peer: a claim, checked at each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// The owner.
    pub task: u32,
    /// The registration.
    pub handle: MemHandle,
    /// Bytes from its start.
    pub offset: u64,
    /// The protection tag of the owner's VI by which it is reached; it must be the registration's.
    pub ptag: u32,
}

/// What an entry announces, in its `operation` word. The layers above may use the word's other bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// The payload is in the entry.
    Inline = 1,
    /// The bytes are in the receive area, in the slot of this entry.
    Area = 2,
    /// The peer has closed the connection.
    Disconnect = 4,
}

impl Operation {
    /// The operation a word claims.
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
    /// What the line said.
    pub entry: Entry,
}

impl Completion {
    /// Whether the entry keeps its slot of the receive area until [`Device::release`]: its operation says that the bytes are there. The
    /// upper bits of that word are the layers' above.
    #[inline(always)]
    #[must_use]
    pub fn keeps_slot(&self) -> bool {
        self.entry.operation & 0xff == Operation::Area as u32
    }
}

/// What polling brings up.
#[derive(Clone, Copy, Debug)]
pub enum News {
    /// An entry.
    Entry(Completion),
    /// A peer has connected to this NIC: [`Device::connect`] gives the connection its number, and nothing comes over it before.
    Connected(NodeAddress),
    /// A write, read or atomic that was posted has ended; the old value of an atomic.
    Ended {
        /// The caller's number.
        id: u64,
        /// Whether it was carried out.
        result: Result<u64, ClaimFault>,
    },
    /// A task has died.
    TaskFailed(u32),
    /// A peer has rung ([`Device::ring`]).
    Rung,
    /// A peer that lives has closed its NIC, and all that came from it has come up. Devices that can tell do.
    PeerClosed(NodeAddress),
}

/// Whether a post was taken.
#[must_use = "Retry means that nothing was posted"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Carried out.
    Done,
    /// No room now.
    Retry,
}

/// What became of a transfer.
#[must_use = "only Done and Posted mean that bytes move"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Carried out.
    Done,
    /// Accepted: [`News::Ended`] will tell.
    Posted,
    /// No room now.
    Retry,
    /// This device has no way into that memory.
    NoWay,
}

/// What became of an atomic operation.
#[must_use = "only Done and Posted mean that it was carried out"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicTransfer {
    /// Carried out; the old value.
    Done(u64),
    /// Accepted: [`News::Ended`] will tell.
    Posted,
    /// No room now.
    Retry,
    /// This device has no way to do it from here.
    NoWay,
}

/// Errors of the set-up path and of posting.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A task that the job does not have.
    #[error("task {task} does not exist: the job has {num_tasks}")]
    UnknownTask {
        /// What was asked for.
        task: u32,
        /// How many there are.
        num_tasks: u32,
    },
    /// A context that no task can have.
    #[error(
        "context {context} of task {task} does not exist: a task has contexts 0 to {last}; use a number in that range",
        last = contexts_max - 1
    )]
    UnknownContext {
        /// The task that was named.
        task: u32,
        /// The context that was asked for.
        context: u32,
        /// How many a task can have.
        contexts_max: u32,
    },
    /// A context that is open already.
    #[error(
        "context {context} is open in this process: use it where it is open, close it first, or open another number"
    )]
    ContextOpen {
        /// Which.
        context: u32,
    },
    /// A VI that is not open.
    #[error("VI {} is not connected", .0.0)]
    NotConnected(ViNumber),
    /// A connection that has ended.
    #[error("the connection of VI {} is closed", .0.0)]
    Closed(ViNumber),
    /// A NIC that its owner has closed.
    #[error("NIC {} of task {} was closed by its owner", .0.context, .0.task)]
    PeerClosed(NodeAddress),
    /// Something ran out.
    #[error("out of {resource}: {needed} needed, {available} available; {remedy}")]
    Exhausted {
        /// What.
        resource: &'static str,
        /// How much was asked for.
        needed: u64,
        /// How much there is.
        available: u64,
        /// What a person can do.
        remedy: &'static str,
    },
    /// A claim was refused.
    #[error("{0}")]
    Refused(#[from] ClaimFault),
    /// The control memory of a peer is not what it should be.
    #[error("the control memory of task {task} is damaged: {what}")]
    Damaged {
        /// Whose.
        task: u32,
        /// What is wrong.
        what: &'static str,
    },
    /// The job's files could not be reached.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
}

/// Numbers that do not change while a device is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Tasks that can be reached, this one included.
    pub num_tasks: u32,
    /// NICs that a task may have: one for each context.
    pub contexts_max: u32,
    /// Bytes of one slot of a receive area.
    pub slot_bytes: usize,
    /// Entries that may be under way on one connection and direction.
    pub ring_lines: u32,
    /// VIs that may be open at once.
    pub vis_max: u32,
    /// Registrations at once.
    pub regions_max: u32,
}

/// Wakes the owner of a device from another thread.
pub type Waker = Arc<dyn Fn() + Send + Sync>;
