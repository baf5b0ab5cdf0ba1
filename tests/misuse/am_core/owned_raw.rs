//! The memory of a buffer cannot be taken out of the buffer, which could then be dropped or borrowed.
use am_core::buffer::{JobBuffer, Owned};

fn main() {
    let bytes = JobBuffer::zeroed(64);
    let raw = bytes.raw_of_owned().unwrap();
    drop(bytes);
    raw.fill_from(&[7; 64]);
}
