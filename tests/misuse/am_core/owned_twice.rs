//! An operation returns its buffer only once.
use am_core::buffer::{Access, JobBuffer};
use am_core::{Context, Get, GetOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    let room = JobBuffer::zeroed(8);
    let handle =
        context.start(Get { from: region.address(0), options: GetOptions::default() }, room).unwrap();
    let (first, _) = context.wait_owned(handle).unwrap();
    let (second, _) = context.wait_owned(handle).unwrap();
    assert_eq!(first.len(), second.len());
}
