//! A buffer that an operation owns cannot be used before its future returns it.
use am_core::buffer::JobBuffer;
use am_core::pgas::{Segment, Session};
use am_core::task::TaskId;
use am_core::{Context, Put, PutOptions};
use am_double::{Config, network};

fn main() {
    let mut context = Context::new(network(Config::new(1)).1.remove(0));
    let segment = Segment::<u8>::new(&mut context, 4).unwrap();
    let to = segment.at(TaskId(0), 0).unwrap().address();
    let mut bytes = JobBuffer::zeroed(4);
    let session = Session::new(&mut context);
    let put = session.start(Put { to, options: PutOptions::default() }, bytes);
    bytes[0] = 1;
    session.block_on(put).unwrap().unwrap();
}
