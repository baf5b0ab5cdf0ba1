//! An emulated NIC of the Virtual Interface Architecture: a device, and the table of its VIs.
//!
//! A VI is one end of a connection, with its state, its reliability level and the credits that its peer has given. A message is an RDMA
//! write with immediate data that is posted on a VI. A post checks only for a credit: a VI whose state or reliability level does not allow
//! the post has none.
//!
//! The crate knows neither the handlers of active messages nor VIA's calls for programs: the fabric and the user agent stand on it, each
//! with its own kind of VI ([`Vi`]). It is for the crates of this workspace. The calls that keep memory beyond its borrow, or that depend
//! on the order of other calls, are unsafe.

mod credits;
#[expect(
    unsafe_code,
    reason = "transfers and registrations of memory that outlives a call, and the job's memory"
)]
pub mod device;
mod nic;
mod table;
/// Not in release builds: a feature that another package selects must not change a product.
#[cfg(all(feature = "testing", debug_assertions))]
pub mod testing;
mod vi;

pub use am_contract::world::{SystemError, World};
pub use credits::{CreditPlan, Immediate, Packets};
pub use device::{
    ClaimFault, Completion, ContextNumber, Device, DeviceAttributes, DeviceError, Endpoint, Entry, FreeSlot,
    HeapBlock, INLINE_BYTES_MAX, Link, Mapping, MemAttributes, MemHandle, News, Operation, Payload, Posted,
    Seen, SharedFileName, TaskId, ViNumber,
};
pub use nic::Nic;
pub use table::{Slot, Table};
pub use vi::{Carry, InArea, InEntry, InLine, Reliability, Vi, ViState, insist};
