//! Bytes for messages.

/// `len` bytes that tell who made them (`seed`), and where each belongs. Made in words: unoptimised tests make gigabytes of them.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + size_of::<u64>());
    for word in 0..len.div_ceil(size_of::<u64>()) as u64 {
        // An odd factor: no two words of a seed are alike, and the first byte changes from one word to the next.
        let mixed = (word + 1).wrapping_add(seed << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bytes.extend_from_slice(&mixed.to_be_bytes());
    }
    bytes.truncate(len);
    bytes
}
