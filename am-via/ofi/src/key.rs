//! The key of an endpoint, without which a message is dropped: how it is made, and how it travels.

use std::hash::{BuildHasher, RandomState};

/// Number of bits of the word beside a message.
pub const WORD_BITS: u32 = 20;
/// Number of bits of a key: the word and the key share the 64 bits that most providers carry beside a message.
const KEY_BITS: u32 = 64 - WORD_BITS;

/// A random key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(u64);

impl Key {
    /// Length of a key in an address, and in a message of a provider that does not carry 64 bits beside it.
    pub(crate) const BYTES: usize = 8;

    pub(crate) fn random() -> Self {
        // The standard library seeds this hasher from the system's random numbers.
        Self(RandomState::new().hash_one(0) >> WORD_BITS)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_le_bytes()
    }

    pub(crate) fn of_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u64::from_le_bytes(bytes) & (u64::MAX >> WORD_BITS))
    }

    /// What travels beside a message: the word and the key.
    pub(crate) fn beside(self, word: u32) -> u64 {
        self.0 << WORD_BITS | u64::from(word & (u32::MAX >> (u32::BITS - WORD_BITS)))
    }
}

/// The word and the key of what came beside a message.
#[expect(clippy::cast_possible_truncation, reason = "cut to the bits of a word")]
pub(crate) fn parts(data: u64) -> (u32, Key) {
    (data as u32 & (u32::MAX >> (u32::BITS - WORD_BITS)), Key(data >> WORD_BITS))
}

const _: () = assert!(KEY_BITS >= 40, "a stranger who tries keys for days finds none");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_and_key_come_back_and_two_keys_differ() {
        let (one, other) = (Key::random(), Key::random());
        assert_ne!(one, other);
        for word in [0, 1, (1 << WORD_BITS) - 1] {
            assert_eq!(parts(one.beside(word)), (word, one));
        }
        // A word that is too long does not change the key.
        assert_eq!(parts(one.beside(u32::MAX)), ((1 << WORD_BITS) - 1, one));
        assert_eq!(Key::of_bytes(one.to_bytes()), one);
        assert_ne!(parts(7).1, one);
    }
}
