//! An answer in context is sent to the origin of its message: it has no field for another task.
use am_core::handler::{Answer, Completion, Reply};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let answered = context.register_handler(|_| Answer::discard()).unwrap();
    context
        .register_handler(move |_| {
            let reply = Reply::new(answered, b"not for you").unwrap();
            Answer::consumed(Completion::Reply(Reply { target: TaskId(2), ..reply }))
        })
        .unwrap();
    context.amsend(TaskId(0), answered, &[], &[], AmOptions::default()).unwrap();
}
