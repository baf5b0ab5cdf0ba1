//! The system calls that std does not offer, one noun a file, each wrapped so that callers need no `unsafe`.

pub mod futex;
pub mod membarrier;
pub mod memory;
pub mod private_memory;
pub mod sched;
