//! The predefined datatypes (MPI 5.0 sections 3.2.2, 6.9.4 and 20): C's, C++'s and Fortran's basic types, the pairs of MINLOC and
//! MAXLOC, and MPI's own. Sizes and alignments are those of x86-64 and AArch64 with 64-bit Linux.

/// A named datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Predefined {
    /// `MPI_AINT`
    Aint,
    /// `MPI_COUNT`
    Count,
    /// `MPI_OFFSET`
    Offset,
    /// `MPI_PACKED`
    Packed,
    /// `MPI_SHORT`
    Short,
    /// `MPI_INT`
    Int,
    /// `MPI_LONG`
    Long,
    /// `MPI_LONG_LONG_INT`, with the synonym `MPI_LONG_LONG`
    LongLong,
    /// `MPI_UNSIGNED_SHORT`
    UnsignedShort,
    /// `MPI_UNSIGNED`
    Unsigned,
    /// `MPI_UNSIGNED_LONG`
    UnsignedLong,
    /// `MPI_UNSIGNED_LONG_LONG`
    UnsignedLongLong,
    /// `MPI_FLOAT`
    Float,
    /// `MPI_C_COMPLEX`, with the synonym `MPI_C_FLOAT_COMPLEX`
    FloatComplex,
    /// `MPI_CXX_FLOAT_COMPLEX`
    CxxFloatComplex,
    /// `MPI_DOUBLE`
    Double,
    /// `MPI_C_DOUBLE_COMPLEX`
    DoubleComplex,
    /// `MPI_CXX_DOUBLE_COMPLEX`
    CxxDoubleComplex,
    /// `MPI_LOGICAL`
    Logical,
    /// `MPI_INTEGER`
    Integer,
    /// `MPI_REAL`
    Real,
    /// `MPI_COMPLEX`
    Complex,
    /// `MPI_DOUBLE_PRECISION`
    DoublePrecision,
    /// `MPI_DOUBLE_COMPLEX`
    FortranDoubleComplex,
    /// `MPI_CHARACTER`
    Character,
    /// `MPI_LONG_DOUBLE`
    LongDouble,
    /// `MPI_C_LONG_DOUBLE_COMPLEX`
    LongDoubleComplex,
    /// `MPI_CXX_LONG_DOUBLE_COMPLEX`
    CxxLongDoubleComplex,
    /// `MPI_FLOAT_INT`
    FloatInt,
    /// `MPI_DOUBLE_INT`
    DoubleInt,
    /// `MPI_LONG_INT`
    LongInt,
    /// `MPI_2INT`
    TwoInt,
    /// `MPI_SHORT_INT`
    ShortInt,
    /// `MPI_LONG_DOUBLE_INT`
    LongDoubleInt,
    /// `MPI_2REAL`
    TwoReal,
    /// `MPI_2DOUBLE_PRECISION`
    TwoDoublePrecision,
    /// `MPI_2INTEGER`
    TwoInteger,
    /// `MPI_C_BOOL`
    Bool,
    /// `MPI_CXX_BOOL`
    CxxBool,
    /// `MPI_WCHAR`
    Wchar,
    /// `MPI_INT8_T`
    Int8,
    /// `MPI_UINT8_T`
    Uint8,
    /// `MPI_CHAR`
    Char,
    /// `MPI_SIGNED_CHAR`
    SignedChar,
    /// `MPI_UNSIGNED_CHAR`
    UnsignedChar,
    /// `MPI_BYTE`
    Byte,
    /// `MPI_INT16_T`
    Int16,
    /// `MPI_UINT16_T`
    Uint16,
    /// `MPI_INT32_T`
    Int32,
    /// `MPI_UINT32_T`
    Uint32,
    /// `MPI_INT64_T`
    Int64,
    /// `MPI_UINT64_T`
    Uint64,
    /// `MPI_LOGICAL1`
    Logical1,
    /// `MPI_INTEGER1`
    Integer1,
    /// `MPI_LOGICAL2`
    Logical2,
    /// `MPI_INTEGER2`
    Integer2,
    /// `MPI_REAL2`
    Real2,
    /// `MPI_LOGICAL4`
    Logical4,
    /// `MPI_INTEGER4`
    Integer4,
    /// `MPI_REAL4`
    Real4,
    /// `MPI_COMPLEX4`
    Complex4,
    /// `MPI_LOGICAL8`
    Logical8,
    /// `MPI_INTEGER8`
    Integer8,
    /// `MPI_REAL8`
    Real8,
    /// `MPI_COMPLEX8`
    Complex8,
    /// `MPI_LOGICAL16`
    Logical16,
    /// `MPI_INTEGER16`
    Integer16,
    /// `MPI_REAL16`
    Real16,
    /// `MPI_COMPLEX16`
    Complex16,
    /// `MPI_COMPLEX32`
    Complex32,
}

