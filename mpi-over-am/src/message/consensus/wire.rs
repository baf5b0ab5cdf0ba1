//! The messages of an agreement as bytes: a header, and a list of tasks as data.

use super::{Contribution, Decision, Holding, Message};

/// Bytes of a message's header, after the name of the agreement.
pub(crate) const BYTES: usize = 28;

impl Message {
    /// The header and the list.
    pub(crate) fn to_wire(&self) -> ([u8; BYTES], Vec<u8>) {
        const NONE: &[u32] = &[];
        let of_decision = |decision: &Decision| (decision.flags, decision.numbers, decision.is_news);
        let nothing = (0, [0; 2], false);
        let (kind, place, (flags, numbers, is_news), failed) = match self {
            Self::Hold(place, Holding::Contribution(given)) => {
                (0_u8, *place, (given.flags, given.numbers, false), &*given.failed)
            }
            Self::Hold(place, Holding::Accepted(by, decision)) => {
                // The place of the coordinator that made the proposal goes before the list.
                let mut list = by.to_le_bytes().to_vec();
                list.extend(list_of(&decision.failed));
                return (header(1, *place, of_decision(decision)), list);
            }
            Self::Hold(place, Holding::Decided(decision)) => {
                (2, *place, of_decision(decision), &*decision.failed)
            }
            Self::Propose(place, decision) => (3, *place, of_decision(decision), &*decision.failed),
            Self::Accept(place) => (4, *place, nothing, NONE),
            Self::Decide(decision) => (5, 0, of_decision(decision), &*decision.failed),
            Self::Done => (6, 0, nothing, NONE),
            Self::Forget => (7, 0, nothing, NONE),
        };
        (header(kind, place, (flags, numbers, is_news)), list_of(failed))
    }

    /// The message of these bytes; `None` if no member sends them.
    pub(crate) fn from_wire(header: [u8; BYTES], list: &[u8]) -> Option<Self> {
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (kind, is_news) = (header[0], header[1] != 0);
        let number = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (place, flags, numbers) = (word(4), word(8), [number(12), number(20)]);
        let (words, rest) = list.as_chunks::<4>();
        if !rest.is_empty() {
            return None;
        }
        let mut failed: Vec<u32> = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
        let decision = |failed| Decision { flags, numbers, is_news, failed };
        Some(match kind {
            0 => Self::Hold(place, Holding::Contribution(Contribution { flags, numbers, failed })),
            1 if !failed.is_empty() => {
                let by = failed.remove(0);
                Self::Hold(place, Holding::Accepted(by, decision(failed)))
            }
            2 => Self::Hold(place, Holding::Decided(decision(failed))),
            3 => Self::Propose(place, decision(failed)),
            4 => Self::Accept(place),
            5 => Self::Decide(decision(failed)),
            6 => Self::Done,
            7 => Self::Forget,
            _ => return None,
        })
    }
}

fn header(kind: u8, place: u32, (flags, numbers, is_news): (u32, [u64; 2], bool)) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    (bytes[0], bytes[1]) = (kind, u8::from(is_news));
    bytes[4..8].copy_from_slice(&place.to_le_bytes());
    bytes[8..12].copy_from_slice(&flags.to_le_bytes());
    bytes[12..20].copy_from_slice(&numbers[0].to_le_bytes());
    bytes[20..28].copy_from_slice(&numbers[1].to_le_bytes());
    bytes
}

fn list_of(tasks: &[u32]) -> Vec<u8> {
    tasks.iter().flat_map(|task| task.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_same_after_the_wire_and_others_are_refused() {
        let decision = Decision { flags: 5, numbers: [7, 9 << 32], is_news: true, failed: vec![1, 3] };
        let given = Contribution { flags: 1, numbers: [8, 10], failed: vec![2] };
        let all = [
            Message::Hold(3, Holding::Contribution(given)),
            Message::Hold(3, Holding::Accepted(2, decision.clone())),
            Message::Hold(3, Holding::Decided(decision.clone())),
            Message::Propose(1, decision.clone()),
            Message::Accept(1),
            Message::Decide(decision),
            Message::Done,
            Message::Forget,
        ];
        for message in all {
            let (header, list) = message.to_wire();
            assert_eq!(Message::from_wire(header, &list), Some(message));
        }
        let mut unknown = [0; BYTES];
        assert!(Message::from_wire(unknown, &[1]).is_none(), "half a task");
        unknown[0] = 1;
        assert!(Message::from_wire(unknown, &[]).is_none(), "a proposal of nobody");
        unknown[0] = 8;
        assert!(Message::from_wire(unknown, &[]).is_none());
    }
}
