//! A header handler gets no value that can communicate, and cannot capture the context.
use am_core::handler::Answer;
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_double::{Config, network};

fn main() {
    let mut endpoints = network(Config::new(1)).1;
    let mut context = Context::new(endpoints.remove(0));
    let other = &mut context;
    let handler = other.register_handler(|_| Answer::discard()).unwrap();
    context
        .register_handler(move |_| {
            let _ = other.amsend(TaskId(0), handler, &[], &[], AmOptions::default());
            Answer::discard()
        })
        .unwrap();
}
