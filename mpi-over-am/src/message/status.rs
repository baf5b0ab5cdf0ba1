//! The status of a receive or a probe.

use crate::rank::{ANY_SOURCE, PROC_NULL};
use crate::tag::ANY_TAG;
use mpi_datatype::Datatype;

/// The result of a receive or a probe (`MPI_Status`). The status of a send, or of a wait without an operation, is empty: from
/// [`ANY_SOURCE`], with [`ANY_TAG`] and 0 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The tag in the high half, the source in the low one: a status in two words stays in registers.
    pub(crate) from: u64,
    pub(crate) len: u64,
}

impl Default for Status {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Status {
    /// The status of a send, or of a wait without an operation (MPI 5.0 section 3.7.3).
    pub(crate) const EMPTY: Self = Self::new(ANY_SOURCE, ANY_TAG, 0);
    /// The status of a message from [`PROC_NULL`].
    pub(crate) const OF_PROC_NULL: Self = Self::new(PROC_NULL, ANY_TAG, 0);

    /// A status with these values, for operations that the program carries out itself.
    #[inline]
    #[must_use]
    pub const fn new(source: u32, tag: i32, len: u64) -> Self {
        Self { from: (tag.cast_unsigned() as u64) << u32::BITS | source as u64, len }
    }

    /// The sender's rank in the communicator.
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub const fn source(&self) -> u32 {
        self.from as u32
    }

    /// The message's tag.
    #[inline]
    #[must_use]
    pub const fn tag(&self) -> i32 {
        ((self.from >> u32::BITS) as u32).cast_signed()
    }

    /// Bytes of the message.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the message has 0 bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of elements of type `T` in the message (`MPI_Get_count`); `None` if it does not consist of whole elements (`MPI_UNDEFINED`).
    #[must_use]
    pub fn count<T>(&self) -> Option<u64> {
        let size = size_of::<T>() as u64;
        match size {
            0 => (self.len == 0).then_some(0),
            size => self.len.is_multiple_of(size).then_some(self.len / size),
        }
    }

    /// Number of elements of a datatype in the message (`MPI_Get_count`); `None` if it does not consist of whole elements
    /// (`MPI_UNDEFINED`).
    #[must_use]
    pub fn count_of(&self, datatype: &Datatype) -> Option<u64> {
        match datatype.size() {
            0 => (self.len == 0).then_some(0),
            size => self.len.is_multiple_of(size).then_some(self.len / size),
        }
    }

    /// Number of basic elements in the message, if its elements have this type (`MPI_Get_elements`); `None` if the last basic element is
    /// incomplete.
    #[must_use]
    pub fn elements_of(&self, datatype: &Datatype) -> Option<u64> {
        datatype.elements_in(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_elements_or_nothing() {
        let status = Status::new(0, 0, 24);
        assert_eq!(status.count::<u64>(), Some(3));
        assert_eq!(status.count::<[u8; 5]>(), None);
        assert_eq!(status.count::<()>(), None);
        assert_eq!(Status::default().count::<()>(), Some(0));
    }
}
