//! MPI's own operations, on packed elements of predefined datatypes (MPI 5.0 section 6.9.2).

mod combine;
mod wide_float;

pub use combine::{Combine, Form, Function, Slices, Word, Words, combine_of, function_of};

/// MPI's own operations (MPI 5.0 sections 6.9.2, 6.9.4 and 12.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PredefinedOp {
    /// `MPI_MAX`
    Max,
    /// `MPI_MIN`
    Min,
    /// `MPI_SUM`
    Sum,
    /// `MPI_PROD`
    Product,
    /// `MPI_LAND`
    LogicalAnd,
    /// `MPI_BAND`
    BitwiseAnd,
    /// `MPI_LOR`
    LogicalOr,
    /// `MPI_BOR`
    BitwiseOr,
    /// `MPI_LXOR`
    LogicalXor,
    /// `MPI_BXOR`
    BitwiseXor,
    /// `MPI_MAXLOC`
    MaxLocation,
    /// `MPI_MINLOC`
    MinLocation,
    /// `MPI_REPLACE`: the earlier value. For windows.
    Replace,
    /// `MPI_NO_OP`: the later value. For windows.
    NoOp,
}

impl PredefinedOp {
    /// All operations.
    pub const ALL: [Self; 14] = [
        Self::Max,
        Self::Min,
        Self::Sum,
        Self::Product,
        Self::LogicalAnd,
        Self::BitwiseAnd,
        Self::LogicalOr,
        Self::BitwiseOr,
        Self::LogicalXor,
        Self::BitwiseXor,
        Self::MaxLocation,
        Self::MinLocation,
        Self::Replace,
        Self::NoOp,
    ];

    /// The name that C and Fortran programs use, such as `MPI_SUM`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max => "MPI_MAX",
            Self::Min => "MPI_MIN",
            Self::Sum => "MPI_SUM",
            Self::Product => "MPI_PROD",
            Self::LogicalAnd => "MPI_LAND",
            Self::BitwiseAnd => "MPI_BAND",
            Self::LogicalOr => "MPI_LOR",
            Self::BitwiseOr => "MPI_BOR",
            Self::LogicalXor => "MPI_LXOR",
            Self::BitwiseXor => "MPI_BXOR",
            Self::MaxLocation => "MPI_MAXLOC",
            Self::MinLocation => "MPI_MINLOC",
            Self::Replace => "MPI_REPLACE",
            Self::NoOp => "MPI_NO_OP",
        }
    }
}
