//! OpenSHMEM 1.6 over am-core, in C. The library of MPI (`mpi-over-am/abi`) exports the functions, so that one process can use both.
//!
//! The build makes the exported functions from the table in `table`: `shmem_x`, its twin `pshmem_x`, and the form with a context call one
//! function here. Each gets the name of the call, for errors.
//!
//! Symmetric memory is memory of all tasks ([`am_core::pgas::Common`]): the heap, and the writable segments of the program, over which the
//! memory is mapped ([`statics`]). An address of this PE is an offset in such an object, and an access to a PE of this host is an access to
//! its part, which is mapped here; other PEs are reached by am-core's put, get and rmw.
//!
//! An error ends the job: OpenSHMEM has no error codes for these calls. It names call, argument, value, PE and what to do.

#![expect(unsafe_code, reason = "called from C: addresses of the program, and memory that other tasks write")]
#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "the C program passes pointers that OpenSHMEM's texts describe; what can be checked is checked in `world`"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "PE numbers are C ints that were checked"
)]
#![expect(clippy::too_many_arguments, reason = "C's calls have many")]

mod atomics;
mod collective;
mod context;
mod lock;
mod memory;
mod objects;
mod order;
mod progress;
mod reduce;
mod rma;
mod second_mapping;
mod setup;
mod signal;
mod statics;
mod symbols;
mod symmetric_heap;
mod team;
mod tokens;
mod types;
mod wait;
mod world;

/// The functions that programs call.
#[expect(non_snake_case, reason = "the names of C's parameters")]
mod exports {
    use std::ffi::{c_char, c_int, c_void};

    use crate::objects::{Ctx, Team, TeamConfig};
    use crate::types::{Bits128, Complex, LongDouble, SessionConfig};

    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}

/// `shmem_pcontrol`: for profiling layers; C's further arguments are not read.
#[unsafe(no_mangle)]
extern "C" fn shmem_pcontrol(_level: std::ffi::c_int) {}

/// Its twin.
#[unsafe(no_mangle)]
extern "C" fn pshmem_pcontrol(_level: std::ffi::c_int) {}
