//! The type constructors except those of arrays (MPI 5.0 sections 5.1.2, 5.1.7 and 5.1.11).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::contents::{Combiner, Contents};
use super::layout::Layout;
use super::signature::Signature;
use super::{Basic, Bounds, Datatype, Derived, Repr};
use crate::error::{Error, Result};

/// Elements of one type at a displacement: a component of a constructed type.
#[derive(Clone, Copy)]
struct Piece<'a> {
    at: i64,
    count: u64,
    datatype: &'a Datatype,
}

impl Datatype {
    /// `count` elements, one after the other (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// [`Error::TooLarge`]: an extent or a size beyond 2^63 bytes. All constructors can fail with this error.
    pub fn contiguous(count: u64, old: &Self) -> Result<Self> {
        let contents = Contents::new(Combiner::Contiguous).integers([count]).types([old]);
        Self::regular((1, 0), (count, old), contents)
    }

    /// `count` blocks of `block_len` elements; each block begins `stride` elements after the previous one (`MPI_Type_vector`).
    ///
    /// # Errors
    /// Those of [`contiguous`](Self::contiguous).
    pub fn vector(count: u64, block_len: u64, stride: i64, old: &Self) -> Result<Self> {
        let bytes = stride.checked_mul(old.extent()).ok_or(TOO_LARGE)?;
        let contents =
            Contents::new(Combiner::Vector).integers([count, block_len]).integer(stride).types([old]);
        Self::regular((count, bytes), (block_len, old), contents)
    }

    /// Like [`vector`](Self::vector), with the stride in bytes (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// Those of [`contiguous`](Self::contiguous).
    pub fn hvector(count: u64, block_len: u64, stride_bytes: i64, old: &Self) -> Result<Self> {
        let contents = Contents::new(Combiner::Hvector)
            .integers([count, block_len])
            .addresses([stride_bytes])
            .types([old]);
        Self::regular((count, stride_bytes), (block_len, old), contents)
    }

    /// Blocks of `block_lens` elements at `displacements`, counted in elements (`MPI_Type_indexed`).
    ///
    /// # Errors
    /// Those of [`contiguous`](Self::contiguous); lists of different lengths.
    pub fn indexed(block_lens: &[u64], displacements: &[i64], old: &Self) -> Result<Self> {
        same_len("indexed", block_lens.len(), displacements.len())?;
        let contents = Contents::new(Combiner::Indexed)
            .integers([block_lens.len() as u64])
            .integers(block_lens.iter().copied())
            .signed_integers(displacements.iter().copied())
            .types([old]);
        Self::scattered(block_lens.iter().copied(), in_bytes(displacements, old)?, old, contents)
    }

    /// Like [`indexed`](Self::indexed), with displacements in bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// Those of [`indexed`](Self::indexed).
    pub fn hindexed(block_lens: &[u64], displacements_bytes: &[i64], old: &Self) -> Result<Self> {
        same_len("hindexed", block_lens.len(), displacements_bytes.len())?;
        let contents = Contents::new(Combiner::Hindexed)
            .integers([block_lens.len() as u64])
            .integers(block_lens.iter().copied())
            .addresses(displacements_bytes.iter().copied())
            .types([old]);
        Self::scattered(block_lens.iter().copied(), displacements_bytes.to_vec(), old, contents)
    }

    /// Blocks of one length at `displacements`, counted in elements (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    /// Those of [`contiguous`](Self::contiguous).
    pub fn indexed_block(block_len: u64, displacements: &[i64], old: &Self) -> Result<Self> {
        let contents = Contents::new(Combiner::IndexedBlock)
            .integers([displacements.len() as u64, block_len])
            .signed_integers(displacements.iter().copied())
            .types([old]);
        Self::scattered(std::iter::repeat(block_len), in_bytes(displacements, old)?, old, contents)
    }

    /// Like [`indexed_block`](Self::indexed_block), with displacements in bytes (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    /// Those of [`contiguous`](Self::contiguous).
    pub fn hindexed_block(block_len: u64, displacements_bytes: &[i64], old: &Self) -> Result<Self> {
        let contents = Contents::new(Combiner::HindexedBlock)
            .integers([displacements_bytes.len() as u64, block_len])
            .addresses(displacements_bytes.iter().copied())
            .types([old]);
        Self::scattered(std::iter::repeat(block_len), displacements_bytes.to_vec(), old, contents)
    }

