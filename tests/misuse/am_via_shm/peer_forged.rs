//! A program cannot name the process and the tables of a peer.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::Arc;

use am_via_shm::Mapping;
use am_via_shm::regions::PeerMemory;

fn wrong(head: Arc<Mapping>, heap: Arc<Mapping>) {
    let _ = PeerMemory { task: 0, pid: 1, head, heap, is_copied_by_kernel: Cell::new(true) };
}

fn main() {
    let _ = wrong;
}
