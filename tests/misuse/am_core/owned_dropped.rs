//! A buffer that an operation owns cannot be dropped by the program.
use am_core::buffer::JobBuffer;
use am_core::handler::Answer;
use am_core::task::TaskId;
use am_core::{AmOptions, Amsend, Context};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let handler = context.register_handler(|_| Answer::discard()).unwrap();
    let buffer = JobBuffer::zeroed(8);
    let handle = context
        .start(Amsend { target: TaskId(0), handler, uhdr: &[], options: AmOptions::default() }, buffer)
        .unwrap();
    drop(buffer);
    context.wait_owned(handle).unwrap().1.unwrap();
}
