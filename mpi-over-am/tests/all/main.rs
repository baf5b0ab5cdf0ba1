//! The tests of MPI semantics over the simulated network, in one program: each one of its own would compile the whole stack again.

mod buffers;
mod collectives;
mod collectives_of_all_kinds;
mod collectives_that_do_not_wait;
mod common;
mod communicators;
mod datatypes;
mod job_of_one;
mod persistent;
mod point_to_point;
mod random_traffic;
mod requests;
mod soak;
mod threads;
mod threads_communicators;
mod threads_operators;
mod threads_persistent;
mod threads_scopes;
mod threads_wait;
mod threads_windows;
mod topologies;
mod typed;
mod windows;
