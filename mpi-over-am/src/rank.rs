//! Ranks of a communicator.

/// The sender that a receive or a probe names (MPI 5.0 section 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From this rank of the communicator.
    Rank(u32),
    /// From any rank (`MPI_ANY_SOURCE`).
    Any,
}

/// The source in the status of an operation that received no message.
pub const ANY_SOURCE: u32 = u32::MAX - 1;

/// No rank (`MPI_PROC_NULL`, MPI 5.0 section 3.10): a message to it is dropped, and a receive from it completes at once, without data.
/// Typed calls take `None` for it, which [`Shift`](crate::communicator::topology::Shift) returns at the edge of a grid; a
/// [`Status`](crate::Status) holds this number instead.
pub const PROC_NULL: u32 = u32::MAX;

/// In collectives of an inter-communicator: this task is the root (`MPI_ROOT`). The other tasks of the root's group pass [`PROC_NULL`].
pub const ROOT: u32 = u32::MAX - 2;

impl From<u32> for Source {
    #[inline(always)]
    fn from(rank: u32) -> Self {
        Self::Rank(rank)
    }
}

/// `None` is [`PROC_NULL`], never [`Source::Any`]: the two sides of a [`Shift`](crate::communicator::topology::Shift) can be passed
/// directly to a send and to a receive.
impl From<Option<u32>> for Source {
    #[inline(always)]
    fn from(rank: Option<u32>) -> Self {
        Self::Rank(rank_or_null(rank))
    }
}

/// The receiver's rank of a message; `None` is [`PROC_NULL`].
#[inline(always)]
pub(crate) fn rank_or_null(rank: impl Into<Option<u32>>) -> u32 {
    rank.into().unwrap_or(PROC_NULL)
}
