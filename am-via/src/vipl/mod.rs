//! VIA's user agent (VIPL): NICs, VIs, descriptors, queues and connections, in VIA's words, over an emulated device.
//!
//! A [`Nic`] is a device and a table of VIs. The fabric uses it as it is: its VIs have *standing receives*, so that a message costs
//! one entry and no descriptor. A program written to VIA opens a [`UserAgent`], which adds what programs use: descriptors in work
//! queues, completion queues, protection tags, connections by name. Both send by one post, under one check of the VI's state,
//! reliability level and credits.
//!
//! Where VIPL differs from the C interface, it is because of Rust: descriptors are given and given back, so that nobody changes one
//! that is posted; memory is named by handle and offset, and shared with its registration; handles know their NIC and their
//! age; `VIP_NOT_DONE` is `None`; a timeout of `VIP_INFINITE` is `None`, too. Handlers run in the calls that make progress.

pub mod address;
mod attempt;
mod channel;
pub mod client_server;
pub mod completion_queue;
pub mod connection;
pub(crate) mod credits;
pub mod descriptor;
pub mod error;
pub mod management;
pub mod memory;
pub mod nic;
pub mod notify;
mod peer_to_peer;
mod receiving;
mod sending;
mod staged;
mod table;
#[cfg(test)]
mod tests;
pub mod user_agent;
pub mod vi;
mod vi_calls;
pub mod work_queue;

pub use address::{Discriminator, NetAddress};
pub use client_server::ConnectionRequest;
pub use completion_queue::{CqEntry, CqHandle};
pub use connection::PeerAttributes;
pub use credits::CreditPlan;
pub use descriptor::{AddressSegment, Control, DataSegment, Descriptor, Status};
pub use error::{AsyncCode, AsyncError, Fault, PostError, Resource, VipError, VipReturn};
pub use management::NicAttributes;
pub use nic::Nic;
pub use notify::{CqHandler, DescriptorHandler, ErrorHandler};
pub use user_agent::UserAgent;
pub use vi::{Reliability, ViAttributes, ViHandle, ViInfo, ViState};
pub use work_queue::Queue;

pub use crate::device::{
    AtomicTransfer, ClaimFault, DeviceAttributes, DeviceError, HeapBlock, Mapping, MemAttributes, MemHandle,
    NodeAddress, Posted, RemoteMemory, SharedFileName, Transfer, WordUpdate,
};
pub(crate) use crate::device::{Completion, Device, Entry, News, Operation, ViNumber};
pub use crate::provider::{Memory, NicLimits, PTag};
pub(crate) use crate::shm::copy::CheckedRange;
