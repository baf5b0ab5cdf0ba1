//! A context belongs to one thread at a time; two threads need a `SharedContext`.
use am_core::Context;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    std::thread::scope(|scope| {
        scope.spawn(|| context.probe().is_ok());
        scope.spawn(|| context.probe().is_ok());
    });
}
