//! Tests with one thread in each task, which are the same for every lock policy.

mod boards;
mod buffers;
mod collectives;
mod collectives_of_all_kinds;
mod collectives_of_hosts;
mod collectives_that_do_not_wait;
pub(crate) mod common;
mod communicators;
mod datatypes;
mod misuse;
mod persistent;
mod point_to_point;
mod random_traffic;
mod requests;
mod synchronous;
mod topologies;
mod typed;
mod windows;
