//! Matches messages with receives: the posted receive queue and the early-arrival queue.
//!
//! A receiver has one of each. A new receive is first matched against the early arrivals ([`EarlyArrivalQueue::take_match`]); if none
//! matches, it is stored in the [`PostedQueue`]. A message that arrives is first matched against the posted receives
//! ([`PostedQueue::take_match`]); if none matches, it is stored in the [`EarlyArrivalQueue`]. The two queues know nothing of each other, of
//! buffers, or of how messages travel.
//!
//! # The rule
//!
//! MPI 4.1 section 3.5 (Order): messages of one sender in one communicator are not overtaken, and of several posted receives that a message
//! satisfies the one posted first gets it. Both follow from one rule that both queues keep: *of all entries that match, the earliest is
//! taken*. Wildcards (any source, any tag) do not weaken it; the communicator's context id is never a wildcard.
//!
//! # The cost
//!
//! - The first entry is compared before anything else: traffic in order costs one or two cache lines at any depth.
//! - Posted receives are linked through slots that their owner stores (the table of requests: [`PostedList`]). Up to 64 of them are
//!   compared one by one. Beyond that each post also enters two older receives into one of four hash tables, one a shape of pattern: exact,
//!   any source, any tag, both ([`Shape`]), until only the newest is left. An arriving message looks into each table that is not empty, and
//!   the order number decides among at most four candidates.
//! - Up to 64 early arrivals are a ring inside the queue, compared one by one. Beyond that each arrival moves the two oldest of the ring
//!   into a slab, until only the newest is left: there they lie in the tables of all four shapes, and a receive looks into one, then
//!   through the ring.
//! - No step grows with the queue but the doubling of a table, which is paid for by the entries that fill it.
//! - Under each key of a table lies a first-in first-out list, so a hundred thousand entries with one key cost no more than one.
//! - Vacated slots are used again. Nothing is allocated unless a queue is longer than it has ever been.
//!
//! The queues follow those of the paper's MPI over LAPI, and avoid what later work criticized there: search time that grows with the queue.

#![forbid(unsafe_code)]

mod early_arrival;
mod envelope;
mod index;
mod posted;
mod posted_queue;
mod short_list;
mod slab;
#[cfg(test)]
mod tests;

pub use early_arrival::{EarlyArrivalQueue, EarlyHandle};
pub use envelope::{ContextId, Envelope, Pattern, Shape};
pub use posted::{PostedEntry, PostedList, PostedSlot};
pub use posted_queue::{PostedHandle, PostedQueue};

/// The longest queue without tables: a program's usual window of requests does not pay for any. Must be a power of two for the ring. Small
/// in tests, because the random tests would otherwise need very long queues.
const SHORT_ENTRIES_MAX: usize = if cfg!(test) { 8 } else { 64 };

const _: () = assert!(SHORT_ENTRIES_MAX.is_power_of_two());
