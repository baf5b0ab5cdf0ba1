//! The bytes of one completion entry, and bytes that have arrived.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr::NonNull;

use am_copies as copies;

use super::raw::{RawBuffer, RawBytes};

/// Maximum number of bytes inside one completion entry.
pub const INLINE_BYTES_MAX: usize = 40;

/// A few bytes in words: the payload of one completion entry, in private memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct InlineBytes {
    words: [u64; INLINE_BYTES_MAX / 8],
    len: usize,
}

impl InlineBytes {
    /// No bytes yet.
    #[inline(always)]
    #[must_use]
    pub fn new() -> Self {
        Self { words: [0; INLINE_BYTES_MAX / 8], len: 0 }
    }

    /// The payload of an entry that claims to have `len` bytes; at most [`INLINE_BYTES_MAX`] are used.
    #[inline(always)]
    #[must_use]
    pub fn from_words(words: [u64; INLINE_BYTES_MAX / 8], len: usize) -> Self {
        Self { words, len: len.min(INLINE_BYTES_MAX) }
    }

    /// Sets the number of bytes in use to a claimed length, or to [`INLINE_BYTES_MAX`] if the claim is longer.
    #[inline(always)]
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(INLINE_BYTES_MAX);
    }

    /// The words, to be filled.
    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut [u64; INLINE_BYTES_MAX / 8] {
        &mut self.words
    }

    /// The words to be sent. If all bytes were appended by the methods below, the words hold zeroes after these bytes.
    #[inline(always)]
    #[must_use]
    pub fn words(&self) -> &[u64; INLINE_BYTES_MAX / 8] {
        &self.words
    }

    /// Bytes in use.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no bytes are in use.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes; returns whether they fitted. If not, nothing changes.
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: `bytes` is a live borrow, and not of `self`, which is borrowed exclusively.
        unsafe { self.push_from(bytes.as_ptr(), bytes.len()) }
    }

    /// Like [`push`](Self::push), from memory that its owner has lent.
    #[inline(always)]
    #[must_use]
    pub fn push_raw(&mut self, bytes: RawBytes) -> bool {
        // SAFETY: the bytes are live and nothing writes them (`RawBytes::new`), so they are not those of `self`, which this call may write.
        unsafe { self.push_from(bytes.at().as_ptr(), bytes.len()) }
    }

    /// Appends the `len` bytes at `from`; returns whether they fitted.
    ///
    /// # Safety
    /// `from..from + len` must be readable, and must not overlap `self`.
    #[inline(always)]
    unsafe fn push_from(&mut self, from: *const u8, len: usize) -> bool {
        // Read once: after the copy the compiler would not know that the length is unchanged.
        let at = self.len;
        if len > INLINE_BYTES_MAX - at {
            return false;
        }
        if at.is_multiple_of(8) {
            // Word by word: if the old length is a constant, as it usually is, the words stay in registers.
            for (index, word) in self.words.iter_mut().enumerate() {
                if 8 * index >= at {
                    // SAFETY: `from..from + len` is readable (the caller's promise).
                    *word = unsafe { word_at(from, len, 8 * index - at) };
                }
            }
        } else {
            // SAFETY: `at + len` is within the words (just checked), which are exclusively borrowed; the source is readable, and does not
            // overlap them (the caller's promise).
            unsafe { copies::bytes(from, self.words.as_mut_ptr().cast::<u8>().add(at), len) };
        }
        self.len = at + len;
        true
    }

    /// Appends a word of 8 bytes; returns whether it fitted.
    #[inline(always)]
    #[must_use]
    pub fn push_word(&mut self, word: u64) -> bool {
        self.push(&word.to_le_bytes())
    }

    /// The bytes in use.
    #[inline(always)]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the words are initialised, `len` is at most their size (every constructor, `set_len` and `push_from`), a byte needs no
        // alignment, and the borrow of `self` covers the slice.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

impl Default for InlineBytes {
    fn default() -> Self {
        Self::new()
    }
}

/// The little-endian word at `offset`, which must be a multiple of 8, of `len` bytes. Bytes beyond the end are zero.
///
/// # Safety
/// `from..from + len` must be readable.
#[inline(always)]
unsafe fn word_at(from: *const u8, len: usize, offset: usize) -> u64 {
    // SAFETY: each read lies inside the `len` readable bytes (the caller's promise): it begins at `offset` or 0 and its end was compared
    // with `len`, or it ends at `len`, which is at least its size, or it is the byte at `len / 2`.
    unsafe {
        let u64_at = |at: usize| from.add(at).cast::<u64>().read_unaligned().to_le();
        let u32_at = |at: usize| u64::from(from.add(at).cast::<u32>().read_unaligned().to_le());
        let u8_at = |at: usize| u64::from(*from.add(at));
        if offset >= len {
            0
        } else if offset + 8 <= len {
            u64_at(offset)
        } else if len >= 8 {
            u64_at(len - 8) >> (8 * (offset + 8 - len))
        } else if len >= 4 {
            // The two reads may overlap; the shift aligns the bytes that both have.
            u32_at(0) | u32_at(len - 4) << (8 * (len - 4))
        } else {
            u8_at(0) | u8_at(len / 2) << (8 * (len / 2)) | u8_at(len - 1) << (8 * (len - 1))
        }
    }
}

