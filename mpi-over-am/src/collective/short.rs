//! Short collectives of the C interface, rooted or of two tasks, and the barrier of two tasks. They exchange the same messages as the
//! algorithms in the neighbouring files, without building a [`Collective`](super::Collective) and without a request. So in one collective
//! some tasks may use this fast path, and others the general algorithm.

use am_core::buffer::{RawBuffer, RawBytes};
use am_core::fabric::Fabric;
use mpi_datatype::op::Combine;

use super::direct::TAG;
use super::on_lines;
use crate::communicator::{Brief, Communicator};
use crate::context_id::Space;
use crate::data::buffer::{combine_bytes, lend_to_receive, with_slice};
use crate::error::Result;
use crate::events;
use crate::matching::Pattern;
use crate::message::progress::check_len;
use crate::message::protocol::{self, Borrowed};
use crate::message::route::Mode;
use crate::message::state::State;
use crate::message::tree::Tree;
use crate::policy::LockPolicy;
use crate::request::blocking;
use crate::settings::{Check, Selection};

/// Maximum bytes of a task's data on this fast path. Up to this length the general algorithms send the same messages.
const SHORT_BYTES_MAX: usize = 4096;
const SHORT_WORDS: usize = SHORT_BYTES_MAX / size_of::<u64>();
/// Maximum bytes of a reduction that uses short stack buffers, which each call clears.
const REDUCED_BYTES_MAX: usize = 128;
const REDUCED_WORDS: usize = REDUCED_BYTES_MAX / size_of::<u64>();

