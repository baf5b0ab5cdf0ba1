//! Where the bytes of a datatype lie: a tree of loops, in which any part of the packed data can be found directly.
//!
//! A layout lists the pieces of memory that make up the packed bytes `0..size`, in order. It is made when a type is constructed, with
//! neighbours merged, and never changes. [`Layout::visit`] walks over any range of the packed bytes: it finds the beginning by divisions
//! and binary searches, so a message that is sent in packets needs no state between them, and packets may arrive in any order. The visitor
//! gets a loop over equal blocks as a whole, so that copying costs a few instructions a block.

use std::ops::Range;
use std::sync::Arc;

/// Pieces of memory in the order of the packed bytes. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Added to every displacement in `shape`.
    at: i64,
    /// Size in packed bytes.
    size: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// `size` bytes in one piece.
    Block,
    /// `size / len` blocks of `len` bytes, `stride` bytes apart.
    Strided { len: u64, stride: i64 },
    /// Blocks of `len` bytes, at any displacements.
    Even { len: u64, at: Arc<[i64]> },
    /// Repetitions of one layout, `stride` bytes apart.
    Loop { child: Arc<Layout>, stride: i64 },
    /// Blocks of any length at any displacement.
    Blocks(Arc<[Block]>),
    /// Layouts, one after the other.
    Parts(Arc<[Part]>),
    /// Bytes of a layout, from a place on.
    Cut { of: Arc<Layout>, from: u64 },
}

/// A piece of memory, and the number of packed bytes before it.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Displacement.
    pub at: i64,
    /// Length in bytes, at least 1.
    pub len: u64,
    before: u64,
}

#[derive(Clone, Debug)]
struct Part {
    layout: Layout,
    before: u64,
}

/// Lengths of blocks in bytes for which mpi-over-am's visitors have special loops, in which a block is copied by one or two loads and
/// stores.
const SHORT_LENGTHS: [u64; 5] = [4, 8, 16, 24, 32];

/// Receives the pieces of a layout.
pub trait Visit {
    /// A piece of `len` bytes, at least 1, at displacement `at`.
    fn block(&mut self, at: i64, len: u64);

    /// `count` pieces of `len` bytes, `stride` apart.
    #[inline(always)]
    fn strided(&mut self, at: i64, len: u64, stride: i64, count: u64) {
        let mut at = at;
        for _ in 0..count {
            self.block(at, len);
            at = at.wrapping_add(stride);
        }
    }

    /// Pieces of `len` bytes each, with `base` added to their displacements.
    #[inline(always)]
    fn even(&mut self, base: i64, len: u64, at: &[i64]) {
        for &at in at {
            self.block(base.wrapping_add(at), len);
        }
    }

    /// Pieces of any length, with `base` added to their displacements.
    #[inline(always)]
    fn blocks(&mut self, base: i64, blocks: &[Block]) {
        for block in blocks {
            self.block(base.wrapping_add(block.at), block.len);
        }
    }
}

impl Layout {
    /// The empty layout.
    pub const EMPTY: Self = Self { at: 0, size: 0, shape: Shape::Block };

    /// `size` bytes at `at`.
    #[inline]
    pub const fn block(at: i64, size: u64) -> Self {
        Self { at, size, shape: Shape::Block }
    }

    /// Size in packed bytes.
    #[inline(always)]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The displacement, if the bytes are in one piece.
    #[inline]
    pub fn as_block(&self) -> Option<i64> {
        matches!(self.shape, Shape::Block).then_some(self.at)
    }

    /// The same layout, moved by `by` bytes.
    pub fn shifted(&self, by: i64) -> Self {
        Self { at: self.at.wrapping_add(by), ..self.clone() }
    }

    /// `count` copies, `stride` bytes apart. Allocates nothing. The product of size and count must not overflow.
    pub fn repeat(this: &Arc<Self>, count: u64, stride: i64) -> Self {
        let (at, size) = (this.at, this.size * count);
        if size == 0 {
            return Self::EMPTY;
        }
        if count == 1 {
            return Self::clone(this);
        }
        let shape = match &this.shape {
            Shape::Block if continues(stride, this.size) => Shape::Block,
            Shape::Block => Shape::Strided { len: this.size, stride },
            Shape::Strided { len, stride: inner } if goes_on(stride, *inner, this.size / len) => {
                Shape::Strided { len: *len, stride: *inner }
            }
            Shape::Loop { child, stride: inner } if goes_on(stride, *inner, this.size / child.size) => {
                Shape::Loop { child: Arc::clone(child), stride: *inner }
            }
            _ => {
                let child = Arc::clone(this);
                return Self { at: 0, size, shape: Shape::Loop { child, stride } };
            }
        };
        Self { at, size, shape }
    }

