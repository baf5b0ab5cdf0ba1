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
    /// Free ranges below `fresh_from`: offset to length. Adjacent ones are merged.
    free: BTreeMap<u64, u64>,
    /// The bytes from here on were never used, and read as zero.
    fresh_from: u64,
    end: u64,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where the block starts.
    pub offset: u64,
    /// The block's length: at least the requested one.
    pub len: u64,
    /// Whether the block was never used before, so that it reads as zero.
    pub fresh: bool,
}

impl Heap {
    /// A heap of `bytes`, all free and zero.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { free: BTreeMap::new(), fresh_from: 0, end: bytes }
    }

    /// A heap of `bytes`, all free, with arbitrary contents.
    #[must_use]
    pub fn used(bytes: u64) -> Self {
        Self { free: BTreeMap::from([(0, bytes)]), fresh_from: bytes, end: bytes }
    }

    /// Allocates a range of at least `len` bytes; `None` if no free range is long enough.
    pub fn take(&mut self, len: u64) -> Option<Block> {
        let align = if len >= PAGE_ALIGNED_FROM { PAGE } else { ALIGN };
        let len = len.max(1).checked_next_multiple_of(align)?;
        let found = self.free.iter().find_map(|(&offset, &free)| {
            let start = offset.next_multiple_of(align);
            let skipped = start - offset;
            (free >= skipped && free - skipped >= len).then_some((offset, free, start))
        });
        if let Some((offset, free, start)) = found {
            self.free.remove(&offset);
            self.keep(offset, start - offset);
            self.keep(start + len, offset + free - (start + len));
            return Some(Block { offset: start, len, fresh: false });
        }
        let start = self.fresh_from.checked_next_multiple_of(align)?;
        let end = start.checked_add(len).filter(|&end| end <= self.end)?;
        self.give_back_range(self.fresh_from, start - self.fresh_from);
        self.fresh_from = end;
        Some(Block { offset: start, len, fresh: true })
    }

    /// Frees a range that [`take`](Self::take) returned for this `offset` and `len`.
    pub fn give_back(&mut self, offset: u64, len: u64) {
        let align = if len >= PAGE_ALIGNED_FROM { PAGE } else { ALIGN };
        self.give_back_range(offset, len.max(1).next_multiple_of(align));
    }

    /// Number of free bytes, not necessarily contiguous.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.end - self.fresh_from + self.free.values().sum::<u64>()
    }

    fn keep(&mut self, offset: u64, len: u64) {
        if len > 0 {
            self.free.insert(offset, len);
        }
    }

    fn give_back_range(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &before_len)) = self.free.range(..offset).next_back()
            && before + before_len == offset
        {
            self.free.remove(&before);
            offset = before;
            len += before_len;
        }
        if let Some(after_len) = self.free.remove(&(offset + len)) {
            len += after_len;
        }
        self.keep(offset, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_and_are_handed_out_again() {
        let mut heap = Heap::new(1 << 20);
        let blocks: Vec<Block> = (0..3).map(|_| heap.take(100).unwrap()).collect();
        assert!(blocks.iter().all(|block| block.fresh && block.offset % 64 == 0 && block.len == 128));
        for index in [0, 2, 1] {
            heap.give_back(blocks[index].offset, 100);
        }
        assert_eq!(heap.available(), 1 << 20);
        let again = heap.take(300).unwrap();
        assert_eq!((again.offset, again.fresh), (0, false));
    }

    #[test]
    fn of_a_used_heap_nothing_is_fresh() {
        let mut heap = Heap::used(1 << 20);
        assert_eq!(heap.available(), 1 << 20);
        assert_eq!(heap.take(1 << 19), Some(Block { offset: 0, len: 1 << 19, fresh: false }));
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
}
