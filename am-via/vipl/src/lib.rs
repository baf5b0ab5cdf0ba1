//! VIA's user agent (VIPL): NICs, VIs, descriptors, queues and connections, by VIA's names, over an emulated NIC.
//!
//! A program written to VIA opens a [`UserAgent`], which adds VIA's interface for programs to a NIC: descriptors in work queues, completion
//! queues, protection tags, connections by name. Its VIs are those on which am-via's fabric sends messages, and it sends by the same posts;
//! but nothing that sends messages depends on this crate.
//!
//! The interface differs from VIPL's C interface where Rust requires it: descriptors are moved into a queue and returned, so that a posted
//! descriptor cannot be changed; memory is named by handle and offset, and shared with its registration; handles contain the number of
//! their NIC and a generation; `VIP_NOT_DONE` is `None`, and so is a timeout of `VIP_INFINITE`. Handlers run in the calls that make
//! progress.
//!
//! An example of two NICs on an emulated wire in one process. In a job of several tasks, [`open_nic`] opens a NIC of the task:
//!
//! ```
//! use am_double::wire::{WireNetwork, WireOptions};
//! use am_via_vipl::{ContextNumber, DataSegment, Descriptor, Discriminator, Endpoint, MemAttributes};
//! use am_via_vipl::{TaskId, UserAgent, ViAttributes};
//!
//! let network = WireNetwork::new(WireOptions::new(2));
//! let address = |task| Endpoint::new(TaskId(task), ContextNumber(0));
//! let mut ends = Vec::new();
//! for task in [0, 1] {
//!     let mut nic = UserAgent::open(network.open(address(task))?);
//!     let tag = nic.create_ptag()?;
//!     let vi = nic.create_vi(ViAttributes::new(tag), None, None)?;
//!     let memory = nic.alloc(16)?;
//!     let handle = nic.register_mem(&memory, (0, 16), tag, MemAttributes::default())?;
//!     // A receive may be posted before the connection.
//!     let segment = DataSegment { handle, offset: 0, length: 16 };
//!     nic.post_recv(vi, Descriptor::receive().with_segment(segment))?;
//!     nic.connect_peer_request(vi, Discriminator::default(), address(1 - task), None)?;
//!     ends.push((nic, vi, memory, segment));
//! }
//! let [(mut a, vi_a, from, segment), (mut b, vi_b, to, _)]: [_; 2] = ends.try_into().expect("two ends");
//! // Not `||`: both have to make progress.
//! while a.connect_peer_done(vi_a)?.is_none() | b.connect_peer_done(vi_b)?.is_none() {}
//!
//! from.write(0, b"hello, VI").expect("it fits");
//! a.post_send(vi_a, Descriptor::send().with_segment(segment).with_immediate(9))?;
//! let received = b.recv_wait(vi_b, None)?;
//! let mut bytes = [0; 9];
//! to.read(0, &mut bytes).expect("it is there");
//! assert_eq!((received.immediate(), &bytes), (Some(9), b"hello, VI"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod attributes;
mod descriptor;
mod error;
mod handle;
mod open;
mod provider;
mod user_agent;

pub use address::{Discriminator, NetAddress};
pub use am_via_nic::{
    ClaimFault, ContextNumber, DeviceError, Endpoint, MemAttributes, MemHandle, Posted, Reliability, TaskId,
    ViState,
};
pub use attributes::{ViAttributes, ViInfo};
pub use descriptor::{AddressSegment, Control, DataSegment, Descriptor, Status};
pub use error::{AsyncCode, AsyncError, Fault, PostError, Resource, VipError, VipReturn};
pub use handle::{CqHandle, ViHandle};
pub use open::open_nic;
pub use provider::{Memory, NicLimits, PTag};
#[doc(hidden)] // For peers in tests that post entries by hand.
pub use user_agent::request_entry;
pub use user_agent::{
    ConnectionRequest, CqEntry, CqHandler, DescriptorHandler, ErrorHandler, NicAttributes, PeerAttributes,
    Queue, UserAgent,
};
