//! A hash table from a key to the first-in first-out list of the entries with that key.
//!
//! Open addressing with linear probing, at most half full. A key whose list becomes empty is removed at once, and the keys after it move
//! up. There are no tombstones, so the table does not degrade when tags keep changing. The table never shrinks: a queue that was long once
//! may become long again.

use super::envelope::{ContextId, Envelope};
use super::slab::{List, NIL, Slab};

/// Number of buckets of the first allocation.
const BUCKETS_MIN: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    key: Envelope,
    /// Empty in a vacant bucket.
    list: List,
}

impl Bucket {
    const VACANT: Self = Self { key: Envelope::new(ContextId(0), 0, 0), list: List::EMPTY };

    const fn is_vacant(&self) -> bool {
        self.list.first == NIL
    }
}

/// The bucket of a key; valid until the table changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketNumber(usize);

/// A hash table of lists of entries. If the entries are in a [`Slab`], the lists use one lane of the slab, and callers must always pass
/// that lane.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The number of buckets is a power of two, or zero.
    buckets: Vec<Bucket>,
    keys: usize,
}

impl Index {
    pub(super) const fn new() -> Self {
        Self { buckets: Vec::new(), keys: 0 }
    }

    /// A table that holds this many keys without another allocation.
    pub(super) fn with_capacity(keys: usize) -> Self {
        let buckets = keys.saturating_mul(2).next_power_of_two().max(BUCKETS_MIN);
        Self { buckets: vec![Bucket::VACANT; buckets], keys: 0 }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// The bucket of the key, if the key has entries.
    #[inline]
    pub(super) fn find(&self, key: &Envelope) -> Option<BucketNumber> {
        if self.is_empty() {
            return None;
        }
        let at = self.probe(key);
        (!self.buckets[at].is_vacant()).then_some(BucketNumber(at))
    }

    /// The earliest slot under a key; [`NIL`] if the key has no entry.
    #[inline(always)]
    pub(super) fn first_of(&self, key: &Envelope) -> u32 {
        // The list of a vacant bucket is empty.
        if self.is_empty() { NIL } else { self.buckets[self.probe(key)].list.first }
    }

    /// The list of a bucket's key.
    #[inline]
    pub(super) fn list_mut(&mut self, at: BucketNumber) -> &mut List {
        &mut self.buckets[at.0].list
    }

    /// The list of a key, to which the caller must add an entry.
    pub(super) fn list_for(&mut self, key: &Envelope) -> &mut List {
        if self.keys * 2 >= self.buckets.len() {
            self.grow();
        }
        let at = self.probe(key);
        let bucket = &mut self.buckets[at];
        if bucket.is_vacant() {
            bucket.key = *key;
            self.keys += 1;
        }
        &mut bucket.list
    }

    /// Removes the key of a bucket if its list has become empty.
    #[inline]
    pub(super) fn vacate_if_empty(&mut self, at: BucketNumber) {
        if self.buckets[at.0].is_vacant() {
            self.close_gap(at.0);
            self.keys -= 1;
        }
    }

    /// Links an entry under its key, after the key's other entries.
    pub(super) fn link<K: Copy, P, const LANES: usize>(
        &mut self,
        key: &Envelope,
        slab: &mut Slab<K, P, LANES>,
        lane: usize,
        slot: u32,
    ) {
        slab.link_last(lane, self.list_for(key), slot);
    }

    /// Unlinks an entry of `key`.
    pub(super) fn unlink<K: Copy, P, const LANES: usize>(
        &mut self,
        key: &Envelope,
        slab: &mut Slab<K, P, LANES>,
        lane: usize,
        slot: u32,
    ) {
        if slab.unlink_between(lane, slot) {
            return;
        }
        let at = self.find(key).expect("the key of a linked entry is in its table");
        self.unlink_at(at, slab, lane, slot);
    }

    /// [`Self::unlink`] for a key whose bucket is known.
    #[inline]
    pub(super) fn unlink_at<K: Copy, P, const LANES: usize>(
        &mut self,
        at: BucketNumber,
        slab: &mut Slab<K, P, LANES>,
        lane: usize,
        slot: u32,
    ) {
        slab.unlink(lane, self.list_mut(at), slot);
        self.vacate_if_empty(at);
    }

    /// The bucket of the key, or the vacant bucket in which it would be stored. The table must have buckets; it is never full, so the
    /// search always ends.
    #[inline]
    fn probe(&self, key: &Envelope) -> usize {
        #[cfg(test)]
        LOOKUPS.set(LOOKUPS.get() + 1);
        let mask = self.buckets.len() - 1;
        let mut at = hash(key) & mask;
        loop {
            let bucket = &self.buckets[at];
            if bucket.is_vacant() || bucket.key == *key {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Moves up keys after a bucket that became vacant, if a search for them would now stop at the gap.
    #[inline]
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.buckets.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let bucket = self.buckets[at];
            if bucket.is_vacant() {
                break;
            }
            let home = hash(&bucket.key) & mask;
            let from_home = at.wrapping_sub(home) & mask;
            let from_gap = at.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.buckets[gap] = bucket;
                gap = at;
            }
        }
        self.buckets[gap] = Bucket::VACANT;
    }

    /// Doubles the table.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let larger = vec![Bucket::VACANT; (self.buckets.len() * 2).max(BUCKETS_MIN)];
        let old = std::mem::replace(&mut self.buckets, larger);
        for bucket in old.into_iter().filter(|bucket| !bucket.is_vacant()) {
            let at = self.probe(&bucket.key);
            self.buckets[at] = bucket;
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Number of key searches in all tables of this thread, for tests.
    pub(super) static LOOKUPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// One widening multiplication of the two halves of the key, folded: two instructions more than a plain multiplicative hash, and every bit
/// of the key reaches the low bits that a power-of-two table looks at. Ranks and tags that count up, or by powers of two, spread well. It
/// is no defence against a program that chooses its tags to collide; such a program slows down only itself.
#[inline]
fn hash(key: &Envelope) -> usize {
    // Odd constants without a bit pattern: the golden ratio, and a multiplier from the literature on linear congruential generators.
    let left = key.sender_word() ^ 0x9e37_79b9_7f4a_7c15;
    let right = u64::from(key.tag().cast_unsigned()) ^ 0xd134_2543_de82_ef95;
    let product = u128::from(left) * u128::from(right);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the product are folded on purpose")]
    let folded = (product as u64) ^ ((product >> 64) as u64);
    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
    let hash = folded as usize;
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};
    use std::num::NonZeroU64;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u32) -> Envelope {
        Envelope::new(ContextId(number & 1), number >> 1 & 3, (number >> 3).cast_signed())
    }

    proptest! {
        /// Few keys in a table at its fill limit, so that there are clusters, gaps within them, and clusters across the table's end.
        #[test]
        fn behaves_as_a_map_of_queues(steps in prop::collection::vec((0u32..64, any::<bool>()), 1..600)) {
            let mut slab = Slab::<u32, u32, 2>::new();
            let mut index = Index::new();
            let mut model = HashMap::<u32, VecDeque<u32>>::new();
            for (number, add) in steps {
                if add {
                    let slot = slab.push(NonZeroU64::MIN, number, number);
                    index.link(&key(number), &mut slab, 1, slot);
                    model.entry(number).or_default().push_back(slot);
                } else if let Some(expected) = model.get_mut(&number).and_then(VecDeque::pop_front) {
                    prop_assert_eq!(index.first_of(&key(number)), expected);
                    let at = index.find(&key(number)).expect("the model has an entry");
                    index.unlink_at(at, &mut slab, 1, expected);
                    slab.remove(expected);
                }
                model.retain(|_, slots| !slots.is_empty());
                prop_assert_eq!(index.keys, model.len());
                for number in 0..64 {
                    let expected = model.get(&number).map_or(NIL, |slots| slots[0]);
                    prop_assert_eq!(index.first_of(&key(number)), expected);
                    prop_assert_eq!(index.find(&key(number)).is_some(), expected != NIL);
                }
            }
        }
    }

    #[test]
    fn a_reserved_table_takes_its_keys_without_growing() {
        let mut slab = Slab::<u32, u32, 2>::new();
        let mut index = Index::with_capacity(1000);
        let buckets = index.buckets.len();
        for number in 0..1000 {
            let slot = slab.push(NonZeroU64::MIN, number, number);
            index.link(&key(number), &mut slab, 1, slot);
        }
        assert_eq!(index.keys, 1000);
        assert_eq!(index.buckets.len(), buckets);
    }

    #[test]
    fn a_stream_of_new_keys_leaves_the_table_as_it_was() {
        let mut slab = Slab::<u32, u32, 2>::new();
        let mut index = Index::new();
        for number in 0..100_000 {
            let slot = slab.push(NonZeroU64::MIN, number, number);
            index.link(&key(number), &mut slab, 1, slot);
            index.unlink(&key(number), &mut slab, 1, slot);
            slab.remove(slot);
        }
        assert!(index.is_empty());
        assert_eq!(index.buckets.len(), BUCKETS_MIN);
        assert!(index.buckets.iter().all(Bucket::is_vacant));
    }

    #[test]
    fn counting_ranks_tags_and_contexts_spread() {
        const KEYS: u32 = 1 << 14;
        type KeyOf = fn(u32) -> Envelope;
        let spreads: [(&str, KeyOf); 6] = [
            ("ranks", |n| Envelope::new(ContextId(1), n, 0)),
            ("tags", |n| Envelope::new(ContextId(1), 0, n.cast_signed())),
            ("negative tags", |n| Envelope::new(ContextId(1), 0, -n.cast_signed())),
            ("contexts", |n| Envelope::new(ContextId(n), 0, 0)),
            ("tags by 1024", |n| Envelope::new(ContextId(1), 0, (n << 10).cast_signed())),
            ("square", |n| Envelope::new(ContextId(1), n & 127, (n >> 7).cast_signed())),
        ];
        for (name, key_of) in spreads {
            let mut slab = Slab::<u32, u32, 2>::new();
            let mut index = Index::new();
            for number in 0..KEYS {
                let slot = slab.push(NonZeroU64::MIN, number, number);
                index.link(&key_of(number), &mut slab, 1, slot);
            }
            let mask = index.buckets.len() - 1;
            let probes: usize = (0..index.buckets.len())
                .filter(|&at| !index.buckets[at].is_vacant())
                .map(|at| at.wrapping_sub(hash(&index.buckets[at].key) & mask) & mask)
                .sum();
            // With random keys at half load, a search takes on average half a step beyond the first bucket.
            assert!(probes < KEYS as usize * 2, "{name}: {probes} steps for {KEYS} keys");
        }
    }
}
