//! A region that is no longer exposed gives no address.
use am_core::Context;
use am_core::buffer::{Access, JobBuffer};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    drop(context.unexpose(region).unwrap());
    let _ = region.address(0);
}
