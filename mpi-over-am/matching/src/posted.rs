//! The posted receive list: receives that wait for their message, in slots that the caller stores.

use super::SHORT_ENTRIES_MAX;
use super::envelope::{Envelope, Pattern, Shape};
use super::index::Index;
use super::slab::{List, NIL};

/// The part of a slot that the list uses: five eighths of a cache line. The owner of the slot may use pattern and number while the slot is
/// in no list.
#[derive(Clone, Copy, Debug)]
pub struct PostedEntry {
    /// The pattern that the receive matches.
    pub pattern: Pattern,
    /// While the entry is in a table: its number in the order of posting.
    pub number: u64,
    /// Neighbours in the order of posting. `previous` of the first one is undefined.
    next: u32,
    previous: u32,
    /// Neighbours in a bucket of a table, while the entry is in one.
    bucket_next: u32,
    /// [`LOOSE`] if the entry is in no table, and so also while it is in no list.
    bucket_previous: u32,
}

/// In no table.
const LOOSE: u32 = NIL - 1;

impl PostedEntry {
    /// An entry that is in no list.
    #[must_use]
    pub const fn new(pattern: Pattern, number: u64) -> Self {
        Self { pattern, number, next: NIL, previous: NIL, bucket_next: NIL, bucket_previous: LOOSE }
    }
}

/// A slot that can hold a posted receive.
pub trait PostedSlot {
    /// The part that the list reads.
    fn entry(&self) -> &PostedEntry;

    /// The part that the list changes.
    fn entry_mut(&mut self) -> &mut PostedEntry;
}

/// Receives in the order of posting. The caller stores their slots, which must always be in the same slice; a slot is named by its index
/// there. The first receive matches without a search. Beyond `SHORT_ENTRIES_MAX` receives, each post also moves the two oldest receives
/// without a table into the table of their shape, until only the newest has none. So every step is short, no search compares more than
/// `SHORT_ENTRIES_MAX` receives, and a receive whose message arrives before the next post enters no table.
#[derive(Clone, Debug)]
pub struct PostedList {
    order: List,
    len: usize,
    next_number: u64,
    /// The oldest receive that is in no table; all later ones are in no table, either.
    unindexed: u32,
    /// An envelope that no receive in a table matches, so that the next message with it skips the tables.
    missed: Option<Envelope>,
    /// The tables that are not empty, one bit each.
    filled: u8,
    /// The tables, one for each [`Shape`].
    tables: [Index; 4],
}