/// Bytes of a message that has arrived. The sender can still change bytes in the NIC's buffer, so they are copied, never borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    at: NonNull<u8>,
    len: usize,
    _lives: PhantomData<&'a ()>,
}

impl<'a> Arrived<'a> {
    /// Bytes in private memory.
    #[inline(always)]
    #[must_use]
    pub fn private(bytes: &'a [u8]) -> Self {
        Self { at: NonNull::from(bytes).cast(), len: bytes.len(), _lives: PhantomData }
    }

    /// Bytes in a NIC's buffer.
    ///
    /// # Safety
    /// `at..at + len` must be mapped and readable during `'a`. The bytes may change meanwhile (if the sender misbehaves): a copy then holds
    /// a mixture of old and new bytes.
    #[inline(always)]
    #[must_use]
    pub unsafe fn shared(at: NonNull<u8>, len: usize) -> Self {
        Self { at, len, _lives: PhantomData }
    }

    /// The number of bytes.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The part from `offset` on; empty when `offset` is beyond the end.
    #[inline(always)]
    #[must_use]
    pub fn skip(&self, offset: usize) -> Self {
        let offset = offset.min(self.len);
        // SAFETY: `offset` is at most the length (min above).
        Self { at: unsafe { self.at.add(offset) }, len: self.len - offset, _lives: PhantomData }
    }

    /// The first `len` bytes, or all if there are fewer.
    #[inline(always)]
    #[must_use]
    pub fn take(&self, len: usize) -> Self {
        Self { len: len.min(self.len), ..*self }
    }

    /// The whole pieces of `LEN` bytes, from the front.
    #[inline(always)]
    pub fn equal<const LEN: usize>(self) -> impl Iterator<Item = Self> {
        (0..self.len / LEN).map(move |index| {
            // SAFETY: the piece is one of the `len / LEN` whole pieces of these bytes.
            Self { at: unsafe { self.at.add(index * LEN) }, len: LEN, _lives: PhantomData }
        })
    }

    /// Copies bytes into `to`, as many as both hold; returns how many.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let len = to.len().min(self.len);
        // SAFETY: source: `len` mapped bytes (constructors). Destination: an exclusive borrow of at least `len` bytes.
        unsafe { copies::bytes(self.at.as_ptr(), to.as_mut_ptr(), len) };
        len
    }

    /// Copies bytes into a range that its owner has lent, as many as both hold; returns how many.
    #[inline(always)]
    pub fn copy_to_buffer(&self, to: RawBuffer) -> usize {
        let len = to.len().min(self.len);
        // SAFETY: source: `len` mapped bytes (constructors). Destination: `len` bytes that no other code touches (`RawBuffer::new`).
        unsafe { copies::bytes(self.at.as_ptr(), to.at().as_ptr(), len) };
        len
    }

    /// The bytes without their lifetime.
    ///
    /// # Safety
    /// The result must not be used after `'a`. The bytes may change meanwhile, so they must be copied, and no reference to them may exist.
    #[inline(always)]
    #[must_use]
    pub unsafe fn to_raw(self) -> RawBytes {
        // SAFETY: the bytes are mapped and readable during `'a` (the constructors' contract), and the result is used only during `'a` (the
        // caller's contract). Although `RawBytes::new` forbids it, the bytes may change: the caller only copies them, without a reference.
        unsafe { RawBytes::new(self.at, self.len) }
    }

    /// A private copy.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut copy = vec![0; self.len];
        self.copy_to(&mut copy);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_bytes_take_what_fits_and_refuse_the_rest_whole() {
        let mut bytes = InlineBytes::new();
        assert!(bytes.push(&[1; 30]));
        assert!(!bytes.push(&[2; 11]));
        assert!(bytes.push(&[3; 10]));
        assert_eq!(bytes.len(), INLINE_BYTES_MAX);
        assert_eq!(&bytes.as_slice()[30..], &[3; 10]);
    }

    #[test]
    fn inline_bytes_keep_every_byte_at_every_offset() {
        let source: Vec<u8> = (1..=40).collect();
        for at in 0..=INLINE_BYTES_MAX {
            for len in 0..=INLINE_BYTES_MAX - at {
                let mut bytes = InlineBytes::new();
                assert!(bytes.push(&source[..at]) && bytes.push(&source[at..at + len]));
                assert_eq!(bytes.as_slice(), &source[..at + len], "{len} bytes behind {at}");
                let all: Vec<u8> = bytes.words().iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert!(all[at + len..].iter().all(|&byte| byte == 0), "zeroes behind {len} bytes at {at}");
            }
        }
    }

    #[test]
    fn an_inline_length_is_a_claim() {
        assert_eq!(InlineBytes::from_words([7; 5], 4_000_000_000).as_slice().len(), INLINE_BYTES_MAX);
    }

    #[test]
    fn arrived_bytes_are_cut_and_copied() {
        let bytes = Arrived::private(&[1, 2, 3, 4, 5]);
        let mut to = [0; 2];
        assert_eq!(bytes.skip(1).copy_to(&mut to), 2);
        assert_eq!(to, [2, 3]);
        assert_eq!(bytes.skip(9).len(), 0);
        assert_eq!(bytes.take(3).to_vec(), [1, 2, 3]);
        let pairs: Vec<_> = bytes.equal::<2>().map(|pair| pair.to_vec()).collect();
        assert_eq!(pairs, [[1, 2], [3, 4]], "the last byte is not a whole piece");
    }
}
