//! Layouts of data that are not contiguous (LAPI's `lapi_vec_t`): a list of blocks, or blocks at a stride.

use crate::error::{Error, LayoutFault, Result};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A run of bytes in some memory that a layout describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes from the start of that memory.
    pub offset: u64,
    /// The block's length in bytes.
    pub len: u64,
}

/// Where the bytes of a stream lie in memory: the task's own, a peer's exposed region, or a buffer. A layout is checked when it is made;
/// each use checks that the layout lies inside the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    form: Form,
    len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// Blocks, each with the position in the stream at which it ends.
    List {
        blocks: Box<[Block]>,
        ends: Box<[u64]>,
    },
    Strided {
        offset: u64,
        block: u64,
        stride: u64,
    },
}

impl Layout {
    /// One block.
    ///
    /// # Errors
    /// [`Error::Layout`]: the end of the block is beyond 2^64.
    pub fn contiguous(offset: u64, len: u64) -> Result<Self> {
        Self::strided(offset, len, len, 1)
    }

    /// Blocks one after the other (`LAPI_GEN_IOVECTOR`). Empty blocks, any order and overlaps are allowed: bytes in two blocks of a
    /// destination get the value from either block.
    ///
    /// # Errors
    /// [`Error::Layout`]: the end of a block, or the sum of the lengths, is beyond 2^64.
    pub fn list(blocks: impl IntoIterator<Item = Block>) -> Result<Self> {
        let blocks: Box<[Block]> = blocks.into_iter().filter(|block| block.len > 0).collect();
        let mut len = 0u64;
        let mut ends = Vec::with_capacity(blocks.len());
        for &Block { offset, len: more } in &blocks {
            let sum = offset.checked_add(more).and(len.checked_add(more));
            len = sum.ok_or(Error::Layout(LayoutFault::TooLong { offset, len: more }))?;
            ends.push(len);
        }
        Ok(Self { form: Form::List { blocks, ends: ends.into() }, len })
    }

    /// `count` blocks of `block` bytes, one every `stride` bytes, from `offset` on
    /// (`LAPI_GEN_STRIDED_XFER`).
    ///
    /// # Errors
    /// [`Error::Layout`]: a stride shorter than a block (`LAPI_ERR_STRIDE`), or an end beyond 2^64.
    pub fn strided(offset: u64, block: u64, stride: u64, count: u64) -> Result<Self> {
        if stride < block && count > 1 {
            return Err(Error::Layout(LayoutFault::StrideTooShort { block, stride }));
        }
        let end = count.saturating_sub(1).checked_mul(stride);
        let end = end.and_then(|end| end.checked_add(block)).and_then(|end| end.checked_add(offset));
        match (end, block.checked_mul(count)) {
            (Some(_), Some(len)) => Ok(Self { form: Form::Strided { offset, block, stride }, len }),
            _ => Err(Error::Layout(LayoutFault::TooLong { offset, len: block.saturating_mul(count) })),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are 0 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The contiguous bytes from byte `position` of the stream on; `None` at the end and beyond.
    #[inline]
    #[must_use]
    pub fn block_at(&self, position: u64) -> Option<Block> {
        if position >= self.len {
            return None;
        }
        Some(match &self.form {
            &Form::Strided { offset, block, stride } => {
                let within = position % block;
                Block { offset: offset + position / block * stride + within, len: block - within }
            }
            Form::List { blocks, ends } => {
                let at = ends.partition_point(|&end| end <= position);
                let (block, end) = (blocks[at], ends[at]);
                let len = end - position;
                Block { offset: block.offset + (block.len - len), len }
            }
        })
    }

    /// Offset, block, stride and count, if it is a strided layout.
    pub(crate) fn as_strided(&self) -> Option<(u64, u64, u64, u64)> {
        match self.form {
            Form::Strided { offset, block, stride } if block > 0 => {
                Some((offset, block, stride, self.len / block))
            }
            _ => None,
        }
    }

    /// Bytes from the start of the memory to the end of the furthest block.
    pub(crate) fn span(&self) -> u64 {
        match &self.form {
            Form::List { blocks, .. } => {
                blocks.iter().map(|block| block.offset + block.len).max().unwrap_or(0)
            }
            &Form::Strided { block, .. } => self
                .len
                .checked_sub(block)
                .and_then(|last| self.block_at(last))
                .map_or(0, |block| block.offset + block.len),
        }
    }

    /// The blocks in the order of the stream.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.blocks_from(0)
    }

    /// The blocks from byte `position` of the stream on.
    pub(crate) fn blocks_from(&self, position: u64) -> impl Iterator<Item = Block> + '_ {
        let rest = match &self.form {
            Form::List { ends, .. } => ends.partition_point(|&end| end <= position) + 1,
            Form::Strided { .. } => 0,
        };
        let mut rest = rest..;
        let mut next = self.block_at(position);
        let mut position = position;
        core::iter::from_fn(move || {
            let block = next?;
            position += block.len;
            next = match &self.form {
                Form::List { blocks, .. } => rest.next().and_then(|at| blocks.get(at)).copied(),
                Form::Strided { .. } => self.block_at(position),
            };
            Some(block)
        })
    }

