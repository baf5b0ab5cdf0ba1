//! For programs that see one memory over all tasks (PGAS): a symmetric heap, typed segments of it, global pointers,
//! futures, and aggregated messages.
//!
//! * All tasks make a [`SymmetricHeap`] together, once. Every task then allocates from its own part without a message: the same calls in
//!   the same order give the same offsets in every task.
//! * A [`Segment<T>`] is such an allocation: `count` elements in every task. A task accesses its own part by copies and atomics, never by a
//!   reference to plain elements, because other tasks may write to them at any time.
//! * A [`GlobalPointer<T>`] names an element of any task's part. It knows the end of that part, so that a transfer cannot run into the next
//!   segment.
//! * [`Common`] memory is mapped by all tasks of a host, for layers that access it by pointers.
//! * A [`Session`] makes futures of operations that own their buffers, of calls, and of waits for counters, for any single-threaded
//!   executor, and has a small executor of its own ([`Session::block_on`]).
//! * An [`Aggregator<T>`] sends many small items in one message, for updates that need not be done at once.
//!
//! Element types are plain old data ([`bytemuck::Pod`]): any bytes that a peer writes are a valid value of the type.
//!
//! ```
//! use am_core::pgas::Segment;
//! use am_core_conform::threads;
//! use am_double::{Config, network};
//!
//! let (_, endpoints) = network(Config::new(3));
//! threads::run(endpoints, |context| {
//!     let hits = Segment::<u64>::new(context, 4).expect("small");
//!     // Twelve elements, distributed cyclically over three tasks; every task adds to all of them.
//!     for index in 0..hits.total() {
//!         hits.cyclic(index).and_then(|hit| hit.fetch_add(context, 1)).expect("task and index exist");
//!     }
//!     context.gfence().expect("all tasks live");
//!     assert_eq!(hits.to_vec(), [3; 4]);
//! });
//! ```

mod aggregator;
mod agreement;
mod common;
mod heap;
mod pointer;
mod segment;
mod session;

pub use aggregator::{Aggregator, items};
pub use agreement::agree;
pub use common::Common;
pub use heap::SymmetricHeap;
pub use pointer::{GlobalPointer, Word};
pub use segment::Segment;
pub use session::{CounterFuture, RmwFuture, Session, TransferFuture, join_all};
