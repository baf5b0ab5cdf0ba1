//! While a scope is open, its context can be used only through the scope.
use am_core::testing::loopback::{Config, network};
use am_core::Context;

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    context
        .scope(|scope| {
            context.gfence().unwrap();
            scope.probe().unwrap();
        })
        .unwrap();
}
