//! Inside a scope the context is unreachable: the scope must wait on the context that it began with.
use am_core::Context;
use am_double::{Config, network};

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
