//! All threads, and several owners, can use a mapping: what is copied there is the caller's promise.
#![forbid(unsafe_code)]

use std::sync::Arc;

use am_via_shm::layout::ControlLayout;
use am_via_shm::{Mapping, ViSlot};

fn wrong(mapping: &Arc<Mapping>, layout: ControlLayout) {
    mapping.checked(0, 64).unwrap().zero();
    let _ = ViSlot::new(Arc::clone(mapping), layout);
}

fn main() {
    let _ = wrong;
}
