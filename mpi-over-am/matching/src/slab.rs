//! The slab that holds a long queue's entries, and the lists that run through it.
//!
//! An entry keeps its slot while it is in the long queue. Lanes of links run through the slots: lane [`ORDER`] holds all entries in the
//! order of their arrival, the other lanes belong to the queue's tables. An entry may be in every lane at once and leaves each of them
//! without a search.
//!
//! The order number also tells an entry from a later one in the same slot: it is never used twice, so a handle that has outlived its entry
//! is recognised, however often the slot was reused.

use std::iter;
use std::num::NonZeroU64;

/// No slot: the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// The lane of the list of all entries.
pub(super) const ORDER: usize = 0;

/// Both ends of a list; both [`NIL`] when it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { first: NIL, last: NIL };
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

impl Link {
    const LOOSE: Self = Self { previous: NIL, next: NIL };
}

#[derive(Clone, Debug)]
struct Node<K, P, const LANES: usize> {
    /// None in a vacant slot.
    number: Option<NonZeroU64>,
    key: K,
    links: [Link; LANES],
    payload: P,
}

/// A slab of entries, each with a key, a payload and one link for each lane.
///
/// A vacated slot keeps its last payload until the slot is used again; a caller that needs the payload dropped takes it out.
#[derive(Clone, Debug)]
pub(super) struct Slab<K, P, const LANES: usize> {
    nodes: Vec<Node<K, P, LANES>>,
    order: List,
    /// The first vacant slot; `next` of the order lane links the vacant slots.
    vacant: u32,
    len: usize,
}

impl<K: Copy, P, const LANES: usize> Slab<K, P, LANES> {
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new(), order: List::EMPTY, vacant: NIL, len: 0 }
    }

    pub(super) fn reserve(&mut self, entries: usize) {
        self.nodes.reserve(entries.saturating_sub(self.nodes.len()));
    }

    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn key(&self, slot: u32) -> &K {
        &self.nodes[slot as usize].key
    }

    /// The order number; the slot must be in use.
    #[inline]
    pub(super) fn number(&self, slot: u32) -> NonZeroU64 {
        self.nodes[slot as usize].number.expect("a slot in a list is in use")
    }

    #[inline]
    pub(super) fn payload(&self, slot: u32) -> &P {
        &self.nodes[slot as usize].payload
    }

    #[inline]
    pub(super) fn payload_mut(&mut self, slot: u32) -> &mut P {
        &mut self.nodes[slot as usize].payload
    }

    /// The slot of the entry with this order number, if it still exists. Looks only at `slot`; if that is [`NIL`], at all entries.
    pub(super) fn find(&self, slot: u32, number: NonZeroU64) -> Option<u32> {
        let holds =
            |&slot: &u32| self.nodes.get(slot as usize).is_some_and(|node| node.number == Some(number));
        if slot == NIL { self.slots().find(holds) } else { Some(slot).filter(holds) }
    }

    /// Adds an entry at the end, and returns its slot.
    #[inline]
    pub(super) fn push(&mut self, number: NonZeroU64, key: K, payload: P) -> u32 {
        let slot = if self.vacant == NIL {
            self.push_fresh(number, key, payload)
        } else {
            let slot = self.vacant;
            let node = &mut self.nodes[slot as usize];
            self.vacant = node.links[ORDER].next;
            node.number = Some(number);
            node.key = key;
            node.payload = payload;
            slot
        };
        let mut order = self.order;
        self.link_last(ORDER, &mut order, slot);
        self.order = order;
        self.len += 1;
        slot
    }

    /// Adds an entry in a slot that was never used, because the queue is longer than ever before. Allocates if necessary.
    #[cold]
    #[inline(never)]
    fn push_fresh(&mut self, number: NonZeroU64, key: K, payload: P) -> u32 {
        let slot = u32::try_from(self.nodes.len()).unwrap_or(NIL);
        assert!(
            slot != NIL,
            "a matching queue holds at most {NIL} entries: the budget above it must be smaller"
        );
        self.nodes.push(Node { number: Some(number), key, links: [Link::LOOSE; LANES], payload });
        slot
    }

    /// Vacates a slot, which must be in use and in no lane but the order's.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        let mut order = self.order;
        self.unlink(ORDER, &mut order, slot);
        self.order = order;
        let node = &mut self.nodes[slot as usize];
        node.number = None;
        node.links[ORDER].next = self.vacant;
        self.vacant = slot;
        self.len -= 1;
    }

    /// Links the slot at the end of a lane's list.
    #[inline]
    pub(super) fn link_last(&mut self, lane: usize, list: &mut List, slot: u32) {
        let previous = list.last;
        self.nodes[slot as usize].links[lane] = Link { previous, next: NIL };
        if previous == NIL {
            list.first = slot;
        } else {
            self.nodes[previous as usize].links[lane].next = slot;
        }
        list.last = slot;
    }

    /// Unlinks the slot from a lane's list, which the slot must be in.
    #[inline]
    pub(super) fn unlink(&mut self, lane: usize, list: &mut List, slot: u32) {
        let Link { previous, next } = self.nodes[slot as usize].links[lane];
        if previous == NIL {
            list.first = next;
        } else {
            self.nodes[previous as usize].links[lane].next = next;
        }
        if next == NIL {
            list.last = previous;
        } else {
            self.nodes[next as usize].links[lane].previous = previous;
        }
    }

    /// [`Self::unlink`] for a slot that is neither first nor last, which needs no list. Returns whether the slot was unlinked.
    #[inline]
    pub(super) fn unlink_between(&mut self, lane: usize, slot: u32) -> bool {
        let Link { previous, next } = self.nodes[slot as usize].links[lane];
        if previous == NIL || next == NIL {
            return false;
        }
        self.nodes[previous as usize].links[lane].next = next;
        self.nodes[next as usize].links[lane].previous = previous;
        true
    }

    /// The slot of the earliest entry.
    pub(super) fn first(&self) -> Option<u32> {
        existing(self.order.first)
    }

    /// The slot of the entry that came after this one.
    pub(super) fn next(&self, slot: u32) -> Option<u32> {
        self.next_in(ORDER, slot)
    }

    /// The slot after `slot` in `lane`, which `slot` must be in.
    pub(super) fn next_in(&self, lane: usize, slot: u32) -> Option<u32> {
        existing(self.nodes[slot as usize].links[lane].next)
    }

    /// The slots in use, in the order in which their entries came.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        iter::successors(self.first(), |&slot| self.next(slot))
    }
}

fn existing(slot: u32) -> Option<u32> {
    (slot != NIL).then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_no_longer_than_before_takes_no_new_memory() {
        let mut slab = Slab::<u32, u32, 1>::new();
        slab.reserve(100);
        let reserved = slab.nodes.capacity();
        for round in 0..10 {
            let slots = (0..100).map(|key| slab.push(NonZeroU64::MIN, key, round)).collect::<Vec<_>>();
            assert_eq!(slab.slots().collect::<Vec<_>>(), slots);
            // In another order than that of the slots, so that the next round finds the vacant slots out of order.
            for &slot in slots.iter().step_by(2).chain(slots.iter().skip(1).step_by(2)) {
                slab.remove(slot);
            }
            assert_eq!((slab.len(), slab.first()), (0, None));
            assert_eq!((slab.nodes.len(), slab.nodes.capacity()), (100, reserved));
        }
    }
}
