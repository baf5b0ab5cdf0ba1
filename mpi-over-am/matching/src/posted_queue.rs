//! The posted receive list with its own slots, for callers without a table of requests.

use super::envelope::{Envelope, Pattern};
use super::posted::{PostedEntry, PostedList, PostedSlot};

/// Names a posted receive until it is matched or cancelled. Valid only for the queue that returned it; a handle whose receive was matched
/// or cancelled stays invalid for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedHandle {
    number: u64,
    slot: u32,
}

#[derive(Clone, Debug)]
struct Slot<R> {
    entry: PostedEntry,
    /// The number of the last receive that used the slot.
    number: u64,
    /// `None` in a free slot.
    request: Option<R>,
}

impl<R> PostedSlot for Slot<R> {
    #[inline]
    fn entry(&self) -> &PostedEntry {
        &self.entry
    }

    #[inline]
    fn entry_mut(&mut self) -> &mut PostedEntry {
        &mut self.entry
    }
}

/// Posted receives, in the order of posting. `R` identifies a receive request to the caller.
///
/// ```
/// use mpi_matching::{ContextId, Envelope, Pattern, PostedQueue};
///
/// let world = ContextId(1);
/// let mut posted = PostedQueue::new();
/// posted.post(Pattern::new(world, None, Some(7)), "from any rank");
/// posted.post(Pattern::exact(world, 3, 7), "from rank 3");
///
/// let message = Envelope::new(world, 3, 7);
/// assert_eq!(posted.take_match(&message), Some("from any rank"));
/// assert_eq!(posted.take_match(&message), Some("from rank 3"));
/// assert_eq!(posted.take_match(&message), None);
/// ```
#[derive(Clone, Debug)]
pub struct PostedQueue<R> {
    list: PostedList,
    slots: Vec<Slot<R>>,
    free: Vec<u32>,
    last_number: u64,
}

impl<R: Copy> PostedQueue<R> {
    /// An empty queue; allocates nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { list: PostedList::new(), slots: Vec::new(), free: Vec::new(), last_number: 0 }
    }

    /// Number of waiting receives.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether no receive waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a receive at the end. The caller must have searched the early arrivals before.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, request: R) -> PostedHandle {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { entry: PostedEntry::new(pattern, 0), number: 0, request: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 receives fit into memory")
        });
        self.last_number += 1;
        let posted = &mut self.slots[slot as usize];
        (posted.number, posted.request) = (self.last_number, Some(request));
        self.list.post(&mut self.slots, slot, pattern);
        PostedHandle { number: self.last_number, slot }
    }

    /// Takes out the earliest receive that this message satisfies (MPI 4.1 section 3.5).
    #[inline]
    pub fn take_match(&mut self, envelope: &Envelope) -> Option<R> {
        let (slot, taken) = self.list.take_match(&mut self.slots, envelope)?;
        self.free.push(slot);
        taken.request.take()
    }

    /// Cancels a receive, if it still waits (MPI 4.1 section 3.8.4).
    pub fn cancel(&mut self, handle: PostedHandle) -> Option<R> {
        let waits = |slot: &&mut Slot<R>| slot.number == handle.number;
        let request = self.slots.get_mut(handle.slot as usize).filter(waits)?.request.take()?;
        self.list.cancel(&mut self.slots, handle.slot);
        self.free.push(handle.slot);
        Some(request)
    }

    /// The receives that wait, in the order in which they were posted.
    pub fn iter(&self) -> impl Iterator<Item = (PostedHandle, &Pattern, R)> {
        self.list.iter(&self.slots).filter_map(|slot| {
            let Slot { entry, number, request } = &self.slots[slot as usize];
            Some((PostedHandle { number: *number, slot }, &entry.pattern, (*request)?))
        })
    }
}

impl<R: Copy> Default for PostedQueue<R> {
    fn default() -> Self {
        Self::new()
    }
}
