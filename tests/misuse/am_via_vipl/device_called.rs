//! A device keeps memory beyond the call.
#![forbid(unsafe_code)]

use am_via_shm::CheckedRange;
use am_via_vipl::MemAttributes;
use am_via_vipl::below::{Device, RemoteMemory};

fn wrong(device: &mut am_double::wire::Wire, range: CheckedRange<'_>, there: RemoteMemory) {
    let _ = device.register(range, MemAttributes::default());
    let _ = device.rdma_write(there, range, 0);
    let _ = device.rdma_read(there, range, 1);
}

fn main() {
    let _ = wrong;
}
