//! A completion in context gets no value that can communicate.
use am_core::handler::{Answer, Completion};
use am_core::task::TaskId;
use am_core::{AmOptions, Context};
use am_double::{Config, network};

fn main() {
    let mut endpoints = network(Config::new(1)).1;
    let mut context = Context::new(endpoints.remove(0));
    let handler = context.register_handler(|_| Answer::discard()).unwrap();
    let shared = std::rc::Rc::new(std::cell::RefCell::new(context));
    let in_handler = std::rc::Rc::clone(&shared);
    shared
        .borrow_mut()
        .register_handler(move |_| {
            let context = std::rc::Rc::clone(&in_handler);
            Answer::consumed(Completion::Call(Box::new(move |_| {
                let _ = context.borrow_mut().amsend(TaskId(0), handler, &[], &[], AmOptions::default());
            })))
        })
        .unwrap();
}
