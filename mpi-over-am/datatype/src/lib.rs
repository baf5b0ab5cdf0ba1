//! Datatypes: the layout of a message in memory (MPI 5.0 chapter 5).
//!
//! A [`Datatype`] is a list of basic types with their displacements, and an extent: the distance from one element to the next. Data that
//! are not contiguous are copied directly into the NIC's buffers, and from there to their destination, without a packing buffer between.
//!
//! ```
//! use mpi_datatype::{Datatype, Predefined};
//!
//! # fn main() -> mpi_datatype::Result<()> {
//! // A column of a matrix of 4 rows and 3 columns, which begins 8 bytes before the next one.
//! let double = Datatype::predefined(Predefined::Double);
//! let column = Datatype::resized(&Datatype::vector(4, 1, 3, &double)?, 0, 8)?;
//! assert_eq!((column.size(), column.extent(), column.true_extent()), (32, 8, 80));
//! assert!(!column.is_dense());
//! // The three columns together cover every byte of the matrix.
//! assert_eq!(column.span(3)?, (0, 96));
//! assert_eq!(column.packed_len(3)?, 96);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod arrays;
mod construct;
mod contents;
mod error;
mod external32;
mod f90;
mod in_file;
mod layout;
pub mod op;
mod predefined;
mod section;
mod signature;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use arrays::{Distribution, Order};
pub use contents::{Combiner, Contents, LargeContents};
pub use error::{Error, Result};
pub use f90::{TypeClass, UNDEFINED};
pub use layout::{Block, Layout, Visit};
pub use predefined::{Kind, Predefined};
pub use section::{SECTIONS_MAX, Section, address_of_section};
use signature::Signature;

/// A datatype (`MPI_Datatype`). Cloning is cheap, and gives the same type.
#[derive(Clone)]
pub struct Datatype(Repr);

#[derive(Clone)]
enum Repr {
    Predefined(Predefined),
    Derived(Arc<Derived>),
}

/// The parts of a constructed type.
struct Derived {
    layout: Arc<Layout>,
    signature: Arc<Signature>,
    bounds: Bounds,
    basic: Basic,
    contents: Arc<Contents>,
    committed: AtomicBool,
    /// The type's number in the layer above; 0 until set.
    number: AtomicU64,
    /// The type outside sections, and the sections, for a type in sections.
    sections: Option<(Datatype, Arc<[Section]>)>,
}

/// The bounds of a type, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    lower: i64,
    upper: i64,
    /// Bounds of the data alone.
    true_lower: i64,
    true_upper: i64,
    /// Whether `resized` has set the bounds (MPI 5.0 section 5.1.6): only bounds that were set count in types made of this one.
    is_set: bool,
    /// Alignment of the most aligned basic type.
    alignment: i64,
}

/// The predefined types that a type is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basic {
    None,
    Only(Predefined),
    Several,
}

impl Datatype {
    /// A predefined type.
    #[inline(always)]
    #[must_use]
    pub const fn predefined(predefined: Predefined) -> Self {
        Self(Repr::Predefined(predefined))
    }

    /// The predefined type; `None` for a constructed one.
    #[inline(always)]
    #[must_use]
    pub fn as_predefined(&self) -> Option<Predefined> {
        match self.0 {
            Repr::Predefined(predefined) => Some(predefined),
            Repr::Derived(_) => None,
        }
    }

    /// The number that the layer above has given to a constructed type; 0 until then, and for a predefined type.
    #[must_use]
    pub fn number(&self) -> u64 {
        match &self.0 {
            Repr::Predefined(_) => 0,
            // Relaxed: the number publishes nothing.
            Repr::Derived(derived) => derived.number.load(Ordering::Relaxed),
        }
    }

    /// Gives a constructed type its number in the layer above.
    pub fn set_number(&self, number: u64) {
        if let Repr::Derived(derived) = &self.0 {
            derived.number.store(number, Ordering::Relaxed);
        }
    }

