//! What lies where in the file in which the tasks of a job record what they do, where that is wanted: one [`TaskRecord`] a task.
//!
//! A task writes its own part and reads nothing there. The launcher reads it when the task has ended, however it ended: what it finds is a
//! claim.

use am_via_os::atomics::AtomicU64;
use am_via_os::memory::PAGE_BYTES;

use crate::layout_job::Text;
use crate::segment::SharedAtomics;

/// Events that are kept of a task: the last ones.
pub const EVENTS_MAX: usize = 1 << 16;
/// Names that a task can use.
pub const NAMES_MAX: usize = 512;
/// Tallies that a task can keep.
pub const TALLIES_MAX: usize = 4096;

/// What a task records.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct TaskRecord {
    /// Names in use.
    pub num_names: AtomicU64,
    /// Tallies in use.
    pub num_tallies: AtomicU64,
    /// Events recorded so far. The last [`EVENTS_MAX`] are here.
    pub num_events: AtomicU64,
    /// Counts that no tally was left for.
    pub not_counted: AtomicU64,
    /// What events and tallies are about.
    pub names: [Text<6>; NAMES_MAX],
    /// Sums over all events, those that are not kept too.
    pub tallies: [Tally; TALLIES_MAX],
    /// The events, event `n` at `n % EVENTS_MAX`.
    pub events: [EventSlot; EVENTS_MAX],
}

/// The sum of what was recorded with one name and one peer.
#[repr(C)]
#[derive(Debug)]
pub struct Tally {
    /// The name (24 bits) and the kind (8 bits) in the low half; the peer, from 1 on, or 0 for none, in the high half.
    pub of: AtomicU64,
    /// How often.
    pub count: AtomicU64,
    /// Bytes of all together.
    pub bytes: AtomicU64,
    /// Time of all together, in nanoseconds.
    pub nanoseconds: AtomicU64,
    /// The largest value.
    pub largest: AtomicU64,
}

/// One event.
#[repr(C)]
#[derive(Debug)]
pub struct EventSlot {
    /// Its number, from 1 on; 0 while it is written.
    pub number: AtomicU64,
    /// When, in nanoseconds of the system's monotonic clock.
    pub nanoseconds: AtomicU64,
    /// Its kind (8 bits), the thread (24 bits), the name (32 bits), from the lowest bit on.
    pub what: AtomicU64,
    /// The peer, from 1 on, or 0 for none (low half); the tag (high half).
    pub peer_tag: AtomicU64,
    /// Bytes, or a value.
    pub amount: AtomicU64,
    /// The context that a tag belongs to (low half); how many such messages there were before (high half).
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
    /// Bytes of a task's part of the file: whole pages. Those that are never written take no memory.
    pub const FILE_BYTES: u64 = (size_of::<Self>() as u64).next_multiple_of(PAGE_BYTES);
}
