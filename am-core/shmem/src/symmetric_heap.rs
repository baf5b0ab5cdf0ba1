//! The symmetric heap: all PEs make the same calls in the same order, so an allocation has the same offset in each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Largest alignment of a block of the symmetric heap.
pub(crate) const ALIGN_MAX: usize = 1 << 26;

/// Blocks begin on lines of their own.
const ALIGN: u64 = 64;

/// The heap of this PE, by offsets in its part.
pub(crate) struct SymmetricHeap(Mutex<Blocks>);

struct Blocks {
    /// Free ranges, offset to length; none adjacent to another.
    free: BTreeMap<u64, u64>,
    /// Blocks in use, offset to length.
    used: BTreeMap<u64, u64>,
}

impl SymmetricHeap {
    /// A heap of the bytes from `begin` to `end`.
    pub(crate) fn new(begin: u64, end: u64) -> Self {
        Self(Mutex::new(Blocks { free: BTreeMap::from([(begin, end - begin)]), used: BTreeMap::new() }))
    }

    fn blocks(&self) -> std::sync::MutexGuard<'_, Blocks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first free range that holds `len` bytes at a multiple of `align`.
    pub(crate) fn take(&self, len: u64, align: u64) -> Option<u64> {
        let mut blocks = self.blocks();
        let len = len.max(1).checked_next_multiple_of(ALIGN)?;
        let align = align.max(ALIGN);
        let (at, free, start) = blocks.free.iter().find_map(|(&at, &free)| {
            let start = at.checked_next_multiple_of(align)?;
            (start.checked_add(len)? <= at + free).then_some((at, free, start))
        })?;
        blocks.free.remove(&at);
        if start > at {
            blocks.free.insert(at, start - at);
        }
        if at + free > start + len {
            blocks.free.insert(start + len, at + free - start - len);
        }
        blocks.used.insert(start, len);
        Some(start)
    }

    /// The length of the block at an offset; `None`: no block begins there.
    pub(crate) fn len(&self, at: u64) -> Option<u64> {
        self.blocks().used.get(&at).copied()
    }

    /// Returns a block; `false`: no block begins there.
    pub(crate) fn give_back(&self, at: u64) -> bool {
        let mut blocks = self.blocks();
        let Some(mut len) = blocks.used.remove(&at) else { return false };
        let mut at = at;
        if let Some(next) = blocks.free.remove(&(at + len)) {
            len += next;
        }
        if let Some((&before, &before_len)) = blocks.free.range(..at).next_back()
            && before + before_len == at
        {
            blocks.free.remove(&before);
            at = before;
            len += before_len;
        }
        blocks.free.insert(at, len);
        true
    }
}
