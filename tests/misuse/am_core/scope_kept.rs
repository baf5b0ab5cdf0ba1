//! A scope cannot outlive the call that waits for its operations.
use am_core::Context;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let mut kept = None;
    context.scope(|scope| kept = Some(scope)).unwrap();
    drop(kept);
}
