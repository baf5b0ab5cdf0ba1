//! Memory that peers may reach.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use am_copies as copies;

use super::address::{Executor, ExposedRange, Grant, RemoteAddress};
use super::block::JobBuffer;
use super::shared::SharedPart;
use crate::error::{Error, Result};
use crate::task::Endpoint;

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

    /// Copies from the region. Aligned words of 8 bytes, or of 4 bytes if `to` has only these, are read atomically (relaxed), since other
    /// threads may write them.
    ///
    /// # Errors
    /// [`Error::LocalRange`] if the range does not lie inside the region.
    #[inline]
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<()> {
        let from = self.check(offset, to.len() as u64)?;
        if let Ok(word) = <&mut [u8; 4]>::try_from(&mut *to)
            && from.cast::<u32>().is_aligned()
        {
            // SAFETY: as below, for one aligned word of 4 bytes.
            *word =
                unsafe { AtomicU32::from_ptr(from.cast().as_ptr()) }.load(Ordering::Relaxed).to_ne_bytes();
            return Ok(());
        }
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

    /// Copies into the region. Aligned words of 8 bytes, or of 4 bytes if `from` has only these, are written atomically (relaxed), since
    /// other threads may read them.
    ///
    /// # Errors
    /// [`Error::LocalRange`] if the range does not lie inside the region.
    #[inline]
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        let to = self.check(offset, from.len() as u64)?;
        if let Ok(&word) = <&[u8; 4]>::try_from(from)
            && to.cast::<u32>().is_aligned()
        {
            // SAFETY: as in `read`, for one aligned word of 4 bytes.
            unsafe { AtomicU32::from_ptr(to.cast().as_ptr()) }
                .store(u32::from_ne_bytes(word), Ordering::Relaxed);
            return Ok(());
        }
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

    /// `count` words at equal distances, the first at `offset`, the next `stride` bytes after it (or before it) and so on, as atomics,
    /// which peers may update at the same time. The range is checked once for all of them.
    ///
    /// # Errors
    /// [`Error::LocalRange`] if one of the words does not lie inside the region, or [`Error::Misaligned`].
    #[inline]
    pub fn words<W: Word>(&self, offset: u64, stride: i64, count: usize) -> Result<impl Iterator<Item = &W>> {
        let size = size_of::<W>() as u64;
        // A distance that is no number ends outside each region.
        let way = i64::try_from(count.saturating_sub(1)).ok().and_then(|steps| steps.checked_mul(stride));
        let last = way.and_then(|way| offset.checked_add_signed(way)).unwrap_or(u64::MAX);
        let first = if count > 0 { self.check_aligned(offset, size)? } else { self.check(0, 0)? };
        if count > 1 {
            self.check_aligned(last, size)?;
            if !stride.unsigned_abs().is_multiple_of(size) {
                return Err(Error::Misaligned { offset: offset.wrapping_add_signed(stride), size });
            }
        }
        // SAFETY: all words lie between the first and the last one, which lie inside the region (`check`), so the distance fits an isize;
        // all are aligned, because the first one and the stride are. While exposed, the block is accessed by atomics and copies only, and
        // `&self`, which the items borrow, keeps it from being taken back.
        Ok((0..count as isize).map(move |step| unsafe { W::at(first.byte_offset(step * stride as isize)) }))
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

/// An atomic integer: [`AtomicU32`] or [`AtomicU64`].
pub trait Word: sealed::Word + 'static {}

impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

mod sealed {
    use super::{AtomicU32, AtomicU64, NonNull};

    pub trait Word: Sized {
        /// # Safety
        /// As for `from_ptr` of the type: memory that is aligned for it, lives for `'a`, and is accessed by atomics and copies only.
        unsafe fn at<'a>(at: NonNull<u8>) -> &'a Self;
    }

    impl Word for AtomicU32 {
        #[inline(always)]
        unsafe fn at<'a>(at: NonNull<u8>) -> &'a Self {
            // SAFETY: the caller's contract.
            unsafe { Self::from_ptr(at.cast().as_ptr()) }
        }
    }

    impl Word for AtomicU64 {
        #[inline(always)]
        unsafe fn at<'a>(at: NonNull<u8>) -> &'a Self {
            // SAFETY: the caller's contract.
            unsafe { Self::from_ptr(at.cast().as_ptr()) }
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
    use crate::task::{ContextNumber, TaskId};
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

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
    fn words_at_equal_distances_lie_inside_the_region() {
        let region = exposed();
        for at in 0..8 {
            region.store_u64(8 * at, at).unwrap();
        }
        let loaded = |offset, stride, count| -> Result<Vec<u64>> {
            let words = region.words::<AtomicU64>(offset, stride, count)?;
            Ok(words.map(|word| word.load(Ordering::Relaxed)).collect())
        };
        assert_eq!(loaded(8, 16, 4).unwrap(), [1, 3, 5, 7]);
        assert_eq!(loaded(56, -24, 3).unwrap(), [7, 4, 1]);
        assert_eq!(loaded(16, 0, 2).unwrap(), [2, 2]);
        assert_eq!(loaded(1000, 1, 0).unwrap(), []);
        assert!(matches!(loaded(8, 16, 5), Err(Error::LocalRange { .. })));
        assert!(matches!(loaded(56, -24, 4), Err(Error::LocalRange { .. })));
        assert!(matches!(loaded(8, i64::MAX, 3), Err(Error::LocalRange { .. })));
        assert!(matches!(loaded(8, 12, 2), Err(Error::Misaligned { .. })));
        assert!(matches!(loaded(8, 12, 3), Err(Error::Misaligned { .. })));
        assert!(matches!(loaded(4, 8, 2), Err(Error::Misaligned { .. })));
        assert_eq!(region.words::<AtomicU32>(4, 4, 2).unwrap().count(), 2);
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
