//! Elements are plain old data: a peer may write bytes that are not a valid bool, or not a valid reference.
use am_core::Context;
use am_core::pgas::Segment;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    Segment::<bool>::new(&mut context, 4).unwrap();
    Segment::<&'static u8>::new(&mut context, 4).unwrap();
}
