//! Inside a scope the context is out of reach: the scope has to wait on the one that it began with.
use am_core::testing::loopback::{Config, network};
use am_core::Context;

fn main() {
    let mut endpoints = network(Config::new(2)).1;
    let mut first = Context::new(endpoints.remove(0));
    let mut second = Context::new(endpoints.remove(0));
    first
        .scope(|_| {
            std::mem::swap(&mut first, &mut second);
        })
        .unwrap();
}
