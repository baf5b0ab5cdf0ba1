//! Only the user agent can call the NIC below it.
#![forbid(unsafe_code)]

use am_double::wire::Wire;

fn wrong(agent: &mut am_via_vipl::UserAgent<Wire>) {
    let block = agent.nic.device.alloc(8).unwrap();
    drop(block);
}

fn main() {
    let _ = wrong;
}