    /// Copies the bytes of the layout in `from` to `to`, contiguously (`LAPI_Util`'s `DGSP_PACK`), starting at `*position` of the stream,
    /// until the layout or `to` ends. Returns the number of bytes, and advances `*position`.
    ///
    /// # Errors
    /// [`Error::LocalRange`]: a block outside `from`.
    pub fn pack(&self, from: &[u8], to: &mut [u8], position: &mut u64) -> Result<usize> {
        let mut done = 0;
        while let Some(block) = self.block_at(*position).filter(|_| done < to.len()) {
            let len = block.len.min((to.len() - done) as u64);
            to[done..][..len as usize].copy_from_slice(&from[local(block.offset, len, from.len())?]);
            done += len as usize;
            *position += len;
        }
        Ok(done)
    }

    /// The reverse of [`pack`](Self::pack) (`DGSP_UNPACK`): copies `from` to the bytes of the layout in `to`, starting at `*position` of
    /// the stream.
    ///
    /// # Errors
    /// [`Error::LocalRange`]: a block outside `to`.
    pub fn unpack(&self, from: &[u8], to: &mut [u8], position: &mut u64) -> Result<usize> {
        let mut done = 0;
        while let Some(block) = self.block_at(*position).filter(|_| done < from.len()) {
            let len = block.len.min((from.len() - done) as u64);
            let range = local(block.offset, len, to.len())?;
            to[range].copy_from_slice(&from[done..][..len as usize]);
            done += len as usize;
            *position += len;
        }
        Ok(done)
    }

    /// Checks that all blocks lie inside memory of `region_len` bytes.
    ///
    /// # Errors
    /// [`Error::LocalRange`]: a block does not.
    pub fn check_inside(&self, region_len: u64) -> Result<()> {
        let outside = |block: &Block| block.offset > region_len || block.len > region_len - block.offset;
        let found = match &self.form {
            Form::List { blocks, .. } => blocks.iter().copied().find(outside),
            // The last block has the highest end.
            &Form::Strided { block, .. } => {
                self.len.checked_sub(block).and_then(|last| self.block_at(last)).filter(outside)
            }
        };
        match found {
            Some(Block { offset, len }) => Err(Error::LocalRange { offset, len, region_len }),
            None => Ok(()),
        }
    }
}

fn local(offset: u64, len: u64, region_len: usize) -> Result<core::ops::Range<usize>> {
    let region_len = region_len as u64;
    if offset <= region_len && len <= region_len - offset {
        Ok(offset as usize..(offset + len) as usize)
    } else {
        Err(Error::LocalRange { offset, len, region_len })
    }
}