/// The kind of a predefined type: it decides which reductions are defined, and the form in external32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A signed integer, two's complement.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A floating-point number.
    Float,
    /// Two floating-point numbers of half the size: real and imaginary part.
    Complex,
    /// A truth value: zero is false.
    Logical,
    /// A character.
    Character,
    /// A byte without interpretation.
    Bytes,
    /// A value and an index (MINLOC, MAXLOC).
    Pair,
}

/// The facts of a predefined type.
#[derive(Clone, Copy, Debug)]
struct Facts {
    name: &'static str,
    size: u8,
    extent: u8,
    alignment: u8,
    kind: Kind,
    external32: u8,
}

const fn facts(name: &'static str, sizes: [u8; 4], kind: Kind) -> Facts {
    let [size, extent, alignment, external32] = sizes;
    Facts { name, size, extent, alignment, kind, external32 }
}

/// In the order of the enum. The numbers are size, extent, alignment, and size in external32 (MPI 5.0 section 14.5.2).
const FACTS: [Facts; 70] = [
    facts("MPI_AINT", [8, 8, 8, 8], Kind::Signed),
    facts("MPI_COUNT", [8, 8, 8, 8], Kind::Signed),
    facts("MPI_OFFSET", [8, 8, 8, 8], Kind::Signed),
    facts("MPI_PACKED", [1, 1, 1, 1], Kind::Bytes),
    facts("MPI_SHORT", [2, 2, 2, 2], Kind::Signed),
    facts("MPI_INT", [4, 4, 4, 4], Kind::Signed),
    facts("MPI_LONG", [8, 8, 8, 4], Kind::Signed),
    facts("MPI_LONG_LONG_INT", [8, 8, 8, 8], Kind::Signed),
    facts("MPI_UNSIGNED_SHORT", [2, 2, 2, 2], Kind::Unsigned),
    facts("MPI_UNSIGNED", [4, 4, 4, 4], Kind::Unsigned),
    facts("MPI_UNSIGNED_LONG", [8, 8, 8, 4], Kind::Unsigned),
    facts("MPI_UNSIGNED_LONG_LONG", [8, 8, 8, 8], Kind::Unsigned),
    facts("MPI_FLOAT", [4, 4, 4, 4], Kind::Float),
    facts("MPI_C_COMPLEX", [8, 8, 4, 8], Kind::Complex),
    facts("MPI_CXX_FLOAT_COMPLEX", [8, 8, 4, 8], Kind::Complex),
    facts("MPI_DOUBLE", [8, 8, 8, 8], Kind::Float),
    facts("MPI_C_DOUBLE_COMPLEX", [16, 16, 8, 16], Kind::Complex),
    facts("MPI_CXX_DOUBLE_COMPLEX", [16, 16, 8, 16], Kind::Complex),
    facts("MPI_LOGICAL", [4, 4, 4, 4], Kind::Logical),
    facts("MPI_INTEGER", [4, 4, 4, 4], Kind::Signed),
    facts("MPI_REAL", [4, 4, 4, 4], Kind::Float),
    facts("MPI_COMPLEX", [8, 8, 4, 8], Kind::Complex),
    facts("MPI_DOUBLE_PRECISION", [8, 8, 8, 8], Kind::Float),
    facts("MPI_DOUBLE_COMPLEX", [16, 16, 8, 16], Kind::Complex),
    facts("MPI_CHARACTER", [1, 1, 1, 1], Kind::Character),
    facts("MPI_LONG_DOUBLE", [16, 16, 16, 16], Kind::Float),
    facts("MPI_C_LONG_DOUBLE_COMPLEX", [32, 32, 16, 32], Kind::Complex),
    facts("MPI_CXX_LONG_DOUBLE_COMPLEX", [32, 32, 16, 32], Kind::Complex),
    facts("MPI_FLOAT_INT", [8, 8, 4, 8], Kind::Pair),
    facts("MPI_DOUBLE_INT", [12, 16, 8, 12], Kind::Pair),
    facts("MPI_LONG_INT", [12, 16, 8, 8], Kind::Pair),
    facts("MPI_2INT", [8, 8, 4, 8], Kind::Pair),
    facts("MPI_SHORT_INT", [6, 8, 4, 6], Kind::Pair),
    facts("MPI_LONG_DOUBLE_INT", [20, 32, 16, 20], Kind::Pair),
    facts("MPI_2REAL", [8, 8, 4, 8], Kind::Pair),
    facts("MPI_2DOUBLE_PRECISION", [16, 16, 8, 16], Kind::Pair),
    facts("MPI_2INTEGER", [8, 8, 4, 8], Kind::Pair),
    facts("MPI_C_BOOL", [1, 1, 1, 1], Kind::Logical),
    facts("MPI_CXX_BOOL", [1, 1, 1, 1], Kind::Logical),
    facts("MPI_WCHAR", [4, 4, 4, 2], Kind::Character),
    facts("MPI_INT8_T", [1, 1, 1, 1], Kind::Signed),
    facts("MPI_UINT8_T", [1, 1, 1, 1], Kind::Unsigned),
    facts("MPI_CHAR", [1, 1, 1, 1], Kind::Character),
    facts("MPI_SIGNED_CHAR", [1, 1, 1, 1], Kind::Signed),
    facts("MPI_UNSIGNED_CHAR", [1, 1, 1, 1], Kind::Unsigned),
    facts("MPI_BYTE", [1, 1, 1, 1], Kind::Bytes),
    facts("MPI_INT16_T", [2, 2, 2, 2], Kind::Signed),
    facts("MPI_UINT16_T", [2, 2, 2, 2], Kind::Unsigned),
    facts("MPI_INT32_T", [4, 4, 4, 4], Kind::Signed),
    facts("MPI_UINT32_T", [4, 4, 4, 4], Kind::Unsigned),
    facts("MPI_INT64_T", [8, 8, 8, 8], Kind::Signed),
    facts("MPI_UINT64_T", [8, 8, 8, 8], Kind::Unsigned),
    facts("MPI_LOGICAL1", [1, 1, 1, 1], Kind::Logical),
    facts("MPI_INTEGER1", [1, 1, 1, 1], Kind::Signed),
    facts("MPI_LOGICAL2", [2, 2, 2, 2], Kind::Logical),
    facts("MPI_INTEGER2", [2, 2, 2, 2], Kind::Signed),
    facts("MPI_REAL2", [2, 2, 2, 2], Kind::Float),
    facts("MPI_LOGICAL4", [4, 4, 4, 4], Kind::Logical),
    facts("MPI_INTEGER4", [4, 4, 4, 4], Kind::Signed),
    facts("MPI_REAL4", [4, 4, 4, 4], Kind::Float),
    facts("MPI_COMPLEX4", [4, 4, 2, 4], Kind::Complex),
    facts("MPI_LOGICAL8", [8, 8, 8, 8], Kind::Logical),
    facts("MPI_INTEGER8", [8, 8, 8, 8], Kind::Signed),
    facts("MPI_REAL8", [8, 8, 8, 8], Kind::Float),
    facts("MPI_COMPLEX8", [8, 8, 4, 8], Kind::Complex),
    facts("MPI_LOGICAL16", [16, 16, 16, 16], Kind::Logical),
    facts("MPI_INTEGER16", [16, 16, 16, 16], Kind::Signed),
    facts("MPI_REAL16", [16, 16, 16, 16], Kind::Float),
    facts("MPI_COMPLEX16", [16, 16, 8, 16], Kind::Complex),
    facts("MPI_COMPLEX32", [32, 32, 16, 32], Kind::Complex),
];

