//! A fabric gets memory without a lifetime, so implementing it is unsafe.
#![forbid(unsafe_code)]

#[derive(Debug)]
struct Wrapping;

impl am_core::buffer::KeepsPromises for Wrapping {}

fn main() {}
