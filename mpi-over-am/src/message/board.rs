//! The boards of a communicator: memory of the communicator's rank 0 that all tasks of the communicator access. There is one board for
//! blocking collectives, and one for non-blocking ones ([`Boards`]).
//!
//! A board with lines is for tasks that each have a processor. Each task has lines of its own on it ([`lines`],
//! [`on_lines`](crate::collective)): the task writes its data there once, and the other tasks read them.
//!
//! A board with a counter is for tasks that share processors. A collective then takes as long as the switches between its tasks. With
//! messages, a task runs several times, and reads and writes the rings of several peers. With a board, a task writes its data and counts
//! its arrival; when the last task has arrived, all tasks read the data that they need.
//!
//! Steps on a board with a counter alternate between two halves of the board. A task writes its data of step n after step n - 1 has ended,
//! that is, after all tasks have arrived at step n - 1. By then all tasks had read the data of step n - 2, which are in the same half. The
//! last task to arrive may replace the data of rank 0, as a reduction does with its result, before it ends the step.

mod boards;
mod lines;
mod meeting;
#[cfg(all(test, feature = "models"))]
mod model;
mod order;
mod spread;

use std::sync::atomic::{AtomicU64, Ordering};

use am_core::Context;
use am_core::buffer::{Access, Exposed, MappedRange, RemoteAddress};
use am_core::fabric::Fabric;
use smallvec::SmallVec;

pub(crate) use boards::{Boards, Ticket};
pub(crate) use lines::{LINES_TASKS_MAX, Lines};
use meeting::Meeting;
pub(crate) use order::Order;
use spread::{Comparisons, Distribution};

use crate::data::buffer::{RecvData, SendData, with_mapped_elements};
use crate::error::{Error, Result};
use crate::job::processors::{allowed_cpus, current_cpu, move_to};
use crate::message::handlers::MpiHandlers;
use mpi_datatype::{Datatype, Predefined};

/// Maximum number of tasks of a board.
const TASKS_MAX: u32 = 1024;
/// Number of collectives of a communicator that use messages before it gets a board: a communicator that is soon freed would not repay the
/// cost of a board.
const FIRST_BY_MESSAGES: u32 = 8;
/// Maximum number of communicators whose boards are in the memory of one task.
const COMMUNICATORS_MAX: usize = 16;

// Offsets of words, each in a cache line of its own: the number of tasks that have arrived at the present step, the number of steps that
// have ended, and the number of tasks that do not use the board any more. Then a bit for each task that may sleep, and a word for each task
// with its processor.
const ARRIVED: usize = 0;
const ENDED: usize = 64;
const LEFT: usize = 128;
const SLEEPERS: usize = 192;
const PROCESSORS: usize = SLEEPERS + TASKS_MAX as usize / 8;
/// Offset of the first half.
const DATA: usize = PROCESSORS + TASKS_MAX as usize * WORD_BYTES;
const HALF_BYTES: usize = 1 << 20;
const BOARD_BYTES: usize = DATA + 2 * HALF_BYTES;
const WORD_BYTES: usize = size_of::<u64>();
const WORD_BITS: u32 = u64::BITS;

/// The method by which the tasks of a board synchronize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// By a counter of arrivals, for tasks that share processors.
    Counter,
    /// By lines, for tasks that each have a processor.
    Lines,
}

impl Method {
    /// Maximum number of tasks of a board.
    pub(crate) fn tasks_max(self) -> u32 {
        if self == Self::Lines { LINES_TASKS_MAX } else { TASKS_MAX }
    }
}

/// Whether a communicator has a board.
#[derive(Debug)]
pub(crate) enum Board {
    /// Not yet: the number of collectives so far that could have used a board.
    Later(u32),
    /// The communicator cannot have a board.
    Never,
    /// The communicator has a board with a counter.
    Open {
        /// The board's address.
        at: RemoteAddress,
        /// Number of steps at which this task has arrived.
        arrived: u64,
        comparisons: Comparisons,
    },
    /// The communicator has a board with lines.
    Lines(Lines),
}

/// How a collective has to be carried out.
pub(crate) enum Use {
    Messages,
    /// All tasks must first agree about a board.
    Agree,
    /// On the communicator's board.
    On(Method),
}

impl Default for Board {
    fn default() -> Self {
        Self::Later(0)
    }
}

impl Board {
    /// The board of `size` tasks at `at`.
    pub(crate) fn open(method: Method, at: RemoteAddress, (rank, size): (u32, u32)) -> Self {
        match method {
            Method::Counter => Self::Open { at, arrived: 0, comparisons: Comparisons::NEW },
            Method::Lines => Self::Lines(Lines::new(at, rank, size)),
        }
    }

