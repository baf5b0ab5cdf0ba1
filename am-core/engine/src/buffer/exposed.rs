//! Blocks of memory, and memory that peers may reach.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use am_copies as copies;

use super::raw::RawBuffer;
use super::shared::SharedPart;
use crate::error::{Error, Result};
use crate::task::{ContextNumber, Endpoint, TaskId};

/// The owner of blocks, which takes a block back when its last user drops it.
pub trait BlockOwner: Send + Sync + fmt::Debug {
    /// Takes back the block at `at`. Called once for each block, by [`JobBuffer`]'s drop.
    ///
    /// # Safety
    /// The block must belong to a [`JobBuffer`] with this owner, must not be used any more, and must not have been taken back before.
    unsafe fn take_back(&self, at: NonNull<u8>, len: usize);
}

/// A block of memory that belongs to the program and dereferences to `[u8]`. A block that the fabric allocates lies in job memory if
/// possible: operations of peers copy directly from and to job memory. Blocks of the fabric and of [`zeroed`](Self::zeroed) are filled with
/// zeroes.
#[derive(Debug)]
pub struct JobBuffer {
    at: NonNull<u8>,
    len: usize,
    owner: Arc<dyn BlockOwner>,
}

// SAFETY: the block is owned exclusively, as a Box would be, and its owner is Send and Sync.
unsafe impl Send for JobBuffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for JobBuffer {}

impl JobBuffer {
    /// A block of `len` initialised bytes at `at` that `owner` takes back.
    ///
    /// # Safety
    /// `at..at + len` must be initialised, readable and writable, and nothing else may touch it until `owner.take_back(at, len)`.
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize, owner: Arc<dyn BlockOwner>) -> Self {
        Self { at, len, owner }
    }

    /// The block as memory to receive into. The operation that gets the memory must hold this buffer until the operation has ended.
    pub(crate) fn raw(&self) -> RawBuffer {
        // SAFETY: the block lives as long as `self`; the caller keeps `self` inside the operation.
        unsafe { RawBuffer::new(self.at, self.len) }
    }

    /// The block as memory that an operation sends from or receives into.
    ///
    /// # Safety
    /// The caller must give the buffer to the operation that gets the value, or keep it live and unused until that operation has ended.
    #[inline]
    #[must_use]
    pub unsafe fn to_raw(&self) -> RawBuffer {
        self.raw()
    }
}

impl JobBuffer {
    /// A block of zeros in private memory, aligned to a cache line: usable for atomic words, unlike the bytes of a `Vec`.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        #[derive(Clone, Copy)]
        #[repr(C, align(64))]
        struct Line([u8; 64]);
        #[derive(Debug)]
        struct Lines;
        impl BlockOwner for Lines {
            unsafe fn take_back(&self, at: NonNull<u8>, len: usize) {
                let lines = NonNull::slice_from_raw_parts(at.cast::<Line>(), len.div_ceil(64));
                // SAFETY: `at` came from a boxed slice of this many lines, leaked below and not yet freed.
                drop(unsafe { Box::from_raw(lines.as_ptr()) });
            }
        }
        let lines = Box::leak(vec![Line([0; 64]); len.div_ceil(64)].into_boxed_slice());
        Self { at: NonNull::from(&mut *lines).cast(), len, owner: Arc::new(Lines) }
    }
}

impl JobBuffer {
    /// The first `len` bytes, or all of a shorter block. The rest stays unused until the whole block is dropped.
    #[must_use]
    pub fn shortened(self, len: usize) -> Self {
        #[derive(Debug)]
        struct Whole {
            _block: JobBuffer,
        }
        impl BlockOwner for Whole {
            /// Nothing to do: dropping the owner, which follows, returns the block.
            unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
        }
        if len >= self.len {
            return self;
        }
        Self { at: self.at, len, owner: Arc::new(Whole { _block: self }) }
    }
}

impl From<Vec<u8>> for JobBuffer {
    /// A block in private memory. Peers cannot access it directly: the kernel copies the data, or they are sent in pieces.
    fn from(bytes: Vec<u8>) -> Self {
        #[derive(Debug)]
        struct Private;
        impl BlockOwner for Private {
            unsafe fn take_back(&self, at: NonNull<u8>, len: usize) {
                // SAFETY: `at` and `len` came from a boxed slice of this length, leaked below and not yet freed.
                drop(unsafe { Box::from_raw(NonNull::slice_from_raw_parts(at, len).as_ptr()) });
            }
        }
        let bytes = Box::leak(bytes.into_boxed_slice());
        Self { at: NonNull::from(&mut *bytes).cast(), len: bytes.len(), owner: Arc::new(Private) }
    }
}

