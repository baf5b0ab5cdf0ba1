//! What a datatype cannot be.

/// An error in an argument of the program's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(clippy::error_impl_error, reason = "there is one, and its crate says whose it is")]
pub enum Error {
    /// Lists whose lengths do not fit together (`MPI_ERR_COUNT`).
    #[error("{call}: {given} elements where {expected} are needed")]
    Count {
        /// The call.
        call: &'static str,
        /// Elements given.
        given: usize,
        /// Elements needed.
        expected: usize,
    },
    /// An extent, a size or a displacement beyond 2^63 bytes (`MPI_ERR_COUNT`).
    #[error("{call} would be longer than 2^63 bytes: use smaller counts")]
    TooLarge {
        /// What it was for.
        call: &'static str,
    },
    /// A part of an array, or a distribution of one, that does not exist (`MPI_ERR_ARG`).
    #[error("dimension {dimension} of the array: {what} (the values are {values:?})")]
    Array {
        /// Which dimension, from 0.
        dimension: usize,
        /// What is wrong.
        what: &'static str,
        /// What was given.
        values: [u64; 3],
    },
    /// A number that the other representation has no room for (`MPI_ERR_CONVERSION`).
    #[error("a value of type {datatype} does not fit into the {bytes} bytes that it has in external32")]
    Conversion {
        /// The type.
        datatype: &'static str,
        /// Bytes of the other representation.
        bytes: usize,
    },
    /// A precision or a range that no type of Fortran has here (`MPI_ERR_ARG`).
    #[error("{call}: {what} (the value is {value})")]
    Fortran {
        /// The call.
        call: &'static str,
        /// What is wrong, and what to do.
        what: &'static str,
        /// What was given.
        value: i64,
    },
}

/// What a call returns that may fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
