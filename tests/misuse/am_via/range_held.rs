//! Only devices can hold a range beyond its borrow.
#![forbid(unsafe_code)]

fn main() {
    let bytes = am_via::shm::private_region::PrivateBytes::new(8).unwrap();
    let _ = am_via::shm::private_region::HeldRange::hold(bytes.range());
}
