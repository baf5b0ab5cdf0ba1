//! A buffer that an operation owns cannot be used before it is returned.
use am_core::buffer::{Access, JobBuffer};
use am_core::{Context, Put, PutOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    let mut bytes = JobBuffer::zeroed(8);
    let handle = context.start(Put { to: region.address(0), options: PutOptions::default() }, bytes).unwrap();
    bytes[0] = 1;
    drop(context.wait_owned(handle).unwrap());
}
