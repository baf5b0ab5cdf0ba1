//! Who gets which message: the posted receive queue and the early-arrival queue.
//!
//! A receiver has one of each. When a receive is posted it looks among the early arrivals first
//! ([`EarlyArrivalQueue::take_match`]) and waits in the [`PostedQueue`] if nothing is there. When a message arrives it
//! looks among the posted receives first ([`PostedQueue::take_match`]) and waits in the [`EarlyArrivalQueue`] if
//! nobody asked for it yet. The two queues know nothing of each other, of buffers, or of how messages travel.
//!
//! # The rule
//!
//! MPI 4.1 section 3.5 (Order): messages of one sender in one communicator are not overtaken, and of several posted
//! receives that a message satisfies the one posted first gets it. Both follow from one sentence that both queues keep:
//! *of all entries that match, the earliest is taken*. Wildcards (any source, any tag) do not weaken it; the
//! communicator's context id is never a wildcard.
//!
//! # The cost
//!
//! - Up to eight entries are kept as a plain list in order and compared one by one. Most programs never
//!   leave this state, and the usual case, the first entry matches, is a handful of instructions, inlined.
//! - Beyond it the entries are also hung into up to four hash tables, one a shape of pattern: exact, any source, any tag,
//!   both ([`Pattern::shape`]). Under each key lies a first-in first-out list, so a hundred thousand entries with one key
//!   cost no more than one. An empty table costs one test.
//! - A posted receive lies in the one table of its shape; an arriving message looks into each table that is not empty,
//!   and the order number decides among at most four candidates.
//! - An early arrival lies in the table of every shape that has been asked for; a receive looks into one. The exact table is
//!   always kept; the first wildcard that meets a long queue pays for the building of its table, once.
//! - Entries lie in a slab with a free list. Nothing is allocated unless a queue is longer than it has ever been.
//!
//! Worked out after the queues of the paper's MPI over LAPI and after what later work found missing there: search time that
//! grows with the queue.

#![forbid(unsafe_code)]

mod early_arrival;
mod entries;
mod envelope;
mod index;
mod posted;
#[cfg(test)]
mod tests;

pub use early_arrival::{EarlyArrivalQueue, EarlyHandle};
pub use envelope::{ContextId, Envelope, Pattern, Shape};
pub use posted::{PostedHandle, PostedQueue};

/// The longest queue that is searched entry by entry. Eight entries are eight or nine cache lines that lie together: less
/// work than one hash and one probe into a table that has cooled down. Above it the tables are filled; at half of it they are
/// emptied again, so that a queue that swings around the limit pays for the change only once in several operations.
const SCAN_ENTRIES_MAX: usize = 8;
