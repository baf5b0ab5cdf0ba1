//! A program can open a device and pass it on, but cannot call the device itself, whose functions take memory without a lifetime.
#![forbid(unsafe_code)]

fn wrong(device: &mut am_double::wire::Wire) {
    let _ = am_via::device::Device::alloc(device, 8);
}

fn main() {
    let _ = wrong;
}