/// If one of these calls returns `None`, nothing has happened, and the caller must call [`Collective::run`](super::Collective::run).
impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// `MPI_Bcast` of bytes.
    #[inline]
    pub fn try_broadcast_bytes(&self, buffer: RawBuffer, root: u32) -> Option<Result<()>> {
        if on_lines::serve_broadcast(buffer.len() as u64, self.size()) && self.may_have_lines() {
            return None;
        }
        let mut state =
            self.state_for_short(buffer.len(), root, |selection| selection.broadcast_tree_bytes_max)?;
        if self.size() == 2 {
            return Some(match self.rank() == root {
                true => self.push_short(&mut state, buffer.as_bytes(), 1 - root),
                false => self.pull_short(&mut state, buffer, root),
            });
        }
        let place = self.place_in_tree(&state, root, buffer.len());
        Some((|| {
            if let Some(parent) = place.parent() {
                self.pull_short(&mut state, buffer, parent)?;
            }
            place.children().rev().try_for_each(|child| self.push_short(&mut state, buffer.as_bytes(), child))
        })())
    }

    /// `MPI_Reduce` of the elements in `own`, with an operation that commutes. At the root, `own` may be `None`: the elements are then in
    /// `into`.
    #[inline]
    pub fn try_reduce_bytes(
        &self,
        own: Option<RawBytes>,
        into: Option<RawBuffer>,
        combine: Combine,
        root: u32,
    ) -> Option<Result<()>> {
        let into = into.filter(|_| self.rank() == root);
        let first = own.or(into.map(|into| into.as_bytes()))?;
        let len = first.len();
        let is_apart = into.is_none_or(|into| lie_apart(first, into.as_bytes()));
        let needs_buffers = self.size() != 2 || !is_apart;
        if len > REDUCED_BYTES_MAX && needs_buffers {
            return None;
        }
        let mut state = self.state_for_short(len, root, |selection| selection.reduce_tree_bytes_max)?;
        if into.is_none() && self.rank() == root || into.is_some_and(|into| into.len() != len) {
            return None;
        }
        if !needs_buffers {
            return Some(match into {
                None => self.push_short(&mut state, first, root),
                Some(into) => {
                    self.pull_short(&mut state, into, 1 - root).map(|()| combine_bytes(first, into, combine))
                }
            });
        }
        let place = self.place_in_tree(&state, root, len);
        let mut buffers = [[0u64; REDUCED_WORDS]; 2];
        let [one, other] = &mut buffers;
        Some(lend_to_receive(one, |one| {
            lend_to_receive(other, |other| {
                let (Some(one), Some(other)) = (one.part(0, len), other.part(0, len)) else { return Ok(()) };
                // The first child's data are combined in the memory of the result, if this task's elements are elsewhere.
                let (mut later, mut free) = match into {
                    Some(into) if is_apart => (into, one),
                    _ => (one, other),
                };
                let mut reduced = first;
                for child in place.children() {
                    self.pull_short(&mut state, later, child)?;
                    combine_bytes(reduced, later, combine);
                    reduced = later.as_bytes();
                    std::mem::swap(&mut later, &mut free);
                }
                match (place.parent(), into) {
                    (Some(parent), _) => self.push_short(&mut state, reduced, parent)?,
                    (None, Some(into)) if into.at() != reduced.at() => reduced.copy_to_buffer(into),
                    _ => {}
                }
                Ok(())
            })
        }))
    }

    /// `MPI_Gather` of bytes: from `own` of each task to `into` at the root.
    #[inline]
    pub fn try_gather_bytes(&self, own: RawBytes, into: Option<RawBuffer>, root: u32) -> Option<Result<()>> {
        let len = own.len();
        if on_lines::serve_gather(len as u64, self.size()) && self.may_have_lines() {
            return None;
        }
        let mut state = self.state_for_short(len, root, |_| u64::MAX)?;
        if self.rank() != root {
            return Some(self.push_short(&mut state, own, root));
        }
        if let Some((mine, other)) = self.halves_of(into?, len) {
            own.copy_to_buffer(mine);
            return Some(self.pull_short(&mut state, other, 1 - root));
        }
        let into = into.filter(|into| into.len() == len * self.size() as usize)?;
        own.copy_to_buffer(into.part(root as usize * len, len)?);
        Some(self.others(root).try_for_each(|from| match into.part(from as usize * len, len) {
            Some(part) => self.pull_short(&mut state, part, from),
            None => Ok(()),
        }))
    }

    /// `MPI_Scatter` of bytes: the parts of `from` at the root to `into` of each task.
    #[inline]
    pub fn try_scatter_bytes(
        &self,
        from: Option<RawBytes>,
        into: RawBuffer,
        root: u32,
    ) -> Option<Result<()>> {
        let len = into.len();
        let mut state = self.state_for_short(len, root, |_| u64::MAX)?;
        if self.rank() != root {
            return Some(self.pull_short(&mut state, into, root));
        }
        let from = from.filter(|from| from.len() == len * self.size() as usize)?;
        let own = from.part(root as usize * len, len)?;
        let sent = self.others(root).try_for_each(|to| match from.part(to as usize * len, len) {
            Some(part) => self.push_short(&mut state, part, to),
            None => Ok(()),
        });
        own.copy_to_buffer(into);
        Some(sent)
    }

    /// `MPI_Barrier` of two tasks.
    #[inline]
    pub(super) fn try_barrier_of_two(&self) -> Option<Result<()>> {
        self.swap_short(RawBytes::EMPTY, RawBuffer::EMPTY)
    }

    /// `MPI_Allgather` of bytes, of two tasks: from `own` of each to `into` of both.
    #[inline]
    pub fn try_allgather_of_two(&self, own: RawBytes, into: RawBuffer) -> Option<Result<()>> {
        let (mine, other) = self.halves_of(into, own.len())?;
        let swapped = self.swap_short(own, other)?;
        own.copy_to_buffer(mine);
        Some(swapped)
    }

    /// `MPI_Alltoall` of bytes, of two tasks: from the two halves of `from` to those of `into`.
    #[inline]
    pub fn try_alltoall_of_two(&self, from: RawBytes, into: RawBuffer) -> Option<Result<()>> {
        let len = from.len() / 2;
        let (mine, other) = self.halves_of(into, len)?;
        let rank = self.rank() as usize;
        let (own, out) = (from.part(rank * len, len)?, from.part((1 - rank) * len, len)?);
        let swapped = self.swap_short(out, other)?;
        own.copy_to_buffer(mine);
        Some(swapped)
    }

    /// `MPI_Allreduce` of the elements in `own`, of two tasks, with an operation that commutes.
    #[inline]
    pub fn try_allreduce_of_two(
        &self,
        own: RawBytes,
        into: RawBuffer,
        combine: Combine,
    ) -> Option<Result<()>> {
        let len = own.len();
        if len > SHORT_BYTES_MAX || into.len() != len {
            None
        } else if len <= REDUCED_BYTES_MAX {
            self.allreduce_of_two::<REDUCED_WORDS>((own, into), combine)
        } else {
            self.allreduce_of_two::<SHORT_WORDS>((own, into), combine)
        }
    }

    /// [`try_allreduce_of_two`](Self::try_allreduce_of_two) with a buffer of `WORDS` words, which is cleared first.
    #[inline(always)]
    fn allreduce_of_two<const WORDS: usize>(
        &self,
        (own, into): (RawBytes, RawBuffer),
        combine: Combine,
    ) -> Option<Result<()>> {
        let len = own.len();
        let mut other = [0u64; WORDS];
        lend_to_receive(&mut other, |other| {
            let other = other.part(0, len)?;
            let swapped = self.swap_short(own, other)?;
            // Both tasks combine in the order of their ranks, so they get the same bits.
            if self.rank() == 0 {
                combine_bytes(own, other, combine);
                other.as_bytes().copy_to_buffer(into);
            } else {
                if own.at() != into.at() {
                    own.copy_to_buffer(into);
                }
                combine_bytes(other.as_bytes(), into, combine);
            }
            Some(swapped)
        })
    }

    /// The halves of `into` for this task and for the other of the two tasks, of `len` bytes each.
    #[inline(always)]
    fn halves_of(&self, into: RawBuffer, len: usize) -> Option<(RawBuffer, RawBuffer)> {
        if self.size() != 2 || into.len() != 2 * len {
            return None;
        }
        let rank = self.rank() as usize;
        Some((into.part(rank * len, len)?, into.part((1 - rank) * len, len)?))
    }

    /// Sends bytes to the other of the two tasks, and receives from it.
    #[inline(always)]
    fn swap_short(&self, out: RawBytes, into: RawBuffer) -> Option<Result<()>> {
        if self.size() != 2 {
            return None;
        }
        let other = 1 - self.rank();
        let len = out.len().max(into.len());
        let mut state =
            self.state_for_short(len, other, |selection| selection.allreduce_doubling_bytes_max)?;
        let route = self.route(Space::Collective, other, TAG).ok()?;
        // Not a blocking send: that would wait until the other task makes progress, and the other task may wait in the same way.
        let is_sent = with_slice(out, |bytes| protocol::try_send(&mut state, &route, bytes));
        if !is_sent {
            return None;
        }
        Some(self.pull_short(&mut state, into, other))
    }

    #[inline(always)]
    fn place_in_tree(&self, state: &State<F>, root: u32, len: usize) -> Tree {
        Tree::new(&state.selection, (self.rank(), self.size()), root, len as u64)
    }

    fn others(&self, root: u32) -> impl Iterator<Item = u32> + use<F, L> {
        (0..self.size()).filter(move |&rank| rank != root)
    }

    /// The state for a collective of `len` bytes per task, if it can take this fast path: `len` is at most [`SHORT_BYTES_MAX`] and `limit`,
    /// the communicator [is plain](Self::is_plain), only one thread makes calls, no schedule is under way that would have to continue while
    /// this collective waits, no tool observes the collective, and nothing checks it.
    #[inline(always)]
    fn state_for_short(
        &self,
        len: usize,
        root: u32,
        limit: impl FnOnce(&Selection) -> u64,
    ) -> Option<Brief<'_, F, L>> {
        let is_short = len <= SHORT_BYTES_MAX && root < self.size();
        if !is_short || L::takes_turns() || !self.is_plain() || events::is_watching() {
            return None;
        }
        let state = self.state_briefly()?;
        let selection = &state.selection;
        let follows = len as u64 <= limit(selection) && selection.check != Check::On;
        if follows && state.schedules.is_empty() { Some(state) } else { None }
    }

    #[inline(always)]
    fn push_short(&self, state: &mut State<F>, bytes: RawBytes, to: u32) -> Result<()> {
        let route = self.route(Space::Collective, to, TAG)?;
        with_slice(bytes, |bytes| {
            if protocol::try_send_packet(state, &route, bytes) {
                return Ok(());
            }
            protocol::send(state, Mode::Standard, &route, Borrowed(bytes)).map(drop)
        })
    }

    #[inline(always)]
    fn pull_short(&self, state: &mut State<F>, into: RawBuffer, from: u32) -> Result<()> {
        let pattern = Pattern::exact(self.context_id_of(Space::Collective), from, TAG);
        let received = blocking::receive_in_one_turn(state, self.task_now(from), pattern, into);
        check_len(received.map_err(|error| *error)?, Some(into.len() as u64))
    }
}

/// Whether two ranges of the same length do not overlap.
#[inline(always)]
fn lie_apart(one: RawBytes, other: RawBytes) -> bool {
    one.at().addr().get().abs_diff(other.at().addr().get()) >= one.len()
}
