//! A fabric is given memory without a lifetime, and has to promise what it does with it.
#![forbid(unsafe_code)]

#[derive(Debug)]
struct Wrapping;

impl am_core::buffer::KeepsPromises for Wrapping {}

fn main() {}
