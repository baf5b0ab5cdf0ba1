//! Which ranges of a heap file are in use: first fit, by offsets. Not used on the message path.

use std::collections::BTreeMap;

/// Alignment of blocks: two blocks never share a cache line.
const ALIGN: u64 = 64;
/// Blocks of at least this size are aligned to a page, so that their pages can be returned to the system.
const PAGE_ALIGNED_FROM: u64 = 1 << 16;
const PAGE: u64 = 4096;

/// The ranges of a heap.
#[derive(Debug)]
pub struct Heap {
    /// Free ranges: offset to length. Adjacent ones are merged.
    free: Ranges,
    /// Parts of the free ranges that may contain other bytes than zeros.
    dirty: Ranges,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where the block starts.
    pub offset: u64,
    /// The block's length: at least the requested one.
    pub len: u64,
    /// Whether the block reads as zero.
    pub is_zero: bool,
}

impl Heap {
    /// A heap of `bytes`, all free and zero.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { free: Ranges::one(bytes), dirty: Ranges::default() }
    }

    /// A heap of `bytes`, all free, with arbitrary contents.
    #[must_use]
    pub fn used(bytes: u64) -> Self {
        Self { free: Ranges::one(bytes), dirty: Ranges::one(bytes) }
    }

    /// Allocates a range of at least `len` bytes; `None` if no free range is long enough.
    pub fn take(&mut self, len: u64) -> Option<Block> {
        let align = align_of(len);
        let len = len.max(1).checked_next_multiple_of(align)?;
        let offset = self.free.0.iter().find_map(|(&offset, &free)| {
            let start = offset.checked_next_multiple_of(align)?;
            (start.checked_add(len)? <= offset + free).then_some(start)
        })?;
        self.free.remove(offset, len);
        Some(Block { offset, len, is_zero: !self.dirty.remove(offset, len) })
    }

    /// Frees a range that [`take`](Self::take) returned for this `offset` and `len`. `is_zero`: all bytes of the block read as zero again.
    pub fn give_back(&mut self, offset: u64, len: u64, is_zero: bool) {
        let len = block_len(len);
        self.free.add(offset, len);
        if !is_zero {
            self.dirty.add(offset, len);
        }
    }

    /// Number of free bytes, not necessarily contiguous.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.free.0.values().sum()
    }
}

/// The length of the block that [`Heap::take`] allocates for `len` bytes.
#[must_use]
pub fn block_len(len: u64) -> u64 {
    len.max(1).next_multiple_of(align_of(len))
}

fn align_of(len: u64) -> u64 {
    if len >= PAGE_ALIGNED_FROM { PAGE } else { ALIGN }
}

/// Ranges of bytes, offset to length, none adjacent to another.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn one(bytes: u64) -> Self {
        let mut ranges = Self::default();
        ranges.keep(0, bytes);
        ranges
    }

    fn keep(&mut self, offset: u64, len: u64) {
        if len > 0 {
            self.0.insert(offset, len);
        }
    }

    /// Adds a range that overlaps none.
    fn add(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.0.range(..offset).next_back()
            && before + before_len == offset
        {
            self.0.remove(&before);
            offset = before;
            len += before_len;
        }
        if let Some(after_len) = self.0.remove(&(offset + len)) {
            len += after_len;
        }
        self.keep(offset, len);
    }

    /// Removes the parts of all ranges that lie in `offset..offset + len`; returns whether there were any.
    fn remove(&mut self, offset: u64, len: u64) -> bool {
        let end = offset + len;
        let mut found = false;
        while let Some((&at, &here)) =
            self.0.range(..end).next_back().filter(|&(at, here)| at + here > offset)
        {
            found = true;
            self.0.remove(&at);
            self.keep(at, offset.saturating_sub(at));
            self.keep(end, (at + here).saturating_sub(end));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_merge_and_are_handed_out_again() {
        let mut heap = Heap::new(1 << 20);
        let blocks: Vec<Block> = (0..3).map(|_| heap.take(100).unwrap()).collect();
        assert!(blocks.iter().all(|block| block.is_zero && block.offset % 64 == 0 && block.len == 128));
        for index in [0, 2, 1] {
            heap.give_back(blocks[index].offset, 100, false);
        }
        assert_eq!(heap.available(), 1 << 20);
        let again = heap.take(300).unwrap();
        assert_eq!((again.offset, again.is_zero), (0, false));
        let (rest, new) = (heap.take(64).unwrap(), heap.take(300).unwrap());
        assert_eq!((rest.offset, rest.is_zero, new.offset, new.is_zero), (320, false, 384, true));
    }

    #[test]
    fn of_a_used_heap_nothing_is_zero() {
        let mut heap = Heap::used(1 << 20);
        assert_eq!(heap.available(), 1 << 20);
        assert_eq!(heap.take(1 << 19), Some(Block { offset: 0, len: 1 << 19, is_zero: false }));
        assert_eq!((heap.take(1 << 20), heap.available()), (None, 1 << 19));
    }

    #[test]
    fn large_blocks_start_at_pages_and_the_end_is_the_end() {
        let mut heap = Heap::new(1 << 18);
        heap.take(1).unwrap();
        let large = heap.take(1 << 17).unwrap();
        assert_eq!(large.offset % PAGE, 0);
        assert_eq!(heap.take(1 << 17), None);
        assert_eq!(heap.take(u64::MAX), None);
        assert!(heap.take(4000 - 64).is_some(), "the gap before the aligned block is used");
    }

    proptest! {
        /// The oracle is the memory itself, a byte for each 64: blocks do not overlap, and one that is said to be zero is.
        #[test]
        fn what_is_said_to_be_zero_is(steps in prop::collection::vec((1u64..200_000, any::<bool>(), any::<prop::sample::Index>()), 1..80)) {
            const BYTES: u64 = 1 << 20;
            let mut memory = vec![(false, false); (BYTES / ALIGN) as usize];
            let (mut heap, mut taken) = (Heap::new(BYTES), Vec::new());
            for (len, punch, which) in steps {
                if let Some(Block { offset, len: bytes, is_zero }) = heap.take(len) {
                    prop_assert_eq!(bytes, block_len(len));
                    let cells = &mut memory[(offset / ALIGN) as usize..((offset + bytes) / ALIGN) as usize];
                    prop_assert!(cells.iter().all(|&(in_use, _)| !in_use));
                    prop_assert_eq!(is_zero, cells.iter().all(|&(_, dirty)| !dirty));
                    cells.fill((true, true));
                    taken.push((offset, len));
                }
                if taken.len() > 8 || punch && !taken.is_empty() {
                    let (offset, len) = taken.swap_remove(which.index(taken.len()));
                    heap.give_back(offset, len, punch);
                    memory[(offset / ALIGN) as usize..((offset + block_len(len)) / ALIGN) as usize].fill((false, !punch));
                }
                let free = memory.iter().filter(|&&(in_use, _)| !in_use).count() as u64 * ALIGN;
                prop_assert_eq!(heap.available(), free);
            }
        }
    }
}
