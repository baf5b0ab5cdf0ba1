//! The network reads lent memory until the loan ends.
#![forbid(unsafe_code)]

use am_via_ofi::Endpoint;
use am_via_shm::{HeldRange, PrivateBytes};

fn wrong(endpoint: &mut Endpoint) {
    let bytes = PrivateBytes::new(8).unwrap();
    let _ = endpoint.lend(HeldRange::hold(bytes.range()));
    // A reserved buffer lives as long as its endpoint.
    let (_, memory) = endpoint.reserve().unwrap();
    memory.range().zero();
}

fn main() {
    let _ = wrong;
}