    /// The packed bytes `from..end` of a layout. `from <= end <= size` must hold. Never [a block](Self::as_block) if it is all of a block.
    pub(crate) fn part(this: &Arc<Self>, from: u64, end: u64) -> Self {
        let size = end - from;
        let is_even = |len: u64| from.is_multiple_of(len) && size.is_multiple_of(len);
        match &this.shape {
            _ if size == 0 => Self::EMPTY,
            Shape::Block if size < this.size => {
                Self { at: this.at.wrapping_add_unsigned(from), size, shape: Shape::Block }
            }
            Shape::Strided { len, stride } if is_even(*len) => {
                let shape = if size == *len { Shape::Block } else { this.shape.clone() };
                Self { at: offset(this.at, from / len, *stride), size, shape }
            }
            Shape::Loop { child, stride } if is_even(child.size) && size > child.size => {
                Self { at: offset(this.at, from / child.size, *stride), size, shape: this.shape.clone() }
            }
            Shape::Loop { child, stride } if from / child.size == (end - 1) / child.size => {
                let before = from / child.size * child.size;
                let part = Self::part(child, from - before, end - before);
                part.shifted(offset(this.at, from / child.size, *stride))
            }
            _ => Self { at: 0, size, shape: Shape::Cut { of: Arc::clone(this), from } },
        }
    }

    /// Layouts one after the other. The sum of the sizes must not overflow.
    pub fn sequence(layouts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let mut size = 0;
        for layout in layouts {
            if layout.size == 0 {
                continue;
            }
            let before = size;
            size += layout.size;
            match parts.last_mut() {
                Some(Part { layout: last, .. }) if last.is_continued_by(&layout) => last.size += layout.size,
                _ => parts.push(Part { layout, before }),
            }
        }
        match parts.len() {
            0 => return Self::EMPTY,
            1 => return parts.swap_remove(0).layout,
            _ => {}
        }
        if !parts.iter().all(|part| part.layout.as_block().is_some()) {
            return Self { at: 0, size, shape: Shape::Parts(parts.into()) };
        }
        let (first, second) = (&parts[0].layout, &parts[1].layout);
        let (at, len, stride) = (first.at, first.size, second.at.wrapping_sub(first.at));
        let is_even = parts.iter().all(|part| part.layout.size == len);
        if is_even && parts.windows(2).all(|pair| pair[1].layout.at.wrapping_sub(pair[0].layout.at) == stride)
        {
            return Self { at, size, shape: Shape::Strided { len, stride } };
        }
        let least = parts.iter().map(|part| part.layout.size).min().unwrap_or(len);
        // If only few neighbours were merged, the blocks are cut to the shortest length again: copies of one short length take a third of
        // the instructions.
        let is_cut = SHORT_LENGTHS.contains(&least)
            && parts.iter().all(|part| part.layout.size.is_multiple_of(least))
            && size / least <= 2 * parts.len() as u64;
        if is_even || is_cut {
            let pieces = |part: Part| {
                (0..part.layout.size / least)
                    .map(move |index| offset(part.layout.at, index, least.cast_signed()))
            };
            let at = parts.into_iter().flat_map(pieces).collect();
            return Self { at: 0, size, shape: Shape::Even { len: least, at } };
        }
        let block = |part: Part| Block { at: part.layout.at, len: part.layout.size, before: part.before };
        Self { at: 0, size, shape: Shape::Blocks(parts.into_iter().map(block).collect()) }
    }

    /// The displacements of the first byte and of the end; `None` for an empty layout.
    pub fn span(&self) -> Option<(i64, i64)> {
        if self.size == 0 {
            return None;
        }
        let join = |(low, high): (i64, i64), (from, to): (i64, i64)| (low.min(from), high.max(to));
        let again = |(low, high): (i64, i64), count: u64, stride: i64| {
            let last = offset(0, count - 1, stride);
            (low.wrapping_add(last.min(0)), high.wrapping_add(last.max(0)))
        };
        let piece = |at: i64, len: u64| (at, at.wrapping_add_unsigned(len));
        let (low, high) = match &self.shape {
            Shape::Block => piece(0, self.size),
            Shape::Strided { len, stride } => again(piece(0, *len), self.size / len, *stride),
            Shape::Even { len, at } => at.iter().map(|&at| piece(at, *len)).reduce(join)?,
            Shape::Loop { child, stride } => again(child.span()?, self.size / child.size, *stride),
            Shape::Blocks(blocks) => blocks.iter().map(|block| piece(block.at, block.len)).reduce(join)?,
            Shape::Parts(parts) => parts.iter().filter_map(|part| part.layout.span()).reduce(join)?,
            // At least these.
            Shape::Cut { of, .. } => of.span()?,
        };
        Some((low.wrapping_add(self.at), high.wrapping_add(self.at)))
    }

