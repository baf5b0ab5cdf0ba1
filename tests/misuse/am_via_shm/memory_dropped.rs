//! Memory that is kept beyond its borrow: only the caller knows how long it lives.
#![forbid(unsafe_code)]

use std::sync::Arc;

use am_via_shm::regions::{OwnRegions, Registration};
use am_via_shm::{CheckedRange, Draft, HeapBlock, HeapOwner, HeldRange, PrivateBytes, PrivateRegions, SharedFiles};

fn wrong(range: CheckedRange<'_>, owner: Arc<dyn HeapOwner>, own: &mut OwnRegions) {
    let registration = Registration { access: 0, ptag: 0 };
    PrivateRegions::new(1).insert(range, registration, 0);
    own.insert(range, registration, &SharedFiles::default());
    Draft::default().open(HeldRange::hold(range), 0, 0);
    owner.take_back(range.at(), range.len());
    let _ = HeapBlock::new(range, owner);
}

fn main() {
    let bytes = PrivateBytes::new(8).unwrap();
    let held = HeldRange::hold(bytes.range());
    drop(bytes);
    held.range().copy_to_slice(&mut [0; 8]);
    let _ = wrong;
}
