//! The early-arrival queue: messages that arrived before a receive for them was posted (often called the unexpected queue).

use std::num::NonZeroU64;

use super::SHORT_ENTRIES_MAX;
use super::envelope::{Envelope, Pattern, Shape};
use super::index::Index;
use super::short_list::{Entry, ShortList};
use super::slab::{NIL, Slab};

/// Number of lanes of links in the [`Slab`]: one for the order, and one for each table, since a message is in all tables at once.
const LANES: usize = 1 + Shape::ALL.len();

const fn lane_of(shape: Shape) -> usize {
    1 + shape as usize
}

/// Names an early arrival until it is taken out. Valid only for the queue that returned it; a handle whose message was taken out stays
/// invalid for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EarlyHandle {
    number: NonZeroU64,
    /// The slot of the message when the handle was made; `NIL` if the message was in the short list.
    slot: u32,
}

/// Messages in the order of their arrival. `M` is what the caller stores for a message.
///
/// ```
/// use mpi_matching::{ContextId, EarlyArrivalQueue, Envelope, Pattern};
///
/// let world = ContextId(1);
/// let mut early = EarlyArrivalQueue::new();
/// early.push(Envelope::new(world, 5, 2), "first");
/// early.push(Envelope::new(world, 4, 2), "second");
///
/// let from_anybody = Pattern::new(world, None, Some(2));
/// assert_eq!(early.peek_match(&from_anybody).map(|(envelope, _)| envelope.source()), Some(5));
/// let (_, message) = early.take_match(&Pattern::exact(world, 4, 2)).expect("it has arrived");
/// assert_eq!(message, "second");
/// ```
#[derive(Clone, Debug)]
pub struct EarlyArrivalQueue<M> {
    next_number: NonZeroU64,
    /// When a message would make the short queue longer than this, the queue's two oldest messages are first moved to the long queue.
    short_max: usize,
    short: ShortList<Envelope, M>,
    /// The payload is present in every slot in use.
    long: Slab<Envelope, Option<M>, LANES>,
    /// A pattern that no message of the long queue satisfies, so that a polling caller does not search again.
    missed: Option<Pattern>,
    /// The tables, one for each [`Shape`]. Every message of the long queue is in each table, so a receive with a wildcard does not have to
    /// build a table.
    tables: [Index; 4],
}

