//! A global pointer takes values of its own type, and only integers have atomic operations.
use am_core::Context;
use am_core::pgas::Segment;
use am_core::task::TaskId;
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let segment = Segment::<f64>::new(&mut context, 4).unwrap();
    let to = segment.at(TaskId(0), 0).unwrap();
    to.write(&mut context, 1u64).unwrap();
    to.fetch_add(&mut context, 1.0).unwrap();
}
