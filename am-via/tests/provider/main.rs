//! The tests of the whole provider between threads, in one binary: each binary of its own would compile it all again.

mod broken;
mod conformance_wire;
mod credits;
mod hostile_memory;
mod hostile_support;
mod hostile_vi;
mod nics;
