//! Ranges of user memory without a lifetime.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use am_atomics::{AtomicOp, Width};
use am_copies as copies;

/// Memory to send from. The maker of this value has promised that the bytes stay live and unwritten until the operation that holds the
/// value has ended.
#[derive(Clone, Copy, Debug)]
pub struct RawBytes {
    at: NonNull<u8>,
    len: usize,
}

/// Memory to receive into. The maker of this value has promised that the bytes stay live, and that no other code touches them, until the
/// operation that holds the value has ended.
#[derive(Clone, Copy, Debug)]
pub struct RawBuffer {
    at: NonNull<u8>,
    len: usize,
}

/// Proof that the caller is the engine: only this crate can make such a value. Granted memory is lent to the engine without a lifetime,
/// because the engine uses the memory at once.
#[derive(Clone, Copy, Debug)]
pub struct ForEngine(pub(crate) ());

/// What a fabric promises about memory that it receives or lends.
///
/// # Safety
/// An implementation must
/// * use a [`RawBytes`] or [`RawBuffer`] only until its operation has ended: until the call returns, until the fabric reports the end of a
///   posted transfer, or until a grant has been revoked;
/// * report a grant as revoked only when no peer can touch the memory any more, however peers behave;
/// * lend memory of a grant only while the grant is live, only under the name that the grant was given (with or without
///   [`Grant::OPERATION_BIT`](super::Grant::OPERATION_BIT)), and only a requested range that lies inside it;
/// * unwind only if the body of a packet does.
pub unsafe trait KeepsPromises {}

// SAFETY: the promise of the constructor is not bound to a thread.
unsafe impl Send for RawBytes {}
// SAFETY: a range is not bound to a thread, and it is only read.
unsafe impl Sync for RawBytes {}
// SAFETY: the promise of the constructor is not bound to a thread.
unsafe impl Send for RawBuffer {}

impl RawBytes {
    /// No bytes.
    pub const EMPTY: Self = Self { at: NonNull::dangling(), len: 0 };

    /// `len` bytes at `at`.
    ///
    /// # Safety
    /// `at..at + len` must lie in one allocation and be readable, and must not be written, until the operation that gets the value has
    /// ended.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        Self { at, len }
    }

    /// Bytes in the range.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the range starts.
    #[inline(always)]
    #[must_use]
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// The part `offset..offset + len`; `None` if the part does not lie inside the range.
    #[inline(always)]
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset <= self.len && len <= self.len - offset {
            // SAFETY: `offset` is at most the range's length (just checked), and the range lies in one allocation (`new`).
            Some(Self { at: unsafe { self.at.add(offset) }, len })
        } else {
            None
        }
    }

    /// Fills `to` with the first bytes of the range.
    ///
    /// # Panics
    /// If `to` is longer than the range.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) {
        assert!(to.len() <= self.len, "{} bytes requested from a range of {}", to.len(), self.len);
        // SAFETY: the source holds at least `to.len()` bytes (asserted), live and unwritten (`new`); `to` is an exclusive borrow, so the
        // two do not overlap.
        unsafe { copies::bytes(self.at.as_ptr(), to.as_mut_ptr(), to.len()) }
    }
}

impl RawBytes {
    /// Copies bytes into a range that its owner has lent, as many as both hold. The two ranges may be the same or overlap (a task that
    /// writes to itself).
    #[inline]
    pub fn copy_to_buffer(&self, to: RawBuffer) {
        let len = self.len.min(to.len);
        let (from, to) = (self.at.as_ptr(), to.at.as_ptr());
        // SAFETY: both ranges hold `len` live bytes, readable in `self` and writable in `to` (`new` of both); `copy` allows overlap, and a
        // word is read before it is written.
        unsafe {
            match len {
                4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
                8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
                _ => core::ptr::copy(from, to, len),
            }
        };
    }

    /// This range in the form that a fabric's `grant` takes. It is granted for reading only, and nothing writes through it.
    pub(crate) fn to_grant_for_reading(self) -> RawBuffer {
        RawBuffer { at: self.at, len: self.len }
    }
}

