//! Genomes, reads of them, and the words of k letters in a read.

use crate::random;

/// Number of letters of the longest word. A letter takes two bits, and the value of all ones is reserved for free slots of tables.
pub const K_MAX: u32 = 31;

/// A genome of random letters, and reads that begin at random positions of either strand. Any task can draw any read.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    /// Letters of the genome.
    pub genome_bases: u64,
    /// Letters of a read.
    pub read_bases: u64,
    /// Number of reads.
    pub count: u64,
    /// Seed of the genome and the reads.
    pub seed: u64,
}

impl Reads {
    /// Letter `at` of the genome: 0 to 3.
    #[inline(always)]
    fn base(self, at: u64) -> u64 {
        random::at(self.seed, at / 32) >> (at % 32 * 2) & 3
    }

    /// Passes each letter of read `number` to `take`.
    pub fn for_each_base(self, number: u64, mut take: impl FnMut(u64)) {
        let random = random::at(random::stream(self.seed, 1), number);
        let start = random::below(random, self.genome_bases - self.read_bases + 1);
        let places = start..start + self.read_bases;
        if random & 1 == 0 {
            places.for_each(|at| take(self.base(at)));
        } else {
            // The other strand: backwards, each letter replaced by its partner.
            places.rev().for_each(|at| take(3 - self.base(at)));
        }
    }

    /// Passes each word of `k` letters of read `number` to `take`, in the form common to both strands: the smaller of the word and its
    /// reverse complement.
    pub fn for_each_kmer(self, number: u64, k: u32, mut take: impl FnMut(u64)) {
        let mask = (1 << (2 * k)) - 1;
        let top = 2 * (k - 1);
        let (mut forward, mut backward, mut letters) = (0_u64, 0_u64, 0);
        self.for_each_base(number, |base| {
            forward = (forward << 2 | base) & mask;
            backward = backward >> 2 | (3 - base) << top;
            letters += 1;
            if letters >= k {
                take(forward.min(backward));
            }
        });
    }

    /// Words of `k` letters in all reads.
    #[must_use]
    pub fn kmers(self, k: u32) -> u64 {
        self.count * (self.read_bases + 1).saturating_sub(u64::from(k))
    }
}

/// The word as letters.
#[must_use]
pub fn letters(kmer: u64, k: u32) -> String {
    (0..k).rev().map(|at| ['A', 'C', 'G', 'T'][(kmer >> (2 * at) & 3) as usize]).collect()
}

/// Counts of words, in one process: open addressing, at most half full.
#[derive(Debug)]
pub struct KmerTable {
    slots: Vec<(u64, u64)>,
    used: usize,
}

/// The key of a free slot. No word of up to [`K_MAX`] letters has all bits set.
const FREE: u64 = u64::MAX;

impl Default for KmerTable {
    fn default() -> Self {
        Self { slots: vec![(FREE, 0); 1024], used: 0 }
    }
}

impl KmerTable {
    /// Adds one to the count of `kmer`.
    #[inline]
    pub fn add(&mut self, kmer: u64) {
        let at = self.place(kmer);
        let slot = &mut self.slots[at];
        slot.1 += 1;
        if slot.0 == FREE {
            slot.0 = kmer;
            self.used += 1;
            if self.used * 2 > self.slots.len() {
                self.grow();
            }
        }
    }

    /// How often `kmer` was seen.
    #[must_use]
    pub fn count(&self, kmer: u64) -> u64 {
        self.slots[self.place(kmer)].1
    }

    /// The different words with their counts, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.slots.iter().copied().filter(|slot| slot.0 != FREE)
    }

    /// Different words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no word was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    #[inline(always)]
    fn place(&self, kmer: u64) -> usize {
        let mask = self.slots.len() - 1;
        // Uses the low half of the hash. With the high half, which chooses the owner, the words of one owner would fill the table unevenly.
        let low = random::mix(kmer) & mask as u64;
        let mut at = usize::try_from(low).expect("below the length of a table");
        while self.slots[at].0 != kmer && self.slots[at].0 != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![(FREE, 0); self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, slots) {
            if slot.0 != FREE {
                let at = self.place(slot.0);
                self.slots[at] = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const READS: Reads = Reads { genome_bases: 500, read_bases: 60, count: 40, seed: 3 };

    #[test]
    fn words_are_the_same_on_both_strands() {
        let partner = |letter| ['T', 'G', 'C', 'A']["ACGT".find(letter).unwrap()];
        for k in [1, 4, 21, K_MAX] {
            for number in 0..READS.count {
                let mut text = String::new();
                READS.for_each_base(number, |base| text.push_str(&letters(base, 1)));
                let mut words = Vec::new();
                READS.for_each_kmer(number, k, |kmer| words.push(letters(kmer, k)));
                let expected: Vec<String> = (0..=text.len() - k as usize)
                    .map(|at| {
                        let word = text[at..at + k as usize].to_owned();
                        let other: String = word.chars().rev().map(partner).collect();
                        word.min(other)
                    })
                    .collect();
                assert_eq!(words, expected, "k {k}, read {number}");
            }
        }
    }

    #[test]
    fn the_table_counts_as_a_map_does() {
        let (mut table, mut map) = (KmerTable::default(), HashMap::new());
        for number in 0..20_000 {
            let kmer = random::at(9, number) % 3000;
            table.add(kmer);
            *map.entry(kmer).or_insert(0) += 1;
        }
        assert_eq!(table.len(), map.len());
        assert!(map.iter().all(|(kmer, count)| table.count(*kmer) == *count));
        assert_eq!(table.iter().collect::<HashMap<_, _>>(), map);
        assert_eq!(table.count(1 << 40), 0);
    }
}
