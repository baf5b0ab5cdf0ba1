//! Errors of datatypes.

/// An invalid argument of the program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(clippy::error_impl_error, reason = "the crate has only one, named by its path")]
pub enum Error {
    /// Lists of different lengths (`MPI_ERR_COUNT`).
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
        /// The call or type.
        call: &'static str,
    },
    /// An invalid part or distribution of an array (`MPI_ERR_ARG`).
    #[error("dimension {dimension} of the array: {what} (the values are {values:?})")]
    Array {
        /// The dimension, counted from 0.
        dimension: usize,
        /// What is wrong.
        what: &'static str,
        /// The values given.
        values: [u64; 3],
    },
    /// A number that does not fit into its form in external32 (`MPI_ERR_CONVERSION`).
    #[error("a value of type {datatype} does not fit into the {bytes} bytes that it has in external32")]
    Conversion {
        /// The type.
        datatype: &'static str,
        /// Size in bytes of the type in external32.
        bytes: usize,
    },
    /// A precision or range that no Fortran type on this machine has (`MPI_ERR_ARG`).
    #[error("{call}: {what} (the value is {value})")]
    Fortran {
        /// The call.
        call: &'static str,
        /// What is wrong, and what to do.
        what: &'static str,
        /// The value given.
        value: i64,
    },
}

/// The result of a call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
