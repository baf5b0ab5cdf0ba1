//! This task's heap file: blocks for buffers that peers access by plain copies.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::device::{DeviceError, HeapBlock, HeapOwner};
use am_via_job::Job;
use am_via_os::fork;
use am_via_os::memory;
use am_via_shm::Mapping;
use am_via_shm::allocator::{self, LargeBlock, LargeBlocks};
use am_via_shm::{Block, CheckedRange, Heap, block_len};

use super::{files, stale_registrations};

/// Blocks of at least this size return their pages to the system when they are freed, and are zero when they are allocated again.
const PUNCH_FROM_BYTES: usize = 1 << 20;

/// The heap, with its free ranges. Shared with the blocks, which any thread may free.
#[derive(Debug)]
pub struct OwnHeap {
    mapping: Arc<Mapping>,
    file: File,
    ranges: Mutex<Heap>,
}

impl OwnHeap {
    /// Maps the heap file of this task, once for all its contexts. First closes what an earlier user of the files has left open
    /// (module `stale_registrations`); then offers the memory to the program's allocator.
    ///
    /// # Errors
    /// A file of the job cannot be opened or mapped.
    pub fn open(job: &Job) -> Result<Arc<Self>, DeviceError> {
        let file = files::heap_file(job, job.task())?;
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        // A process that joins its job again shares the heap that is in use.
        if let Some(heap) = current.upgrade().filter(|heap| is_same(&heap.file, &file)) {
            return Ok(heap);
        }
        stale_registrations::close(job)?;
        let mapping = files::open_heap(job, job.task())?;
        if let Ok(file) = file.try_clone() {
            mapping.keep_in_copies_from(file);
        }
        let ranges = Mutex::new(Self::without_contents(&file, mapping.len() as u64));
        let heap = Arc::new(Self { mapping, file, ranges });
        *current = Arc::downgrade(&heap);
        let weak: Weak<dyn LargeBlocks> = Arc::downgrade(&heap) as Weak<dyn LargeBlocks>;
        allocator::offer(weak);
        Ok(heap)
    }

    /// A heap of `bytes` free bytes. Its blocks are zeroed, whatever an earlier user has left in the file.
    fn without_contents(file: &File, bytes: u64) -> Heap {
        match memory::punch_hole(file.as_fd(), 0, bytes) {
            Ok(()) => Heap::new(bytes),
            Err(error) => {
                tracing::warn!(%error, "job memory keeps the pages of an earlier use: each block is zeroed");
                Heap::used(bytes)
            }
        }
    }

    fn take(&self, len: usize) -> Result<Block, u64> {
        // The ranges are consistent even after a panic under the lock, because each step of `Heap` leaves them consistent.
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let mut block = ranges.take(len as u64).ok_or_else(|| ranges.available())?;
        drop(ranges);
        // Parts of a large block may have been small blocks, which keep their pages.
        block.is_zero = block.is_zero || self.punch(block.offset, len);
        Ok(block)
    }

    /// Returns the pages of a large block to the system, so that the block reads as zero; returns whether it does.
    fn punch(&self, offset: u64, len: usize) -> bool {
        if len < PUNCH_FROM_BYTES {
            return false;
        }
        let punched = memory::punch_hole(self.file.as_fd(), offset, block_len(len as u64));
        if let Err(error) = &punched {
            tracing::warn!(%error, len, "a block keeps its pages, and is zeroed when it is used again");
        }
        punched.is_ok()
    }

    /// The range of a block that was just taken.
    fn range(&self, block: Block, len: usize) -> CheckedRange<'_> {
        let offset = usize::try_from(block.offset).expect("the block lies inside the mapping");
        // SAFETY: the block was just taken, and nothing else uses it.
        unsafe { self.mapping.checked(offset, len) }.expect("the block lies inside the mapping")
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    pub(super) fn contains(&self, at: NonNull<u8>, len: usize) -> bool {
        let from = at.addr().get().checked_sub(self.mapping.base().addr().get());
        from.is_some_and(|offset| self.mapping.range(offset, len).is_some())
    }

    pub(super) fn alloc(self: &Arc<Self>, len: usize) -> Result<HeapBlock, DeviceError> {
        let block = self.take(len).map_err(|available| DeviceError::Exhausted {
            resource: "job memory",
            needed: len as u64,
            available,
            remedy: "free buffers, or raise the setting heap_bytes (AM_HEAP_BYTES)",
        })?;
        let range = self.range(block, len);
        if !block.is_zero {
            range.zero();
        }
        // SAFETY: zeroed, and used by nothing else (`take`); this value keeps it mapped, and takes it back.
        Ok(unsafe { HeapBlock::new(range, Arc::clone(self) as Arc<dyn HeapOwner>) })
    }
}

impl HeapOwner for OwnHeap {
    unsafe fn take_back(&self, at: NonNull<u8>, len: usize) {
        // A forked copy frees nothing: file and ranges belong to its parent.
        if fork::is_copy() {
            return;
        }
        let Some(offset) = at.addr().get().checked_sub(self.mapping.base().addr().get()) else { return };
        let is_zero = self.punch(offset as u64, len);
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.give_back(offset as u64, len as u64, is_zero);
    }
}

// SAFETY: `Heap` hands out each range once until it is given back, aligned to a page from 64 KiB on; the punched pages are zero. The
// mapping
// is fixed, and lives as long as this value. No method panics with a range of the heap, and none allocates a large block: a node of the
// tables has far less than `LARGE_BYTES`.
unsafe impl LargeBlocks for OwnHeap {
    fn take(&self, len: usize) -> Option<LargeBlock> {
        let block = Self::take(self, len).ok()?;
        Some(LargeBlock { at: self.range(block, len).at(), is_zero: block.is_zero })
    }

    fn addresses(&self) -> Range<usize> {
        let from = self.mapping.base().addr().get();
        from..from + self.mapping.len()
    }

    unsafe fn give_back(&self, at: NonNull<u8>, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { self.take_back(at, len) };
    }
}

fn is_same(one: &File, other: &File) -> bool {
    let number = |file: &File| file.metadata().ok().map(|data| (data.dev(), data.ino()));
    number(one).is_some() && number(one) == number(other)
}

/// The heap of this process, while it is in use.
static CURRENT: Mutex<Weak<OwnHeap>> = Mutex::new(Weak::new());
