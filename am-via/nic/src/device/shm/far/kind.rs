//! The kinds of messages between hosts, and the word of a message.

use am_via_ofi::WORD_BITS;
use am_via_shm::layout::CONTEXTS_MAX;
use am_via_shm::layout_job::TASKS_MAX;

use super::reads::KeyMessage;
use crate::device::{ContextNumber, Endpoint, TaskId};

/// The kind of a message: the low 4 bits of its word. The next 4 bits are the sender's context, and the upper 12 bits its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Lines of the ring, each with the bytes of its area. `Part` messages may have carried the first bytes of the first line's area.
    Line = 0,
    /// Number of the receiver's lines that the sender's program has released so far.
    Ack = 1,
    /// Numbered like a line: the sender posts nothing more.
    Close = 2,
    /// The answer to `Close`.
    Closed = 3,
    /// Numbered like a line: bytes of the area of the next line.
    Part = 4,
    /// This kind and the next three are about reads of memory ([`reads`](super::reads)).
    RequestKey = 5,
    Key = 6,
    RevokeKey = 7,
    ReleasedKey = 8,
    /// The number of offered keys (of memory that is read once), the keys, and the bytes of a `Line`.
    Keyed = 9,
}

impl Kind {
    pub(super) fn of(word: u32) -> Option<Self> {
        const ALL: [Kind; 10] = [
            Kind::Line,
            Kind::Ack,
            Kind::Close,
            Kind::Closed,
            Kind::Part,
            Kind::RequestKey,
            Kind::Key,
            Kind::RevokeKey,
            Kind::ReleasedKey,
            Kind::Keyed,
        ];
        ALL.get((word & 0xf) as usize).copied()
    }

    pub(super) fn of_key_message(message: KeyMessage) -> Self {
        match message {
            KeyMessage::Request => Self::RequestKey,
            KeyMessage::Grant => Self::Key,
            KeyMessage::Revoke => Self::RevokeKey,
            KeyMessage::Released => Self::ReleasedKey,
        }
    }

    pub(super) fn word(self, from: Endpoint) -> u32 {
        self as u32 | u32::from(from.context.0 & 0xf) << 4 | from.task.0 << 8
    }
}

const _: () = assert!(CONTEXTS_MAX <= 1 << 4 && TASKS_MAX <= 1 << (WORD_BITS - 8));

/// The sender's address in a word.
pub(super) fn sender(word: u32) -> Endpoint {
    Endpoint::new(TaskId(word >> 8), ContextNumber((word >> 4 & 0xf) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_its_kind_and_its_sender() {
        let from = Endpoint { task: TaskId(0xabc), context: ContextNumber(15) };
        let found: Vec<_> = (0..16).filter_map(|kind| Some((kind, Kind::of(kind)?))).collect();
        assert_eq!(found.len(), 10);
        for (number, kind) in found {
            let word = kind.word(from);
            assert_eq!((kind as u32, Kind::of(word), sender(word)), (number, Some(kind), from));
        }
    }
}
