//! Types selected by precision and range (Fortran's `selected_real_kind` and `selected_int_kind`, MPI 5.0 section 19.1.5), or by type class
//! and size (`MPI_Type_match_size`).

use super::contents::{Combiner, Contents};
use super::{Datatype, Predefined};
use crate::error::{Error, Result};

/// Decimal digits, range of exponents, and the real and the complex type that have them; the smallest first.
const REALS: [(u32, u32, Predefined, Predefined); 4] = [
    (6, 37, Predefined::Real4, Predefined::Complex8),
    (15, 307, Predefined::Real8, Predefined::Complex16),
    // Compilers for x86-64 choose this type for 16 to 18 digits; on other machines it has the format of `Real16`.
    (18, 4931, Predefined::LongDouble, Predefined::LongDoubleComplex),
    (33, 4931, Predefined::Real16, Predefined::Complex32),
];

/// Decimal digits, and the integer type that has them; the smallest first.
const INTEGERS: [(u32, Predefined); 5] = [
    (2, Predefined::Integer1),
    (4, Predefined::Integer2),
    (9, Predefined::Integer4),
    (18, Predefined::Integer8),
    (38, Predefined::Integer16),
];

/// A class of types (`MPI_TYPECLASS_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeClass {
    /// Integers
    Integer,
    /// Floating-point numbers
    Real,
    /// Complex numbers
    Complex,
}

impl Predefined {
    /// The type of this class with this size in bytes (`MPI_Type_match_size`); `None` if there is no such type.
    #[must_use]
    pub fn of_size(class: TypeClass, size: u64) -> Option<Self> {
        let candidates: &[Self] = match class {
            TypeClass::Integer => {
                &[Self::Integer1, Self::Integer2, Self::Integer4, Self::Integer8, Self::Integer16]
            }
            TypeClass::Real => &[Self::Real2, Self::Real4, Self::Real8, Self::Real16],
            TypeClass::Complex => &[Self::Complex4, Self::Complex8, Self::Complex16, Self::Complex32],
        };
        candidates.iter().copied().find(|candidate| candidate.size() == size)
    }
}

impl Datatype {
    /// The type of real numbers with at least this many decimal digits and this range of decimal exponents; `None`: any
    /// (`MPI_Type_create_f90_real`).
    ///
    /// # Errors
    /// There is no such type, or both are `None`.
    pub fn f90_real(precision: Option<u32>, range: Option<u32>) -> Result<Self> {
        let (real, _) = real("f90_real", precision, range)?;
        Ok(Self::selected(Combiner::F90Real, &[precision, range], real))
    }

    /// Like [`f90_real`](Self::f90_real), for complex numbers (`MPI_Type_create_f90_complex`).
    ///
    /// # Errors
    /// Those of [`f90_real`](Self::f90_real).
    pub fn f90_complex(precision: Option<u32>, range: Option<u32>) -> Result<Self> {
        let (_, complex) = real("f90_complex", precision, range)?;
        Ok(Self::selected(Combiner::F90Complex, &[precision, range], complex))
    }

    /// The type of integers with at least this many decimal digits (`MPI_Type_create_f90_integer`).
    ///
    /// # Errors
    /// There is no such type.
    pub fn f90_integer(range: u32) -> Result<Self> {
        let found = INTEGERS.iter().find(|(digits, _)| *digits >= range);
        let &(_, predefined) = found.ok_or_else(|| none("f90_integer", Some(range)))?;
        Ok(Self::selected(Combiner::F90Integer, &[Some(range)], predefined))
    }

    /// An unnamed predefined type: it is committed from the start.
    fn selected(combiner: Combiner, wanted: &[Option<u32>], predefined: Predefined) -> Self {
        // MPI_UNDEFINED stands for an argument that was not given.
        let integers = wanted.iter().map(|wanted| wanted.map_or(UNDEFINED, i64::from));
        let old = Self::predefined(predefined);
        let contents = Contents::new(combiner).signed_integers(integers);
        let (layout, signature) = (old.element().clone(), old.signature().clone());
        let new = Self::derived(layout, signature, old.bounds(), old.parts(), contents);
        new.commit();
        new
    }
}

/// The value in a type's contents for an argument that was not given (`MPI_UNDEFINED`).
pub const UNDEFINED: i64 = -32766;

fn real(call: &'static str, precision: Option<u32>, range: Option<u32>) -> Result<(Predefined, Predefined)> {
    if precision.is_none() && range.is_none() {
        let what = "neither a precision nor a range is given: give at least one of them";
        return Err(Error::Fortran { call, what, value: UNDEFINED });
    }
    let fits = |wanted: Option<u32>, has: u32| wanted.is_none_or(|wanted| wanted <= has);
    let found =
        REALS.iter().find(|(digits, exponents, ..)| fits(precision, *digits) && fits(range, *exponents));
    let &(_, _, real, complex) = found.ok_or_else(|| none(call, precision.or(range)))?;
    Ok((real, complex))
}

fn none(call: &'static str, wanted: Option<u32>) -> Error {
    let what = "no type has this precision and range: ask for less";
    Error::Fortran { call, what, value: wanted.map_or(UNDEFINED, i64::from) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_type_that_is_enough() {
        let real = |precision, range| Datatype::f90_real(precision, range).map(|new| new.basic());
        assert_eq!(real(Some(6), Some(37)).unwrap(), Some(Predefined::Real4));
        assert_eq!(real(Some(7), None).unwrap(), Some(Predefined::Real8));
        assert_eq!(real(None, Some(300)).unwrap(), Some(Predefined::Real8));
        assert_eq!(real(Some(18), Some(308)).unwrap(), Some(Predefined::LongDouble));
        assert_eq!(real(Some(33), None).unwrap(), Some(Predefined::Real16));
        assert!(matches!(real(Some(34), None), Err(Error::Fortran { .. })));
        assert!(matches!(real(None, None), Err(Error::Fortran { .. })));
        let complex = Datatype::f90_complex(Some(15), Some(307)).unwrap();
        assert_eq!((complex.size(), complex.is_committed()), (16, true));
        assert_eq!(complex.contents().unwrap().integers, [15, 307]);
        assert_eq!(Datatype::f90_real(None, Some(3)).unwrap().contents().unwrap().integers, [UNDEFINED, 3]);
        assert_eq!(Datatype::f90_integer(10).unwrap().basic(), Some(Predefined::Integer8));
        assert!(matches!(Datatype::f90_integer(39), Err(Error::Fortran { .. })));
    }

    #[test]
    fn types_of_a_class_have_their_size() {
        assert_eq!(Predefined::of_size(TypeClass::Real, 8), Some(Predefined::Real8));
        assert_eq!(Predefined::of_size(TypeClass::Complex, 8), Some(Predefined::Complex8));
        assert_eq!(Predefined::of_size(TypeClass::Integer, 3), None);
        for (class, size) in [(TypeClass::Integer, 16), (TypeClass::Complex, 32), (TypeClass::Real, 2)] {
            assert_eq!(Predefined::of_size(class, size).unwrap().size(), size);
        }
    }
}
