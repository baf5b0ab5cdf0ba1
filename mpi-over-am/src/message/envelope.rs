//! The user header that MPI messages carry: 16 bytes, little-endian. Received fields are not trusted.
//!
//! ```text
//! source rank(4) context id(4) tag(4) destination rank(4)
//! ```
//!
//! With this header, and am-core's 8 bytes before it, a completion entry has 16 bytes left for data. The first two fields are one word, in
//! the form that matching compares, and both words are aligned in the entry, so that no bytes have to be moved.

use crate::matching::{ContextId, Envelope};

/// Bytes of the header.
pub(crate) const BYTES: usize = 16;

/// The wire form for a message to rank `destination`.
#[inline(always)]
pub(crate) fn to_bytes(envelope: &Envelope, destination: u32) -> [u8; BYTES] {
    let sender = u64::from(envelope.context_id().0) << 32 | u64::from(envelope.source());
    let rest = u64::from(envelope.tag().cast_unsigned()) | u64::from(destination) << 32;
    (u128::from(sender) | u128::from(rest) << 64).to_le_bytes()
}

/// Parses `uhdr`: the envelope, and the receiver's rank. `None` if `uhdr` has another length.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the halves of words are meant")]
pub(crate) fn parse(uhdr: &[u8]) -> Option<(Envelope, u32)> {
    let bytes = <&[u8; BYTES]>::try_from(uhdr).ok()?;
    let both = u128::from_le_bytes(*bytes);
    let (sender, rest) = (both as u64, (both >> 64) as u64);
    let context_id = ContextId((sender >> 32) as u32);
    let tag = (rest as u32).cast_signed();
    Some((Envelope::new(context_id, sender as u32, tag), (rest >> 32) as u32))
}

/// Bytes of the word that may follow the header: the name of a synchronous send's request, which the acknowledgement returns, or the length
/// of a message in pieces.
pub(crate) const WORD_BYTES: usize = 4;
/// Bytes of the header and the word.
pub(crate) const BYTES_WITH_WORD: usize = BYTES + WORD_BYTES;

/// Encodes a request's handle.
#[expect(clippy::cast_possible_truncation, reason = "a handle is below 2^31")]
pub(crate) fn name_of(handle: usize) -> u32 {
    handle as u32
}

/// Like [`to_bytes`], with a word after the header.
#[inline(always)]
pub(crate) fn to_bytes_with_word(envelope: &Envelope, destination: u32, word: u32) -> [u8; BYTES_WITH_WORD] {
    let mut bytes = [0; BYTES_WITH_WORD];
    bytes[..BYTES].copy_from_slice(&to_bytes(envelope, destination));
    bytes[BYTES..].copy_from_slice(&word.to_le_bytes());
    bytes
}

/// Parses what [`to_bytes_with_word`] has made: the envelope, and the word. `None` if `uhdr` has another length.
pub(crate) fn parse_with_word(uhdr: &[u8]) -> Option<(Envelope, u32)> {
    let (header, word) = uhdr.split_last_chunk()?;
    Some((parse(header)?.0, u32::from_le_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        let envelope = Envelope::new(ContextId(0x8000_0001), u32::MAX, -7);
        assert_eq!(parse(&to_bytes(&envelope, 12)), Some((envelope, 12)));
        assert_eq!(parse(&[0; 15]), None);
        assert_eq!(parse(&[0; 17]), None);
        let with_word = to_bytes_with_word(&envelope, 12, 0xFEDC_BA98);
        assert_eq!(parse_with_word(&with_word), Some((envelope, 0xFEDC_BA98)));
        assert_eq!(parse(&with_word), None);
        assert!(parse_with_word(&to_bytes(&envelope, 12)).is_none() && parse_with_word(&[]).is_none());
    }
}