impl<M> EarlyArrivalQueue<M> {
    /// An empty queue; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            next_number: NonZeroU64::MIN,
            short_max: SHORT_ENTRIES_MAX,
            short: ShortList::new(),
            missed: None,
            long: Slab::new(),
            tables: [const { Index::new() }; 4],
        }
    }

    /// An empty queue with memory for this many messages.
    #[must_use]
    pub fn with_capacity(messages: usize) -> Self {
        let mut queue = Self::new();
        if messages > SHORT_ENTRIES_MAX {
            queue.long.reserve(messages);
            queue.tables = std::array::from_fn(|_| Index::with_capacity(messages));
        }
        queue
    }

    /// Number of waiting messages.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.long.len() + self.short.len()
    }

    /// Whether no message waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a message at the end. The caller must have searched the posted receives before.
    #[inline]
    pub fn push(&mut self, envelope: Envelope, message: M) -> EarlyHandle {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        if self.short.len() >= self.short_max {
            self.index_two();
        }
        self.short.push(Entry { number, key: envelope, payload: message });
        EarlyHandle { number, slot: NIL }
    }

    /// Takes out the earliest message that satisfies the pattern (MPI 4.1 section 3.5; for a matched probe, 3.8.2).
    #[inline(always)]
    pub fn take_match(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        if !self.is_short()
            && let Some(found) = self.take_long(pattern)
        {
            return Some(found);
        }
        if self.short.len() == 0 {
            return None;
        }
        match self.short.first() {
            Some(first) if pattern.matches(&first.key) => {
                self.short.take_first().map(|entry| (entry.key, entry.payload))
            }
            _ => self.take_behind_first(pattern),
        }
    }

    /// The earliest message that satisfies the pattern (a probe, MPI 4.1 section 3.8.1). A receive with the same pattern right after it
    /// takes the same message.
    ///
    /// Takes the queue by `&mut` because it remembers a pattern that no message satisfies.
    #[inline]
    pub fn peek_match(&mut self, pattern: &Pattern) -> Option<(&Envelope, &M)> {
        if self.is_empty() {
            return None;
        }
        self.peek_match_present(pattern)
    }

    /// The message of a handle, if it still waits.
    pub fn get_mut(&mut self, handle: EarlyHandle) -> Option<&mut M> {
        if let Some(slot) = self.long.find(handle.slot, handle.number) {
            return self.long.payload_mut(slot).as_mut();
        }
        let position = self.short.position(|entry| entry.number == handle.number)?;
        self.short.get_mut(position).map(|entry| &mut entry.payload)
    }

    /// Takes out the message of a handle, if it still waits.
    pub fn remove(&mut self, handle: EarlyHandle) -> Option<(Envelope, M)> {
        if let Some(slot) = self.long.find(handle.slot, handle.number) {
            return Some(self.remove_long(slot));
        }
        let position = self.short.position(|entry| entry.number == handle.number)?;
        self.short.remove(position).map(|entry| (entry.key, entry.payload))
    }

    /// Takes out the earliest message for which `is_wanted` returns true; `None` if there is none. Looks at each message.
    pub fn remove_if(&mut self, is_wanted: impl Fn(&M) -> bool) -> Option<(Envelope, M)> {
        let found = self.iter().find(|(_, _, message)| is_wanted(message)).map(|(handle, ..)| handle);
        found.and_then(|handle| self.remove(handle))
    }

    /// The waiting messages, in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = (EarlyHandle, &Envelope, &M)> {
        let short = self.short.iter().map(|entry| {
            let handle = EarlyHandle { number: entry.number, slot: NIL };
            (handle, &entry.key, &entry.payload)
        });
        let long = self.long.slots().map(|slot| {
            let handle = EarlyHandle { number: self.long.number(slot), slot };
            (handle, self.long.key(slot), self.long.payload(slot).as_ref().expect(HAS_MESSAGE))
        });
        long.chain(short)
    }

    /// Whether all messages are in the short queue.
    const fn is_short(&self) -> bool {
        self.long.len() == 0
    }

    /// [`Self::take_match`] in the long queue.
    #[inline(never)]
    fn take_long(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let slot = self.find_long(pattern);
        (slot != NIL).then(|| self.remove_long(slot))
    }

    /// [`Self::take_match`] in the short queue, after the first message.
    #[inline(never)]
    fn take_behind_first(&mut self, pattern: &Pattern) -> Option<(Envelope, M)> {
        let position = self.short.position(|entry| pattern.matches(&entry.key))?;
        self.short.remove(position).map(|entry| (entry.key, entry.payload))
    }

    #[inline(never)]
    fn peek_match_present(&mut self, pattern: &Pattern) -> Option<(&Envelope, &M)> {
        if !self.is_short() && self.missed != Some(*pattern) {
            let slot = self.find_long(pattern);
            if slot != NIL {
                return Some((self.long.key(slot), self.long.payload(slot).as_ref().expect(HAS_MESSAGE)));
            }
            self.missed = Some(*pattern);
        }
        let position = self.short.position(|entry| pattern.matches(&entry.key))?;
        self.short.get(position).map(|entry| (&entry.key, &entry.payload))
    }

    /// The earliest message of the long queue that satisfies the pattern; [`NIL`] if none does.
    #[inline(always)]
    fn find_long(&self, pattern: &Pattern) -> u32 {
        self.tables[pattern.shape() as usize].first_of(&pattern.key())
    }

    /// Moves the two oldest messages of the short queue into the long one, whose messages are all older. From then on each push does this,
    /// until only the newest message is in the short queue. Each search compares this message. So a message that is taken before the next
    /// one arrives enters no table.
    #[inline(never)]
    fn index_two(&mut self) {
        self.short_max = 1;
        self.missed = None;
        for _ in 0..2 {
            let Some(Entry { number, key, payload }) = self.short.take_first() else { return };
            let slot = self.long.push(number, key, Some(payload));
            for shape in Shape::ALL {
                self.tables[shape as usize].link(&shape.key_of(&key), &mut self.long, lane_of(shape), slot);
            }
        }
    }

    /// Takes a message out of the tables and the slab.
    fn remove_long(&mut self, slot: u32) -> (Envelope, M) {
        let envelope = *self.long.key(slot);
        for shape in Shape::ALL {
            let key = shape.key_of(&envelope);
            self.tables[shape as usize].unlink(&key, &mut self.long, lane_of(shape), slot);
        }
        let message = self.long.payload_mut(slot).take().expect(HAS_MESSAGE);
        self.long.remove(slot);
        if self.is_short() {
            self.short_max = SHORT_ENTRIES_MAX;
        }
        (envelope, message)
    }
}

const HAS_MESSAGE: &str = "a slot in use holds its message";

impl<M> Default for EarlyArrivalQueue<M> {
    fn default() -> Self {
        Self::new()
    }
}
