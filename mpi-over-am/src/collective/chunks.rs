//! A vector divided into one chunk for each task.

use std::ops::Range;

use super::Plan;
use crate::data::buffer::RecvData;
use mpi_datatype::Datatype;

/// The elements of each task's chunk.
#[derive(Clone, Debug)]
pub(super) enum Chunks {
    /// As evenly as possible.
    Even { count: u64, size: u32 },
    /// With this number of elements each.
    Equal { count: u64 },
    /// As listed: the start of each chunk, and the end of the last.
    Listed(Vec<u64>),
}

impl Chunks {
    /// Chunks with these numbers of elements.
    pub(super) fn listed(counts: impl IntoIterator<Item = u64>) -> Self {
        let ends = counts.into_iter().scan(0u64, |end, count| {
            *end = end.saturating_add(count);
            Some(*end)
        });
        Self::Listed(std::iter::once(0).chain(ends).collect())
    }

    /// The first element of a task's chunk, and the number of its elements.
    pub(super) fn of(&self, rank: u32) -> (i64, u64) {
        let (first, count) = match self {
            Self::Even { count, size } => {
                let (rank, size) = (u64::from(rank), u64::from(*size));
                // The first `rest` chunks have one more element.
                let (part, rest) = (count / size, count % size);
                (rank * part + rank.min(rest), part + u64::from(rank < rest))
            }
            Self::Equal { count } => (u64::from(rank) * count, *count),
            Self::Listed(bounds) => {
                let first = bounds[rank as usize];
                (first, bounds[rank as usize + 1] - first)
            }
        };
        (first.cast_signed(), count)
    }

    /// The chunks of consecutive tasks, as one part of the vector. `ranks` must not be empty.
    pub(super) fn part(&self, vector: &RecvData, ranks: Range<u32>) -> RecvData {
        let ((first, _), (last, count)) = (self.of(ranks.start), self.of(ranks.end - 1));
        vector.part(first, last.abs_diff(first) + count)
    }
}

/// Divides `count` elements into pieces of at most `piece` elements. Returns the first element and the length of each piece. A vector
/// without elements is one empty piece.
pub(super) fn pieces(count: u64, piece: u64) -> impl Iterator<Item = (i64, u64)> {
    let piece = piece.max(1);
    (0..count.div_ceil(piece).max(1)).map(move |number| {
        let at = number * piece;
        (at.cast_signed(), piece.min(count - at))
    })
}

/// Maximum bytes of one chunk of a piece, for more than two tasks. A task holds one part of its chunk from each task, and all these parts
/// should fit into its cache.
const CHUNK_OF_SEVERAL_BYTES_MAX: u64 = 16 << 10;

/// Number of elements of a piece of a long vector. A piece has one chunk for each task. A chunk has `reduce_piece_bytes` bytes (at most
/// [`CHUNK_OF_SEVERAL_BYTES_MAX`] for more than two tasks), but at least one element.
pub(super) fn elements_of_piece(plan: &impl Plan, datatype: &Datatype) -> u64 {
    let bytes = plan.selection().reduce_piece_bytes;
    let bytes = if plan.size() > 2 { bytes.min(CHUNK_OF_SEVERAL_BYTES_MAX) } else { bytes };
    (bytes / datatype.size().max(1)).max(1).saturating_mul(plan.size().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_vector_in_order() {
        assert_eq!(pieces(10, 4).collect::<Vec<_>>(), [(0, 4), (4, 4), (8, 2)]);
        assert_eq!(pieces(8, 4).collect::<Vec<_>>(), [(0, 4), (4, 4)]);
        assert_eq!(pieces(3, 4).collect::<Vec<_>>(), [(0, 3)]);
        assert_eq!(pieces(0, 4).collect::<Vec<_>>(), [(0, 0)], "a message without elements too");
    }

    #[test]
    fn chunks_cover_the_vector_in_order() {
        for size in 1..10u32 {
            for len in [0, 1, u64::from(size), u64::from(size) + 1, 100] {
                let even = Chunks::Even { count: len, size };
                let counts: Vec<u64> = (0..size).map(|rank| even.of(rank).1).collect();
                let listed = Chunks::listed(counts.iter().copied());
                let mut next = 0;
                for rank in 0..size {
                    let (first, count) = even.of(rank);
                    assert_eq!(first, next);
                    assert_eq!(listed.of(rank), (first, count));
                    assert!(count <= len.div_ceil(u64::from(size)));
                    next += count.cast_signed();
                }
                assert_eq!(next, len.cast_signed());
            }
        }
        assert_eq!(Chunks::Equal { count: 3 }.of(2), (6, 3));
    }
}
