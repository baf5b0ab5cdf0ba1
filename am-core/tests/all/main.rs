//! The tests of the whole crate over the simulated network, in one binary: each further binary would compile the crate again.

mod calls;
mod conformance;
mod failure;
mod handler_thread;
mod lapi_errors;
mod operations;
mod regions;
mod same_seed;
mod shared;
mod unwinding;
mod wild_peer;
