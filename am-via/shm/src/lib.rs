//! Shared memory: the memory files of a job, their layout, and the lock-free parts that tasks share.
//!
//! This crate is independent of VIA, LAPI and MPI. Its callers are am-via's own crates. A function whose soundness depends on its caller is
//! unsafe. Its rules:
//!
//! 1. Memory that another task can write is never behind `&` or `&mut` to plain data: it is accessed by atomics, or by raw pointers and
//!    copies.
//! 2. A number read from shared memory is a claim: it is not trusted. It is checked once, in this crate, and is then held in a type that
//!    only the check makes.
//! 3. Atomics come from [`am_via_os::atomics`] only, so that loom can replace them.

#![expect(unsafe_code, reason = "memory that other tasks write")]

pub mod allocator;
mod block;
mod connection;
mod copy;
mod draft;
mod heap;
pub mod layout;
pub mod layout_job;
pub mod layout_record;
#[cfg(all(test, loom))]
mod loom_tests;
mod mapped_regions;
mod pipe;
mod private_bytes;
mod private_region;
pub mod regions;
mod ring;
mod segment;
mod shared_files;
mod spin;
mod storing;
mod wait;

pub use am_atomics::AtomicOp;
pub use block::{HeapBlock, HeapOwner};
pub use connection::{Bell, Connection, ExpectedArea, FreeLine, Outlet, TELL_AFTER, ViSlot, Written};
pub use copy::{CheckedRange, Copied};
pub use draft::Draft;
pub use heap::{Block, Heap, block_len};
pub use mapped_regions::{Lent, MappedRegion, MappedRegions};
pub use pipe::{PIECE_BYTES, PIPE_BYTES, PipeWriter};
pub use private_bytes::PrivateBytes;
pub use private_region::{HeldRange, PrivateRegions};
#[cfg(not(loom))]
pub use ring::SingleLine;
pub use ring::{Entry, LINE_PAYLOAD_BYTES, Lines, Payload, RingReader, RingWriter, Seen};
pub use segment::{Mapping, Shared, SharedAtomics};
pub use shared_files::{SharedFileName, SharedFiles};
pub use spin::{NO_SPIN, Spin, WaitPolicy};
pub use storing::Storing;
pub use wait::{Doorbell, Quiet, SleepBarrier};
