//! Converts between am-core's buffers and the device's checked ranges. This module needs `unsafe` because both types promise live memory,
//! and no other module knows that they refer to the same memory.

use std::ptr::NonNull;
use std::sync::Arc;

use am_core::buffer::{
    Arrived, BlockOwner, JobBuffer, KeepsPromises, MappedRange, PacketWriter, RawBuffer, RawBytes,
    SharedMemory, SharedName,
};

use am_core::task::TaskId;
use am_core::transfer::Transfer;

use super::ViaFabric;
use am_via_nic::{Device, HeapBlock, Link, Mapping, Nic, SharedFileName};
use am_via_nic::{DeviceError, MemHandle};
use am_via_shm::regions::{Claim, Registration};
use am_via_shm::{CheckedRange, Storing};

// SAFETY: ranges of user memory are passed to the device for one call, or until it reports the end of a transfer; a grant is a
// registration, whose end the device delays until no peer copies (`shm/regions`, `shm/private_region`); granted memory is lent for a claim
// that the device has checked. Errors are returned without unwinding.
unsafe impl<D: Device> KeepsPromises for ViaFabric<D> {}

/// Registers memory of a grant.
pub(super) fn register<D: Device>(
    device: &mut D,
    memory: RawBuffer,
    registration: Registration,
) -> Result<MemHandle, DeviceError> {
    // SAFETY: a RawBuffer is live, and left to what the engine does with it, until its operation has ended or its grant is revoked
    // (`RawBuffer::new`). The engine revokes a grant for which peers may be copying with `finished` false.
    unsafe { device.register(range(memory), registration) }
}

/// Copies to registered memory of a peer.
pub(super) fn rdma_write<D: Device>(
    device: &mut D,
    to: (TaskId, Claim),
    from: RawBytes,
    id: u64,
) -> Result<Transfer, DeviceError> {
    // SAFETY: live and unwritten until the operation has ended (`RawBytes::new`), which is after `News::Ended`, or the fabric is dropped.
    unsafe { device.rdma_write(to, source(from), id) }
}

/// Copies from registered memory of a peer.
pub(super) fn rdma_read<D: Device>(
    device: &mut D,
    from: (TaskId, Claim),
    to: RawBuffer,
    id: u64,
) -> Result<Transfer, DeviceError> {
    // SAFETY: live and unused until the operation has ended (`RawBuffer::new`), which is after `News::Ended`, or the fabric is dropped.
    unsafe { device.rdma_read(from, range(to), id) }
}

/// Memory that an operation receives into, for one call.
pub(super) fn range<'a>(buffer: RawBuffer) -> CheckedRange<'a> {
    // SAFETY: a RawBuffer is live and unused by others until its operation has ended (`RawBuffer::new`); the engine ends the operation only
    // after the device has finished with the range.
    unsafe { CheckedRange::new(buffer.at(), buffer.len()) }
}

/// Memory that an operation sends from, for one call. The device only reads it.
pub(super) fn source<'a>(bytes: RawBytes) -> CheckedRange<'a> {
    // SAFETY: like `range`: live and unwritten until the operation has ended (`RawBytes::new`); a source is only read.
    unsafe { CheckedRange::new(bytes.at(), bytes.len()) }
}

/// The memory of a registration of this task, as a destination for arriving data.
#[inline(always)]
pub(super) fn raw_buffer(range: CheckedRange<'_>) -> RawBuffer {
    // SAFETY: until it is deregistered, registered memory stays live, and its owner leaves it to peers. The engine copies into the memory
    // before it handles anything else, and so before the end of the registration.
    unsafe { RawBuffer::new(range.at(), range.len()) }
}

/// The writer of a receive area.
#[inline(always)]
pub(super) fn writer(range: CheckedRange<'_>, storing: Storing) -> PacketWriter<'_> {
    // SAFETY: the slot is writable, and nothing else accesses it before the entry is published: the credit means that the slot's owner has
    // returned the slot. The device lends the slot for the call in which the writer lives.
    let writer = unsafe { PacketWriter::new(range.at(), range.len()) };
    if storing == Storing::PastCaches { writer.past_caches() } else { writer }
}

/// Mapped memory of a peer, lent for a call.
#[inline(always)]
pub(super) fn mapped(range: CheckedRange<'_>) -> MappedRange<'_> {
    // SAFETY: the claim was checked, for reading and writing, and is valid until the call that gets the range returns
    // (`Device::lend_mapped`).
    unsafe { MappedRange::new(range.at(), range.len()) }
}

/// Received bytes in a receive area.
#[inline(always)]
pub(super) fn arrived(range: CheckedRange<'_>) -> Arrived<'_> {
    // SAFETY: the slot is mapped while the device is borrowed, which is the range's lifetime.
    unsafe { Arrived::shared(range.at(), range.len()) }
}

/// The bytes of the area entry that `link` has looked at.
#[inline(always)]
pub(super) fn arrived_in_line<L: Link>(link: &L, len: u32) -> Arrived<'_> {
    // SAFETY: the caller has found an area entry (`InLine::look`), whose borrow of the link ends before the entry is taken.
    arrived(unsafe { link.area(len) })
}

/// The bytes of a packet whose arrival the engine handles, in the receive area of a VI.
#[inline(always)]
pub(super) fn arrived_in_area<D: Device>(nic: &Nic<D>, vi: u32, slot: u32, len: u32) -> Arrived<'_> {
    // SAFETY: the engine asks for the bytes of an arrival only before it releases it (`Post::arrived`, `Post::release`).
    arrived(unsafe { nic.area(vi, slot, len) })
}

/// A memory file that several tasks map, mapped here.
pub(super) fn shared_memory(name: SharedFileName, mapping: Arc<Mapping>) -> SharedMemory {
    let (at, len) = (mapping.base(), mapping.len());
    // SAFETY: the bytes are those of the whole mapping, which the value keeps; it is readable and writable, zero unless written, and
    // nothing makes a reference to it (`Mapping`).
    unsafe { SharedMemory::new(at, len, shared_name(name), mapping) }
}

fn shared_name(SharedFileName { pid, number, inode, len }: SharedFileName) -> SharedName {
    SharedName([u64::from(pid), u64::from(number.cast_unsigned()), inode, len])
}

/// Decodes a name from another task, which is not to be trusted; `None` if it is no name.
pub(super) fn shared_file_name(SharedName([pid, number, inode, len]): SharedName) -> Option<SharedFileName> {
    let number = u32::try_from(number).ok()?.cast_signed();
    Some(SharedFileName { pid: u32::try_from(pid).ok()?, number, inode, len })
}

/// A block of the NIC owner's memory as an owned buffer.
pub(super) fn job_buffer(block: HeapBlock) -> JobBuffer {
    #[derive(Debug)]
    struct Owner {
        _block: HeapBlock,
    }
    // SAFETY: no function accesses the block through this value, which only returns it.
    unsafe impl Sync for Owner {}
    impl BlockOwner for Owner {
        /// Nothing to do: dropping the owner, which follows, returns the block.
        unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
    }
    let (at, len) = (block.at(), block.len());
    // SAFETY: the block is initialised (all zero), readable, writable and used by nothing else until it is dropped (`Device::alloc`), and
    // the buffer's owner keeps it until then.
    unsafe { JobBuffer::new(at, len, Arc::new(Owner { _block: block })) }
}
