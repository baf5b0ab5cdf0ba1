//! A future stays in the thread of its session: a context belongs to one thread at a time.
use am_core::Context;
use am_core::pgas::Session;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let counter = context.counter().unwrap();
    let session = Session::new(&mut context);
    let future = session.counter(counter, 1);
    std::thread::scope(|scope| {
        scope.spawn(move || drop(future));
    });
}
