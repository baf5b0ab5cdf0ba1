//! Memory that can be registered is copied to by one thread.
#![forbid(unsafe_code)]

fn shared<T: Sync>() {}

fn main() {
    shared::<am_via::vipl::Memory>();
}
