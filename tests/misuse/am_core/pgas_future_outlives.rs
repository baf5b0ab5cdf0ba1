//! A future cannot outlive the session that makes its progress.
use am_core::Context;
use am_core::pgas::Session;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let counter = context.counter().unwrap();
    let future = {
        let session = Session::new(&mut context);
        session.counter(counter, 1)
    };
    drop(future);
}