impl Drop for JobBuffer {
    fn drop(&mut self) {
        // SAFETY: the block belongs to `owner` (every constructor), and this drop ends its only user.
        unsafe { self.owner.take_back(self.at, self.len) };
    }
}

impl Deref for JobBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is initialised, live and exclusively owned (`new`).
        unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for JobBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block is initialised and live (`new`), and `self` is exclusively borrowed.
        unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

/// What peers may do with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether peers may read the range (get).
    pub read: bool,
    /// Whether peers may write the range (put, rmw).
    pub write: bool,
    /// Whether the right belongs to one operation of the engine, not to programs: see [`Grant::is_for_operation`].
    pub for_operation: bool,
}

impl Access {
    /// No access for peers. The engine asks for this to access its own task's memory, whatever peers may do there.
    pub const OWNER: Self = Self { read: false, write: false, for_operation: false };
    /// Reading only.
    pub const READ: Self = Self { read: true, write: false, for_operation: false };
    /// Writing only.
    pub const WRITE: Self = Self { read: false, write: true, for_operation: false };
    /// Reading and writing.
    pub const READ_WRITE: Self = Self { read: true, write: true, for_operation: false };

    /// Whether this right covers all of `asked`.
    #[inline(always)]
    #[must_use]
    pub const fn covers(self, asked: Self) -> bool {
        (self.read || !asked.read) && (self.write || !asked.write)
    }

    /// The same right for one operation of the engine.
    #[must_use]
    pub const fn for_operation(self) -> Self {
        Self { for_operation: true, ..self }
    }
}

/// Names a right of peers to one range of a task's memory: a slot in the task's region table, and the slot's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    /// The slot.
    pub region: u32,
    /// How many times the slot has been used. A claim with another generation is rejected.
    pub generation: u32,
}

impl Grant {
    /// The bit of `region` that marks a grant for one operation.
    pub const OPERATION_BIT: u32 = 1 << 31;

    /// Whether the grant was made for one operation of the engine. Programs cannot name such a grant in a put, get or rmw: the calls reject
    /// it. Only the peer of that operation uses the grant, and the peer reports when it has finished, so revoking the grant needs no check
    /// for copies by other tasks.
    #[inline(always)]
    #[must_use]
    pub fn is_for_operation(self) -> bool {
        self.region & Self::OPERATION_BIT != 0
    }
}

/// The task that carries out atomic operations and accumulations on the words of a region. Chosen when the region is exposed, and part of
/// the region's addresses, so that all tasks agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Executor {
    /// Any task that can reach the words; for other tasks, the owner. This has the lowest latency.
    #[default]
    Anyone,
    /// The owner: it takes the operations from messages when it next makes progress. Words that are updated often stay in the owner's
    /// cache, and operations on a whole array take one message.
    Owner,
}

/// An address in the exposed memory of a task. `LAPI_Address_init` exchanges such addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteAddress {
    /// The task that has the memory.
    pub task: TaskId,
    /// The context that exposed the memory. It serves requests for this memory and has the target counters of puts and gets.
    pub context: ContextNumber,
    /// The task that carries out atomic operations on the memory.
    pub executor: Executor,
    /// The region.
    pub grant: Grant,
    /// Bytes from the region's start.
    pub offset: u64,
}

/// The first word of an encoded address: task, context, executor.
const TASK_BITS: u32 = (1 << CONTEXT_SHIFT) - 1;
const CONTEXT_SHIFT: u32 = 24;
const CONTEXT_BITS: u32 = 0xF << CONTEXT_SHIFT;
const OWNER_BIT: u32 = 1 << 31;

impl RemoteAddress {
    /// Bytes of the encoded form.
    pub const BYTES: usize = 20;

