//! Views: which bytes of a file a program sees, and in which order (MPI 5.0 section 14.3).

use mpi_datatype::{Block, Datatype, Layout, Predefined, Visit};

/// Bytes of a file that lie next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// The offset of the first byte.
    pub at: u64,
    /// The number of bytes, at least 1.
    pub len: u64,
}

/// A view that no file can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrongView {
    /// The elementary type has no bytes.
    #[error("the etype has no bytes: use a type of at least one byte")]
    EmptyEtype,
    /// The file type does not consist of whole elementary types.
    #[error(
        "the filetype has {filetype} bytes, which are not whole etypes of {etype} bytes: make it of the etype"
    )]
    NotWhole {
        /// Size of the elementary type.
        etype: u64,
        /// Size of the file type.
        filetype: u64,
    },
    /// A displacement of the file type is negative.
    #[error("the filetype begins {before} bytes before the view: its displacements must not be negative")]
    Negative {
        /// Number of bytes before the view.
        before: u64,
    },
    /// The displacements of the file type do not increase.
    #[error("the filetype goes back to byte {at} after byte {before}: its displacements must not decrease")]
    Unordered {
        /// The displacement that is too small.
        at: i64,
        /// The one before it.
        before: i64,
    },
    /// The parts of the file type overlap, and the file can be written.
    #[error(
        "parts of the filetype overlap at byte {at}: only a file that is opened for reading can have such a view"
    )]
    Overlapping {
        /// The first byte that is there twice.
        at: i64,
    },
    /// More than 2^63 bytes.
    #[error("the view ends behind byte 2^63")]
    TooLarge,
}

/// A view of a file.
#[derive(Clone, Debug)]
pub struct View {
    displacement: u64,
    etype: Datatype,
    filetype: Datatype,
    /// Bytes of an elementary type in the file.
    etype_bytes: u64,
    /// As many file types as fit into 2^62 bytes, relative to the displacement.
    layout: Layout,
    is_increasing: bool,
}

/// No part of a view lies behind this byte.
const END: u64 = 1 << 62;

impl View {
    /// The view of a file that was just opened: all of its bytes.
    #[must_use]
    pub fn of_bytes() -> Self {
        let byte = Datatype::predefined(Predefined::Byte);
        Self {
            displacement: 0,
            etype: byte.clone(),
            filetype: byte,
            etype_bytes: 1,
            layout: Layout::block(0, END),
            is_increasing: true,
        }
    }

    /// A view from byte `displacement` on, of the parts that `filetype` selects, again and again. Offsets are in units of `etype`.
    ///
    /// # Errors
    /// A view that no file can have, or, if it `is_written`, whose parts overlap.
    pub fn new(
        displacement: u64,
        etype: &Datatype,
        filetype: &Datatype,
        is_written: bool,
    ) -> Result<Self, WrongView> {
        Self::of_element(displacement, (etype, etype.size()), (filetype, filetype.clone()), is_written)
    }

