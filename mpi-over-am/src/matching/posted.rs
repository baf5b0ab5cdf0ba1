//! The posted receive queue: receives that wait for their message.

use std::num::NonZeroU64;

use super::envelope::{Envelope, Pattern, Shape};
use super::index::Index;
use super::short_list::{Entry, ShortList};
use super::slab::{NIL, Slab};
use super::{LONG_ENTRIES_MIN, SHORT_ENTRIES_MAX};

/// A receive hangs in the table of its own shape only, so the four tables share one lane.
const TABLE_LANE: usize = 1;
const LANES: usize = 2;

/// Names a posted receive until it is matched or cancelled. Good for the queue that gave it only; a handle whose
/// receive is gone is recognised as such for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedHandle {
    number: NonZeroU64,
    /// Where the receive lay when the handle was made: `NIL` in the short list.
    slot: u32,
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
/// let message = Envelope::new(world, 3, 7);
/// assert_eq!(posted.take_match(&message), Some("from anybody"));
/// assert_eq!(posted.take_match(&message), Some("from rank 3"));
/// assert_eq!(posted.take_match(&message), None);
/// ```
#[derive(Clone, Debug)]
pub struct PostedQueue<R> {
    next_number: NonZeroU64,
    /// Whether all receives are in the long queue, or all in the short one.
    is_long: bool,
    short: ShortList<Pattern, R>,
    long: Slab<Pattern, R, LANES>,
    /// One a [`Shape`]. Every receive of the long queue hangs in one of them.
    tables: [Index; 4],
}

impl<R: Copy> PostedQueue<R> {
    /// An empty queue; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            next_number: NonZeroU64::MIN,
            is_long: false,
            short: ShortList::new(),
            long: Slab::new(),
            tables: [const { Index::new() }; 4],
        }
    }

    /// An empty queue with memory for this many receives without wildcards.
    #[must_use]
    pub fn with_capacity(receives: usize) -> Self {
        let mut queue = Self::new();
        if receives > SHORT_ENTRIES_MAX {
            queue.long.reserve(receives);
            queue.tables[Shape::Exact as usize] = Index::with_capacity(receives);
        }
        queue
    }

    /// Receives that wait.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        if self.is_long { self.long.len() } else { self.short.len() }
    }

    /// Whether no receive waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a receive behind all others. The caller has looked among the early arrivals before.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, request: R) -> PostedHandle {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        if self.is_long || self.short.is_full() {
            return self.post_long(number, pattern, request);
        }
        self.short.push(Entry { number, key: pattern, payload: request });
        PostedHandle { number, slot: NIL }
    }

    /// Takes out the earliest receive that this message satisfies (MPI 4.1 section 3.5).
    #[inline]
    pub fn take_match(&mut self, envelope: &Envelope) -> Option<R> {
        match self.short.first() {
            Some(first) if first.key.matches(envelope) => self.short.take_first().map(|entry| entry.payload),
            None if !self.is_long => None,
            _ => self.take_match_further(envelope),
        }
    }

    /// Takes a receive back, if it still waits (MPI 4.1 section 3.8.4).
    pub fn cancel(&mut self, handle: PostedHandle) -> Option<R> {
        if !self.is_long {
            let position = self.short.position(|entry| entry.number == handle.number)?;
            return self.short.remove(position).map(|entry| entry.payload);
        }
        let slot = self.long.find(handle.slot, handle.number)?;
        self.unlink_from_table(slot);
        Some(self.remove_long(slot))
    }

    /// The receives that wait, in the order in which they were posted.
    pub fn iter(&self) -> impl Iterator<Item = (PostedHandle, &Pattern, R)> {
        let short = self.short.iter().map(|entry| {
            let handle = PostedHandle { number: entry.number, slot: NIL };
            (handle, &entry.key, entry.payload)
        });
        let long = self.long.slots().map(|slot| {
            let handle = PostedHandle { number: self.long.number(slot), slot };
            (handle, self.long.key(slot), *self.long.payload(slot))
        });
        short.chain(long)
    }

    #[cold]
    #[inline(never)]
    fn post_long(&mut self, number: NonZeroU64, pattern: Pattern, request: R) -> PostedHandle {
        if !self.is_long {
            self.move_to_long();
        }
        let slot = self.push_long(number, pattern, request);
        PostedHandle { number, slot }
    }

    fn push_long(&mut self, number: NonZeroU64, pattern: Pattern, request: R) -> u32 {
        let slot = self.long.push(number, pattern, request);
        let table = &mut self.tables[pattern.shape() as usize];
        table.link(&pattern.key(), &mut self.long, TABLE_LANE, slot);
        slot
    }

    #[cold]
    #[inline(never)]
    fn take_match_further(&mut self, envelope: &Envelope) -> Option<R> {
        if self.is_long {
            return self.take_match_in_tables(envelope);
        }
        let position = self.short.position(|entry| entry.key.matches(envelope))?;
        self.short.remove(position).map(|entry| entry.payload)
    }

    /// Each table offers its earliest receive for this message; the order number decides.
    fn take_match_in_tables(&mut self, envelope: &Envelope) -> Option<R> {
        let mut earliest = None;
        let mut earliest_number = NonZeroU64::MAX;
        for shape in Shape::ALL {
            let table = &self.tables[shape as usize];
            if let Some(place) = table.find(&shape.key_of(envelope)) {
                let slot = table.first(place);
                let number = self.long.number(slot);
                if number < earliest_number {
                    earliest_number = number;
                    earliest = Some((shape, place, slot));
                }
            }
        }
        let (shape, place, slot) = earliest?;
        self.tables[shape as usize].unlink_at(place, &mut self.long, TABLE_LANE, slot);
        Some(self.remove_long(slot))
    }

    /// Takes out a receive of the long queue that hangs in no table any more.
    fn remove_long(&mut self, slot: u32) -> R {
        let request = *self.long.payload(slot);
        self.long.remove(slot);
        if self.long.len() < LONG_ENTRIES_MIN {
            self.move_to_short();
        }
        request
    }

    fn unlink_from_table(&mut self, slot: u32) {
        let pattern = *self.long.key(slot);
        self.tables[pattern.shape() as usize].unlink(&pattern.key(), &mut self.long, TABLE_LANE, slot);
    }

    fn move_to_long(&mut self) {
        self.is_long = true;
        let mut position = 0;
        while let Some(entry) = self.short.take_first() {
            let slot = self.push_long(entry.number, entry.key, entry.payload);
            self.long.note_moved_in(position, slot);
            position += 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn move_to_short(&mut self) {
        while let Some(slot) = self.long.first() {
            self.unlink_from_table(slot);
            let (number, key) = (self.long.number(slot), *self.long.key(slot));
            self.short.push(Entry { number, key, payload: *self.long.payload(slot) });
            self.long.remove(slot);
        }
        self.is_long = false;
    }
}

impl<R: Copy> Default for PostedQueue<R> {
    fn default() -> Self {
        Self::new()
    }
}