    /// Whether a collective that can use lines has to call [`begin`](Self::begin): the communicator has a board with lines, or no board
    /// yet.
    #[inline]
    pub(crate) fn may_have_lines(&self) -> bool {
        matches!(self, Self::Later(_) | Self::Lines(_))
    }

    /// Begins a collective. `can` tells whether the collective can use a board with the given method.
    pub(crate) fn begin(&mut self, can: impl Fn(Method) -> bool) -> Use {
        match self {
            Self::Open { .. } if can(Method::Counter) => Use::On(Method::Counter),
            Self::Lines(_) if can(Method::Lines) => Use::On(Method::Lines),
            Self::Never | Self::Open { .. } | Self::Lines(_) => Use::Messages,
            Self::Later(FIRST_BY_MESSAGES) => Use::Agree,
            Self::Later(count) => {
                *count += 1;
                Use::Messages
            }
        }
    }

    /// Notes, after a step with a comparison of processors, whether the tasks were distributed unevenly.
    pub(crate) fn note_comparison(&mut self, was_uneven: bool) {
        if let Self::Open { comparisons, .. } = self {
            comparisons.go_on(was_uneven);
        }
    }

    /// Ends this task's use of the board.
    pub(crate) fn close<F: Fabric>(self, context: &mut Context<F, MpiHandlers>) {
        let at = match self {
            Self::Later(_) | Self::Never => return,
            Self::Open { at, .. } => at,
            Self::Lines(lines) => lines.board(),
        };
        // An error is ignored: if rank 0 has gone, its memory is not used again.
        let _ = lend(context, at, |board| board.atomic_u64(LEFT).map(meeting::leave));
    }
}

/// The boards in this task's memory.
#[derive(Debug, Default)]
pub(crate) struct OwnBoards {
    /// The memory of the two boards of a communicator, and its number of tasks.
    all: Vec<(Exposed, u32)>,
}

impl OwnBoards {
    /// Makes the two boards of a communicator of `size` tasks, and returns the address of the first; the second follows it. `None` if the
    /// memory cannot be allocated or exposed, or if this task already has the boards of [`COMMUNICATORS_MAX`] communicators.
    pub(crate) fn make<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        size: u32,
    ) -> Option<RemoteAddress> {
        self.reclaim(context);
        if self.all.len() == COMMUNICATORS_MAX {
            return None;
        }
        let memory = context.alloc(2 * BOARD_BYTES).ok()?;
        let exposed = context.expose(memory, Access::READ_WRITE).ok()?;
        let at = exposed.address(0);
        self.all.push((exposed, size));
        Some(at)
    }

    /// Frees all boards, at the end of MPI: no task begins a collective any more.
    pub(crate) fn free<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) {
        for (memory, _) in self.all.drain(..) {
            // After an error the memory is not used again.
            let _ = context.unexpose(memory);
        }
    }

    /// Frees the boards that no task uses any more.
    fn reclaim<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) {
        for (memory, size) in std::mem::take(&mut self.all) {
            let is_used = both(memory.address(0)).into_iter().any(|at| {
                let have_left =
                    lend(context, at, |board| Some(meeting::have_left(board.atomic_u64(LEFT)?, size)));
                matches!(have_left, Ok(false))
            });
            if is_used {
                self.all.push((memory, size));
            } else {
                // After an error the memory is not used again.
                let _ = context.unexpose(memory);
            }
        }
    }
}

/// The addresses of the two boards of a communicator. `first` is the address of the first.
fn both(first: RemoteAddress) -> [RemoteAddress; 2] {
    [first, first.plus(BOARD_BYTES as u64)]
}

/// Whether this task can use the two boards of a communicator. `first` is the address of the first.
pub(crate) fn are_reachable<F: Fabric>(context: &mut Context<F, MpiHandlers>, first: RemoteAddress) -> bool {
    both(first).into_iter().all(|at| lend(context, at, |_| Some(())).is_ok())
}

/// One collective on a board.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    at: RemoteAddress,
    /// The first step is 1.
    number: u64,
    rank: u32,
    size: u32,
    comparisons: Comparisons,
}

/// The outcome of [`Step::arrive`].
pub(crate) enum Arrival {
    /// The previous step has not ended yet: an error ended this task's wait for that step.
    TooEarly,
    /// Some tasks have not arrived yet.
    Waits,
    /// All tasks have arrived. This task must [end](Step::end) the step.
    Last,
}

impl Step {
    /// Whether `size` tasks can exchange `len` bytes each.
    pub(crate) fn fits(size: u32, len: u64) -> bool {
        let of_task = WORD_BYTES + slot_bytes(len.min(HALF_BYTES as u64));
        size <= TASKS_MAX && of_task * size as usize + WORD_BYTES <= HALF_BYTES
    }

