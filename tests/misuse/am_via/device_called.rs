//! A program opens a device and passes it on: it cannot call the device itself, whose functions take memory without a lifetime.
#![forbid(unsafe_code)]

fn wrong(device: &mut am_via::device::wire::Wire) {
    let _ = am_via::device::Device::alloc(device, 8);
}

fn main() {
    let _ = wrong;
}
