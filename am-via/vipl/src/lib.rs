//! VIA's user agent (VIPL): NICs, VIs, descriptors, queues and connections, by VIA's names, over an emulated device.
//!
//! A NIC is a device and a table of VIs. A fabric uses a NIC directly: the fabric's VIs have *standing receives*, so that a message costs
//! one entry and no descriptor. A program written to VIA opens a [`UserAgent`], which adds VIA's interface for programs: descriptors in
//! work queues, completion queues, protection tags, connections by name. Both send through the same post, which checks only for a credit: a
//! VI whose state or reliability level does not allow the post has no credit.
//!
//! The interface differs from VIPL's C interface where Rust requires it: descriptors are moved into a queue and returned, so that a posted
//! descriptor cannot be changed; memory is named by handle and offset, and shared with its registration; handles contain the number of
//! their NIC and a generation; `VIP_NOT_DONE` is `None`, and so is a timeout of `VIP_INFINITE`. Handlers run in the calls that make
//! progress.
//!
//! An example of two NICs on an emulated wire in one process. In a job of several tasks, `am_via::Task::open_nic` opens the task's own NIC:
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
mod credits;
mod descriptor;
#[expect(
    unsafe_code,
    reason = "transfers and registrations of memory that outlives a call, and the job's memory"
)]
pub mod device;
mod error;
mod nic;
mod provider;
mod table;
/// Not in release builds: a feature that another package selects must not change a product.
#[cfg(all(feature = "testing", debug_assertions))]
pub mod testing;
mod user_agent;
mod vi;

pub use address::{Discriminator, NetAddress};
pub use credits::CreditPlan;
pub use descriptor::{AddressSegment, Control, DataSegment, Descriptor, Status};
pub use device::{
    ClaimFault, ContextNumber, DeviceAttributes, DeviceError, Endpoint, MemAttributes, MemHandle, Posted,
    TaskId,
};
pub use error::{AsyncCode, AsyncError, Fault, PostError, Resource, VipError, VipReturn};
pub use provider::{Memory, NicLimits, PTag};
pub use table::{CqHandle, ViHandle};
pub use user_agent::{
    ConnectionRequest, CqEntry, CqHandler, DescriptorHandler, ErrorHandler, NicAttributes, PeerAttributes,
    Queue, UserAgent,
};
pub use vi::{Reliability, ViAttributes, ViInfo, ViState};

/// The interface of a NIC and its device for a fabric. This module is for am-via's own crates; am-via does not offer it to programs. The
/// calls that keep memory beyond its borrow, or that depend on the order of other calls, are unsafe.
#[doc(hidden)]
pub mod below {
    pub use crate::credits::{Immediate, Packets};
    pub use crate::device::contract::{Device, FreeSlot, Link};
    pub use crate::device::{
        Completion, Entry, HeapBlock, INLINE_BYTES_MAX, Mapping, News, Operation, Payload, Seen,
        SharedFileName, ViNumber,
    };
    pub use crate::nic::Nic;
    pub use crate::user_agent::request_entry;
    pub use crate::vi::{Carry, InArea, InEntry, InLine, Vi, insist};
    pub use am_contract::world::{SystemError, World};
}