    /// The step after.
    fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }

    pub(crate) fn size(self) -> u32 {
        self.size
    }

    /// Writes this task's data, and arrives at the step. Does neither if the previous step has not ended.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn arrive<F: Fabric>(
        self,
        context: &mut Context<F, MpiHandlers>,
        own: &SendData,
    ) -> Result<Arrival> {
        let len = own.packed_len();
        lend(context, self.at, |board| {
            let meeting = self.meeting(board)?;
            if !meeting.has_ended(self.number - 1) {
                return Some(Arrival::TooEarly);
            }
            // Relaxed: `Meeting::arrive` orders this store, and the data.
            self.len_of(board, self.rank)?.store(len, Ordering::Relaxed);
            with_bytes(board, self.data_of(self.rank, len), len, |bytes| own.copy_to(bytes))?;
            if self.compares() {
                let cpu = current_cpu().map_or(u64::MAX, |cpu| cpu as u64);
                // Relaxed, like the data.
                self.processor_of(board, self.rank)?.store(cpu, Ordering::Relaxed);
            }
            Some(if meeting.arrive(self.size) { Arrival::Last } else { Arrival::Waits })
        })
    }

    /// Replaces the data of rank 0 with other data of the same length. Only the last task to arrive may call this, before it ends the step.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn replace<F: Fabric>(
        self,
        context: &mut Context<F, MpiHandlers>,
        data: &SendData,
    ) -> Result<()> {
        let len = data.packed_len();
        lend(context, self.at, |board| {
            with_bytes(board, self.data_of(0, len), len, |bytes| data.copy_to(bytes)).map(drop)
        })
    }

    /// Ends the step, at which all tasks must have arrived, and returns the ranks that may sleep. `has_failed` tells the other tasks that
    /// this task failed to prepare the data.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn end<F: Fabric>(
        self,
        context: &mut Context<F, MpiHandlers>,
        has_failed: bool,
    ) -> Result<SmallVec<[u32; 4]>> {
        lend(context, self.at, |board| {
            // Relaxed: the Release in `Meeting::end` orders this store.
            self.failure(board)?.store(has_failed.into(), Ordering::Relaxed);
            self.meeting(board)?.end(self.number);
            let mut sleepers = SmallVec::new();
            for first in (0..self.size).step_by(WORD_BITS as usize) {
                let marks = meeting::take_marks(sleepers_of(board, first)?);
                sleepers.extend((0..WORD_BITS).filter(|bit| marks >> bit & 1 != 0).map(|bit| first + bit));
            }
            Some(sleepers)
        })
    }

    /// Whether the step has ended. If it has not, and `may_sleep` is true, this task will be rung when the step ends.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn has_ended<F: Fabric>(
        self,
        context: &mut Context<F, MpiHandlers>,
        may_sleep: bool,
    ) -> Result<bool> {
        lend(context, self.at, |board| {
            if may_sleep {
                meeting::mark(sleepers_of(board, self.rank)?, self.rank % WORD_BITS);
            }
            Some(self.meeting(board)?.has_ended(self.number))
        })
    }

    /// After the end of the step: whether the last task to arrive failed to prepare the data.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn has_failed<F: Fabric>(self, context: &mut Context<F, MpiHandlers>) -> Result<bool> {
        // Relaxed: the Acquire in `Meeting::has_ended` orders this load.
        lend(context, self.at, |board| Some(self.failure(board)?.load(Ordering::Relaxed) != 0))
    }

    /// After the end of the step, copies data from the board to memory of this task. `parts` lists the writers' ranks, the offsets in their
    /// data, and the destinations. Each writer's data must be `len` bytes long. Returns the first length that differs from `len`, or `len`.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn read<F: Fabric>(
        self,
        context: &mut Context<F, MpiHandlers>,
        len: u64,
        mut parts: impl Iterator<Item = (u32, u64, RecvData)>,
    ) -> Result<u64> {
        lend(context, self.at, |board| {
            for (rank, offset, to) in parts.by_ref() {
                // Relaxed: the Acquire in `Meeting::has_ended` orders this load.
                let written = self.len_of(board, rank)?.load(Ordering::Relaxed);
                if written != len {
                    return Some(written);
                }
                let from = self.data_of(rank, len) + usize::try_from(offset).ok()?;
                with_bytes(board, from, to.packed_len(), |bytes| bytes.as_send().copy_to(&to))?;
            }
            Some(len)
        })
    }

    /// Whether the tasks compare their processors in this step.
    #[inline]
    pub(crate) fn compares(self) -> bool {
        self.comparisons.are_due(self.number)
    }

    /// After the end of a step with a comparison: returns whether the tasks are distributed unevenly. If so, this task moves to another
    /// processor if it is one of the tasks that have to move.
    ///
    /// # Errors
    /// Rank 0 has failed.
    #[cold]
    pub(crate) fn spread<F: Fabric>(self, context: &mut Context<F, MpiHandlers>) -> Result<bool> {
        let running = lend(context, self.at, |board| {
            // Relaxed: the load that found the end of the step orders this load. No task writes its word again before all have read it,
            // since each has to arrive at a later step first.
            let word = |rank| Some(self.processor_of(board, rank)?.load(Ordering::Relaxed));
            (0..self.size).map(word).collect::<Option<Vec<u64>>>()
        })?;
        let allowed = allowed_cpus();
        let uneven = Distribution::new(&running, self.rank, &allowed).filter(Distribution::is_uneven);
        if let Some(cpu) = uneven.as_ref().and_then(|uneven| uneven.destination(&allowed)) {
            // A task that may not run on that processor stays where it is.
            let _ = move_to(cpu);
        }
        Ok(uneven.is_some())
    }

    /// The word with a task's processor.
    fn processor_of<'a>(self, board: &'a MappedRange<'_>, rank: u32) -> Option<&'a AtomicU64> {
        board.atomic_u64(PROCESSORS + rank as usize * WORD_BYTES)
    }

    fn meeting<'a>(self, board: &'a MappedRange<'_>) -> Option<Meeting<'a, AtomicU64>> {
        Some(Meeting { arrived: board.atomic_u64(ARRIVED)?, ended: board.atomic_u64(ENDED)? })
    }

    /// The half of the board that this step uses.
    fn half(self) -> usize {
        DATA + (self.number % 2) as usize * HALF_BYTES
    }

    /// The word with the length of a task's data.
    fn len_of<'a>(self, board: &'a MappedRange<'_>, rank: u32) -> Option<&'a AtomicU64> {
        board.atomic_u64(self.half() + rank as usize * WORD_BYTES)
    }

    /// The word after the lengths: not 0 if the last task to arrive has failed.
    fn failure<'a>(self, board: &'a MappedRange<'_>) -> Option<&'a AtomicU64> {
        self.len_of(board, self.size)
    }

    /// The offset of a task's data, of `len` bytes.
    fn data_of(self, rank: u32, len: u64) -> usize {
        self.half() + (self.size as usize + 1) * WORD_BYTES + rank as usize * slot_bytes(len)
    }
}

