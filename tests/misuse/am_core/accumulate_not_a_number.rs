//! Only numbers that a peer can combine can be accumulated.
use am_core::buffer::{Access, JobBuffer};
use am_core::{Accumulation, Context, PutOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    let values = [true; 8];
    context.accumulate(region.address(0), &values, Accumulation::Add, PutOptions::default()).unwrap();
}
