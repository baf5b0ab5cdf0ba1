//! The system calls that std does not offer, one noun in each file, wrapped so that callers need no `unsafe` where possible. A function
//! that stays `unsafe` says what its caller must promise.
//!
//! The modules are the public interface, because a module's noun is half of its functions' names (`futex::wait`, `memory::map`).
//!
//! [`atomics`] is here because a futex is a system call on an atomic.

#![expect(unsafe_code, reason = "system calls")]

pub mod atomics;
pub mod clock;
pub mod detached;
pub mod event;
pub mod fork;
pub mod futex;
pub mod library;
pub mod limits;
pub mod lock;
pub mod membarrier;
pub mod memory;
pub mod poll;
pub mod private_memory;
pub mod process;
pub mod sched;
pub mod signal;
pub mod stack;
pub mod standard_output;
#[cfg(any(test, feature = "testing"))]
pub mod test_aids;
pub mod threads;