    /// The address `bytes` further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        Self { offset: self.offset.wrapping_add(bytes), ..self }
    }

    /// The context that has exposed the memory.
    #[inline(always)]
    #[must_use]
    pub fn owner(self) -> Endpoint {
        Endpoint::new(self.task, self.context)
    }

    /// The encoded form, for sending. It has 24 bits for the task number.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let owner = if self.executor == Executor::Owner { OWNER_BIT } else { 0 };
        let context = u32::from(self.context.0) << CONTEXT_SHIFT & CONTEXT_BITS;
        bytes[0..4].copy_from_slice(&(self.task.0 & TASK_BITS | context | owner).to_le_bytes());
        bytes[4..8].copy_from_slice(&self.grant.region.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.grant.generation.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Decodes an address. It is only a claim: it is checked at each use.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            task: TaskId(word(0) & TASK_BITS),
            context: ContextNumber(((word(0) & CONTEXT_BITS) >> CONTEXT_SHIFT) as u8),
            executor: if word(0) & OWNER_BIT == 0 { Executor::Anyone } else { Executor::Owner },
            grant: Grant { region: word(4), generation: word(8) },
            offset: u64::from(word(12)) | u64::from(word(16)) << 32,
        }
    }
}

/// A part of this task's own exposed memory, as a destination for data. It can be copied freely; it is checked at each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExposedRange {
    /// The region.
    pub grant: Grant,
    /// Bytes from the region's start.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
}

/// An exposed buffer: peers may read or write it at any time, so even its owner only copies or uses atomics.
///
/// Take the buffer back with `Context::unexpose`. If the value is dropped instead, the buffer stays exposed
/// until the context ends, and its memory is never reused.
#[derive(Debug)]
pub struct Exposed {
    buffer: core::mem::ManuallyDrop<JobBuffer>,
    owner: Owner,
    executor: Executor,
    grant: Grant,
    /// Whether other tasks have mapped the memory too: it is then never returned as a buffer.
    is_shared: bool,
}

/// The context that has exposed a region. Its endpoint alone does not identify the context: a later context may have the same endpoint, and
/// so may contexts of other networks in the same process, whose grants may have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The owner's endpoint.
    pub endpoint: Endpoint,
    /// Unique among all contexts that this process has opened.
    pub identity: u64,
}

impl Exposed {
    /// Wraps `buffer`, for which the fabric of `owner` has just made `grant`.
    #[must_use]
    pub fn new(buffer: JobBuffer, owner: Owner, executor: Executor, grant: Grant) -> Self {
        let buffer = core::mem::ManuallyDrop::new(buffer);
        Self { buffer, owner, executor, grant, is_shared: false }
    }

    /// Like [`new`](Self::new), for a part of shared memory.
    #[must_use]
    pub fn of_shared(part: SharedPart, owner: Owner, grant: Grant) -> Self {
        let exposed = Self::new(part.into_buffer(), owner, Executor::Anyone, grant);
        Self { is_shared: true, ..exposed }
    }

    /// Checks that `context` has exposed the region.
    ///
    /// # Errors
    /// [`Error::ForeignRegion`] if another context has.
    pub fn check_owner(&self, context: Owner) -> Result<()> {
        if self.owner == context {
            Ok(())
        } else {
            Err(Error::ForeignRegion { owner: self.owner.endpoint, context: context.endpoint })
        }
    }

    /// Returns the buffer, or an empty one for shared memory.
    ///
    /// # Safety
    /// The fabric of the region's owner must have reported the grant as revoked, and nothing may be storing there any more.
    #[must_use]
    pub unsafe fn into_buffer(self) -> JobBuffer {
        let buffer = core::mem::ManuallyDrop::into_inner(self.buffer);
        if self.is_shared { JobBuffer::zeroed(0) } else { buffer }
    }

