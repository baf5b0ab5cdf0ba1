//! The message shown to a handler cannot outlive the handler.
use am_core::Context;
use am_core::buffer::Arrived;
use am_core::handler::Answer;
use am_double::{Config, network};
use std::sync::Mutex;

static KEPT: Mutex<Option<Arrived<'static>>> = Mutex::new(None);

fn main() {
    let mut endpoints = network(Config::new(1)).1;
    let mut context = Context::new(endpoints.remove(0));
    context
        .register_handler(|message| {
            *KEPT.lock().unwrap() = message.here;
            Answer::discard()
        })
        .unwrap();
}
