//! A program opens a device and hands it over: the device's own calls take memory without a lifetime.
#![forbid(unsafe_code)]

fn wrong(device: &mut am_via::device::wire::Wire) {
    let _ = am_via::device::Device::alloc(device, 8);
}

fn main() {
    let _ = wrong;
}
