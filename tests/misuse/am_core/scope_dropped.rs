//! Memory that an operation of a scope uses lives until the scope's end.
use am_core::buffer::{Access, JobBuffer};
use am_core::{Context, Get, GetOptions};
use am_double::{Config, network};

fn main() {
    let mut endpoints = network(Config::new(1)).1;
    let mut context = Context::new(endpoints.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    context
        .scope(|scope| {
            let mut bytes = [1; 8];
            scope.start(Get { from: region.address(0), options: GetOptions::default() }, &mut bytes).unwrap();
        })
        .unwrap();
}