impl Predefined {
    /// All types.
    pub const ALL: [Self; 70] = [
        Self::Aint,
        Self::Count,
        Self::Offset,
        Self::Packed,
        Self::Short,
        Self::Int,
        Self::Long,
        Self::LongLong,
        Self::UnsignedShort,
        Self::Unsigned,
        Self::UnsignedLong,
        Self::UnsignedLongLong,
        Self::Float,
        Self::FloatComplex,
        Self::CxxFloatComplex,
        Self::Double,
        Self::DoubleComplex,
        Self::CxxDoubleComplex,
        Self::Logical,
        Self::Integer,
        Self::Real,
        Self::Complex,
        Self::DoublePrecision,
        Self::FortranDoubleComplex,
        Self::Character,
        Self::LongDouble,
        Self::LongDoubleComplex,
        Self::CxxLongDoubleComplex,
        Self::FloatInt,
        Self::DoubleInt,
        Self::LongInt,
        Self::TwoInt,
        Self::ShortInt,
        Self::LongDoubleInt,
        Self::TwoReal,
        Self::TwoDoublePrecision,
        Self::TwoInteger,
        Self::Bool,
        Self::CxxBool,
        Self::Wchar,
        Self::Int8,
        Self::Uint8,
        Self::Char,
        Self::SignedChar,
        Self::UnsignedChar,
        Self::Byte,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Logical1,
        Self::Integer1,
        Self::Logical2,
        Self::Integer2,
        Self::Real2,
        Self::Logical4,
        Self::Integer4,
        Self::Real4,
        Self::Complex4,
        Self::Logical8,
        Self::Integer8,
        Self::Real8,
        Self::Complex8,
        Self::Logical16,
        Self::Integer16,
        Self::Real16,
        Self::Complex16,
        Self::Complex32,
    ];

