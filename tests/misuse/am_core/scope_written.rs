//! Memory that an operation of a scope uses cannot be written.
use am_core::buffer::{Access, JobBuffer};
use am_core::{Context, Put, PutOptions};
use am_double::{Config, network};

fn main() {
    let mut endpoints = network(Config::new(1)).1;
    let mut context = Context::new(endpoints.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    let mut bytes = [1; 8];
    context
        .scope(|scope| {
            scope.start(Put { to: region.address(0), options: PutOptions::default() }, &bytes).unwrap();
            bytes[0] = 2;
        })
        .unwrap();
}
