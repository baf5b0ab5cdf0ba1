//! Only the drivers begin an operation: they keep its memory until it has ended.
use am_core::buffer::RawBuffer;
use am_core::{Context, Get, GetOptions, Operation};
use am_core_engine::protocol::End;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let bytes = context.alloc(8).unwrap();
    let region = context.expose(bytes, am_core::Access::READ).unwrap();
    let get = Get { from: region.address(0), options: GetOptions::default() };
    get.begin(&mut context, RawBuffer::EMPTY, End::held(), am_core::verbs::operation::ByDriver(()));
}
