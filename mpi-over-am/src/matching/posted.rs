//! The posted receive queue: receives that wait for their message.

use super::SCAN_ENTRIES_MAX;
use super::entries::{Entries, NIL};
use super::envelope::{Envelope, Pattern, Shape};
use super::index::Index;

/// A receive hangs in the table of its own shape only, so the four tables share one lane.
const TABLE_LANE: usize = 1;
const LANES: usize = 2;

/// Names a posted receive until it is matched or cancelled. Good for the queue that gave it only; a handle whose
/// receive is gone is recognised as such for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedHandle {
    slot: u32,
    number: u64,
}

/// Receives in the order in which they were posted. `R` is what names a receive request to the caller.
///
/// ```
/// use mpi_over_am::matching::{ContextId, Envelope, Pattern, PostedQueue};
///
/// let world = ContextId(1);
/// let mut posted = PostedQueue::new();
/// posted.post(Pattern::new(world, None, Some(7)), "from anybody");
/// posted.post(Pattern::exact(world, 3, 7), "from rank 3");
///
/// let message = Envelope { context_id: world, source: 3, tag: 7 };
/// assert_eq!(posted.take_match(&message), Some("from anybody"));
/// assert_eq!(posted.take_match(&message), Some("from rank 3"));
/// assert_eq!(posted.take_match(&message), None);
/// ```
#[derive(Clone, Debug)]
pub struct PostedQueue<R> {
    entries: Entries<Pattern, R, LANES>,
    /// One a [`Shape`]. All are empty unless `indexed`; then every entry hangs in one of them.
    tables: [Index; 4],
    indexed: bool,
}

impl<R: Copy> PostedQueue<R> {
    /// An empty queue; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Entries::new(), tables: [const { Index::new() }; 4], indexed: false }
    }

    /// An empty queue with memory for this many receives without wildcards.
    #[must_use]
    pub fn with_capacity(receives: usize) -> Self {
        let mut queue = Self { entries: Entries::with_capacity(receives), ..Self::new() };
        if receives > SCAN_ENTRIES_MAX {
            queue.tables[Shape::Exact as usize] = Index::with_capacity(receives);
        }
        queue
    }

    /// Receives that wait.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no receive waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.first() == NIL
    }

    /// Adds a receive behind all others. The caller has looked among the early arrivals before.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, request: R) -> PostedHandle {
        let (slot, number) = self.entries.push(pattern, request);
        if self.indexed || self.entries.len() > SCAN_ENTRIES_MAX {
            self.index_entry(slot);
        }
        PostedHandle { slot, number }
    }

    /// Takes out the earliest receive that this message satisfies (MPI 4.1 section 3.5).
    #[inline]
    pub fn take_match(&mut self, envelope: &Envelope) -> Option<R> {
        let first = self.entries.first();
        if first == NIL {
            return None;
        }
        if !self.indexed && self.entries.key(first).matches(envelope) {
            let request = *self.entries.payload(first);
            self.entries.remove_first();
            return Some(request);
        }
        self.take_match_further(envelope)
    }

    /// Takes a receive back, if it still waits (MPI 4.1 section 3.8.4).
    pub fn cancel(&mut self, handle: PostedHandle) -> Option<R> {
        if !self.entries.holds(handle.slot, handle.number) {
            return None;
        }
        if self.indexed {
            let pattern = *self.entries.key(handle.slot);
            self.tables[pattern.shape() as usize].unlink(
                pattern.key(),
                &mut self.entries,
                TABLE_LANE,
                handle.slot,
            );
        }
        Some(self.remove(handle.slot))
    }

    /// The receives that wait, in the order in which they were posted.
    pub fn iter(&self) -> impl Iterator<Item = (PostedHandle, &Pattern, R)> {
        self.entries.slots().map(|slot| {
            let handle = PostedHandle { slot, number: self.entries.number(slot) };
            (handle, self.entries.key(slot), *self.entries.payload(slot))
        })
    }

    #[cold]
    #[inline(never)]
    fn take_match_further(&mut self, envelope: &Envelope) -> Option<R> {
        if self.indexed { self.take_match_in_tables(envelope) } else { self.take_match_by_scan(envelope) }
    }

    fn take_match_by_scan(&mut self, envelope: &Envelope) -> Option<R> {
        let mut slot = self.entries.first();
        while slot != NIL {
            if self.entries.key(slot).matches(envelope) {
                let request = *self.entries.payload(slot);
                self.entries.remove(slot);
                return Some(request);
            }
            slot = self.entries.next(slot);
        }
        None
    }

    /// Each table offers its earliest receive for this message; the order number decides.
    fn take_match_in_tables(&mut self, envelope: &Envelope) -> Option<R> {
        let mut earliest = None;
        let mut earliest_number = u64::MAX;
        for shape in Shape::ALL {
            let table = &self.tables[shape as usize];
            if let Some(place) = table.find(&shape.key_of(envelope)) {
                let slot = table.first(place);
                let number = self.entries.number(slot);
                if number < earliest_number {
                    earliest_number = number;
                    earliest = Some((shape, place, slot));
                }
            }
        }
        let (shape, place, slot) = earliest?;
        self.tables[shape as usize].unlink_at(place, &mut self.entries, TABLE_LANE, slot);
        Some(self.remove(slot))
    }

    /// Takes out a receive that hangs in no table any more.
    fn remove(&mut self, slot: u32) -> R {
        let request = *self.entries.payload(slot);
        self.entries.remove(slot);
        if self.indexed && self.entries.len() <= SCAN_ENTRIES_MAX / 2 {
            self.empty_tables();
        }
        request
    }

    /// The queue is long: hangs its new entry into a table, and all others too if they are in none yet.
    #[cold]
    #[inline(never)]
    fn index_entry(&mut self, slot: u32) {
        let mut from = if self.indexed { slot } else { self.entries.first() };
        self.indexed = true;
        while from != NIL {
            let pattern = *self.entries.key(from);
            self.tables[pattern.shape() as usize].link(pattern.key(), &mut self.entries, TABLE_LANE, from);
            from = self.entries.next(from);
        }
    }

    /// The queue is short again.
    #[cold]
    #[inline(never)]
    fn empty_tables(&mut self) {
        let mut slot = self.entries.first();
        while slot != NIL {
            let pattern = *self.entries.key(slot);
            self.tables[pattern.shape() as usize].unlink(pattern.key(), &mut self.entries, TABLE_LANE, slot);
            slot = self.entries.next(slot);
        }
        self.indexed = false;
    }
}

impl<R: Copy> Default for PostedQueue<R> {
    fn default() -> Self {
        Self::new()
    }
}