    /// Whether there is another clone of this constructed type: in an operation under way, or elsewhere.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(&self.0, Repr::Derived(derived) if Arc::strong_count(derived) > 1)
    }

    /// Bytes of data in one element (`MPI_Type_size`).
    #[inline(always)]
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.0 {
            Repr::Predefined(predefined) => predefined.size(),
            Repr::Derived(derived) => derived.layout.size(),
        }
    }

    /// The displacement at which an element begins (`MPI_Type_get_extent`).
    #[must_use]
    pub fn lower_bound(&self) -> i64 {
        self.bounds().lower
    }

    /// Bytes from one element to the next (`MPI_Type_get_extent`).
    #[inline(always)]
    #[must_use]
    pub fn extent(&self) -> i64 {
        match &self.0 {
            Repr::Predefined(predefined) => predefined.extent().cast_signed(),
            Repr::Derived(derived) => derived.bounds.upper.wrapping_sub(derived.bounds.lower),
        }
    }

    /// The displacement of the first byte of data (`MPI_Type_get_true_extent`).
    #[must_use]
    pub fn true_lower_bound(&self) -> i64 {
        self.bounds().true_lower
    }

    /// Bytes from the first to the last byte of data (`MPI_Type_get_true_extent`).
    #[must_use]
    pub fn true_extent(&self) -> i64 {
        let bounds = self.bounds();
        bounds.true_upper.wrapping_sub(bounds.true_lower)
    }

    /// Whether any number of elements is one block of memory: an element is one block, whose size is the extent.
    #[inline(always)]
    #[must_use]
    pub fn is_dense(&self) -> bool {
        match &self.0 {
            Repr::Predefined(predefined) => predefined.size() == predefined.extent(),
            Repr::Derived(derived) => {
                derived.layout.as_block().is_some()
                    && u64::try_from(derived.bounds.upper.wrapping_sub(derived.bounds.lower))
                        == Ok(derived.layout.size())
            }
        }
    }

    /// The only predefined type in this type; `None` if there are several or none. A pair counts as one type.
    #[inline]
    #[must_use]
    pub fn basic(&self) -> Option<Predefined> {
        match &self.0 {
            Repr::Predefined(predefined) => Some(*predefined),
            Repr::Derived(derived) => match derived.basic {
                Basic::Only(predefined) => Some(predefined),
                Basic::None | Basic::Several => None,
            },
        }
    }

    /// Makes the type ready for communication (`MPI_Type_commit`). The C interface requires this; the Rust calls do not.
    pub fn commit(&self) {
        if let Repr::Derived(derived) = &self.0 {
            // Relaxed: the flag publishes nothing. A program that shares the type with another thread must order the accesses itself.
            derived.committed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the type was committed. Predefined types always are.
    #[inline(always)]
    #[must_use]
    pub fn is_committed(&self) -> bool {
        match &self.0 {
            Repr::Predefined(_) => true,
            Repr::Derived(derived) => derived.committed.load(Ordering::Relaxed),
        }
    }

    /// Number of basic elements in one element, as `MPI_Get_elements` counts them.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.signature().elements()
    }

    /// Number of basic elements in the first `len` bytes of a message of this type (`MPI_Get_elements`); `None` if the last of them is
    /// incomplete (`MPI_UNDEFINED`).
    #[must_use]
    pub fn elements_in(&self, len: u64) -> Option<u64> {
        let size = self.size();
        if size == 0 {
            return (len == 0).then_some(0);
        }
        let (elements, left) = self.signature().elements_in(len % size);
        (left == 0).then(|| len / size * self.elements() + elements)
    }

    /// Length in bytes of the first `elements` basic elements of a message of this type (`MPI_Status_set_elements`). `None` if the length
    /// would be too large, or if the type has no elements and `elements` is not 0.
    #[must_use]
    pub fn bytes_of_elements(&self, elements: u64) -> Option<u64> {
        let signature = self.signature();
        if signature.elements() == 0 {
            return (elements == 0).then_some(0);
        }
        let whole = (elements / signature.elements()).checked_mul(self.size())?;
        whole.checked_add(signature.bytes_of(elements % signature.elements()))
    }

    /// The displacements of the first byte of `count` elements and of their end.
    ///
    /// # Errors
    /// More than 2^63 bytes.
    pub fn span(&self, count: u64) -> crate::error::Result<(i64, i64)> {
        let bounds = self.bounds().repeated(count, self.extent())?;
        Ok((bounds.true_lower, bounds.true_upper))
    }

    /// Size in bytes of `count` packed elements (`MPI_Pack_size`).
    ///
    /// # Errors
    /// More than 2^63 bytes.
    pub fn packed_len(&self, count: u64) -> crate::error::Result<u64> {
        construct::bytes_in_all(self.size(), count)
    }

    /// The layout of `count` elements. The product of count and size must not overflow.
    pub fn layout(&self, count: u64) -> Layout {
        Layout::repeat(self.element(), count, self.extent())
    }

    /// The layout of one element.
    fn element(&self) -> &Arc<Layout> {
        match &self.0 {
            Repr::Predefined(predefined) => &TYPES[*predefined as usize].layout,
            Repr::Derived(derived) => &derived.layout,
        }
    }

    fn signature(&self) -> &Arc<Signature> {
        match &self.0 {
            Repr::Predefined(predefined) => &TYPES[*predefined as usize].signature,
            Repr::Derived(derived) => &derived.signature,
        }
    }

    fn bounds(&self) -> Bounds {
        match &self.0 {
            Repr::Predefined(predefined) => TYPES[*predefined as usize].bounds,
            Repr::Derived(derived) => derived.bounds,
        }
    }

    fn parts(&self) -> Basic {
        match &self.0 {
            Repr::Predefined(predefined) => Basic::Only(*predefined),
            Repr::Derived(derived) => derived.basic,
        }
    }
}

