//! Pieces that are in flight in a scope cannot be written.
use am_core::buffer::{Access, JobBuffer};
use am_core::vector::{Layout, Pieces};
use am_core::{Context, Put, PutOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let region = context.expose(JobBuffer::zeroed(16), Access::READ_WRITE).unwrap();
    let layout = Layout::strided(0, 2, 4, 8).unwrap();
    let mut bytes = [1; 16];
    context
        .scope(|scope| {
            let from = Pieces::Layout(&bytes, &layout);
            scope
                .start(Put { to: (region.address(0), &layout), options: PutOptions::default() }, from)
                .unwrap();
            bytes[0] = 2;
        })
        .unwrap();
}
