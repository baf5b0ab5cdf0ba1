//! A handler cannot capture a session, which could wait: a session belongs to the thread of its context.
use am_core::Context;
use am_core::handler::Answer;
use am_core::pgas::Session;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let mut other = Context::new(network(Config::new(1)).1.remove(0));
    let counter = other.counter().unwrap();
    let session = Session::new(&mut other);
    context
        .register_handler(|_| {
            session.block_on(session.counter(counter, 1)).unwrap().unwrap();
            Answer::discard()
        })
        .unwrap();
}
