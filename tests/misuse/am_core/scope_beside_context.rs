//! While a scope is open, its context can be used only through the scope.
use am_core::Context;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    context
        .scope(|scope| {
            context.gfence().unwrap();
            scope.probe().unwrap();
        })
        .unwrap();
}
