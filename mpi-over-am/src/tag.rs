//! Tags of messages.

use crate::error::{Error, Result};

/// The largest tag (the attribute `MPI_TAG_UB`, MPI 5.0 section 9.1.2).
pub const TAG_UB: i32 = i32::MAX;

/// The tag in the status of an operation that received no message, such as a receive from [`PROC_NULL`](crate::PROC_NULL).
pub const ANY_TAG: i32 = -2;

/// The tag that a receive or a probe names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tag {
    /// A message with this tag.
    Is(i32),
    /// A message with any tag (`MPI_ANY_TAG`).
    Any,
}

impl From<i32> for Tag {
    #[inline(always)]
    fn from(tag: i32) -> Self {
        Self::Is(tag)
    }
}

/// Checks that a tag is in 0 to [`TAG_UB`].
///
/// # Errors
/// [`Error::TagOutOfRange`].
#[inline(always)]
pub(crate) fn check(tag: i32) -> Result<i32> {
    if tag < 0 { Err(out_of_range(tag)) } else { Ok(tag) }
}

#[cold]
#[inline(never)]
fn out_of_range(tag: i32) -> Error {
    Error::TagOutOfRange { tag, max: TAG_UB }
}
