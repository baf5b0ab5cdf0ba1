//! A buffer that a scope receives into cannot be read before the scope's end.
use am_core::buffer::{Access, JobBuffer};
use am_core::vector::{Layout, PiecesMut};
use am_core::{Context, Get, GetOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let region = context.expose(JobBuffer::zeroed(16), Access::READ_WRITE).unwrap();
    let layout = Layout::strided(0, 2, 4, 8).unwrap();
    let mut bytes = [1; 16];
    context
        .scope(|scope| {
            let to = PiecesMut::Layout(&mut bytes, &layout);
            scope
                .start(Get { from: (region.address(0), &layout), options: GetOptions::default() }, to)
                .unwrap();
            assert_eq!(bytes[0], 0);
        })
        .unwrap();
}
