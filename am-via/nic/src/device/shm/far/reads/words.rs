//! The words of the messages about reads.

use std::collections::VecDeque;

use am_via_ofi::RemoteKey;
use am_via_shm::regions::ClaimFault;

use crate::device::MemHandle;

/// The messages between reader and owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum KeyMessage {
    /// The reader asks for the key of a registration.
    Request,
    /// The key, or the reason why there is none.
    Grant,
    /// The owner ends a registration.
    Revoke,
    /// The reader no longer uses the key.
    Released,
}

/// Length of a [`KeyMessage`] in bytes. Its fields are region, generation, tag, fault, key, address and length.
pub(in super::super) const KEY_MESSAGE_BYTES: usize = 40;

/// Messages to be sent, with the peers that get them.
pub(super) type Outbox = VecDeque<(usize, KeyMessage, [u8; KEY_MESSAGE_BYTES])>;

/// The contents of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    pub(super) region: u32,
    pub(super) generation: u32,
    pub(super) ptag: u32,
    /// Number of the fault, 0 for none.
    pub(super) fault: u32,
    pub(super) key: u64,
    pub(super) base: u64,
    pub(super) len: u64,
}

impl Words {
    pub(super) fn to_bytes(self) -> [u8; KEY_MESSAGE_BYTES] {
        let mut bytes = [0; KEY_MESSAGE_BYTES];
        for (bytes, word) in
            bytes.chunks_exact_mut(4).zip([self.region, self.generation, self.ptag, self.fault])
        {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        for (bytes, word) in bytes[16..].chunks_exact_mut(8).zip([self.key, self.base, self.len]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; KEY_MESSAGE_BYTES] = bytes.try_into().ok()?;
        let at =
            |at: usize| bytes[at..].iter().take(4).rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        let long = |offset: usize| u64::from(at(offset)) | u64::from(at(offset + 4)) << 32;
        Some(Self {
            region: at(0),
            generation: at(4),
            ptag: at(8),
            fault: at(12),
            key: long(16),
            base: long(24),
            len: long(32),
        })
    }

    pub(super) fn key(self) -> Key {
        (RemoteKey { key: self.key, base: self.base }, self.len)
    }

    pub(super) fn name(self) -> Name {
        Name { handle: self.handle(), ptag: self.ptag }
    }

    pub(super) fn handle(self) -> MemHandle {
        MemHandle { region: self.region, generation: self.generation }
    }
}

/// A key, and the length of its memory.
pub(super) type Key = (RemoteKey, u64);

/// A registration, as a reader names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) handle: MemHandle,
    pub(super) ptag: u32,
}

impl Name {
    pub(super) fn words(self) -> Words {
        let MemHandle { region, generation } = self.handle;
        Words { region, generation, ptag: self.ptag, ..Words::default() }
    }
}

const FAULTS: [ClaimFault; 5] = [
    ClaimFault::Stale,
    ClaimFault::Tag,
    ClaimFault::NotReadable,
    ClaimFault::NotWritable,
    ClaimFault::PeerDead,
];

impl Words {
    pub(super) fn with_fault(self, fault: ClaimFault) -> Self {
        // Only the reader finds the other faults, so none of them is sent.
        let number = (1..).zip(FAULTS).find(|&(_, known)| known == fault).map_or(1, |(number, _)| number);
        Self { fault: number, ..self }
    }

    pub(super) fn fault(self) -> Option<ClaimFault> {
        (self.fault != 0)
            .then(|| (1..).zip(FAULTS).find(|&(number, _)| number == self.fault))?
            .map(|(_, fault)| fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_shorter_ones_are_none() {
        let words =
            Words { region: 1, generation: 2, ptag: 3, fault: 0, key: 4 << 40, base: 5 << 33, len: 6 };
        let back = Words::from_bytes(&words.to_bytes()).expect("all of its bytes are there");
        assert_eq!(format!("{back:?}"), format!("{words:?}"));
        assert!(Words::from_bytes(&words.to_bytes()[1..]).is_none());
        assert_eq!(words.fault(), None);
        assert!(FAULTS.iter().all(|&fault| words.with_fault(fault).fault() == Some(fault)));
    }
}