impl PostedList {
    /// An empty list; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            order: List::EMPTY,
            len: 0,
            next_number: 1,
            unindexed: NIL,
            missed: None,
            filled: 0,
            tables: [const { Index::new() }; 4],
        }
    }

    /// Number of waiting receives.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no receive waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a receive at the end, in a slot that must be in no list. The caller must have searched the early arrivals before.
    #[inline(always)]
    pub fn post<S: PostedSlot>(&mut self, slots: &mut [S], slot: u32, pattern: Pattern) {
        let previous = self.order.last;
        let entry = slots[slot as usize].entry_mut();
        debug_assert_eq!(entry.bucket_previous, LOOSE, "it left its table with the list");
        (entry.pattern, entry.next, entry.previous) = (pattern, NIL, previous);
        self.order.last = slot;
        if previous == NIL {
            (self.order.first, self.unindexed) = (slot, slot);
        } else {
            slots[previous as usize].entry_mut().next = slot;
            if self.unindexed == NIL {
                self.unindexed = slot;
            } else if self.len >= SHORT_ENTRIES_MAX {
                self.index_two(slots, slot);
            }
        }
        self.len += 1;
    }

    /// Takes out the earliest receive that this message satisfies (MPI 4.1 section 3.5), and sets the pattern of its slot to that of the
    /// message. Returns the slot.
    #[inline(always)]
    pub fn take_match<'a, S: PostedSlot>(
        &mut self,
        slots: &'a mut [S],
        envelope: &Envelope,
    ) -> Option<(u32, &'a mut S)> {
        let first = self.order.first;
        // `NIL` is beyond all slots.
        let entry = slots.get(first as usize)?.entry();
        if !entry.pattern.matches(envelope) || entry.bucket_previous != LOOSE {
            return self.take_match_otherwise(slots, *envelope);
        }
        self.order.first = entry.next;
        self.unindexed = entry.next;
        if entry.next == NIL {
            self.order.last = NIL;
        }
        self.len -= 1;
        let taken = &mut slots[first as usize];
        taken.entry_mut().pattern = Pattern::of(envelope);
        Some((first, taken))
    }

    /// The rest of [`take_match`](Self::take_match): there is a first receive, and it does not match or is in a table.
    #[inline(never)]
    fn take_match_otherwise<'a, S: PostedSlot>(
        &mut self,
        slots: &'a mut [S],
        envelope: Envelope,
    ) -> Option<(u32, &'a mut S)> {
        let first = self.order.first;
        let slot = if slots[first as usize].entry().pattern.matches(&envelope) {
            self.take(slots, first)
        } else {
            self.take_match_further(slots, &envelope)?
        };
        let taken = &mut slots[slot as usize];
        taken.entry_mut().pattern = Pattern::of(&envelope);
        Some((slot, taken))
    }

    /// Cancels a receive, which must wait in this list (MPI 4.1 section 3.8.4).
    pub fn cancel<S: PostedSlot>(&mut self, slots: &mut [S], slot: u32) {
        self.take(slots, slot);
    }

    /// The slots of the receives that wait, in the order in which they were posted.
    pub fn iter<S: PostedSlot>(&self, slots: &[S]) -> impl Iterator<Item = u32> {
        let existing = |slot: u32| (slot != NIL).then_some(slot);
        std::iter::successors(existing(self.order.first), move |&slot| {
            existing(slots[slot as usize].entry().next)
        })
    }

    /// Takes a match other than the first receive. Looks into the tables first: receives in a table were posted before those in none.
    fn take_match_further<S: PostedSlot>(&mut self, slots: &mut [S], envelope: &Envelope) -> Option<u32> {
        if self.filled != 0 && self.missed != Some(*envelope) {
            let slot = self.find_in_tables(slots, envelope);
            if slot != NIL {
                return Some(self.take(slots, slot));
            }
            self.missed = Some(*envelope);
        }
        let mut slot = self.unindexed;
        while slot != NIL {
            let PostedEntry { pattern, next, previous, .. } = slots[slot as usize].entry();
            let (next, previous) = (*next, *previous);
            if pattern.matches(envelope) {
                // `previous` is defined: the first receive, which has none, was compared before and does not match.
                slots[previous as usize].entry_mut().next = next;
                self.leave_order(slots, slot, previous, next);
                return Some(slot);
            }
            slot = next;
        }
        None
    }

    /// The earliest receive for this message among the candidates of all tables that are not empty, by the order of posting; [`NIL`] if
    /// there is none.
    #[inline(never)]
    fn find_in_tables<S: PostedSlot>(&self, slots: &[S], envelope: &Envelope) -> u32 {
        let (mut found, mut number, mut filled) = (NIL, u64::MAX, self.filled);
        while filled != 0 {
            let shape = Shape::ALL[filled.trailing_zeros() as usize];
            filled &= filled - 1;
            let slot = self.tables[shape as usize].first_of(&shape.key_of(envelope));
            if slot != NIL && slots[slot as usize].entry().number < number {
                (found, number) = (slot, slots[slot as usize].entry().number);
            }
        }
        found
    }

    /// Takes a receive out of the list, and out of its table.
    #[inline(never)]
    fn take<S: PostedSlot>(&mut self, slots: &mut [S], slot: u32) -> u32 {
        let entry = *slots[slot as usize].entry();
        if entry.bucket_previous != LOOSE {
            self.leave_bucket(slots, slot, &entry);
        }
        let mut previous = entry.previous;
        if self.order.first == slot {
            self.order.first = entry.next;
            previous = NIL;
        } else {
            slots[previous as usize].entry_mut().next = entry.next;
        }
        self.leave_order(slots, slot, previous, entry.next);
        slot
    }

    /// The last step of removing a receive, which is in no table any more: links its neighbours.
    #[inline(always)]
    fn leave_order<S: PostedSlot>(&mut self, slots: &mut [S], slot: u32, previous: u32, next: u32) {
        if self.unindexed == slot {
            self.unindexed = next;
        }
        if next == NIL {
            self.order.last = previous;
        } else {
            slots[next as usize].entry_mut().previous = previous;
        }
        self.len -= 1;
    }

    fn leave_bucket<S: PostedSlot>(&mut self, slots: &mut [S], slot: u32, entry: &PostedEntry) {
        let table = &mut self.tables[entry.pattern.shape() as usize];
        let bucket = table.find(&entry.pattern.key()).expect("the key of an entry in a table is there");
        let list = table.list_mut(bucket);
        let is_first = list.first == slot;
        if is_first {
            list.first = entry.bucket_next;
        } else {
            slots[entry.bucket_previous as usize].entry_mut().bucket_next = entry.bucket_next;
        }
        if entry.bucket_next == NIL {
            list.last = if is_first { NIL } else { entry.bucket_previous };
        } else if !is_first {
            slots[entry.bucket_next as usize].entry_mut().bucket_previous = entry.bucket_previous;
        }
        slots[slot as usize].entry_mut().bucket_previous = LOOSE;
        table.vacate_if_empty(bucket);
        if table.is_empty() {
            self.filled &= !(1 << entry.pattern.shape() as u8);
        }
    }

    /// Enters the two oldest receives that are in no table into their tables, but not the newest receive.
    #[inline(never)]
    fn index_two<S: PostedSlot>(&mut self, slots: &mut [S], newest: u32) {
        self.missed = None;
        for _ in 0..2 {
            let slot = self.unindexed;
            if slot == newest {
                return;
            }
            let PostedEntry { pattern, next, .. } = *slots[slot as usize].entry();
            let table = &mut self.tables[pattern.shape() as usize];
            let list = table.list_for(&pattern.key());
            let previous = list.last;
            list.last = slot;
            match previous {
                NIL => list.first = slot,
                previous => slots[previous as usize].entry_mut().bucket_next = slot,
            }
            let entry = slots[slot as usize].entry_mut();
            (entry.number, entry.bucket_next, entry.bucket_previous) = (self.next_number, NIL, previous);
            self.next_number += 1;
            self.unindexed = next;
            self.filled |= 1 << pattern.shape() as u8;
        }
    }
}

impl Default for PostedList {
    fn default() -> Self {
        Self::new()
    }
}
