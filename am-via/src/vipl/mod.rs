//! VIA's user agent (VIPL): NICs, VIs, descriptors, queues and connections, in VIA's words, over an emulated device.

pub mod nic;
pub mod vi;

pub use nic::{Nic, Received, ViplEvent};
pub use vi::{ViId, ViState};

pub use crate::device::{
    AtomicTransfer, ClaimFault, Device, DeviceAttributes, DeviceError, HeapBlock, HeapOwner, MemAttributes,
    MemHandle, NodeAddress, Posted, RemoteMemory, Transfer, WordUpdate,
};
