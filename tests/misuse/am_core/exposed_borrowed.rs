//! Exposed memory cannot be borrowed: peers write it at any time.
use am_core::Context;
use am_core::buffer::{Access, JobBuffer};
use am_double::{Config, network};

fn main() {
    let mut endpoints = network(Config::new(1)).1;
    let mut context = Context::new(endpoints.remove(0));
    let region = context.expose(JobBuffer::zeroed(8), Access::READ_WRITE).unwrap();
    let bytes: &[u8] = &region;
    println!("{bytes:?}");
}
