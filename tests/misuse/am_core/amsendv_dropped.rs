//! Pieces that are in flight in a scope live until the end of the scope.
use am_core::handler::Answer;
use am_core::task::TaskId;
use am_core::vector::{Layout, Pieces};
use am_core::{AmOptions, Amsend, Context};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let handler = context.register_handler(|_| Answer::discard()).unwrap();
    let layout = Layout::strided(0, 2, 4, 8).unwrap();
    context
        .scope(|scope| {
            let bytes = vec![1; 16];
            let pieces = Pieces::Layout(&bytes, &layout);
            scope
                .start(
                    Amsend { target: TaskId(0), handler, uhdr: &[], options: AmOptions::default() },
                    pieces,
                )
                .unwrap();
        })
        .unwrap();
}
