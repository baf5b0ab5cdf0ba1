//! A device keeps memory beyond the call.
#![forbid(unsafe_code)]

use am_via_shm::{CheckedRange, regions::Claim};
use am_via_nic::Device;
use am_via_vipl::{MemAttributes, TaskId};

fn wrong(device: &mut am_double::wire::Wire, range: CheckedRange<'_>, there: (TaskId, Claim)) {
    let _ = device.register(range, MemAttributes::default().registration());
    let _ = device.rdma_write(there, range, 0);
    let _ = device.rdma_read(there, range, 1);
}

fn main() {
    let _ = wrong;
}
