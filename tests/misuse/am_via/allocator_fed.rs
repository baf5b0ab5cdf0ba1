//! A program cannot give the global allocator other memory than the job's.
#![forbid(unsafe_code)]

#[derive(Debug)]
struct Mine;

impl am_via::shm::allocator::LargeBlocks for Mine {}

fn main() {}
