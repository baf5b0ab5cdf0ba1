//! A scope cannot outlive the call that waits for its operations.
use am_core::testing::loopback::{Config, network};
use am_core::Context;

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let mut kept = None;
    context.scope(|scope| kept = Some(scope)).unwrap();
    drop(kept);
}
