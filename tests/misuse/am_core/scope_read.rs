//! Memory that a get fills cannot be read before the scope's end.
use am_core::buffer::{Access, JobBuffer};
use am_core::{Context, Get, GetOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    let mut bytes = [1; 8];
    context
        .scope(|scope| {
            scope.start(Get { from: region.address(0), options: GetOptions::default() }, &mut bytes).unwrap();
            assert_eq!(bytes[0], 0);
        })
        .unwrap();
}