    /// Like [`new`](Self::new), for a file whose numbers have the sizes that `size_of` returns.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of_sizes(
        displacement: u64,
        etype: &Datatype,
        filetype: &Datatype,
        size_of: &dyn Fn(Predefined) -> u64,
        is_written: bool,
    ) -> Result<Self, WrongView> {
        let element = filetype.in_file(size_of).map_err(|_| WrongView::TooLarge)?;
        let etype_bytes = etype.bytes_in_file(size_of);
        Self::of_element(displacement, (etype, etype_bytes), (filetype, element), is_written)
    }

    /// `etype_bytes` are the bytes of an elementary type in the file, and `element` is the file type there.
    fn of_element(
        displacement: u64,
        (etype, etype_bytes): (&Datatype, u64),
        (filetype, element): (&Datatype, Datatype),
        is_written: bool,
    ) -> Result<Self, WrongView> {
        if displacement >= END {
            return Err(WrongView::TooLarge);
        }
        if etype_bytes == 0 {
            return Err(WrongView::EmptyEtype);
        }
        if !element.size().is_multiple_of(etype_bytes) {
            return Err(WrongView::NotWhole { etype: etype_bytes, filetype: element.size() });
        }
        let mut order = Order { last: 0, end: 0, wrong: None, is_written, overlaps: false };
        element.layout(1).visit(0, element.size(), &mut order);
        if let Some(wrong) = order.wrong {
            return Err(wrong);
        }
        // The next file type begins behind the last piece of this one.
        let first = element.layout(1).span().map_or(0, |(first, _)| first);
        let is_increasing = !order.overlaps && element.extent() >= order.end.saturating_sub(first);
        let step = element.extent().unsigned_abs().max(element.size()).max(1);
        let layout = element.layout((END - displacement) / step);
        Ok(Self {
            displacement,
            etype: etype.clone(),
            filetype: filetype.clone(),
            etype_bytes,
            layout,
            is_increasing,
        })
    }

    /// The first byte of the view.
    #[must_use]
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The elementary type.
    #[must_use]
    pub fn etype(&self) -> &Datatype {
        &self.etype
    }

    /// The file type.
    #[must_use]
    pub fn filetype(&self) -> &Datatype {
        &self.filetype
    }

    /// Bytes of an elementary type in the file.
    #[must_use]
    pub fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// Whether each byte of the stream lies behind the one before it: no two parts overlap. [`bytes_before`](Self::bytes_before) is only
    /// defined then.
    #[must_use]
    pub fn is_increasing(&self) -> bool {
        self.is_increasing
    }

    /// Whether any part of the stream is one piece.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout.as_block().is_some()
    }

    /// Whether the view has no bytes: its file type is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.size() == 0
    }

    /// Whether the stream has no byte behind this one. No file is so long.
    #[must_use]
    pub fn has(&self, from: u64, len: u64) -> bool {
        from.checked_add(len).is_some_and(|end| end <= self.layout.size())
    }

    /// Passes the pieces of the stream's bytes `from..from + len` to `each`, in the order of the stream. Neighbours are one piece. Bytes
    /// that the view does not [have](Self::has) are left out.
    pub fn visit(&self, from: u64, len: u64, each: impl FnMut(Piece)) {
        let end = from.saturating_add(len).min(self.layout.size());
        let mut merging = Merging { base: self.displacement, last: None, each };
        self.layout.visit(from.min(end), end, &mut merging);
        merging.end();
    }

    /// The pieces of [`visit`](Self::visit) as a list.
    #[must_use]
    pub fn pieces(&self, from: u64, len: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.visit(from, len, |piece| pieces.push(piece));
        pieces
    }

    /// The piece that holds all of the stream's bytes `from..from + len`, if there is only one.
    #[must_use]
    pub fn one_piece(&self, from: u64, len: u64) -> Option<Piece> {
        if let Some(at) = self.layout.as_block() {
            let at = self.displacement + at.unsigned_abs() + from;
            return (len > 0 && self.has(from, len)).then_some(Piece { at, len });
        }
        let (mut count, mut first) = (0_usize, None);
        self.visit(from, len, |piece| {
            count += 1;
            first.get_or_insert(piece);
        });
        first.filter(|_| count == 1)
    }

    /// The offset in the file of the stream's byte `position` (`MPI_File_get_byte_offset`). Behind the end of the view, or in an empty
    /// view, the end of the view.
    #[must_use]
    pub fn offset_of(&self, position: u64) -> u64 {
        let mut found = None;
        self.visit(position, 1, |piece| found = Some(piece.at));
        found.unwrap_or(END)
    }

    /// The number of the stream's bytes that lie before `offset` in the file.
    #[must_use]
    pub fn bytes_before(&self, offset: u64) -> u64 {
        let (mut low, mut high) = (0, self.layout.size());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.offset_of(middle) < offset { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Checks the order of the pieces of a file type.
struct Order {
    last: i64,
    end: i64,
    wrong: Option<WrongView>,
    is_written: bool,
    overlaps: bool,
}

impl Visit for Order {
    fn block(&mut self, at: i64, len: u64) {
        let wrong = if at < 0 {
            WrongView::Negative { before: at.unsigned_abs() }
        } else if at < self.last {
            WrongView::Unordered { at, before: self.last }
        } else if self.is_written && at < self.end {
            WrongView::Overlapping { at }
        } else {
            self.overlaps |= at < self.end;
            // Neighbours are one piece, which begins where the first of them does.
            if at != self.end || self.end == 0 {
                self.last = at;
            }
            self.end = self.end.max(at.saturating_add_unsigned(len));
            return;
        };
        self.wrong.get_or_insert(wrong);
    }

    fn strided(&mut self, at: i64, len: u64, stride: i64, count: u64) {
        // The first two, and the last: the others lie as the first two do.
        self.block(at, len);
        if count > 1 {
            self.block(at.saturating_add(stride), len);
        }
        if count > 2 {
            let last = i64::try_from(count - 1).ok().and_then(|count| stride.checked_mul(count));
            let last = last.and_then(|by| at.checked_add(by));
            self.block(last.unwrap_or(i64::MAX), len);
        }
    }
}

/// Merges neighbours.
struct Merging<E> {
    base: u64,
    last: Option<Piece>,
    each: E,
}

impl<E: FnMut(Piece)> Merging<E> {
    fn end(mut self) {
        if let Some(last) = self.last {
            (self.each)(last);
        }
    }
}

impl<E: FnMut(Piece)> Visit for Merging<E> {
    #[inline]
    fn block(&mut self, at: i64, len: u64) {
        // No displacement is negative: the view was checked.
        let piece = Piece { at: self.base.wrapping_add_signed(at), len };
        match &mut self.last {
            Some(last) if last.at + last.len == piece.at => last.len += len,
            last => {
                if let Some(done) = last.replace(piece) {
                    (self.each)(done);
                }
            }
        }
    }

    fn blocks(&mut self, base: i64, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.block(base.wrapping_add(block.at), block.len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int() -> Datatype {
        Predefined::Int.into()
    }

    fn view(displacement: u64, filetype: &Datatype) -> View {
        View::new(displacement, &int(), filetype, true).unwrap()
    }

    #[test]
    fn a_contiguous_type_is_one_piece_of_any_length() {
        let view = view(40, &int());
        assert_eq!(view.pieces(8, 1 << 40), [Piece { at: 48, len: 1 << 40 }]);
        assert_eq!(view.one_piece(8, 12), Some(Piece { at: 48, len: 12 }));
        assert_eq!((view.bytes_before(48), view.bytes_before(0)), (8, 0));
    }

    #[test]
    fn positions_and_offsets_are_each_others_inverse() {
        // Two numbers, a gap of one, one number, a gap of four.
        let both = Datatype::indexed(&[2, 1], &[1, 4], &int()).unwrap();
        let filetype = Datatype::resized(&both, 0, 32).unwrap();
        let view = view(100, &filetype);
        for position in 0..200 {
            let offset = view.offset_of(position);
            let (tile, rest) = (position / 12, position % 12);
            let expected = if rest < 8 { 4 + rest } else { 16 + rest - 8 };
            assert_eq!(offset, 100 + tile * 32 + expected);
            assert_eq!(view.bytes_before(offset), position);
            assert_eq!(view.bytes_before(offset + 1), position + 1);
        }
        let pieces = [Piece { at: 106, len: 6 }, Piece { at: 116, len: 4 }, Piece { at: 136, len: 1 }];
        assert_eq!(view.pieces(2, 11), pieces);
        assert_eq!(view.one_piece(2, 11), None);
    }

    #[test]
    fn a_wrong_view_is_refused_with_its_values() {
        let back = Datatype::indexed(&[1, 1], &[4, 0], &int()).unwrap();
        let twice = Datatype::indexed(&[2, 1], &[0, 1], &int()).unwrap();
        let before = Datatype::indexed(&[1], &[-2], &int()).unwrap();
        let new = |filetype, is_written| View::new(0, &int(), filetype, is_written);
        assert_eq!(new(&back, false).unwrap_err(), WrongView::Unordered { at: 0, before: 16 });
        assert_eq!(new(&twice, true).unwrap_err(), WrongView::Overlapping { at: 4 });
        assert!(new(&twice, false).is_ok_and(|view| !view.is_increasing()));
        let plain = int();
        assert!(new(&plain, true).is_ok_and(|view| view.is_increasing()));
        // Neighbours are one piece, in which a later one may begin.
        let inside = Datatype::indexed(&[3, 1], &[0, 1], &int()).unwrap();
        assert!(new(&inside, false).is_ok_and(|view| !view.is_increasing()));
        let two = Datatype::vector(2, 1, 2, &int()).unwrap();
        assert!(new(&two, true).is_ok_and(|view| view.is_increasing()));
        // The second file type begins inside the first one.
        let narrow = Datatype::resized(&Datatype::indexed(&[1, 1], &[0, 4], &int()).unwrap(), 0, 8).unwrap();
        assert!(new(&narrow, true).is_ok_and(|view| !view.is_increasing()));
        assert_eq!(new(&before, true).unwrap_err(), WrongView::Negative { before: 8 });
        let byte = Predefined::Byte.into();
        assert_eq!(new(&byte, true).unwrap_err(), WrongView::NotWhole { etype: 4, filetype: 1 });
    }

    #[test]
    fn an_empty_file_type_has_no_bytes() {
        let empty = view(0, &Datatype::contiguous(0, &int()).unwrap());
        assert!(empty.is_empty() && !empty.has(0, 1) && empty.has(0, 0));
        assert_eq!(empty.pieces(0, 100), []);
    }

    #[test]
    fn a_long_is_shorter_in_external32() {
        let long = Predefined::Long.into();
        let external = View::of_sizes(0, &long, &long, &Predefined::external32_size, true).unwrap();
        assert_eq!((external.etype_bytes(), external.offset_of(8)), (4, 8));
        // The next long but one begins 8 bytes further on, not 16.
        let two = Datatype::vector(2, 1, 2, &long).unwrap();
        let external = View::of_sizes(0, &long, &two, &Predefined::external32_size, true).unwrap();
        assert_eq!(
            external.pieces(0, 16),
            [0, 8, 20].map(|at| Piece { at, len: if at == 8 { 8 } else { 4 } })
        );
    }
    /// MPI 5.0 section 14.5: in native files, the extent is that of memory.
    #[test]
    fn a_pair_has_its_gap_as_in_memory_and_none_in_external32() {
        let pair = Predefined::DoubleInt.into();
        let native = View::new(0, &pair, &pair, true).unwrap();
        assert_eq!(native.pieces(0, 24), [Piece { at: 0, len: 12 }, Piece { at: 16, len: 12 }]);
        let external = View::of_sizes(0, &pair, &pair, &Predefined::external32_size, true).unwrap();
        assert_eq!(external.pieces(0, 24), [Piece { at: 0, len: 24 }]);
    }
}
