//! How a datatype was made (MPI 5.0 section 5.1.13).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::{Datatype, Derived, Repr};

/// The constructor of a type (`MPI_COMBINER_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combiner {
    /// A predefined type.
    Named,
    /// [`Datatype::dup`]
    Dup,
    /// [`Datatype::contiguous`]
    Contiguous,
    /// [`Datatype::vector`]
    Vector,
    /// [`Datatype::hvector`]
    Hvector,
    /// [`Datatype::indexed`]
    Indexed,
    /// [`Datatype::hindexed`]
    Hindexed,
    /// [`Datatype::indexed_block`]
    IndexedBlock,
    /// [`Datatype::hindexed_block`]
    HindexedBlock,
    /// [`Datatype::structure`]
    Struct,
    /// [`Datatype::subarray`]
    Subarray,
    /// [`Datatype::darray`]
    Darray,
    /// [`Datatype::resized`]
    Resized,
    /// [`Datatype::f90_real`]
    F90Real,
    /// [`Datatype::f90_complex`]
    F90Complex,
    /// [`Datatype::f90_integer`]
    F90Integer,
}

/// The arguments of a constructor, in the order of MPI's calls without `_c` (`MPI_Type_get_contents`): counts, lengths and displacements in
/// elements are among the integers, and displacements in bytes among the addresses.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The constructor.
    pub combiner: Combiner,
    /// Counts, lengths, displacements in elements, and constants.
    pub integers: Vec<i64>,
    /// Displacements, bounds and strides in bytes.
    pub addresses: Vec<i64>,
    /// The types that the type is made of.
    pub datatypes: Vec<Datatype>,
    /// Whether the call had large counts ([`Datatype::made_large`]); [`large`](Self::large) returns the arguments in that form.
    pub is_large: bool,
}

/// The arguments of a constructor, in the form of MPI's calls with `_c` (`MPI_Type_get_contents_c`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeContents {
    /// Arguments that stay integers: numbers of dimensions, and constants.
    pub integers: Vec<i64>,
    /// All other arguments.
    pub counts: Vec<i64>,
}

impl Contents {
    pub(crate) fn new(combiner: Combiner) -> Self {
        Self { combiner, integers: Vec::new(), addresses: Vec::new(), datatypes: Vec::new(), is_large: false }
    }

    /// Adds counts to the integers. A count beyond 2^63 was refused before, or makes the construction fail.
    pub(crate) fn integers(self, counts: impl IntoIterator<Item = u64>) -> Self {
        self.signed_integers(counts.into_iter().map(u64::cast_signed))
    }

    pub(crate) fn signed_integers(mut self, integers: impl IntoIterator<Item = i64>) -> Self {
        self.integers.extend(integers);
        self
    }

    pub(crate) fn integer(self, integer: i64) -> Self {
        self.signed_integers([integer])
    }

    pub(crate) fn addresses(mut self, addresses: impl IntoIterator<Item = i64>) -> Self {
        self.addresses.extend(addresses);
        self
    }

    pub(crate) fn types<'a>(mut self, types: impl IntoIterator<Item = &'a Datatype>) -> Self {
        self.datatypes.extend(types.into_iter().map(Datatype::by_value));
        self
    }

    /// The same arguments, in the form of MPI's calls with large counts.
    #[must_use]
    pub fn large(&self) -> LargeContents {
        match self.combiner {
            Combiner::Subarray => {
                let last = self.integers.len() - 1;
                let integers = vec![self.integers[0], self.integers[last]];
                LargeContents { integers, counts: self.integers[1..last].to_vec() }
            }
            Combiner::Darray => {
                // Size, rank and number of dimensions; then the array's lengths, which are counts; then arguments that stay integers.
                let dimensions = usize::try_from(self.integers[2]).unwrap_or_default();
                let (head, rest) = self.integers.split_at(3);
                let (lengths, rest) = rest.split_at(dimensions.min(rest.len()));
                LargeContents { integers: [head, rest].concat(), counts: lengths.to_vec() }
            }
            _ => {
                let counts = [&self.integers[..], &self.addresses[..]].concat();
                LargeContents { integers: Vec::new(), counts }
            }
        }
    }
}

impl Datatype {
    /// A type of its own that is equal to this one, without its number: a type that another one is made of, or that
    /// `MPI_Type_get_contents` returns. Constructors take types by value, and freeing one does not affect the other (MPI 5.0 sections 5.1.9
    /// and 5.1.13).
    #[must_use]
    pub fn by_value(&self) -> Self {
        match &self.0 {
            Repr::Predefined(_) => self.clone(),
            Repr::Derived(derived) => Self(Repr::Derived(Arc::new(Derived {
                layout: Arc::clone(&derived.layout),
                signature: Arc::clone(&derived.signature),
                contents: Arc::clone(&derived.contents),
                bounds: derived.bounds,
                basic: derived.basic,
                committed: AtomicBool::new(self.is_committed()),
                sections: derived.sections.clone(),
                number: AtomicU64::new(0),
            }))),
        }
    }

    /// The same type, marked as made by a call with large counts (`MPI_Type_vector_c` and the like). A predefined type, or a type that has
    /// clones, stays as it is.
    #[must_use]
    pub fn made_large(mut self) -> Self {
        if let Repr::Derived(derived) = &mut self.0
            && let Some(contents) =
                Arc::get_mut(derived).and_then(|derived| Arc::get_mut(&mut derived.contents))
        {
            contents.is_large = true;
        }
        self
    }

    /// The constructor (`MPI_Type_get_envelope`).
    #[must_use]
    pub fn combiner(&self) -> Combiner {
        match &self.0 {
            Repr::Predefined(_) => Combiner::Named,
            Repr::Derived(derived) => derived.contents.combiner,
        }
    }

    /// The constructor's arguments (`MPI_Type_get_contents`); `None` for a predefined type.
    #[must_use]
    pub fn contents(&self) -> Option<&Contents> {
        match &self.0 {
            Repr::Predefined(_) => None,
            Repr::Derived(derived) => Some(&derived.contents),
        }
    }
}