    fn is_continued_by(&self, next: &Self) -> bool {
        let blocks = matches!((&self.shape, &next.shape), (Shape::Block, Shape::Block));
        blocks && self.at.checked_add_unsigned(self.size) == Some(next.at)
    }

    /// Passes the pieces of the packed bytes `from..to` to `visitor`, in order. `from <= to <= size` must hold.
    pub fn visit(&self, from: u64, to: u64, visitor: &mut impl Visit) {
        if from < to {
            self.visit_at(0, from, to, visitor);
        }
    }

    /// Like [`visit`](Self::visit), with `base` added to all displacements. There must be at least one byte.
    #[expect(clippy::cast_possible_truncation, reason = "the number of a block in a slice")]
    fn visit_at(&self, base: i64, from: u64, to: u64, visitor: &mut impl Visit) {
        let base = base.wrapping_add(self.at);
        match &self.shape {
            Shape::Block => visitor.block(base.wrapping_add_unsigned(from), to - from),
            Shape::Strided { len, stride } => {
                let at = |index| offset(base, index, *stride);
                let (whole, [first, last]) = cut(*len, from, to);
                visit_cut(first, at, visitor);
                if !whole.is_empty() {
                    visitor.strided(at(whole.start), *len, *stride, whole.end - whole.start);
                }
                visit_cut(last, at, visitor);
            }
            Shape::Even { len, at: all } => {
                let at = |index: u64| base.wrapping_add(all[index as usize]);
                let (whole, [first, last]) = cut(*len, from, to);
                visit_cut(first, at, visitor);
                visitor.even(base, *len, &all[whole.start as usize..whole.end as usize]);
                visit_cut(last, at, visitor);
            }
            Shape::Loop { child, stride } => child.visit_loop(base, *stride, from, to, visitor),
            Shape::Cut { of, from: before } => of.visit_at(base, before + from, before + to, visitor),
            Shape::Blocks(blocks) if to - from == self.size => visitor.blocks(base, blocks),
            Shape::Blocks(blocks) => visit_blocks(blocks, base, from, to, visitor),
            Shape::Parts(parts) => {
                let first = parts.partition_point(|part| part.before <= from) - 1;
                for part in &parts[first..] {
                    if part.before >= to {
                        break;
                    }
                    let start = from.saturating_sub(part.before);
                    let end = (to - part.before).min(part.layout.size);
                    part.layout.visit_at(base, start, end, visitor);
                }
            }
        }
    }

    fn visit_loop(&self, base: i64, stride: i64, from: u64, to: u64, visitor: &mut impl Visit) {
        let mut index = from / self.size;
        let mut start = from - index * self.size;
        let mut left = to - from;
        while left > 0 {
            let end = self.size.min(start + left);
            self.visit_at(offset(base, index, stride), start, end, visitor);
            left -= end - start;
            start = 0;
            index += 1;
        }
    }
}

/// A part of a block: the number of the block, and the range of its bytes.
type Cut = (u64, Range<u64>);

/// Splits the packed bytes `from..to` of blocks of `len` bytes. Returns the numbers of the whole blocks, and the parts of blocks before and
/// after them, which may be empty.
fn cut(len: u64, from: u64, to: u64) -> (Range<u64>, [Cut; 2]) {
    let (first, last) = (from / len, to / len);
    if first == last {
        return (first..first, [(first, from % len..to % len), (last, 0..0)]);
    }
    let whole = from.div_ceil(len);
    (whole..last, [(first, from % len..(whole - first) * len), (last, 0..to % len)])
}

fn visit_cut((index, bytes): Cut, at: impl Fn(u64) -> i64, visitor: &mut impl Visit) {
    if !bytes.is_empty() {
        visitor.block(at(index).wrapping_add_unsigned(bytes.start), bytes.end - bytes.start);
    }
}

