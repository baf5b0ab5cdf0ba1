//! The tests of MPI semantics over the simulated network, in one binary: separate binaries would each compile the whole stack again.

#![allow(clippy::duplicate_mod, reason = "the same tests run over both lock policies")]

/// The tests of `alike` with an environment for one thread.
#[path = "."]
mod one_thread {
    pub(crate) type Policy = mpi_over_am::OneThread;

    #[path = "alike/mod.rs"]
    pub(crate) mod alike;
}

/// Tests of `alike` with an environment for any thread. Both policies take the same steps, so the feature `both-policies`, with which
/// `.ci/run long` runs all of them, is off by default: each module takes seconds to compile and to run. The modules that are left make
/// every kind of call whose turn another thread can want: waits, requests, windows, new communicators. `threads_*` use several threads.
#[path = "."]
mod any_thread {
    pub(crate) type Policy = mpi_over_am::Threads;

    #[cfg(feature = "both-policies")]
    #[path = "alike/mod.rs"]
    pub(crate) mod alike;

    #[cfg(not(feature = "both-policies"))]
    pub(crate) mod alike {
        mod collectives_that_do_not_wait;
        pub(crate) mod common;
        mod communicators;
        mod misuse;
        mod persistent;
        mod point_to_point;
        mod requests;
        mod synchronous;
        mod windows;
    }
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