impl From<Predefined> for Datatype {
    fn from(predefined: Predefined) -> Self {
        Self::predefined(predefined)
    }
}

/// Two predefined types are equal if they have the same name, and two derived types if one is a clone of the other (not a duplicate).
impl PartialEq for Datatype {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Predefined(own), Repr::Predefined(other)) => own == other,
            (Repr::Derived(own), Repr::Derived(other)) => Arc::ptr_eq(&own.contents, &other.contents),
            _ => false,
        }
    }
}

impl Eq for Datatype {}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Predefined(predefined) => f.write_str(predefined.name()),
            Repr::Derived(derived) => f
                .debug_struct("Datatype")
                .field("combiner", &derived.contents.combiner)
                .field("size", &derived.layout.size())
                .field("bounds", &derived.bounds)
                .finish_non_exhaustive(),
        }
    }
}

/// The parts of a predefined type.
struct Named {
    layout: Arc<Layout>,
    signature: Arc<Signature>,
    bounds: Bounds,
}

static TYPES: LazyLock<Box<[Named]>> = LazyLock::new(|| Predefined::ALL.iter().map(|&p| named(p)).collect());

fn named(predefined: Predefined) -> Named {
    let layout = match predefined.parts() {
        None => Layout::block(0, predefined.size()),
        Some((value, index)) => {
            let behind = value.size().next_multiple_of(index.alignment()).cast_signed();
            Layout::sequence([Layout::block(0, value.size()), Layout::block(behind, index.size())])
        }
    };
    let (_, true_upper) = construct::true_bounds(&layout);
    let bounds = Bounds {
        lower: 0,
        upper: predefined.extent().cast_signed(),
        true_lower: 0,
        true_upper,
        is_set: false,
        alignment: predefined.alignment().cast_signed(),
    };
    Named { layout: Arc::new(layout), signature: Arc::new(Signature::of(predefined)), bounds }
}
