//! An emulated Virtual Interface Architecture, and am-core's Fabric on it.
//!
//! From the top down: [`fabric`] carries am-core over [`vipl`], which speaks VIA, over a [`device`]: `shm`, the memory of a job on one
//! machine, or `wire`, a network inside one process, with seeded faults. [`launch`] starts jobs, [`job`] is what their tasks
//! share, and [`Task::join`] is the front door. [`provider`] is VIA's set-up path; [`conform`] is its conformance suite, run by
//! `am-conform`.
//!
//! A program may also be written to VIA itself. Two NICs, here on a wire in one process; a program of several tasks opens its
//! own with [`Task::open_nic`]:
//!
//! ```
//! use am_via::device::NodeAddress;
//! use am_via::device::wire::{WireNetwork, WireOptions};
//! use am_via::vipl::{DataSegment, Descriptor, Discriminator, MemAttributes, UserAgent, ViAttributes};
//!
//! let network = WireNetwork::new(WireOptions::new(2));
//! let address = |task| NodeAddress { task, context: 0 };
//! let mut ends = Vec::new();
//! for task in [0, 1] {
//!     let mut nic = UserAgent::open(network.open(address(task))?);
//!     let tag = nic.create_ptag()?;
//!     let vi = nic.create_vi(ViAttributes::new(tag), None, None)?;
//!     let memory = nic.alloc(16)?;
//!     let handle = nic.register_mem(&memory, (0, 16), tag, MemAttributes::default())?;
//!     // A receive may be posted before the connection.
//!     let segment = DataSegment { handle, offset: 0, length: 16 };
//!     nic.post_recv(vi, Descriptor::receive().with_segment(segment))?;
//!     nic.connect_peer_request(vi, Discriminator::default(), address(1 - task), None)?;
//!     ends.push((nic, vi, memory, segment));
//! }
//! let [(mut a, vi_a, from, segment), (mut b, vi_b, to, _)]: [_; 2] = ends.try_into().expect("two ends");
//! // Not `||`: both have to make progress.
//! while a.connect_peer_done(vi_a)?.is_none() | b.connect_peer_done(vi_b)?.is_none() {}
//!
//! from.write(0, b"hello, VI").expect("it fits");
//! a.post_send(vi_a, Descriptor::send().with_segment(segment).with_immediate(9))?;
//! let received = b.recv_wait(vi_b, None)?;
//! let mut bytes = [0; 9];
//! to.read(0, &mut bytes).expect("it is there");
//! assert_eq!((received.immediate(), &bytes), (Some(9), b"hello, VI"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! * No safe call corrupts the memory of a peer. Peers reach only what is registered or granted. A claim to it (handle, offset, length,
//!   rights, protection tag) is checked in one place before the copy, and memory goes back to its owner after the last copy has ended.
//!   If a peer dies while it copies, that is when its process has ended.
//! * What is read from job memory is a claim, and is checked where it is read. Tests fill rings, connections and receive areas with
//!   random entries: their victim goes on, and its other peers notice nothing.
//!
//! Not promised:
//!
//! * A task that writes to job memory past this crate (C, `unsafe`, files in `/proc`, an attacker) is not contained: it can change
//!   all bytes of all tasks that lie there.
//! * A peer that ignores its credits can make this task use memory without bound.
//! * Over `wire`, where several tasks are threads of one process, and between two NICs of one task, a transfer races with a local access to
//!   the same bytes (`Memory::read`, `Memory::write`): both are plain copies. Wait for the descriptor first.
//! * With the feature `testing` the insides are public, `shm` among them. What safe code does with those is not covered.

pub mod conform;
pub mod device;
pub mod fabric;
pub mod job;
pub mod launch;
pub mod limit;
mod provider;
pub mod settings;
/// Shared memory and the system calls under it: what is promised here is promised by callers. Public for tests of hostile peers alone.
#[cfg(feature = "testing")]
#[expect(unsafe_code, reason = "memory that other tasks write, and the system calls under it")]
pub mod shm;
#[cfg(not(feature = "testing"))]
#[expect(unsafe_code, reason = "memory that other tasks write, and the system calls under it")]
#[allow(dead_code, unreachable_pub, reason = "public with the feature `testing`")]
mod shm;
pub mod start;
#[cfg(test)]
mod test_aids;
pub mod vipl;

pub use shm::allocator::{JobAllocator, LargeBlock};
pub use start::{ShmFabric, Task};