/// Blocks of any length: partial blocks at either end, whole ones between.
fn visit_blocks(blocks: &[Block], base: i64, from: u64, to: u64, visitor: &mut impl Visit) {
    let mut first = blocks.partition_point(|block| block.before <= from) - 1;
    let end = blocks.partition_point(|block| block.before + block.len <= to);
    let Block { at, len, before } = blocks[first];
    let cut = from - before;
    if cut > 0 || end <= first {
        visitor.block(base.wrapping_add(at).wrapping_add_unsigned(cut), (len - cut).min(to - from));
        first += 1;
    }
    if first < end {
        visitor.blocks(base, &blocks[first..end]);
        first = end;
    }
    if let Some(last) = blocks.get(first)
        && last.before < to
    {
        visitor.block(base.wrapping_add(last.at), to - last.before);
    }
}

/// `index` strides behind `base`.
#[inline(always)]
fn offset(base: i64, index: u64, stride: i64) -> i64 {
    base.wrapping_add(index.cast_signed().wrapping_mul(stride))
}

/// Whether a block of `size` bytes ends where the next one begins, `stride` bytes after it.
fn continues(stride: i64, size: u64) -> bool {
    u64::try_from(stride) == Ok(size)
}

/// Whether a repetition with `stride` continues the inner loop, which has `count` rounds, `inner` bytes apart.
fn goes_on(stride: i64, inner: i64, count: u64) -> bool {
    i64::try_from(count).ok().and_then(|count| inner.checked_mul(count)) == Some(stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Bytes(Vec<i64>);

    impl Visit for Bytes {
        fn block(&mut self, at: i64, len: u64) {
            self.0.extend((at..).take(usize::try_from(len).unwrap()));
        }
    }

    fn bytes(layout: &Layout, from: u64, to: u64) -> Vec<i64> {
        let mut bytes = Bytes::default();
        layout.visit(from, to, &mut bytes);
        bytes.0
    }

    fn repeat(layout: Layout, count: u64, stride: i64) -> Layout {
        Layout::repeat(&Arc::new(layout), count, stride)
    }

    #[test]
    fn neighbours_become_one_block() {
        let row = repeat(Layout::block(0, 4), 10, 4);
        assert_eq!(row.as_block(), Some(0));
        assert_eq!(row.size(), 40);
        let two = Layout::sequence([Layout::block(8, 4), Layout::EMPTY, Layout::block(12, 20)]);
        assert_eq!((two.as_block(), two.size()), (Some(8), 24));
        assert!(matches!(repeat(repeat(Layout::block(0, 4), 3, 8), 5, 24).shape, Shape::Strided { .. }));
    }

    #[test]
    fn short_blocks_are_all_of_one_length_unless_long_runs_were_merged() {
        let blocks = |at: &[i64], len| Layout::sequence(at.iter().map(|&at| Layout::block(at, len)));
        let few = blocks(&[0, 24, 32, 48], 8);
        assert!(matches!(&few.shape, Shape::Even { len: 8, at } if at[..] == [0, 24, 32, 48]));
        assert_eq!((few.size(), few.span()), (32, Some((0, 56))));
        let many = blocks(&[0, 24, 32, 40, 48, 56, 64], 8);
        assert!(matches!(&many.shape, Shape::Blocks(blocks) if blocks.len() == 2));
        let odd = blocks(&[0, 21, 28, 42], 7);
        assert!(matches!(&odd.shape, Shape::Blocks(blocks) if blocks.len() == 3));
    }

    #[test]
    fn every_part_of_every_shape_is_the_part_of_the_whole() {
        let strided = repeat(Layout::block(3, 4), 5, -7);
        let blocks = Layout::sequence([Layout::block(100, 3), Layout::block(-50, 6), Layout::block(10, 1)]);
        let even = Layout::sequence([40, -70, 9, 500].map(|at| Layout::block(at, 7)));
        assert!(matches!(even.shape, Shape::Even { .. }));
        assert_eq!(even.span(), Some((-70, 507)));
        let parts = Layout::sequence([strided.shifted(1000), Layout::block(0, 5), blocks.shifted(-3000)]);
        let looped = repeat(parts.clone(), 4, 10_000);
        let twice = repeat(looped.clone(), 3, 123_456);
        for layout in [strided, even.shifted(3), blocks, parts, looped, twice] {
            let whole = bytes(&layout, 0, layout.size());
            assert_eq!(whole.len() as u64, layout.size());
            for from in 0..=layout.size() {
                for to in from..=layout.size().min(from + 40) {
                    let (start, end) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
                    assert_eq!(bytes(&layout, from, to), whole[start..end], "{from}..{to} of {layout:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_repeated_is_nothing() {
        assert_eq!(repeat(Layout::EMPTY, 1000, 8).size(), 0);
        assert_eq!(repeat(Layout::block(0, 8), 0, 8).size(), 0);
        assert!(bytes(&Layout::EMPTY, 0, 0).is_empty());
    }
}