    #[inline(always)]
    const fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }

    /// The name that C and Fortran programs use, such as `MPI_INT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Bytes of data in one element.
    #[inline(always)]
    #[must_use]
    pub const fn size(self) -> u64 {
        self.facts().size as u64
    }

    /// Bytes from one element to the next; more than the size for some pairs.
    #[inline(always)]
    #[must_use]
    pub const fn extent(self) -> u64 {
        self.facts().extent as u64
    }

    /// The alignment that a compiler gives the type, in bytes.
    #[must_use]
    pub const fn alignment(self) -> u64 {
        self.facts().alignment as u64
    }

    /// The kind of the type.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.facts().kind
    }

    /// Size in bytes of one element in external32.
    #[must_use]
    pub const fn external32_size(self) -> u64 {
        self.facts().external32 as u64
    }

    /// The types of a pair's value and index; `None` if the type is no pair.
    #[must_use]
    pub const fn parts(self) -> Option<(Self, Self)> {
        Some(match self {
            Self::FloatInt => (Self::Float, Self::Int),
            Self::DoubleInt => (Self::Double, Self::Int),
            Self::LongInt => (Self::Long, Self::Int),
            Self::TwoInt => (Self::Int, Self::Int),
            Self::ShortInt => (Self::Short, Self::Int),
            Self::LongDoubleInt => (Self::LongDouble, Self::Int),
            Self::TwoReal => (Self::Real, Self::Real),
            Self::TwoDoublePrecision => (Self::DoublePrecision, Self::DoublePrecision),
            Self::TwoInteger => (Self::Integer, Self::Integer),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_stand_beside_their_types() {
        assert!(!Predefined::ALL.is_empty());
        for (index, predefined) in Predefined::ALL.into_iter().enumerate() {
            assert_eq!(predefined as usize, index);
            assert!(predefined.extent().is_multiple_of(predefined.alignment()), "{}", predefined.name());
            assert_eq!(predefined.parts().is_some(), predefined.kind() == Kind::Pair);
            if let Some((value, index)) = predefined.parts() {
                assert_eq!(predefined.size(), value.size() + index.size());
                assert_eq!(predefined.external32_size(), value.external32_size() + index.external32_size());
            }
        }
        assert_eq!(Predefined::Double.name(), "MPI_DOUBLE");
        // Table 3.2 of MPI 5.0 has MPI_LONG_LONG and MPI_C_FLOAT_COMPLEX as synonyms.
        assert_eq!(Predefined::LongLong.name(), "MPI_LONG_LONG_INT");
        assert_eq!(Predefined::FloatComplex.name(), "MPI_C_COMPLEX");
        assert_eq!((Predefined::ShortInt.size(), Predefined::ShortInt.extent()), (6, 8));
        assert_eq!(Predefined::Complex32.size(), 32);
    }
}
