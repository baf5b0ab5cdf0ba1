//! am-core's buffers and the device's checked ranges, turned into each other: `unsafe`, because both say "this memory is
//! alive", and only here it is seen that they mean the same memory.

use std::ptr::NonNull;
use std::sync::Arc;

use am_core::buffer::{Arrived, BlockOwner, JobBuffer, RawBuffer, RawBytes, Room};

use crate::shm::copy::CheckedRange;
use crate::vipl::{HeapBlock, HeapOwner};

/// Memory that an operation receives into, for the length of a call.
pub(super) fn range<'a>(buffer: RawBuffer) -> CheckedRange<'a> {
    // SAFETY: a RawBuffer is alive and left alone until its operation has ended (`RawBuffer::new`); the engine ends the
    // operation only after the device has, so that every use of the range falls into that time.
    unsafe { CheckedRange::new(buffer.at(), buffer.len()) }
}

/// Memory that an operation sends from, for the length of a call. The device only reads it.
pub(super) fn source<'a>(bytes: RawBytes) -> CheckedRange<'a> {
    // SAFETY: as for `range`; a source is only ever the `from` of a copy.
    unsafe { CheckedRange::new(bytes.at(), bytes.len()) }
}

/// The memory of an own registration, as a place for arriving data.
#[inline(always)]
pub(super) fn raw_buffer(range: CheckedRange<'_>) -> RawBuffer {
    // SAFETY: registered memory stays alive, and its owner leaves it to peers, until it is deregistered. The engine copies
    // into it before it handles anything else, so before that.
    unsafe { RawBuffer::new(range.at(), range.len()) }
}

/// Room in a receive area.
#[inline(always)]
pub(super) fn room(range: CheckedRange<'_>) -> Room {
    // SAFETY: the slot is writable, and nobody touches it before the entry is published: the credit said that its owner has
    // given it back. The device hands it out for the length of the call in which the Room lives.
    unsafe { Room::new(range.at(), range.len()) }
}

/// Received bytes in a receive area.
#[inline(always)]
pub(super) fn arrived(range: CheckedRange<'_>) -> Arrived<'_> {
    // SAFETY: the slot is mapped as long as the device is borrowed, which is the range's lifetime.
    unsafe { Arrived::shared(range.at(), range.len()) }
}

/// A block of the NIC owner's memory as an owned buffer.
pub(super) fn job_buffer(block: HeapBlock) -> JobBuffer {
    #[derive(Debug)]
    struct Owner(Arc<dyn HeapOwner>);
    impl BlockOwner for Owner {
        fn take_back(&self, at: NonNull<u8>, len: usize) {
            self.0.take_back(at, len);
        }
    }
    // SAFETY: the block is initialised (all zero), readable, writable and nobody else's until it is taken back
    // (`Device::alloc`).
    unsafe { JobBuffer::new(block.at(), block.len(), Arc::new(Owner(Arc::clone(block.owner())))) }
}
