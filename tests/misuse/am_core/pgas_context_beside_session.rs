//! A context cannot be used directly while a session borrows it.
use am_core::Context;
use am_core::pgas::Session;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let counter = context.counter().unwrap();
    let session = Session::new(&mut context);
    context.probe().unwrap();
    drop(session.counter(counter, 1));
}
