//! The status of a receive or a probe.

use crate::rank::{ANY_SOURCE, PROC_NULL};
use crate::tag::ANY_TAG;
use mpi_datatype::Datatype;

/// The result of a receive or a probe (`MPI_Status`). The status of a send, or of a wait without an operation, is empty: from
/// [`ANY_SOURCE`], with [`ANY_TAG`] and 0 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub(crate) source: u32,
    pub(crate) tag: i32,
    pub(crate) len: u64,
}

impl Default for Status {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Status {
    /// The status of a send, or of a wait without an operation (MPI 5.0 section 3.7.3).
    pub(crate) const EMPTY: Self = Self { source: ANY_SOURCE, tag: ANY_TAG, len: 0 };
    /// The status of a message from [`PROC_NULL`].
    pub(crate) const OF_PROC_NULL: Self = Self { source: PROC_NULL, tag: ANY_TAG, len: 0 };

    /// A status with these values, for operations that the program carries out itself.
    #[must_use]
    pub fn new(source: u32, tag: i32, len: u64) -> Self {
        Self { source, tag, len }
    }

    /// The sender's rank in the communicator.
    #[inline]
    #[must_use]
    pub fn source(&self) -> u32 {
        self.source
    }

    /// The message's tag.
    #[inline]
    #[must_use]
    pub fn tag(&self) -> i32 {
        self.tag
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
        let status = Status { source: 0, tag: 0, len: 24 };
        assert_eq!(status.count::<u64>(), Some(3));
        assert_eq!(status.count::<[u8; 5]>(), None);
        assert_eq!(status.count::<()>(), None);
        assert_eq!(Status::default().count::<()>(), Some(0));
    }
}
