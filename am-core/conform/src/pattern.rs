//! Test data for messages.

/// `len` bytes that depend on `seed` and on their offset. Computed by words in a loop without calls, since unoptimised tests generate
/// gigabytes and a call of an iterator or slice method would cost more than a word does.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut words = vec![0_u64; len.div_ceil(size_of::<u64>())];
    let slots = &mut words[..];
    let mut at = 0;
    while at < slots.len() {
        // An odd factor: all words of a seed differ, and the first byte changes from one word to the next.
        let mixed = (at as u64 + 1).wrapping_add(seed << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        slots[at] = mixed.to_be();
        at += 1;
    }
    bytemuck::cast_slice(&words)[..len].to_vec()
}