    /// The grant.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// The length of the region in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.buffer.len as u64
    }

    /// Whether the region has 0 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.len == 0
    }

    /// The address of byte `offset`, for other tasks.
    #[must_use]
    pub fn address(&self, offset: u64) -> RemoteAddress {
        let Endpoint { task, context } = self.owner.endpoint;
        RemoteAddress { task, context, executor: self.executor, grant: self.grant, offset }
    }

    /// The part `offset..offset + len` as a destination for data.
    ///
    /// # Errors
    /// [`Error::LocalRange`]: the part does not lie inside the region.
    pub fn range(&self, offset: u64, len: u64) -> Result<ExposedRange> {
        self.check(offset, len)?;
        Ok(ExposedRange { grant: self.grant, offset, len })
    }

    /// Copies from the region. Aligned words of 8 bytes are read atomically (relaxed), since other threads may write them.
    ///
    /// # Errors
    /// [`Error::LocalRange`] if the range does not lie inside the region.
    #[inline]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let from = self.check(offset, to.len() as u64)?;
        let (first, rest) = to.split_at_mut(head_len(from, to.len()));
        let (words, last) = rest.as_chunks_mut();
        // SAFETY: all accesses are to the bytes of the range, in order. These bytes are live (`check`); while they are exposed, other code
        // accesses them only by atomics and copies. The words begin where the head ends, at a multiple of 8; `to`, an exclusive borrow,
        // does not overlap them.
        unsafe {
            let mut at = from;
            for byte in first {
                *byte = AtomicU8::from_ptr(at.as_ptr()).load(Ordering::Relaxed);
                at = at.add(1);
            }
            let count = words.len();
            if copies::are_many(count) {
                copies::words(at.as_ptr(), words.as_mut_ptr().cast(), count);
                at = at.add(8 * count);
            } else {
                for word in words {
                    *word = AtomicU64::from_ptr(at.cast().as_ptr()).load(Ordering::Relaxed).to_ne_bytes();
                    at = at.add(8);
                }
            }
            for byte in last {
                *byte = AtomicU8::from_ptr(at.as_ptr()).load(Ordering::Relaxed);
                at = at.add(1);
            }
        }
        Ok(())
    }

    /// Copies into the region. Aligned words of 8 bytes are written atomically (relaxed), since other threads may read them.
    ///
    /// # Errors
    /// [`Error::LocalRange`] if the range does not lie inside the region.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let to = self.check(offset, from.len() as u64)?;
        let (first, rest) = from.split_at(head_len(to, from.len()));
        let (words, last) = rest.as_chunks();
        // SAFETY: as in `read`: the bytes of the range are live (`check`), other code accesses them only by atomics and copies, and the
        // words are at multiples of 8.
        unsafe {
            let mut at = to;
            for &byte in first {
                AtomicU8::from_ptr(at.as_ptr()).store(byte, Ordering::Relaxed);
                at = at.add(1);
            }
            if copies::are_many(words.len()) {
                copies::words(words.as_ptr().cast(), at.as_ptr(), words.len());
                at = at.add(8 * words.len());
            } else {
                for &word in words {
                    AtomicU64::from_ptr(at.cast().as_ptr())
                        .store(u64::from_ne_bytes(word), Ordering::Relaxed);
                    at = at.add(8);
                }
            }
            for &byte in last {
                AtomicU8::from_ptr(at.as_ptr()).store(byte, Ordering::Relaxed);
                at = at.add(1);
            }
        }
        Ok(())
    }

    /// The 64-bit word at `offset`, read atomically (relaxed).
    ///
    /// # Errors
    /// [`Error::LocalRange`] or [`Error::Misaligned`].
    pub fn load_u64(&self, offset: u64) -> Result<u64> {
        Ok(self.atomic_u64(offset)?.load(Ordering::Relaxed))
    }

    /// Writes the 64-bit word at `offset` atomically (relaxed).
    ///
    /// # Errors
    /// [`Error::LocalRange`] or [`Error::Misaligned`].
    pub fn store_u64(&self, offset: u64, value: u64) -> Result<()> {
        self.atomic_u64(offset)?.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// The 64-bit word at `offset` as an atomic, which peers may update at the same time.
    ///
    /// # Errors
    /// [`Error::LocalRange`] or [`Error::Misaligned`].
    pub fn atomic_u64(&self, offset: u64) -> Result<&AtomicU64> {
        let at = self.check_aligned(offset, 8)?;
        // SAFETY: the eight bytes are live (`check`) and aligned; while exposed, the block is accessed by atomics and copies only, and
        // `&self` keeps it from being taken back.
        Ok(unsafe { AtomicU64::from_ptr(at.cast().as_ptr()) })
    }

    /// The 32-bit word at `offset` as an atomic, which peers may update at the same time.
    ///
    /// # Errors
    /// [`Error::LocalRange`] or [`Error::Misaligned`].
    pub fn atomic_u32(&self, offset: u64) -> Result<&AtomicU32> {
        let at = self.check_aligned(offset, 4)?;
        // SAFETY: the four bytes are live (`check`) and aligned; while exposed, the block is accessed by atomics and copies only, and
        // `&self` keeps it from being taken back.
        Ok(unsafe { AtomicU32::from_ptr(at.cast().as_ptr()) })
    }

    fn check_aligned(&self, offset: u64, size: u64) -> Result<NonNull<u8>> {
        let at = self.check(offset, size)?;
        if (at.addr().get() as u64).is_multiple_of(size) {
            Ok(at)
        } else {
            Err(Error::Misaligned { offset, size })
        }
    }

    #[inline(always)]
    fn check(&self, offset: u64, len: u64) -> Result<NonNull<u8>> {
        let region_len = self.len();
        if offset <= region_len && len <= region_len - offset {
            // SAFETY: `offset` is at most the length of the block (just checked), so it fits a usize, and the result is at most the block's
            // end.
            Ok(unsafe { self.buffer.at.add(offset as usize) })
        } else {
            Err(Error::LocalRange { offset, len, region_len })
        }
    }
}

