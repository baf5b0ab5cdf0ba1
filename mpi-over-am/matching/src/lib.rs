//! Matches messages with receives: the posted receive queue and the early-arrival queue.
//!
//! A receiver has one of each. A new receive is first matched against the early arrivals ([`EarlyArrivalQueue::take_match`]); if none
//! matches, it is stored in the [`PostedQueue`]. A message that arrives is first matched against the posted receives
//! ([`PostedQueue::take_match`]); if none matches, it is stored in the [`EarlyArrivalQueue`]. The two queues know nothing of each other, of
//! buffers, or of how messages travel.
//!
//! # The rule
//!
//! MPI 4.1 section 3.5 (Order): messages of one sender in one communicator do not overtake each other, and if a message satisfies several
//! posted receives, the one posted first gets it. Both follow from one rule that both queues keep: *of all entries that match, the earliest
//! is taken*. Wildcards (any source, any tag) do not weaken the rule; the communicator's context id is never a wildcard.
//!
//! # The cost
//!
//! - The first posted receive is compared before anything else, and so is the first early arrival while all early arrivals are in the ring:
//!   traffic in order then costs one or two cache lines.
//! - Posted receives are linked through slots that their owner stores (the table of requests: [`PostedList`]). Up to 64 of them are
//!   compared one by one. Beyond that, each post also enters two older receives into hash tables, until only the newest receive is in none.
//!   There are four tables, one for each [`Shape`] of a pattern: exact, any source, any tag, both. An arriving message looks into each
//!   table that is not empty, and the order number decides among at most four candidates.
//! - Up to 64 early arrivals are stored in a ring inside the queue, and are compared one by one. Beyond that, each arrival moves the two
//!   oldest messages of the ring into a slab, until only the newest is left in the ring. A message in the slab is in the tables of all four
//!   shapes; a receive looks into one table, then through the ring.
//! - No post, arrival or match takes longer because the queue is longer, except the doubling of a table, whose cost is amortized over the
//!   entries that fill it.
//! - Each key of a table has a first-in first-out list, so a search among a hundred thousand entries with one key takes one step.
//! - Vacated slots are used again. Nothing is allocated unless a queue is longer than it has ever been.
//!
//! The queues follow those of the paper's MPI over LAPI, and avoid a weakness that later work found in them: a search time that grows with
//! the queue.

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

/// Maximum length of a queue without tables: a program's usual window of requests is shorter, and needs none. The ring requires a power of
/// two. Small in tests, because the random tests would otherwise need very long queues.
const SHORT_ENTRIES_MAX: usize = if cfg!(test) { 8 } else { 64 };

const _: () = assert!(SHORT_ENTRIES_MAX.is_power_of_two());
