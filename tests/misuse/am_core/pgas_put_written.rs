//! The buffer of a typed put in a scope cannot be written before the scope's end.
use am_core::pgas::Segment;
use am_core::task::TaskId;
use am_core::{Context, PutOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let segment = Segment::<u64>::new(&mut context, 4).unwrap();
    let to = segment.at(TaskId(0), 0).unwrap();
    let mut values = [1; 4];
    context
        .scope(|scope| {
            to.put_in(scope, &values, PutOptions::default()).unwrap();
            values[0] = 2;
        })
        .unwrap();
}
