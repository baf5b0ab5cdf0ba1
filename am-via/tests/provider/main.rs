//! The tests of the whole provider between threads, in one binary: separate binaries would each compile the provider again.

mod broken;
mod busy_rings;
mod conformance_wire;
mod credits;
mod full_rings;
mod hostile_memory;
mod hostile_support;
mod hostile_vi;
mod nics;
mod open_sends;
