//! The buffer of a typed get in a scope cannot be read before the scope's end.
use am_core::pgas::Segment;
use am_core::task::TaskId;
use am_core::{Context, GetOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let segment = Segment::<u64>::new(&mut context, 4).unwrap();
    let from = segment.at(TaskId(0), 0).unwrap();
    let mut values = [0; 4];
    context
        .scope(|scope| {
            from.get_in(scope, &mut values, GetOptions::default()).unwrap();
            assert_eq!(values[0], 0);
        })
        .unwrap();
}
