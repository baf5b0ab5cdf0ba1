//! The tests of MPI semantics over the simulated network, in one binary: separate binaries would each compile the whole stack again.

#![allow(clippy::duplicate_mod, reason = "the same tests run over both lock policies")]

/// The tests of `alike` with an environment for one thread.
#[path = "."]
mod one_thread {
    pub(crate) type Policy = mpi_over_am::OneThread;

    #[path = "alike/mod.rs"]
    pub(crate) mod alike;
}

/// The tests of `alike` with an environment for any thread.
#[path = "."]
mod any_thread {
    pub(crate) type Policy = mpi_over_am::Threads;

    #[path = "alike/mod.rs"]
    pub(crate) mod alike;
}

mod job_of_one;
mod soak;
mod threads;
mod threads_communicators;
mod threads_operators;
mod threads_persistent;
mod threads_scopes;
mod threads_wait;
mod threads_windows;
