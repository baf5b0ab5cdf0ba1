//! The layout of the file for the records of a job's tasks: one [`TaskRecord`] per task.
//!
//! A task writes only its own part. The launcher reads the part when the task has ended, in whatever way. All values are claims.

use am_via_os::atomics::AtomicU64;
use am_via_os::memory::PAGE_BYTES;

use crate::layout_job::Text;
use crate::segment::SharedAtomics;

/// Number of events kept per task: the last ones.
pub const EVENTS_MAX: usize = 1 << 16;
/// Maximum number of names of a task.
pub const NAMES_MAX: usize = 512;
/// Maximum number of tallies of a task.
pub const TALLIES_MAX: usize = 4096;

/// The record of a task.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct TaskRecord {
    /// Number of names in use.
    pub num_names: AtomicU64,
    /// Number of tallies in use.
    pub num_tallies: AtomicU64,
    /// Number of events so far. The last [`EVENTS_MAX`] are kept.
    pub num_events: AtomicU64,
    /// Number of events that found no free tally.
    pub not_counted: AtomicU64,
    /// The names of events and tallies.
    pub names: [Text<6>; NAMES_MAX],
    /// Sums over all events, including those that are not kept.
    pub tallies: [Tally; TALLIES_MAX],
    /// The events, event `n` at `n % EVENTS_MAX`.
    pub events: [EventSlot; EVENTS_MAX],
}

/// The sum of all events with one name and one peer.
#[repr(C)]
#[derive(Debug)]
pub struct Tally {
    /// The name (24 bits) and the kind (8 bits) in the low half; the peer's number plus 1, or 0 for none, in the high half.
    pub of: AtomicU64,
    /// Number of events.
    pub count: AtomicU64,
    /// Sum of bytes.
    pub bytes: AtomicU64,
    /// Sum of times, in nanoseconds.
    pub nanoseconds: AtomicU64,
    /// The largest value.
    pub largest: AtomicU64,
}

/// One event.
#[repr(C)]
#[derive(Debug)]
pub struct EventSlot {
    /// The event's number, from 1 on; 0 while the event is being written.
    pub number: AtomicU64,
    /// The event's time, in nanoseconds of the system's monotonic clock.
    pub nanoseconds: AtomicU64,
    /// The event's kind (8 bits), thread (24 bits) and name (32 bits), from the lowest bit on.
    pub what: AtomicU64,
    /// The peer's number plus 1, or 0 for none (low half); the tag (high half).
    pub peer_tag: AtomicU64,
    /// Bytes, or a value.
    pub amount: AtomicU64,
    /// The context that a tag belongs to (low half); the number of earlier messages with the same ends, tag and context (high half).
    pub context_order: AtomicU64,
}

// SAFETY: repr(C), atomics only (and padding at the end).
unsafe impl SharedAtomics for TaskRecord {}

#[cfg(loom)]
impl Default for TaskRecord {
    fn default() -> Self {
        unreachable!("no model has such a file")
    }
}

impl TaskRecord {
    /// Bytes of a task's part of the file, in whole pages. Unwritten pages take no memory.
    pub const FILE_BYTES: u64 = (size_of::<Self>() as u64).next_multiple_of(PAGE_BYTES);
}