    /// Blocks of elements of different types, at displacements in bytes (`MPI_Type_create_struct`). The extent is rounded up to
    /// the alignment of the types, as a C compiler does, unless one of the types has bounds that were set, as by
    /// [`resized`](Self::resized).
    ///
    /// # Errors
    /// Those of [`indexed`](Self::indexed).
    pub fn structure(block_lens: &[u64], displacements_bytes: &[i64], types: &[Self]) -> Result<Self> {
        same_len("structure", block_lens.len(), displacements_bytes.len())?;
        same_len("structure", block_lens.len(), types.len())?;
        let contents = Contents::new(Combiner::Struct)
            .integers([block_lens.len() as u64])
            .integers(block_lens.iter().copied())
            .addresses(displacements_bytes.iter().copied())
            .types(types);
        let list = block_lens.iter().zip(displacements_bytes).zip(types);
        let pieces: Vec<_> = list.map(|((&count, &at), datatype)| Piece { at, count, datatype }).collect();
        Self::of_pieces(&pieces, contents, true)
    }

    /// The same data with other bounds (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// Those of [`contiguous`](Self::contiguous).
    pub fn resized(old: &Self, lower_bound: i64, extent: i64) -> Result<Self> {
        let upper = lower_bound.checked_add(extent).ok_or(TOO_LARGE)?;
        let bounds = Bounds { lower: lower_bound, upper, is_set: true, ..old.bounds() };
        let contents = Contents::new(Combiner::Resized).addresses([lower_bound, extent]).types([old]);
        Ok(Self::derived(
            Arc::clone(old.element()),
            Arc::clone(old.signature()),
            bounds,
            old.parts(),
            contents,
        ))
    }

    /// A new type equal to `old`, committed if `old` is (`MPI_Type_dup`).
    #[must_use]
    pub fn dup(old: &Self) -> Self {
        let contents = Contents::new(Combiner::Dup).types([old]);
        let (layout, signature) = (Arc::clone(old.element()), Arc::clone(old.signature()));
        let dup = Self::derived(layout, signature, old.bounds(), old.parts(), contents);
        if old.is_committed() {
            dup.commit();
        }
        dup
    }

    /// `count` blocks, `stride` bytes apart, of `block_len` elements one after the other.
    fn regular(
        (count, stride): (u64, i64),
        (block_len, old): (u64, &Self),
        contents: Contents,
    ) -> Result<Self> {
        let elements = count.checked_mul(block_len).ok_or(TOO_LARGE)?;
        bytes_in_all(old.size(), elements)?;
        let block_bounds = old.bounds().repeated(block_len, old.extent())?;
        let bounds = block_bounds.repeated(count, stride)?;
        let block = Layout::repeat(old.element(), block_len, old.extent());
        let layout = Layout::repeat(&Arc::new(block), count, stride);
        let signature = Signature::repeat(old.signature(), elements);
        let basic = if elements == 0 { Basic::None } else { old.parts() };
        Ok(Self::derived(Arc::new(layout), Arc::new(signature), bounds, basic, contents))
    }

    fn scattered(
        block_lens: impl Iterator<Item = u64>,
        displacements: Vec<i64>,
        old: &Self,
        contents: Contents,
    ) -> Result<Self> {
        let piece = |(at, count)| Piece { at, count, datatype: old };
        let pieces: Vec<_> = displacements.into_iter().zip(block_lens).map(piece).collect();
        Self::of_pieces(&pieces, contents, false)
    }

    fn of_pieces(pieces: &[Piece<'_>], contents: Contents, is_padded: bool) -> Result<Self> {
        let (mut bounds, mut size, mut basic) = (Union::default(), 0u64, Basic::None);
        for piece in pieces.iter().filter(|piece| piece.count > 0) {
            let old = piece.datatype;
            let len = bytes_in_all(old.size(), piece.count)?;
            size = size.checked_add(len).filter(|&size| size <= BYTES_MAX).ok_or(TOO_LARGE)?;
            bounds.add(old.bounds().repeated(piece.count, old.extent())?.shifted(piece.at)?, len > 0);
            basic = basic.with(old.parts());
        }
        let mut bounds = bounds.bounds();
        if is_padded && !bounds.is_set && bounds.alignment > 1 {
            let extent = bounds.upper.checked_sub(bounds.lower).ok_or(TOO_LARGE)?;
            let padding = (bounds.alignment - extent % bounds.alignment) % bounds.alignment;
            bounds.upper = bounds.upper.checked_add(padding).ok_or(TOO_LARGE)?;
        }
        let filled = || pieces.iter().filter(|piece| piece.count > 0);
        let layout =
            Layout::sequence(filled().map(|piece| piece.datatype.layout(piece.count).shifted(piece.at)));
        let signature = Signature::sequence(
            filled().map(|piece| Signature::repeat(piece.datatype.signature(), piece.count)),
        );
        Ok(Self::derived(Arc::new(layout), Arc::new(signature), bounds, basic, contents))
    }

    pub(crate) fn derived(
        layout: Arc<Layout>,
        signature: Arc<Signature>,
        bounds: Bounds,
        basic: Basic,
        contents: Contents,
    ) -> Self {
        let committed = AtomicBool::new(false);
        let (contents, number) = (Arc::new(contents), AtomicU64::new(0));
        Self(Repr::Derived(Arc::new(Derived {
            layout,
            signature,
            bounds,
            basic,
            contents,
            committed,
            number,
            sections: None,
        })))
    }
}

impl Basic {
    /// The predefined types of this part and of another part together.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, other) => other,
            (own, Self::None) => own,
            (Self::Only(own), Self::Only(other)) if own == other => self,
            _ => Self::Several,
        }
    }
}

