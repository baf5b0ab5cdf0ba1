//! The early-arrival queue: messages that came before anybody asked for them (often called the unexpected queue).

use super::SCAN_ENTRIES_MAX;
use super::entries::{Entries, NIL};
use super::envelope::{Envelope, Pattern, Shape};
use super::index::Index;

/// A message hangs in several tables at once: one lane for each, behind the lane of the order.
const LANES: usize = 1 + Shape::ALL.len();

const fn lane_of(shape: Shape) -> usize {
    1 + shape as usize
}

/// Names an early arrival until it is taken out. Good for the queue that gave it only; a handle whose message is gone
/// is recognised as such for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EarlyHandle {
    slot: u32,
    number: u64,
}

/// Messages in the order in which they arrived. `M` is what the caller keeps of a message.
///
/// ```
/// use mpi_over_am::matching::{ContextId, EarlyArrivalQueue, Envelope, Pattern};
///
/// let world = ContextId(1);
/// let mut early = EarlyArrivalQueue::new();
/// early.push(Envelope { context_id: world, source: 5, tag: 2 }, "first");
/// early.push(Envelope { context_id: world, source: 4, tag: 2 }, "second");
///
/// let from_anybody = Pattern::new(world, None, Some(2));
/// assert_eq!(early.peek_match(&from_anybody).map(|(envelope, _)| envelope.source), Some(5));
/// let (_, message) = early.take_match(&Pattern::exact(world, 4, 2)).expect("it has arrived");
/// assert_eq!(message, "second");
/// ```
#[derive(Clone, Debug)]
pub struct EarlyArrivalQueue<M> {
    /// The payload is there in every slot in use.
    entries: Entries<Envelope, Option<M>, LANES>,
    /// One a [`Shape`].
    tables: [Index; 4],
    /// The tables that are filled while `indexed`: the exact one, and those of the wildcards that were ever asked for
    /// while something waited. A program without wildcards pays for one table.
    kept: [bool; 4],
    /// While true every entry hangs in every table that is kept; while false all tables are empty.
    indexed: bool,
}

