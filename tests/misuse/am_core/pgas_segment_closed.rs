//! A segment that was freed cannot be used.
use am_core::Context;
use am_core::pgas::SymmetricHeap;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let mut heap = SymmetricHeap::new(&mut context, 4096).unwrap();
    let segment = heap.alloc::<u32>(4).unwrap();
    heap.free(segment).unwrap();
    segment.set(0, 1).unwrap();
}