/// Data to send that are not contiguous.
#[derive(Clone, Copy, Debug)]
pub enum Pieces<'a> {
    /// Slices, in order.
    Slices(&'a [&'a [u8]]),
    /// Parts of one slice.
    Layout(&'a [u8], &'a Layout),
}

/// Memory to receive into that is not contiguous.
#[derive(Debug)]
pub enum PiecesMut<'a> {
    /// Slices, in order.
    Slices(&'a mut [&'a mut [u8]]),
    /// Parts of one slice.
    Layout(&'a mut [u8], &'a Layout),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn a_layout_that_cannot_be_is_refused_with_its_values() {
        let error = Layout::strided(0, 8, 7, 2).unwrap_err();
        assert!(
            matches!(error, Error::Layout(LayoutFault::StrideTooShort { block: 8, stride: 7 })),
            "{error}"
        );
        assert!(Layout::strided(0, 8, 7, 1).is_ok(), "one block has no stride");
        assert!(Layout::strided(u64::MAX, 1, 1, 1).is_err());
        assert!(Layout::strided(0, 1, u64::MAX / 2, 4).is_err());
        assert!(Layout::list([Block { offset: u64::MAX, len: 2 }]).is_err());
        assert!(Layout::list([Block { offset: 0, len: u64::MAX }, Block { offset: 0, len: 1 }]).is_err());
        assert_eq!(Layout::strided(3, 0, 5, 9).unwrap().block_at(0), None);
        let layout = Layout::strided(4, 2, 6, 3).unwrap();
        assert!(layout.check_inside(18).is_ok());
        let error = layout.check_inside(17).unwrap_err();
        assert!(matches!(error, Error::LocalRange { offset: 16, len: 2, region_len: 17 }), "{error}");
    }

    proptest! {
        /// The oracle is a list with the offset of each byte.
        #[test]
        fn a_layout_names_each_byte(blocks in prop::collection::vec((0u64..50, 0u64..9), 0..12), step in 1usize..7) {
            let layout = Layout::list(blocks.iter().map(|&(offset, len)| Block { offset, len })).unwrap();
            let bytes: Vec<u64> = blocks.iter().flat_map(|&(offset, len)| offset..offset + len).collect();
            prop_assert_eq!(layout.len(), bytes.len() as u64);
            for (position, &offset) in bytes.iter().enumerate() {
                prop_assert_eq!(layout.block_at(position as u64).map(|block| block.offset), Some(offset));
            }
            let memory: Vec<u8> = (0..60).collect();
            let (mut packed, mut position) = (Vec::new(), 0);
            loop {
                let mut part = vec![0; step];
                let done = layout.pack(&memory, &mut part, &mut position).unwrap();
                packed.extend_from_slice(&part[..done]);
                if done < step {
                    break;
                }
            }
            let wanted: Vec<u8> = bytes.iter().map(|&at| at as u8).collect();
            prop_assert_eq!(&packed, &wanted);
            let (mut back, mut position) = (vec![0xFF; 60], 0);
            for part in packed.chunks(step) {
                prop_assert_eq!(layout.unpack(part, &mut back, &mut position).unwrap(), part.len());
            }
            for (at, &byte) in back.iter().enumerate() {
                prop_assert_eq!(byte, if bytes.contains(&(at as u64)) { at as u8 } else { 0xFF });
            }
        }

        #[test]
        fn a_stride_is_a_list(offset in 0u64..20, block in 1u64..9, gap in 0u64..9, count in 0u64..9) {
            let strided = Layout::strided(offset, block, block + gap, count).unwrap();
            let list = (0..count).map(|i| Block { offset: offset + i * (block + gap), len: block });
            let list = Layout::list(list).unwrap();
            prop_assert_eq!(strided.len(), list.len());
            prop_assert!(strided.blocks().eq(list.blocks()));
        }
    }
}
