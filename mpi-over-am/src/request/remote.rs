//! Addresses in memory of other tasks, encoded as words.

use am_core::buffer::RemoteAddress;

/// Number of words of an address.
pub(crate) const ADDRESS_WORDS: usize = 3;

const BYTES: usize = ADDRESS_WORDS * size_of::<u64>();

/// Encodes an address.
pub(crate) fn to_words(address: RemoteAddress) -> [u64; ADDRESS_WORDS] {
    let mut bytes = [0; BYTES];
    bytes[..RemoteAddress::BYTES].copy_from_slice(&address.to_bytes());
    bytemuck::cast(bytes)
}

/// Decodes an address. The address is not trusted: it is checked at each use.
pub(crate) fn from_words(words: [u64; ADDRESS_WORDS]) -> RemoteAddress {
    let bytes: [u8; BYTES] = bytemuck::cast(words);
    let mut address = [0; RemoteAddress::BYTES];
    address.copy_from_slice(&bytes[..RemoteAddress::BYTES]);
    RemoteAddress::from_bytes(address)
}