impl<M> EarlyArrivalQueue<M> {
    /// An empty queue; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Entries::new(),
            tables: [const { Index::new() }; 4],
            kept: [true, false, false, false],
            indexed: false,
        }
    }

    /// An empty queue with memory for this many messages, as long as no wildcard is used.
    #[must_use]
    pub fn with_capacity(messages: usize) -> Self {
        let mut queue = Self { entries: Entries::with_capacity(messages), ..Self::new() };
        if messages > SCAN_ENTRIES_MAX {
            queue.tables[Shape::Exact as usize] = Index::with_capacity(messages);
        }
        queue
    }

    /// Messages that wait.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no message waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.first() == NIL
    }

    /// Adds a message behind all others. The caller has looked among the posted receives before.
    #[inline]
    pub fn push(&mut self, envelope: Envelope, message: M) -> EarlyHandle {
        let (slot, number) = self.entries.push(envelope, Some(message));
        if self.indexed || self.entries.len() > SCAN_ENTRIES_MAX {
            self.index_entry(slot);
        }
        EarlyHandle { slot, number }
    }

    /// Takes out the earliest message that satisfies the pattern (MPI 4.1 section 3.5; for a matched probe, 3.8.2).
    #[inline]
    pub fn take_match(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let first = self.entries.first();
        if first == NIL {
            return None;
        }
        if !self.indexed && pattern.matches(self.entries.key(first)) {
            let envelope = *self.entries.key(first);
            let message = self.entries.payload_mut(first).take().expect(HAS_MESSAGE);
            self.entries.remove_first();
            return Some((envelope, message));
        }
        self.take_match_further(pattern)
    }

    /// Looks at the earliest message that satisfies the pattern (a probe, MPI 4.1 section 3.8.1). A receive with the same
    /// pattern right after it takes the same message.
    ///
    /// Takes the queue by `&mut` because the first wildcard of its shape may have to build a table.
    #[inline]
    pub fn peek_match(&mut self, pattern: &Pattern) -> Option<(&Envelope, &M)> {
        if self.is_empty() {
            return None;
        }
        let slot = self.find_match(pattern)?;
        Some((self.entries.key(slot), self.entries.payload(slot).as_ref().expect(HAS_MESSAGE)))
    }

    /// The message of a handle, if it still waits.
    pub fn get_mut(&mut self, handle: EarlyHandle) -> Option<&mut M> {
        if !self.entries.holds(handle.slot, handle.number) {
            return None;
        }
        self.entries.payload_mut(handle.slot).as_mut()
    }

    /// Takes out the message of a handle, if it still waits.
    pub fn remove(&mut self, handle: EarlyHandle) -> Option<(Envelope, M)> {
        self.entries.holds(handle.slot, handle.number).then(|| self.remove_slot(handle.slot))
    }

    /// The messages that wait, in the order in which they arrived.
    pub fn iter(&self) -> impl Iterator<Item = (EarlyHandle, &Envelope, &M)> {
        self.entries.slots().map(|slot| {
            let handle = EarlyHandle { slot, number: self.entries.number(slot) };
            (handle, self.entries.key(slot), self.entries.payload(slot).as_ref().expect(HAS_MESSAGE))
        })
    }

    #[cold]
    #[inline(never)]
    fn take_match_further(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let slot = self.find_match(pattern)?;
        Some(self.remove_slot(slot))
    }

    /// The slot of the earliest message that satisfies the pattern.
    fn find_match(&mut self, pattern: &Pattern) -> Option<u32> {
        let shape = pattern.shape();
        if !self.kept[shape as usize] {
            self.keep_table(shape);
        }
        if self.indexed {
            let table = &self.tables[shape as usize];
            return table.find(pattern.key()).map(|place| table.first(place));
        }
        self.entries.slots().find(|&slot| pattern.matches(self.entries.key(slot)))
    }

    fn remove_slot(&mut self, slot: u32) -> (Envelope, M) {
        let envelope = *self.entries.key(slot);
        if self.indexed {
            self.unlink_from_tables(slot);
        }
        let message = self.entries.payload_mut(slot).take().expect(HAS_MESSAGE);
        self.entries.remove(slot);
        if self.indexed && self.entries.len() <= SCAN_ENTRIES_MAX / 2 {
            self.empty_tables();
        }
        (envelope, message)
    }

    /// The queue is long: hangs its new entry into the tables, and all others too if they are in none yet.
    #[cold]
    #[inline(never)]
    fn index_entry(&mut self, slot: u32) {
        let from = if self.indexed { slot } else { self.entries.first() };
        self.indexed = true;
        for shape in Shape::ALL {
            if self.kept[shape as usize] {
                self.link_from(shape, from);
            }
        }
    }

    /// From now on there is a table for this shape of wildcard.
    #[cold]
    #[inline(never)]
    fn keep_table(&mut self, shape: Shape) {
        self.kept[shape as usize] = true;
        if self.indexed {
            self.link_from(shape, self.entries.first());
        }
    }

    /// Hangs an entry and all that came behind it into one table.
    fn link_from(&mut self, shape: Shape, from: u32) {
        let table = &mut self.tables[shape as usize];
        let mut slot = from;
        while slot != NIL {
            let key = shape.key_of(self.entries.key(slot));
            table.link(&key, &mut self.entries, lane_of(shape), slot);
            slot = self.entries.next(slot);
        }
    }

    fn unlink_from_tables(&mut self, slot: u32) {
        let envelope = *self.entries.key(slot);
        for shape in Shape::ALL {
            if self.kept[shape as usize] {
                let key = shape.key_of(&envelope);
                self.tables[shape as usize].unlink(&key, &mut self.entries, lane_of(shape), slot);
            }
        }
    }

    /// The queue is short again.
    #[cold]
    #[inline(never)]
    fn empty_tables(&mut self) {
        let mut slot = self.entries.first();
        while slot != NIL {
            self.unlink_from_tables(slot);
            slot = self.entries.next(slot);
        }
        self.indexed = false;
    }
}

const HAS_MESSAGE: &str = "a slot in use holds its message";

impl<M> Default for EarlyArrivalQueue<M> {
    fn default() -> Self {
        Self::new()
    }
}
