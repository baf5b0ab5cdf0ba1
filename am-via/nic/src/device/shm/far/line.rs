//! The form of a line in a message: the number of the message, the fields of the entry, the payload, and the bytes of the area.

use am_via_shm::CheckedRange;

use crate::device::{Entry, INLINE_BYTES_MAX, Payload};

const HEAD_BYTES: usize = 24;
/// Number of bytes of a line before the bytes of its area.
pub(super) const BEFORE_AREA_BYTES: usize = HEAD_BYTES + INLINE_BYTES_MAX;

/// Writes a line to `bytes`, which must have the length of the line.
pub(super) fn write(bytes: &mut [u8], number: u32, entry: &Entry, payload: &Payload, area: CheckedRange<'_>) {
    let (before, bytes) = bytes.split_at_mut(BEFORE_AREA_BYTES);
    write_before_area(before, number, entry, payload);
    area.copy_to_slice(bytes);
}

/// Writes the bytes of a line before its area to `bytes`, which must have their length.
pub(super) fn write_before_area(bytes: &mut [u8], number: u32, entry: &Entry, payload: &Payload) {
    let (head, words) = bytes.split_at_mut(HEAD_BYTES);
    let fields = [number, entry.immediate, entry.length, entry.operation];
    for (bytes, word) in head.chunks_exact_mut(4).zip(fields) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    head[16..].copy_from_slice(&entry.extra.to_le_bytes());
    for (bytes, word) in words.chunks_exact_mut(8).zip(payload) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The entry and the payload of the first line in `bytes`, and the bytes after them. `None`: `bytes` is too short for a line.
pub(super) fn read(bytes: &[u8]) -> Option<(Entry, Payload, &[u8])> {
    let (head, behind) = bytes.split_at_checked(HEAD_BYTES)?;
    let (words, behind) = behind.split_at_checked(INLINE_BYTES_MAX)?;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let field = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let entry =
        Entry { immediate: field(4)?, length: field(8)?, operation: field(12)?, extra: word(&head[16..]) };
    let mut payload = Payload::default();
    for (cell, bytes) in payload.iter_mut().zip(words.chunks_exact(8)) {
        *cell = word(bytes);
    }
    Some((entry, payload, behind))
}

#[cfg(test)]
mod tests {
    use am_via_shm::PrivateBytes;

    use super::*;

    #[test]
    fn lines_behind_each_other_are_read_back_and_too_few_bytes_are_none() {
        let memory = PrivateBytes::new(100).expect("memory");
        memory.range().copy_from_slice(&[7; 100]);
        let mut message = Vec::new();
        let lines = [(0_u32, 0), (1, 100), (2, 3)].map(|(at, len)| {
            let entry =
                Entry { immediate: !at, length: at << 9, operation: at + 1, extra: u64::MAX - u64::from(at) };
            (entry, [u64::from(at) << 60; INLINE_BYTES_MAX / 8], len)
        });
        for (entry, payload, len) in &lines {
            let mut bytes = vec![0; BEFORE_AREA_BYTES + len];
            write(&mut bytes, 5, entry, payload, memory.range().part(0, *len).expect("it is inside"));
            message.extend(bytes);
        }
        let mut bytes = &message[..];
        for (entry, payload, len) in lines {
            let (found, words, behind) = read(bytes).expect("a line");
            assert_eq!((found, words), (entry, payload));
            assert!(behind[..len].iter().all(|&byte| byte == 7), "the area of {entry:?}");
            bytes = &behind[len..];
        }
        assert!(bytes.is_empty(), "{} bytes are left", bytes.len());
        for len in 0..BEFORE_AREA_BYTES {
            assert!(read(&message[..len]).is_none(), "{len} bytes");
        }
    }
}
