//! The buffer of a typed get in a scope lives until the scope's end.
use am_core::pgas::Segment;
use am_core::task::TaskId;
use am_core::{Context, GetOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let segment = Segment::<u64>::new(&mut context, 4).unwrap();
    let from = segment.at(TaskId(0), 0).unwrap();
    context
        .scope(|scope| {
            let mut values = vec![0; 4];
            from.get_in(scope, &mut values, GetOptions::default()).unwrap();
        })
        .unwrap();
}