/// Bytes before the first whole word of a range of `len` bytes at `at`.
#[inline(always)]
fn head_len(at: NonNull<u8>, len: usize) -> usize {
    (at.addr().get().wrapping_neg() % 8).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn copies_of_all_lengths_and_offsets_are_exact() {
        let owner = Owner { endpoint: Endpoint::new(TaskId(0), ContextNumber(0)), identity: 1 };
        let grant = Grant { region: 1, generation: 1 };
        let region = Exposed::new(JobBuffer::zeroed(640), owner, Executor::Anyone, grant);
        let bytes: Vec<u8> = (0..700u32).map(|at| at as u8 | 1).collect();
        for offset in 0..20u64 {
            for len in (0..=44).chain([300, 601]) {
                region.write(0, &[0; 640]).unwrap();
                region.write(offset, &bytes[..len]).unwrap();
                let mut all = [9; 640];
                region.read(0, &mut all).unwrap();
                let mut expected = [0; 640];
                expected[offset as usize..][..len].copy_from_slice(&bytes[..len]);
                assert_eq!(all, expected);
                let mut part = vec![0; len];
                region.read(offset, &mut part).unwrap();
                assert_eq!(part, bytes[..len]);
            }
        }
        // SAFETY: no fabric has the grant, which the test has made up.
        drop(unsafe { region.into_buffer() });
    }

    #[test]
    fn threads_that_share_a_region_see_whole_words() {
        let shared = exposed();
        let (region, rounds) = (&shared, 20_000u64);
        std::thread::scope(|threads| {
            threads.spawn(move || {
                for round in 0..rounds {
                    region.write(8, &[round as u8; 16]).unwrap();
                }
            });
            for _ in 0..rounds {
                let mut words = [0; 16];
                region.read(8, &mut words).unwrap();
                for word in words.as_chunks::<8>().0 {
                    assert!(word.iter().all(|byte| *byte == word[0]), "{word:?}");
                }
            }
        });
        // SAFETY: no fabric has the grant, which the test has made up.
        drop(unsafe { shared.into_buffer() });
    }

    fn exposed() -> Exposed {
        let owner = Owner { endpoint: Endpoint::new(TaskId(3), ContextNumber(15)), identity: 1 };
        let grant = Grant { region: 1, generation: 2 };
        Exposed::new(JobBuffer::from(vec![0; 64]), owner, Executor::Owner, grant)
    }

    #[test]
    fn an_exposed_range_is_reached_by_copies_and_atomics() {
        let region = exposed();
        region.write(8, &7u64.to_le_bytes()).unwrap();
        assert_eq!(region.load_u64(8).unwrap(), 7);
        region.atomic_u64(8).unwrap().fetch_add(1, Ordering::Relaxed);
        let mut bytes = [0; 8];
        region.read(8, &mut bytes).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 8);
        // SAFETY: no fabric has the grant, which the test has made up.
        drop(unsafe { region.into_buffer() });
    }

    #[test]
    fn ranges_beyond_the_end_are_refused_with_values() {
        let region = exposed();
        assert!(region.range(64, 0).is_ok());
        let error = region.range(60, 5).unwrap_err();
        assert_eq!(error.to_string(), "5 bytes at offset 60 do not lie inside a region of 64 bytes");
        assert!(region.read(u64::MAX, &mut [0]).is_err());
        assert!(matches!(region.atomic_u64(4), Err(Error::Misaligned { offset: 4, size: 8 })));
        // SAFETY: no fabric has the grant, which the test has made up.
        drop(unsafe { region.into_buffer() });
    }

    #[test]
    fn addresses_survive_the_wire() {
        let region = exposed();
        let address = region.address(u64::MAX / 3);
        assert_eq!(RemoteAddress::from_bytes(address.to_bytes()), address);
        // SAFETY: no fabric has the grant, which the test has made up.
        drop(unsafe { region.into_buffer() });
    }
}
