//! Only job memory can feed the global allocator.
#![forbid(unsafe_code)]

#[derive(Debug)]
struct Mine;

impl am_via::shm::allocator::LargeBlocks for Mine {}

fn main() {}