impl RawBuffer {
    /// No bytes.
    pub const EMPTY: Self = Self { at: NonNull::dangling(), len: 0 };

    /// `len` bytes at `at`.
    ///
    /// # Safety
    /// `at..at + len` must lie in one allocation and be writable, and other code must not access it, until the operation that gets the
    /// value has ended.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        Self { at, len }
    }

    /// Bytes in the range.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the range starts.
    #[inline(always)]
    #[must_use]
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// The part `offset..offset + len`; `None` if the part does not lie inside the range.
    #[inline(always)]
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset <= self.len && len <= self.len - offset {
            // SAFETY: `offset` is at most the range's length (just checked), and the range lies in one allocation (`new`).
            Some(Self { at: unsafe { self.at.add(offset) }, len })
        } else {
            None
        }
    }

    /// The same memory as a source.
    #[inline(always)]
    #[must_use]
    pub fn as_bytes(&self) -> RawBytes {
        RawBytes { at: self.at, len: self.len }
    }

    /// Copies `bytes` to the start of the range, as many as fit; returns how many.
    #[inline(always)]
    pub fn fill_from(&self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.len);
        // SAFETY: the destination holds at least `len` bytes that nothing else touches (`new`), the source is a live borrow;
        // an exclusive range and a shared borrow do not overlap.
        unsafe { copies::bytes(bytes.as_ptr(), self.at.as_ptr(), len) };
        len
    }
}

impl From<RawBuffer> for RawBytes {
    #[inline(always)]
    fn from(buffer: RawBuffer) -> Self {
        buffer.as_bytes()
    }
}

impl RawBuffer {
    /// Operates atomically on the first word of the range; returns the old value, or `None` if the range is shorter than
    /// the word or not aligned to its size.
    #[inline(always)]
    #[must_use]
    pub fn atomic(&self, width: Width, operation: AtomicOp) -> Option<u64> {
        if self.len < width.bytes() as usize {
            return None;
        }
        // SAFETY: the range has the word's bytes (just checked), which are live (`new`); words that peers may update are accessed by
        // atomics only (`Exposed`).
        unsafe { am_atomics::update(self.at.as_ptr(), width, operation) }
    }
}

/// Granted memory that the caller has mapped, lent for one call. Other tasks may read and write it meanwhile, so it is copied or updated
/// atomically, never borrowed.
#[derive(Debug)]
pub struct MappedRange<'a> {
    memory: RawBuffer,
    _lent: PhantomData<&'a ()>,
}

impl MappedRange<'_> {
    /// `len` bytes at `at`.
    ///
    /// # Safety
    /// `at..at + len` must lie in one mapping, and stay mapped, readable and writable until the call that the value is lent to returns.
    /// Until then the memory's owner may access it only as a holder of the grant may.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        Self { memory: RawBuffer { at, len }, _lent: PhantomData }
    }

    /// Bytes in the range.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Whether there is no byte.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.len == 0
    }

    /// The address of the first byte as a number. Modulo the size of a page, it is the same in all tasks.
    #[inline(always)]
    #[must_use]
    pub fn address(&self) -> usize {
        self.memory.at.addr().get()
    }

    /// Like [`address`](Self::address), for a pointer made of the number (`std::ptr::with_exposed_provenance_mut`), which is valid as long
    /// as the bytes are mapped.
    #[must_use]
    pub fn expose_address(&self) -> usize {
        self.memory.at.as_ptr().expose_provenance()
    }

    /// Fills `to` with the bytes from `offset` on; returns whether the range has all of them. If not, nothing is copied.
    #[inline(always)]
    #[must_use]
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let part = self.memory.part(offset, to.len());
        part.inspect(|part| part.as_bytes().copy_to(to)).is_some()
    }

    /// Copies `from` into the range at `offset`; returns whether it fits. If not, nothing is copied.
    #[inline(always)]
    #[must_use]
    pub fn write(&self, offset: usize, from: &[u8]) -> bool {
        self.memory.part(offset, from.len()).is_some_and(|part| part.fill_from(from) == from.len())
    }

    /// Operates atomically on the word at `offset`; returns the old value, or `None` if the word is outside the range or not aligned to its
    /// size.
    #[inline(always)]
    #[must_use]
    pub fn atomic(&self, offset: usize, width: Width, operation: AtomicOp) -> Option<u64> {
        self.memory.part(offset, width.bytes() as usize)?.atomic(width, operation)
    }

    /// The word at `offset`, for atomic operations in the ordering that the caller chooses; `None` if the word is outside the range or not
    /// aligned to 8 bytes.
    #[inline(always)]
    #[must_use]
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        let word = self.memory.part(offset, 8)?.at.cast::<AtomicU64>();
        if !word.is_aligned() {
            return None;
        }
        // SAFETY: the range has the word's bytes (just checked), aligned (just checked), readable and writable as long as the value is lent
        // (`new`); words that peers may reach by atomics are reached by nothing else meanwhile (`Exposed`).
        Some(unsafe { word.as_ref() })
    }

    /// The range without its lifetime.
    ///
    /// # Safety
    /// The result must not be used after the call that the value was lent to has returned.
    #[inline(always)]
    #[must_use]
    pub unsafe fn to_raw(&self) -> RawBuffer {
        self.memory
    }
}

