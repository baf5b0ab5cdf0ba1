//! Ranks: who takes part in a communicator.

/// From whom a receive or a probe takes a message (MPI 4.1 section 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From this rank of the communicator.
    Rank(u32),
    /// From any rank (`MPI_ANY_SOURCE`).
    Any,
}

/// The source in a status that belongs to no message.
pub const ANY_SOURCE: u32 = u32::MAX - 1;

/// Nobody (`MPI_PROC_NULL`, MPI 5.0 section 3.10): a message to this rank goes nowhere, one from it is empty and there at once.
pub const PROC_NULL: u32 = u32::MAX;

/// In collectives of an inter-communicator: this task is the root (`MPI_ROOT`). The others of its side say [`PROC_NULL`].
pub const ROOT: u32 = u32::MAX - 2;

impl From<u32> for Source {
    #[inline(always)]
    fn from(rank: u32) -> Self {
        Self::Rank(rank)
    }
}
