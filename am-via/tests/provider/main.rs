//! The tests of the whole provider between threads, in one program: each one of its own would compile it all again.

mod conformance_wire;
mod credits;
mod hostile_memory;
mod hostile_support;
mod hostile_vi;
mod nics;
