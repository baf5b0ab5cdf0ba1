//! A completion on the handler thread communicates through its argument and cannot capture the context.
use am_core::handler::{Answer, Completion};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let handler = context.register_handler(|_| Answer::discard()).unwrap();
    let other = &mut context;
    drop(Answer::consumed(Completion::Thread(Box::new(move |_, _| {
        let _ = other.amsend(TaskId(0), handler, &[], &[], AmOptions::default());
    }))));
}
