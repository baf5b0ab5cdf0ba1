//! Numbers in a user header.

/// The first `WORDS` words of a user header; zero for each word that the header is too short for.
#[inline(always)]
#[must_use]
pub fn words<const WORDS: usize>(uhdr: &[u8]) -> [u64; WORDS] {
    let (words, _) = uhdr.as_chunks::<8>();
    std::array::from_fn(|at| words.get(at).map_or(0, |word| u64::from_le_bytes(*word)))
}
