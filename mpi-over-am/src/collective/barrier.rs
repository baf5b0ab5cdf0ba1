//! The barrier.
//!
//! A few tasks notify each other in rounds (dissemination; Hensgen, Finkel, Manber 1988): the shortest way where each has a
//! processor. More tasks use a tree: fewer messages (2n - 2 instead of n log n), and all but the inner tasks are woken once,
//! which is what counts where tasks share processors. The tree is flat: of 16 tasks on 2 cores, sixteen children took half
//! the time of four children, or of rounds (27 us against 60 to 80, medians), and 3 to 8 tasks lost nothing by it.

use am_core::fabric::Fabric;

use super::Kind;
use crate::communicator::Communicator;
use crate::error::Result;

/// Up to this many tasks go in rounds.
const ROUNDS_TASKS_MAX: u32 = 4;
/// Children of a task in the tree.
const CHILDREN: u32 = 16;

impl<F: Fabric> Communicator<F> {
    /// Waits until all tasks of the communicator have come here (`MPI_Barrier`).
    ///
    /// # Errors
    /// The death of a task; what progress reports.
    pub fn barrier(&self) -> Result<()> {
        if self.size() <= ROUNDS_TASKS_MAX { self.barrier_in_rounds() } else { self.barrier_by_tree() }
    }

    fn barrier_in_rounds(&self) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            // Both at once: where notices are announced, a circle of tasks that notify first would wait for ever.
            let (next, last) = ((rank + distance) % size, (rank + size - distance) % size);
            self.parts_across::<u8>(Kind::Barrier, (&[], next), (&mut [], last))?;
            distance *= 2;
        }
        Ok(())
    }

    fn barrier_by_tree(&self) -> Result<()> {
        let rank = self.rank();
        let first = u64::from(rank) * u64::from(CHILDREN) + 1;
        let end = (first + u64::from(CHILDREN)).min(u64::from(self.size()));
        let children = || (first..end).filter_map(|child| u32::try_from(child).ok());
        for child in children() {
            self.await_notice(child)?;
        }
        if rank != 0 {
            let parent = (rank - 1) / CHILDREN;
            self.notify(parent)?;
            self.await_notice(parent)?;
        }
        children().try_for_each(|child| self.notify(child))
    }

    fn notify(&self, rank: u32) -> Result<()> {
        self.part_out::<u8>(Kind::Barrier, &[], rank)
    }

    fn await_notice(&self, rank: u32) -> Result<()> {
        self.part_in::<u8>(Kind::Barrier, &mut [], rank)
    }
}
