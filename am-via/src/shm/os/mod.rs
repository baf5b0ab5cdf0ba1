//! The system calls that std does not offer, one noun a file, each wrapped so that callers need no `unsafe`.

pub mod fork;
pub mod futex;
pub mod limits;
pub mod lock;
pub mod membarrier;
pub mod memory;
pub mod poll;
pub mod private_memory;
pub mod process;
pub mod sched;
pub mod signal;
pub mod standard_output;
