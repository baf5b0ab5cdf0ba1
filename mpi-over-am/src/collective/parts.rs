//! What a collective has for each of some tasks: memory in parts, and neighbours.

use crate::data::buffer::{RecvData, SendData};
use crate::error::{Error, Result};

/// Memory in parts, one for each rank.
#[derive(Clone, Debug)]
pub enum Parts<D> {
    /// Equal parts, one after the other (`MPI_Gather` and the like).
    Equal {
        /// All parts.
        all: D,
        /// The number of elements of each part.
        count: u64,
    },
    /// Listed parts (the calls whose names end in v or w).
    Listed(Vec<D>),
}

/// Memory that can be divided into parts.
pub(super) trait Divisible: Clone {
    fn elements(&self) -> u64;
    fn taken(&self, first: i64, count: u64) -> Self;
}

impl Divisible for SendData {
    fn elements(&self) -> u64 {
        self.count()
    }

    fn taken(&self, first: i64, count: u64) -> Self {
        self.part(first, count)
    }
}

impl Divisible for RecvData {
    fn elements(&self) -> u64 {
        self.count()
    }

    fn taken(&self, first: i64, count: u64) -> Self {
        self.part(first, count)
    }
}

#[expect(private_bounds, reason = "only these calls have parts")]
impl<D: Divisible> Parts<D> {
    /// The part of a rank.
    pub(super) fn of(&self, rank: u32) -> D {
        match self {
            Self::Equal { all, count } => all.taken((u64::from(rank) * count).cast_signed(), *count),
            Self::Listed(parts) => parts[rank as usize].clone(),
        }
    }

    /// Rejects a number of parts other than the number of ranks.
    pub(super) fn check(&self, call: &'static str, ranks: usize) -> Result<()> {
        let (given, expected) = match self {
            Self::Equal { all, count } => (all.elements(), count.checked_mul(ranks as u64)),
            Self::Listed(parts) => (parts.len() as u64, Some(ranks as u64)),
        };
        same_count(call, given, expected.ok_or(Error::TooLarge { call })?)
    }
}

pub(super) fn same_count(call: &'static str, given: u64, expected: u64) -> Result<()> {
    if given == expected { Ok(()) } else { Err(Error::count(call, given, expected)) }
}

/// The tasks of a neighbourhood from which a task receives, and to which it sends. `None` is [`PROC_NULL`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The ranks from which messages come.
    pub sources: Vec<Option<u32>>,
    /// The ranks to which messages go.
    pub destinations: Vec<Option<u32>>,
    /// Whether the tasks are the two neighbours in each dimension of a grid. A message in the downward direction then arrives from above,
    /// even if both neighbours are the same task (MPI 5.0 section 8.6).
    pub is_grid: bool,
}

impl Neighbours {
    /// The indices of `sources`, in the order in which their receives must be posted. If both neighbours in a dimension of a grid are the
    /// same task, its first message is for the second receive of that dimension.
    pub(super) fn receiving_order(&self) -> impl Iterator<Item = u32> + use<> {
        let is_grid = self.is_grid;
        (0..u32::try_from(self.sources.len()).unwrap_or(u32::MAX))
            .map(move |index| if is_grid { index ^ 1 } else { index })
    }

    /// Rejects ranks that a communicator of `size` tasks does not have.
    pub(super) fn check(&self, size: u32) -> Result<()> {
        let unknown = self.sources.iter().chain(&self.destinations).flatten().find(|rank| **rank >= size);
        unknown.map_or(Ok(()), |&rank| Err(Error::UnknownRank { rank, size }))
    }
}
