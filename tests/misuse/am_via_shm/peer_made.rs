//! The caller of this constructor promises that process and tables are those of the peer.
#![forbid(unsafe_code)]

use std::sync::Arc;

use am_via_shm::Mapping;
use am_via_shm::regions::PeerMemory;

fn wrong(head: Arc<Mapping>, heap: Arc<Mapping>) {
    PeerMemory::new(0, 1, head, heap).set_process(2);
}

fn main() {
    let _ = wrong;
}
