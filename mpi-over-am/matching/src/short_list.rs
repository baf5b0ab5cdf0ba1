//! A queue of a few entries (most queues are short), in a ring within the queue's own memory.
//!
//! No links, no slots, no bounds to check: for the first entry a push is a store and a take is a comparison. Entries move when an earlier
//! one leaves, so an entry is named by its order number alone and found by a search.

use std::num::NonZeroU64;

use super::SHORT_ENTRIES_MAX;

/// An entry. The order number is never zero, so `Option<Entry>` has the size of an entry.
#[derive(Clone, Debug)]
pub(super) struct Entry<K, P> {
    pub(super) number: NonZeroU64,
    pub(super) key: K,
    pub(super) payload: P,
}

/// Entries in the order of their arrival.
#[derive(Clone, Debug)]
pub(super) struct ShortList<K, P> {
    ring: [Option<Entry<K, P>>; SHORT_ENTRIES_MAX],
    /// Number of entries taken from the front so far. `end` is this number plus the number of entries in the list. Both wrap.
    start: usize,
    end: usize,
}

impl<K, P> ShortList<K, P> {
    pub(super) const fn new() -> Self {
        Self { ring: [const { None }; SHORT_ENTRIES_MAX], start: 0, end: 0 }
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.end.wrapping_sub(self.start)
    }

    /// Adds an entry at the end. The list must not be full.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry<K, P>) {
        self.ring[self.end % SHORT_ENTRIES_MAX] = Some(entry);
        self.end = self.end.wrapping_add(1);
    }

    #[inline]
    pub(super) const fn first(&self) -> Option<&Entry<K, P>> {
        self.ring[self.start % SHORT_ENTRIES_MAX].as_ref()
    }

    #[inline]
    pub(super) fn take_first(&mut self) -> Option<Entry<K, P>> {
        let entry = self.ring[self.start % SHORT_ENTRIES_MAX].take()?;
        self.start = self.start.wrapping_add(1);
        Some(entry)
    }

    /// Number of entries before the earliest entry for which `wanted` is true; `None` if there is no such entry.
    #[inline]
    pub(super) fn position(&self, mut wanted: impl FnMut(&Entry<K, P>) -> bool) -> Option<usize> {
        let mut at = self.start;
        while at != self.end {
            if self.ring[at % SHORT_ENTRIES_MAX].as_ref().is_some_and(&mut wanted) {
                return Some(at.wrapping_sub(self.start));
            }
            at = at.wrapping_add(1);
        }
        None
    }

    /// The entry with `position` others before it.
    pub(super) fn get(&self, position: usize) -> Option<&Entry<K, P>> {
        self.ring[self.start.wrapping_add(position) % SHORT_ENTRIES_MAX].as_ref()
    }

    /// The entry with `position` others before it.
    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut Entry<K, P>> {
        self.ring[self.start.wrapping_add(position) % SHORT_ENTRIES_MAX].as_mut()
    }

    /// Removes the entry with `position` others before it; later ones move up.
    pub(super) fn remove(&mut self, position: usize) -> Option<Entry<K, P>> {
        if position == 0 {
            return self.take_first();
        }
        let mut gap = self.start.wrapping_add(position);
        let entry = self.ring[gap % SHORT_ENTRIES_MAX].take()?;
        self.end = self.end.wrapping_sub(1);
        while gap != self.end {
            let behind = gap.wrapping_add(1);
            self.ring.swap(gap % SHORT_ENTRIES_MAX, behind % SHORT_ENTRIES_MAX);
            gap = behind;
        }
        Some(entry)
    }

    /// The entries in the order in which they came.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry<K, P>> {
        (0..self.len()).map_while(|position| self.get(position))
    }
}