/// Bytes of the slot for a task's data, in whole words.
fn slot_bytes(len: u64) -> usize {
    usize::try_from(len).unwrap_or(HALF_BYTES).next_multiple_of(WORD_BYTES)
}

/// The word with the marks of the tasks from `first` on that may sleep.
fn sleepers_of<'a>(board: &'a MappedRange<'_>, first: u32) -> Option<&'a AtomicU64> {
    board.atomic_u64(SLEEPERS + (first / WORD_BITS) as usize * WORD_BYTES)
}

/// Calls `call` with the `len` bytes at offset `at` of the board. `None` if they are not inside the board.
fn with_bytes(
    board: &MappedRange<'_>,
    at: usize,
    len: u64,
    call: impl FnOnce(&RecvData) -> u64,
) -> Option<u64> {
    if u64::try_from(at).ok()?.checked_add(len)? > board.len() as u64 {
        return None;
    }
    let low = -i64::try_from(at).ok()?;
    Some(with_mapped_elements(board, low, (len, &Datatype::predefined(Predefined::Byte)), call))
}

/// Calls `call` with the board at `at`. Fails if this task has not mapped the board, or if `call` returns `None`.
fn lend<F: Fabric, R>(
    context: &mut Context<F, MpiHandlers>,
    at: RemoteAddress,
    call: impl FnOnce(&MappedRange<'_>) -> Option<R>,
) -> Result<R> {
    let lent = context.with_mapped(at, BOARD_BYTES as u64, |board| call(&board))?;
    lent.flatten()
        .ok_or(Error::Protocol { peer: at.owner().task.0, what: "its board for collectives cannot be used" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_all_tasks_lie_in_the_half_of_their_step() {
        let at = RemoteAddress::from_bytes([0; RemoteAddress::BYTES]);
        for (size, len) in [(3, 0), (16, 16 << 10), (16, 65_520), (TASKS_MAX, 8), (TASKS_MAX, 1008)] {
            assert!(Step::fits(size, len), "{size} tasks, {len} bytes");
            for number in [1, 2] {
                let step = Step { at, number, rank: 0, size, comparisons: Comparisons::NEW };
                let end = step.data_of(size - 1, len) + slot_bytes(len);
                assert!(end <= step.half() + HALF_BYTES, "{size} tasks, {len} bytes");
                assert!(step.half() + HALF_BYTES <= BOARD_BYTES);
            }
        }
        assert!(!Step::fits(16, 65_521) && !Step::fits(TASKS_MAX, 1009) && !Step::fits(TASKS_MAX + 1, 0));
        assert!(!Step::fits(3, u64::MAX));
    }
}
