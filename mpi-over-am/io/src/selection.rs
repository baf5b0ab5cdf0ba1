//! The pieces of a file that a task accesses in a window, in a form that can be sent to the aggregator of the window.

use std::ops::Range;

use crate::{Piece, View};

/// Pieces of one length, at one distance from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// The offset of the first piece.
    pub at: u64,
    /// The length of a piece.
    pub len: u64,
    /// From one piece to the next. It may be less than the length.
    pub stride: u64,
    /// The number of pieces.
    pub count: u64,
}

/// A list of pieces in a window of a file, in the order of the stream. Pieces at equal distances take 32 bytes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    groups: Vec<Strided>,
    /// Bytes of all pieces.
    len: u64,
    pieces: u64,
}

/// A message that is no selection of the window: another task has sent nonsense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {len} bytes describes no pieces of a window of a file")]
pub struct Malformed {
    /// Length of the message in bytes.
    pub len: usize,
}

const WORD: usize = size_of::<u64>();
const GROUP_BYTES: usize = 4 * WORD;

/// Reads the word at the front of `bytes`.
fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    let (word, rest) = bytes.split_first_chunk::<WORD>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*word))
}

impl Selection {
    /// The part of the stream's bytes `stream` that lies in a window, and its pieces.
    #[must_use]
    pub fn of_window(view: &View, stream: &Range<u64>, window: &Range<u64>) -> (Range<u64>, Self) {
        let inside = |position: u64| position.clamp(stream.start, stream.end);
        let part = inside(view.bytes_before(window.start))..inside(view.bytes_before(window.end));
        let mut selection = Self::default();
        view.visit(part.start, part.end - part.start, |piece| selection.push(piece));
        (part, selection)
    }

    /// Adds a piece.
    fn push(&mut self, Piece { at, len }: Piece) {
        self.len += len;
        self.pieces += 1;
        if let Some(last) = self.groups.last_mut()
            && last.len == len
        {
            let distance = at.wrapping_sub(last.at);
            if last.count == 1 && at > last.at {
                (last.stride, last.count) = (distance, 2);
                return;
            }
            if last.count > 1 && last.stride.checked_mul(last.count) == Some(distance) {
                last.count += 1;
                return;
            }
        }
        self.groups.push(Strided { at, len, stride: 0, count: 1 });
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no pieces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of pieces.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// The pieces in order, in groups.
    pub fn groups(&self) -> impl Iterator<Item = Strided> {
        self.groups.iter().copied()
    }

    /// All pieces, in order.
    pub fn iter(&self) -> impl Iterator<Item = Piece> {
        let pieces = |group: &Strided| {
            let Strided { at, len, stride, count } = *group;
            (0..count).map(move |index| Piece { at: at + index * stride, len })
        };
        self.groups.iter().flat_map(pieces)
    }

    /// Appends the list to a message.
    pub fn encode(&self, message: &mut Vec<u8>) {
        message.extend((self.groups.len() as u64).to_le_bytes());
        for group in &self.groups {
            for word in [group.at, group.len, group.stride, group.count] {
                message.extend(word.to_le_bytes());
            }
        }
    }

    /// Reads a list from the front of a message; returns the rest of the message, too. All pieces lie in `window`.
    ///
    /// # Errors
    /// The message is no such list.
    pub fn decode<'a>(message: &'a [u8], window: &Range<u64>) -> Result<(Self, &'a [u8]), Malformed> {
        let malformed = Malformed { len: message.len() };
        let mut rest = message;
        let groups = take_word(&mut rest).and_then(|groups| usize::try_from(groups).ok()).ok_or(malformed)?;
        if groups > rest.len() / GROUP_BYTES {
            return Err(malformed);
        }
        let mut selection = Self::default();
        for _ in 0..groups {
            let mut word = || take_word(&mut rest).ok_or(malformed);
            let group = Strided { at: word()?, len: word()?, stride: word()?, count: word()? };
            let Strided { at, len, stride, count } = group;
            let end = || stride.checked_mul(count.checked_sub(1)?)?.checked_add(len)?.checked_add(at);
            let bytes = || len.checked_mul(count)?.checked_add(selection.len);
            let (end, bytes) = (end().ok_or(malformed)?, bytes().ok_or(malformed)?);
            // A window has no more pieces than bytes, whatever lies in it twice.
            let pieces = selection.pieces + count;
            if len == 0 || at < window.start || end > window.end || pieces > window.end - window.start {
                return Err(malformed);
            }
            selection.groups.push(group);
            (selection.len, selection.pieces) = (bytes, pieces);
        }
        Ok((selection, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_datatype::{Datatype, Predefined};

    #[test]
    fn a_regular_view_is_one_group_and_comes_back() {
        let every_third = Datatype::resized(&Predefined::Double.into(), 0, 24).unwrap();
        let view = View::new(5, &Predefined::Double.into(), &every_third, true).unwrap();
        let (part, selection) = Selection::of_window(&view, &(16..8000), &(100..995));
        assert_eq!((part.start, selection.groups.len()), (32, 2));
        let mut message = Vec::new();
        selection.encode(&mut message);
        message.extend([9, 9]);
        let (again, rest) = Selection::decode(&message, &(100..995)).unwrap();
        assert_eq!((&again, rest), (&selection, &[9_u8, 9][..]));
        let pieces: Vec<_> = again.iter().collect();
        assert_eq!(pieces, view.pieces(part.start, part.end - part.start));
        assert_eq!((again.len(), again.pieces()), (part.end - part.start, pieces.len() as u64));
    }

    #[test]
    fn nonsense_is_refused() {
        let window = 100..200;
        let message = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        for wrong in [
            &[][..],
            &[u64::MAX],
            &[1, 100, 8],
            &[1, 99, 8, 0, 1],
            &[1, 100, 101, 0, 1],
            &[1, 100, 8, 50, 3],
            &[1, 100, 0, 0, 1],
            &[1, 100, 8, 0, 0],
            &[1, 100, 8, u64::MAX, 3],
            &[1, 100, 1, 0, 101],
            &[1, 100, 1, 0, u64::MAX],
        ] {
            let message = message(wrong);
            assert_eq!(
                Selection::decode(&message, &window),
                Err(Malformed { len: message.len() }),
                "{wrong:?}"
            );
        }
    }
}
