//! This task's heap file: blocks for buffers that peers reach with plain copies.

use std::fs::File;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{DeviceError, HeapBlock, HeapOwner};
use crate::job::Job;
use crate::shm::heap::Heap;
use crate::shm::layout::MEASURE_BYTES;
use crate::shm::os::memory::{self, PAGE_BYTES};
use crate::shm::segment::Mapping;

use super::files;

/// Freed blocks from this size on give their pages back.
const PUNCH_FROM_BYTES: usize = 1 << 20;

/// The heap and what is free in it. Shared with the blocks, which come back from any thread.
#[derive(Debug)]
pub struct OwnHeap {
    mapping: Arc<Mapping>,
    file: File,
    ranges: Mutex<Heap>,
}

impl OwnHeap {
    /// Maps the heap file of this task. Once a task: its contexts share it.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn open(job: &Job) -> Result<Arc<Self>, DeviceError> {
        let (mapping, file) = (files::open_heap(job, job.task())?, files::heap_file(job, job.task())?);
        let ranges = Mutex::new(Heap::new(mapping.len().saturating_sub(MEASURE_BYTES) as u64));
        Ok(Arc::new(Self { mapping, file, ranges }))
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    pub(super) fn contains(&self, at: NonNull<u8>, len: usize) -> bool {
        let from = at.addr().get().checked_sub(self.mapping.base().addr().get());
        from.is_some_and(|offset| self.mapping.range(offset, len).is_some())
    }

    pub(super) fn alloc(self: &Arc<Self>, len: usize) -> Result<HeapBlock, DeviceError> {
        // A panic elsewhere while the lock was held leaves the ranges whole: every step of `Heap` is.
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(block) = ranges.take(len as u64) else {
            return Err(DeviceError::Exhausted {
                resource: "job memory",
                needed: len as u64,
                available: ranges.available(),
                remedy: "free buffers, or raise the setting heap_bytes (AM_HEAP_BYTES)",
            });
        };
        drop(ranges);
        let offset = usize::try_from(block.offset).expect("the block lies inside the mapping");
        let range = self.mapping.checked(offset, len).expect("the block lies inside the mapping");
        if !block.fresh {
            range.zero();
        }
        Ok(HeapBlock::new(range, Arc::clone(self) as Arc<dyn HeapOwner>))
    }
}

impl HeapOwner for OwnHeap {
    fn take_back(&self, at: NonNull<u8>, len: usize) {
        let Some(offset) = at.addr().get().checked_sub(self.mapping.base().addr().get()) else { return };
        if len >= PUNCH_FROM_BYTES {
            let whole = len as u64 / PAGE_BYTES * PAGE_BYTES;
            if let Err(error) = memory::punch_hole(self.file.as_fd(), offset as u64, whole) {
                tracing::warn!(%error, len, "a freed block keeps its pages");
            }
        }
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.give_back(offset as u64, len as u64);
    }
}
