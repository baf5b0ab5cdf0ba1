//! Bytes that have arrived.

use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::raw::{RawBuffer, RawBytes, copy_small};

/// Bytes that travel inside one completion entry, at most.
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

    /// The payload of an entry that claims `len` bytes. A claim beyond [`INLINE_BYTES_MAX`] is cut to it.
    #[inline(always)]
    #[must_use]
    pub fn from_words(words: [u64; INLINE_BYTES_MAX / 8], len: usize) -> Self {
        Self { words, len: len.min(INLINE_BYTES_MAX) }
    }

    /// Cuts the bytes in use to a claimed length.
    #[inline(always)]
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(INLINE_BYTES_MAX);
    }

    /// The words, to be filled.
    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut [u64; INLINE_BYTES_MAX / 8] {
        &mut self.words
    }

    /// The words to be sent, zeroes behind the length.
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

    /// Whether no byte is in use.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes; whether they fitted. If not, nothing changed.
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        // Read once: behind the copy the compiler would not know that the length is still the same.
        let at = self.len;
        if bytes.len() > INLINE_BYTES_MAX - at {
            return false;
        }
        // SAFETY: `at + bytes.len()` is within the words (just checked), which are exclusively borrowed; the source is a
        // live borrow of something else.
        unsafe { copy_small(bytes.as_ptr(), self.words.as_mut_ptr().cast::<u8>().add(at), bytes.len()) };
        self.len = at + bytes.len();
        true
    }

    /// As [`push`](Self::push), from memory that its owner has lent.
    #[inline(always)]
    #[must_use]
    pub fn push_raw(&mut self, bytes: RawBytes) -> bool {
        let at = self.len;
        if bytes.len() > INLINE_BYTES_MAX - at {
            return false;
        }
        // SAFETY: `at + bytes.len()` is within the words (just checked), which are an array.
        let to = unsafe { self.words.as_mut_ptr().cast::<u8>().add(at) };
        // SAFETY: as many bytes follow there, exclusively borrowed, and every pattern of bits is a word.
        bytes.copy_to(unsafe { core::slice::from_raw_parts_mut(to, bytes.len()) });
        self.len = at + bytes.len();
        true
    }

    /// Appends a word of 8 bytes; whether it fitted.
    #[inline(always)]
    #[must_use]
    pub fn push_word(&mut self, word: u64) -> bool {
        self.push(&word.to_le_bytes())
    }

    /// The bytes in use.
    #[inline(always)]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the words are initialised, `len` is at most their size (every constructor and `push`), bytes have no
        // alignment, and the borrow of `self` covers the slice.
        unsafe { core::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }
}

impl Default for InlineBytes {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of a message that are here. The sender can still reach them where they lie in the NIC's buffer, so they are
/// copied, never borrowed.
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
    /// `at..at + len` is mapped and readable during `'a`. Its bytes may change meanwhile if the sender breaks its word: the
    /// copies then hold some mixture, and nothing else happens.
    #[inline(always)]
    #[must_use]
    pub unsafe fn shared(at: NonNull<u8>, len: usize) -> Self {
        Self { at, len, _lives: PhantomData }
    }

    /// Bytes here.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte is here.
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

    /// Copies the first bytes into `to`, as many as both have; how many that were.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        let len = to.len().min(self.len);
        // SAFETY: source: `len` mapped bytes (constructors). Destination: an exclusive borrow of at least `len` bytes.
        unsafe { copy_small(self.at.as_ptr(), to.as_mut_ptr(), len) };
        len
    }

    /// Copies the first bytes into a range that its owner has handed over, as many as both have; how many that were.
    #[inline(always)]
    pub fn copy_to_buffer(&self, to: RawBuffer) -> usize {
        let len = to.len().min(self.len);
        // SAFETY: source: `len` mapped bytes (constructors). Destination: `len` bytes that nobody else touches
        // (`RawBuffer::new`).
        unsafe { copy_small(self.at.as_ptr(), to.at().as_ptr(), len) };
        len
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
    }
}
