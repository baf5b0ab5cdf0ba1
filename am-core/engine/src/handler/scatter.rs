//! Scattered destinations of a message's data (what LAPI's `vhdr_hndlr_t` returns).

use crate::buffer::{Arrived, ExposedRange, Grant, JobBuffer, RawBuffer};
use crate::error::{Error, Result};
use crate::transfer::{AtomicOp, Width};
use crate::vector::{Block, Layout};

/// A destination of several blocks for the data of one message, filled in the order of a [`Layout`].
#[derive(Debug)]
pub struct Scatter {
    layout: Layout,
    base: Base,
}

#[derive(Debug)]
enum Base {
    Exposed(ExposedRange),
    Owned(JobBuffer),
    /// The words of the range are combined with the data.
    Words(ExposedRange, Width, AtomicOp),
}

impl Scatter {
    /// Stores the data in blocks of this task's exposed memory. Offsets of the layout count from the start of `range`.
    ///
    /// # Errors
    /// [`Error::LocalRange`]: a block beyond the end of `range`.
    pub fn exposed(range: ExposedRange, layout: Layout) -> Result<Self> {
        layout.check_inside(range.len)?;
        Ok(Self { layout, base: Base::Exposed(range) })
    }

    /// Stores the data in blocks of `buffer`, which the completion gets in `Delivered::buffer`.
    ///
    /// # Errors
    /// [`Error::LocalRange`]: a block beyond the end of `buffer`.
    pub fn owned(buffer: JobBuffer, layout: Layout) -> Result<Self> {
        layout.check_inside(buffer.len() as u64)?;
        Ok(Self { layout, base: Base::Owned(buffer) })
    }

    /// Combines the words of `range` with the data.
    ///
    /// # Errors
    /// [`Error::Layout`]: the range ends beyond 2^64.
    pub(crate) fn words(range: ExposedRange, width: Width, operation: AtomicOp) -> Result<Self> {
        let layout = Layout::contiguous(0, range.len)?;
        Ok(Self { layout, base: Base::Words(range, width, operation) })
    }

    /// The length of the destination in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.layout.len()
    }

    /// Whether the destination has 0 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    pub(crate) fn into_buffer(self) -> Option<JobBuffer> {
        match self.base {
            Base::Owned(buffer) => Some(buffer),
            Base::Exposed(_) | Base::Words(..) => None,
        }
    }

    /// Whether the destination is in the memory of this grant.
    pub(crate) fn is_into(&self, own: Grant) -> bool {
        match &self.base {
            Base::Exposed(range) | Base::Words(range, ..) => range.grant == own,
            Base::Owned(_) => false,
        }
    }

    /// Stores `bytes`, which start at `offset` of the message. `granted` returns a range of this task's own exposed memory, from grant,
    /// offset and length.
    ///
    /// # Errors
    /// [`Error::RemoteRange`]: the memory is no longer exposed. [`Error::Misaligned`]: a word that is not aligned, or not whole.
    pub(crate) fn put(
        &mut self,
        granted: impl Fn(Grant, u64, u64) -> Result<RawBuffer>,
        offset: u64,
        bytes: Arrived<'_>,
    ) -> Result<()> {
        let mut done = 0;
        while let Some(Block { offset: at, len }) =
            self.layout.block_at(offset + done as u64).filter(|_| done < bytes.len())
        {
            let part = bytes.skip(done).take(len.min(usize::MAX as u64) as usize);
            match &mut self.base {
                Base::Exposed(range) => {
                    part.copy_to_buffer(granted(
                        range.grant,
                        range.offset.wrapping_add(at),
                        part.len() as u64,
                    )?);
                }
                Base::Owned(buffer) => {
                    if let Some(to) = buffer.get_mut(at as usize..) {
                        part.copy_to(to);
                    }
                }
                Base::Words(range, width, operation) => {
                    let to = granted(range.grant, range.offset.wrapping_add(at), part.len() as u64)?;
                    combine(to, part, *width, *operation)?;
                }
            }
            done += part.len();
        }
        Ok(())
    }
}

fn combine(to: RawBuffer, operands: Arrived<'_>, width: Width, operation: AtomicOp) -> Result<()> {
    let size = width.bytes() as usize;
    for at in (0..operands.len()).step_by(size) {
        let mut word = [0; 8];
        let copied = operands.skip(at).copy_to(&mut word[..size]);
        let updated = to
            .part(at, size)
            .filter(|_| copied == size)
            .and_then(|to| to.atomic(width, operation.with_operand(u64::from_le_bytes(word))));
        if updated.is_none() {
            return Err(Error::Misaligned { offset: at as u64, size: size as u64 });
        }
    }
    Ok(())
}
