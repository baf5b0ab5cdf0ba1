//! User memory that is not contiguous, without a lifetime.

use super::raw::{PacketWriter, RawBuffer, RawBytes};
use crate::error::Result;
use crate::vector::Layout;
use alloc::vec::Vec;

/// A range of memory that can be divided.
pub trait Range: Copy {
    /// Bytes in the range.
    fn len(&self) -> u64;
    /// The part `offset..offset + len`; `None` if the part does not lie inside the range.
    fn part(&self, offset: usize, len: usize) -> Option<Self>;
}

impl Range for RawBytes {
    fn len(&self) -> u64 {
        RawBytes::len(self) as u64
    }

    fn part(&self, offset: usize, len: usize) -> Option<Self> {
        RawBytes::part(self, offset, len)
    }
}

impl Range for RawBuffer {
    fn len(&self) -> u64 {
        RawBuffer::len(self) as u64
    }

    fn part(&self, offset: usize, len: usize) -> Option<Self> {
        RawBuffer::part(self, offset, len)
    }
}

/// A stream of bytes over several ranges. Each range keeps the promises of its type about lifetime and access.
#[derive(Debug)]
pub enum RawPieces<R> {
    /// Ranges, each with the position in the stream at which it ends.
    List(Vec<(R, u64)>),
    /// Parts of one range; the layout is known to lie inside it.
    Layout(R, Layout),
}

impl<R: Range> RawPieces<R> {
    /// The stream of these ranges, one after the other.
    ///
    /// # Errors
    /// The first error in `ranges`.
    pub fn list(ranges: impl Iterator<Item = Result<R>>) -> Result<Self> {
        let mut end = 0u64;
        let ends = ranges.map(|range| {
            range.map(|range| {
                end += range.len();
                (range, end)
            })
        });
        ends.filter(|range| range.as_ref().map_or(true, |(range, _)| range.len() > 0))
            .collect::<Result<_>>()
            .map(Self::List)
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::List(ranges) => ranges.last().map_or(0, |&(_, end)| end),
            Self::Layout(_, layout) => layout.len(),
        }
    }

    /// Whether there are 0 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The contiguous bytes at `position`, at most `len`; `None` at the end.
    pub(crate) fn part_at(&self, position: u64, len: u64) -> Option<R> {
        match self {
            Self::List(ranges) => {
                let &(range, end) = ranges.get(ranges.partition_point(|&(_, end)| end <= position))?;
                let left = end - position;
                range.part((range.len() - left) as usize, left.min(len) as usize)
            }
            Self::Layout(range, layout) => {
                let block = layout.block_at(position)?;
                range.part(block.offset as usize, block.len.min(len) as usize)
            }
        }
    }
}

impl From<RawPieces<RawBuffer>> for RawPieces<RawBytes> {
    fn from(pieces: RawPieces<RawBuffer>) -> Self {
        match pieces {
            RawPieces::List(ranges) => {
                Self::List(ranges.into_iter().map(|(range, end)| (range.as_bytes(), end)).collect())
            }
            RawPieces::Layout(range, layout) => Self::Layout(range.as_bytes(), layout),
        }
    }
}

impl RawPieces<RawBytes> {
    /// Writes the `len` bytes from `offset` on, or fewer at the end of the pieces. `writer` must have at least `len` bytes free.
    pub(crate) fn gather_from(&self, offset: u64, len: usize, writer: &mut PacketWriter<'_>) {
        let mut done = 0;
        while let Some(part) = self.part_at(offset + done, len as u64 - done).filter(|part| !part.is_empty())
        {
            let put = writer.put(part);
            assert!(put > 0, "the writer has {len} bytes free");
            done += put as u64;
        }
    }
}
