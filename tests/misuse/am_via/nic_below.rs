//! Only the fabric can call a NIC below the user agent.
#![forbid(unsafe_code)]

use am_double::wire::Wire;

fn wrong(nic: &mut am_via::vipl::Nic<Wire>) {
    let block = nic.device.alloc(8).unwrap();
    let _ = nic.connect_standing(0);
    drop(block);
}

fn main() {
    let _ = wrong;
}
