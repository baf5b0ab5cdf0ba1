//! `mpiexec`: starts MPI programs.

#![expect(unsafe_code, reason = "a name that debuggers look for")]

use std::sync::atomic::{AtomicI32, Ordering};

/// Set by a debugger that starts this program (MPIR Process Acquisition Interface, version 1.1). The launcher, which this program becomes,
/// has the rest of the interface.
// SAFETY: no other symbol of this program has the name.
#[unsafe(no_mangle)]
static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);

fn main() -> std::process::ExitCode {
    if MPIR_being_debugged.load(Ordering::Relaxed) != 0 {
        mpi_abi::tools::hold_tasks();
    }
    mpi_abi::tools::run("mpiexec")
}
