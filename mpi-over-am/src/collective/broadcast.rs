//! The broadcast.
//!
//! Short buffers go down a binomial tree: few hops. Long ones go along a chain in pieces: each task passes one piece on while
//! it receives the next, so that the time does not grow with the number of tasks.

use am_core::fabric::Fabric;

use super::{Datum, Kind};
use crate::communicator::Communicator;
use crate::error::Result;

/// Up to this many bytes go down the tree.
const TREE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a piece in the chain.
const PIECE_BYTES: usize = 128 << 10;

impl<F: Fabric> Communicator<F> {
    /// Makes every task's `buffer` what it is at rank `root` (`MPI_Bcast`). All are equally long.
    ///
    /// # Errors
    /// An unknown root, buffers of different lengths, the death of a task.
    pub fn broadcast<T: Datum>(&self, buffer: &mut [T], root: u32) -> Result<()> {
        self.check_root(root)?;
        if size_of_val(buffer) <= TREE_BYTES_MAX {
            self.broadcast_by_tree(buffer, root)
        } else {
            self.broadcast_by_chain(buffer, root)
        }
    }

    /// Seen from the root, task `r` gets from `r` without its lowest bit, and gives to `r` with a lower bit added.
    pub(super) fn broadcast_by_tree<T: Datum>(&self, buffer: &mut [T], root: u32) -> Result<()> {
        let size = u64::from(self.size());
        let from_root = (u64::from(self.rank()) + size - u64::from(root)) % size;
        let lowest = if from_root == 0 { size.next_power_of_two() } else { 1 << from_root.trailing_zeros() };
        if from_root != 0 {
            self.part_in(Kind::Broadcast, buffer, self.behind_root(from_root - lowest, root))?;
        }
        let mut bit = lowest / 2;
        while bit > 0 {
            if from_root + bit < size {
                self.part_out(Kind::Broadcast, buffer, self.behind_root(from_root + bit, root))?;
            }
            bit /= 2;
        }
        Ok(())
    }

    fn broadcast_by_chain<T: Datum>(&self, buffer: &mut [T], root: u32) -> Result<()> {
        let size = u64::from(self.size());
        let from_root = (u64::from(self.rank()) + size - u64::from(root)) % size;
        let piece_len = (PIECE_BYTES / size_of::<T>().max(1)).max(1);
        let before = (from_root > 0).then(|| self.behind_root(from_root - 1, root));
        let next = (from_root + 1 < size).then(|| self.behind_root(from_root + 1, root));
        let mut rest = buffer;
        let mut last: &[T] = &[];
        while !rest.is_empty() {
            let (piece, others) = rest.split_at_mut(piece_len.min(rest.len()));
            match (before, next) {
                (None, None) => {}
                (None, Some(next)) => self.part_out(Kind::Broadcast, piece, next)?,
                (Some(before), Some(next)) if !last.is_empty() => {
                    self.parts_across(Kind::Broadcast, (last, next), (piece, before))?;
                }
                (Some(before), _) => self.part_in(Kind::Broadcast, piece, before)?,
            }
            last = piece;
            rest = others;
        }
        match (before, next) {
            (Some(_), Some(next)) => self.part_out(Kind::Broadcast, last, next),
            _ => Ok(()),
        }
    }

    /// The rank that is `distance` behind the root, around the end.
    fn behind_root(&self, distance: u64, root: u32) -> u32 {
        let rank = (u64::from(root) + distance) % u64::from(self.size());
        u32::try_from(rank).expect("a remainder of a u32 is one")
    }
}
