//! MPI semantics over am-core's active messages, after the MPI-LAPI paper (Banikazemi, Govindaraju, Blackmore, Panda: "MPI-LAPI: An
//! Efficient Implementation of MPI for IBM RS/6000 SP Systems").
//!
//! A program joins its job with [`Environment::init`] and communicates through [`Communicator`]s:
//!
//! ```
//! use mpi_over_am::{Environment, Source, Tag, op};
//!
//! # fn main() -> mpi_over_am::Result<()> {
//! let environment = Environment::init()?;
//! let world = environment.world();
//! let right = (world.rank() + 1) % world.size();
//!
//! // Non-blocking operations belong to a scope, which waits for them. Numbers, arrays, tuples, structs that derive Equivalence,
//! // slices and vectors can be sent.
//! let (out, mut got) = ((world.rank(), [0.5; 3]), (0, [0.0; 3]));
//! world.scope(|s| {
//!     let arriving = s.irecv(&mut got, Source::Any, Tag::Any)?;
//!     let leaving = s.isend(&out, right, 7)?;
//!     assert_eq!(s.wait(arriving)?.tag(), 7);
//!     s.wait(leaving)
//! })?;
//!
//! let mut sum = [1u64];
//! world.allreduce_in_place(&mut sum, op::Sum)?;
//! assert_eq!(sum, [u64::from(world.size())]);
//! environment.finalize()
//! # }
//! ```
//!
//! # How it works
//!
//! A message is one active message whose user header is its envelope ([`matching`]). Its header handler, at the receiver, looks for a
//! posted receive and returns the receive's buffer, or stores the message as an early arrival. Short messages carry their data (eager);
//! long ones are announced, and fetched when their receive is posted (rendezvous). Early arrivals have a budget, which each sender
//! observes; beyond it, short messages are announced, too.
//!
//! # What it promises
//!
//! - Messages from one task to another on one communicator do not overtake each other, whatever their mode and length.
//! - Errors are values, and name the party at fault. When a blocking call fails, its operation has ended.
//! - Buffers are safe in safe code: a borrowed buffer is lent for a call, or for a scope that waits; an owned buffer is returned by a wait.
//!   Forgetting a request is harmless. Memory without a lifetime ([`SendData`], [`RecvData`], a [`WindowMemory`] or [`LentMemory`] made
//!   from a pointer) takes an `unsafe` promise when it is made. Numbers, and types made of numbers, can be sent and received ([`Buffer`],
//!   [`BufferMut`], [`Equivalence`]).
//! - No safe call corrupts the memory of another task. The limits are those that [`am_core`] lists under "What is not promised": a task
//!   that writes outside the library (C, `unsafe`) is not contained, and local accesses to a window can race with transfers if both are in
//!   one process.
//! - An [`Environment`] belongs to one thread, and takes no lock; [`Environment::init_threads`] makes one for any number of threads
//!   ([`LockPolicy`]).

#![cfg_attr(
    not(test),
    warn(clippy::print_stdout, clippy::print_stderr, reason = "these panic if the reader has left")
)]

// A room uses only rooms before it in this list, and the files beside them, which use no room: `data`, `message`, `communicator`,
// `request`, `collective`, `window`, `file`, `environment`.
pub mod collective;
mod communicator;
/// Public because the compiler shares only what other crates can name. Not a part of the interface.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod compiled_once;
mod context_id;
mod data;
mod environment;
mod error;
pub mod events;
pub mod file;
mod group;
mod job;
mod message;
mod policy;
mod rank;
mod request;
mod settings;
mod tag;
mod thread_level;
pub mod window;

pub use am_core::buffer::{RawBuffer, RawBytes};
pub use am_core::pgas::join_all;
pub use collective::{Collective, Datum, LayoutPart, Neighbours, Parts, Placement};
pub use communicator::error_handler::{ErrorFunction, ErrorHandler};
pub use communicator::info::{INFO_KEY_BYTES_MAX, INFO_VALUE_BYTES_MAX, Info};
pub use communicator::properties::{NAME_BYTES_MAX, Properties};
pub use communicator::{
    ANY_RANK, Agreed, Command, Communicator, PendingAgreement, PendingCommunicator, SplitType, largest_in_set,
};
pub use communicator::{attribute, topology};
pub use data::buffer::{
    Buffer, BufferMut, Equivalence, FieldList, FieldListMut, Incoming, LentMemory, Outgoing, Plain, RecvData,
    SendData, View, ViewMut, WindowMemory,
};
pub use data::{op, packing};
pub use environment::Environment;
pub use environment::session::Session;
pub use error::{Difference, Error, ErrorClass, Fault, Result, Side};
pub use group::{Comparison, Group, RankRange, SELF_SET, WORLD_SET};
pub use job::job_number;
pub use job::{
    JobAllocator, JobFabric, JobSettings, Variables, become_program, complain, keep_ended_children,
    output_was_closed, say,
};
pub use message::attached_buffers::{BSEND_OVERHEAD_BYTES, BufferOwner, SendBuffer};
pub use message::counts::Counts;
pub use message::progress_thread::RunningThread;
pub use message::request_id::{RequestFacts, RequestId};
pub use message::request_table::MessageId;
pub use message::route::Mode;
pub use message::status::Status;
pub use mpi_datatype as datatype;
pub use mpi_matching as matching;
pub use mpi_over_am_derive::Equivalence;
pub use policy::{ByCall, Call, LockPolicy, OneThread, Threads};
pub use rank::{ANY_SOURCE, PROC_NULL, ROOT, Source};
pub use request::{
    AnyCompleted, ArrivedPart, OwnPart, OwnedRequest, PartitionedReceive, PartitionedSend, Persistent,
    Request, Returned, Scope, Tested, WaitList,
};
pub use settings::{
    BoardKind, COLLECTIVE_SETTINGS, Check, CompletionVariant, Selection, Setting, SettingError, SettingText,
    Settings, Table, Wanted, nearest,
};
pub use tag::{ANY_TAG, TAG_UB, Tag};
pub use thread_level::ThreadLevel;

/// Runs the programs of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../README.md")]
struct Readme;