/// Minimum length in bytes of a copy whose stores bypass the caches. Each such copy ends with a fence, which costs too much for shorter
/// ones.
const PAST_CACHES_BYTES_MIN: usize = 512;

/// Writes a packet into a NIC's buffer, from the front.
///
/// The value is valid during the call that receives it. Each call has a lifetime of its own, so that a body cannot exchange the writers of
/// two packets.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    at: NonNull<u8>,
    len: usize,
    used: usize,
    is_past_caches: bool,
    _lives: PhantomData<&'a mut [u8]>,
}

impl<'a> PacketWriter<'a> {
    /// Writes into a slice: for fabrics without a NIC.
    #[must_use]
    pub fn over(bytes: &'a mut [u8]) -> Self {
        // SAFETY: the exclusive borrow lasts as long as the value.
        unsafe { Self::new(NonNull::from(&mut *bytes).cast(), bytes.len()) }
    }

    /// Writes at most `len` bytes at `at`.
    ///
    /// # Safety
    /// `at..at + len` must be writable during the value's lifetime, and nothing else may read or write it meanwhile.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize) -> Self {
        Self { at, len, used: 0, is_past_caches: false, _lives: PhantomData }
    }

    /// This writer, with stores that bypass this processor's caches: for a reader that shares none of these caches.
    #[inline(always)]
    #[must_use]
    pub fn past_caches(self) -> Self {
        Self { is_past_caches: true, ..self }
    }

    /// Bytes still free.
    #[inline(always)]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.len - self.used
    }

    /// Bytes written so far.
    #[inline(always)]
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Appends bytes, as many as fit; returns how many.
    #[inline(always)]
    pub fn put(&mut self, bytes: RawBytes) -> usize {
        let len = bytes.len().min(self.remaining());
        // SAFETY: source: `len` live, unwritten bytes (`RawBytes::new`). Destination: `len` bytes after `used`, inside the buffer (min
        // above), which nothing else touches (`new`). User memory and a NIC's buffer do not overlap.
        unsafe {
            let to = self.at.as_ptr().add(self.used);
            if self.is_past_caches && len >= PAST_CACHES_BYTES_MIN {
                copies::past_caches(bytes.at.as_ptr(), to, len);
            } else {
                copies::bytes(bytes.at.as_ptr(), to, len);
            }
        }
        self.used += len;
        len
    }

    /// Appends `count` pieces of `LEN` bytes each, or as many as fit. The free space is checked once for all of them.
    ///
    /// # Panics
    /// If a piece has another length.
    #[inline(always)]
    pub fn put_equal<const LEN: usize>(&mut self, count: usize, piece: impl Fn(usize) -> RawBytes) {
        let (used, count) = (self.used, count.min(self.remaining() / LEN));
        let start = self.at.as_ptr();
        let from = |index| {
            let piece = piece(index);
            assert_eq!(piece.len(), LEN, "pieces of one length");
            piece.at.as_ptr().cast_const()
        };
        // Four at a time: a loop of one store took up to 1.3 times as long, depending on the address of its code.
        let fours = if LEN == 8 { count / 4 } else { 0 };
        // SAFETY: source: `LEN` live, unwritten bytes of each piece (`RawBytes::new`). Destination: `LEN` bytes for each piece after
        // `used`, inside the buffer (`count` pieces fit), which nothing else touches (`new`). User memory and a NIC's buffer do not
        // overlap.
        unsafe {
            for index in (0..fours).map(|four| 4 * four) {
                let to = start.add(used + index * LEN);
                copies::two_words(from(index), from(index + 1), to);
                copies::two_words(from(index + 2), from(index + 3), to.add(2 * LEN));
            }
            for index in 4 * fours..count {
                copies::bytes(from(index), start.add(used + index * LEN), LEN);
            }
        }
        self.used = used + count * LEN;
    }

    /// Appends bytes of a slice, as many as fit; returns how many.
    #[inline(always)]
    pub fn put_slice(&mut self, bytes: &[u8]) -> usize {
        // SAFETY: the slice is borrowed for the whole call, and the RawBytes does not outlive the call.
        self.put(unsafe { RawBytes::new(NonNull::from(bytes).cast(), bytes.len()) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::RawPieces;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn a_writer_past_the_caches_stores_every_length_at_every_alignment() {
        let source: Vec<u8> = (1..=250).cycle().take(1200).collect();
        for (start, len) in (0..65).flat_map(|start| [511, 512, 575, 640, 700, 1100].map(|len| (start, len)))
        {
            let mut to = vec![0u8; start + len + 1];
            let mut writer = PacketWriter::over(&mut to[start..start + len]).past_caches();
            assert_eq!(writer.put_slice(&source[start..]), len, "it is cut to the buffer");
            assert_eq!(writer.remaining(), 0);
            assert_eq!(to[start..start + len], source[start..start + len], "{len} bytes from {start} on");
            assert!(to[..start].iter().all(|&byte| byte == 0) && to[start + len] == 0);
        }
    }

    #[test]
    fn equal_pieces_are_written_as_far_as_they_fit() {
        let source: Vec<u8> = (1..=40).collect();
        // SAFETY: `source` outlives the pieces, and is not written.
        let piece = |at: usize| unsafe { RawBytes::new(NonNull::from(&source[at]), 8) };
        let places = [0, 16, 32, 8, 3, 24, 1, 30];
        for fit in 0..places.len() {
            let mut to = vec![0u8; 8 * fit + 6];
            let mut writer = PacketWriter::over(&mut to);
            assert_eq!(writer.put_slice(&[99]), 1);
            writer.put_equal::<8>(places.len(), |index| piece(places[index]));
            assert_eq!((writer.used(), writer.remaining()), (8 * fit + 1, 5));
            let written: Vec<u8> = places[..fit].iter().flat_map(|&at| source[at..at + 8].to_vec()).collect();
            assert_eq!(to[1..=8 * fit], written);
            assert_eq!(to[8 * fit + 1..], [0; 5]);
        }
    }

    #[test]
    #[should_panic(expected = "the writer has 10 bytes free")]
    fn a_gather_into_a_writer_that_is_too_small_ends() {
        let source = [1u8; 10];
        // SAFETY: `source` outlives the pieces, and is not written.
        let piece = unsafe { RawBytes::new(NonNull::from(&source).cast(), 10) };
        let mut to = [0u8; 5];
        RawPieces::List(vec![(piece, 10)]).gather_from(0, 10, &mut PacketWriter::over(&mut to));
    }

    #[test]
    fn parts_stay_inside() {
        let mut bytes = [0u8; 10];
        // SAFETY: `bytes` outlives the value and is not used meanwhile.
        let buffer = unsafe { RawBuffer::new(NonNull::from(&mut bytes).cast(), 10) };
        assert!(buffer.part(10, 0).is_some());
        assert!(buffer.part(3, 7).is_some());
        assert!(buffer.part(3, 8).is_none());
        assert!(buffer.part(11, 0).is_none());
        assert!(buffer.part(usize::MAX, 2).is_none());
    }
}
