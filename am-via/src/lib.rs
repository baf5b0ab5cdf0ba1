//! An emulated Virtual Interface Architecture, and am-core's Fabric on it.
//!
//! From the top down: [`fabric`] carries am-core over the VIs of an emulated NIC (the crate `am-via-nic`), over a [`device`]: `shm`, the
//! memory of a job on one machine, with libfabric between machines. [`job`] contains the files and settings that the tasks of a job share.
//! [`Task::join`] is the entry point. The crate `am-via-launch` starts jobs (`amrun`), and `am-via-conform` is the conformance suite of the
//! provider (`am-conform`).
//!
//! A task joins its job and opens a context; a program that no launcher started is a job of one:
//!
//! ```
//! use am_core::prelude::*;
//! use am_via::Task;
//!
//! # fn main() -> am_core::Result<()> {
//! let mut context = Task::join()?.context()?;
//! let greeted = context.counter()?;
//! let greet = context.register_handler(move |_message| Answer::consumed(Completion::Bump(greeted)))?;
//! // Collective: now every task has its handler.
//! context.gfence()?;
//! for task in context.tasks() {
//!     context.amsend(task, greet, b"hello", &[], AmOptions::default())?;
//! }
//! context.wait_counter(greeted, context.num_tasks().into())?;
//! // No task leaves while others may still need its answers.
//! context.gfence()
//! # }
//! ```
//!
//! A program may also use VIA itself, by the crate `am-via-vipl`, which opens the NICs of a [`Task`].
//!
//! # What is promised
//!
//! * No safe call corrupts the memory of a peer. Peers reach only what is registered or granted. A claim to such memory (handle, offset,
//!   length, rights, protection tag) is checked in one place before the copy, and memory returns to its owner after the last copy. If a
//!   peer dies while it copies, the memory returns when the peer's process has ended.
//! * Values read from job memory are not trusted, and are checked where they are read. Tests fill rings, connections and receive areas with
//!   random entries: the victim continues, and its other peers are not affected.
//!
//! Not promised:
//!
//! * A task that writes to job memory without this crate (by C, `unsafe` code or files in `/proc`, or as an attacker) is not contained: it
//!   can change all bytes of all tasks there.
//! * A peer that ignores its credits can make this task use memory without bound.
//! * Between two NICs of one process, a transfer races with a local access to the same bytes (`Memory::read`, `Memory::write`): both are
//!   plain copies. Wait for the descriptor first.

/// Public, since the compiler shares only what other crates can name; no part of the interface.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod compiled_once;
pub mod fabric;
pub mod start;

pub use am_via_job::settings;
pub use am_via_os::complain;
pub use am_via_os::process::become_program;
pub use am_via_os::signal::keep_ended_children;
pub use am_via_os::standard_output::{say, was_closed as output_was_closed};
/// A program selects this allocator in one line, and joins its job as usual:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: am_via::JobAllocator = am_via::JobAllocator::new();
///
/// let task = am_via::Task::join()?;
/// let large = vec![1u8; 1 << 20]; // in job memory from here on
/// # drop((large, task));
/// # Ok::<(), am_core::error::Error>(())
/// ```
pub use am_via_shm::allocator::JobAllocator;
pub use am_via_shm::allocator::LargeBlock;
pub use start::{ShmFabric, Task};

/// The job of a task, and the state of its tasks.
pub mod job {
    pub use am_via_job::{
        Answer, Ask, Cause, Failure, JOB_VARIABLE, Job, JobError, OpenContext, Program, Refusal, TaskState,
        Variables, abort_by_launcher,
    };
}

/// The processors that a thread may use, and the one on which it runs.
pub mod processors {
    pub use am_via_os::sched::{allowed_cpus, current_cpu, move_to};
}

/// The device: shared memory within a host with libfabric between hosts.
pub mod device {
    pub use am_via_nic::device::{DeviceAttributes, DeviceError, Endpoint, shm};
}
