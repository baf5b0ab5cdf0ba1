//! The tests of the whole provider between threads, in one binary: separate binaries would each compile the provider again.

#[cfg(debug_assertions)] // release builds have no VIs that send in any state
mod broken;
mod busy_rings;
mod conformance_wire;
mod credits;
mod full_rings;
mod hostile_memory;
#[expect(unsafe_code, reason = "writes to the files of a job, as an attacker")]
mod hostile_support;
mod hostile_vi;
mod nics;
mod open_sends;