impl Bounds {
    /// The bounds of an empty type.
    pub(crate) const EMPTY: Self =
        Self { lower: 0, upper: 0, true_lower: 0, true_upper: 0, is_set: false, alignment: 1 };

    /// The bounds of `count` copies of the element, `stride` bytes apart.
    pub(crate) fn repeated(self, count: u64, stride: i64) -> Result<Self> {
        let Some(last) = count.checked_sub(1) else { return Ok(Self::EMPTY) };
        let last = i64::try_from(last).ok().and_then(|last| last.checked_mul(stride)).ok_or(TOO_LARGE)?;
        let has_data = self.true_upper > self.true_lower;
        if !has_data && !self.is_set {
            return Ok(Self::EMPTY);
        }
        let (before, behind) = (last.min(0), last.max(0));
        let sum = |bound: i64, more: i64| bound.checked_add(more).ok_or(TOO_LARGE);
        Ok(Self {
            lower: sum(self.lower, before)?,
            upper: sum(self.upper, behind)?,
            true_lower: if has_data { sum(self.true_lower, before)? } else { 0 },
            true_upper: if has_data { sum(self.true_upper, behind)? } else { 0 },
            ..self
        })
    }

    fn shifted(self, by: i64) -> Result<Self> {
        let sum = |bound: i64| bound.checked_add(by).ok_or(TOO_LARGE);
        Ok(Self {
            lower: sum(self.lower)?,
            upper: sum(self.upper)?,
            true_lower: sum(self.true_lower)?,
            true_upper: sum(self.true_upper)?,
            ..self
        })
    }
}

/// The common bounds of several parts.
#[derive(Default)]
struct Union {
    set: Option<(i64, i64)>,
    natural: Option<(i64, i64)>,
    data: Option<(i64, i64)>,
    alignment: i64,
}

impl Union {
    fn add(&mut self, part: Bounds, has_data: bool) {
        let join = |whole: &mut Option<(i64, i64)>, (lower, upper): (i64, i64)| {
            *whole = Some(whole.map_or((lower, upper), |(low, high)| (low.min(lower), high.max(upper))));
        };
        if part.is_set {
            join(&mut self.set, (part.lower, part.upper));
        } else if has_data {
            join(&mut self.natural, (part.lower, part.upper));
        }
        if has_data {
            join(&mut self.data, (part.true_lower, part.true_upper));
            self.alignment = self.alignment.max(part.alignment);
        }
    }

    fn bounds(&self) -> Bounds {
        let (lower, upper) = self.set.or(self.natural).unwrap_or_default();
        let (true_lower, true_upper) = self.data.unwrap_or_default();
        let alignment = self.alignment.max(1);
        Bounds { lower, upper, true_lower, true_upper, is_set: self.set.is_some(), alignment }
    }
}

/// Maximum length of a message in bytes, because displacements are signed 64-bit numbers.
const BYTES_MAX: u64 = i64::MAX as u64;

pub(crate) const TOO_LARGE: Error = Error::TooLarge { call: "a datatype" };

/// Bytes of `count` elements.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn bytes_in_all(size: u64, count: u64) -> Result<u64> {
    size.checked_mul(count).filter(|&bytes| bytes <= BYTES_MAX).ok_or(TOO_LARGE)
}

/// Where the data of a layout begin and end. `span` cannot overflow: the type's bounds, which enclose the data, were checked.
pub(crate) fn true_bounds(layout: &Layout) -> (i64, i64) {
    layout.span().unwrap_or_default()
}

fn in_bytes(displacements: &[i64], old: &Datatype) -> Result<Vec<i64>> {
    let extent = old.extent();
    displacements.iter().map(|at| at.checked_mul(extent).ok_or(TOO_LARGE)).collect()
}

fn same_len(call: &'static str, expected: usize, given: usize) -> Result<()> {
    if given == expected { Ok(()) } else { Err(Error::Count { call, given, expected }) }
}
