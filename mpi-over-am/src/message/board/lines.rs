//! A board with lines, for tasks that each have a processor.
//!
//! Each task has lines of its own, [`SLOTS`] of them, and an area beside each line. In step n a task writes its data to the line, or the
//! area, of its slot n modulo [`SLOTS`]. The task then writes n to the line's first word, the *mark*. A task that needs the data of another
//! task waits only for that task's mark, so a root can be several steps ahead.
//!
//! A task marks a step when it enters the step, and reads the data of a step before it enters the next one. So the data of step n -
//! [`SLOTS`] have been read when all marks are at least n - [`SLOTS`] + 1. A writer waits for these marks before it overwrites the data.
//! Usually the writer has already seen them in its last wait for all tasks.

use std::sync::atomic::{Ordering, fence};

use am_core::Context;
use am_core::buffer::RemoteAddress;
use am_core::fabric::Fabric;

use super::meeting::Word;
use super::{BOARD_BYTES, DATA, WORD_BITS, WORD_BYTES, lend, sleepers_of, with_bytes};
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::message::handlers::MpiHandlers;
use crate::message::request_table::Awaited;

/// Number of slots.
const SLOTS: usize = 8;
/// Maximum number of tasks of a board with lines: the sleepers are in one word.
pub(crate) const LINES_TASKS_MAX: u32 = WORD_BITS;
/// Bytes of a line: the mark, the length of the task's data, and short data.
const LINE_BYTES: usize = 64;
const DATA_IN_LINE: usize = 2 * WORD_BYTES;
/// Largest area of a task in a slot.
const AREA_BYTES_MAX: usize = 16 << 10;

/// A task's position on a board with lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    at: RemoteAddress,
    rank: u32,
    size: u32,
    /// The last step that this task has marked.
    step: u64,
    /// The last step that this task has seen all tasks enter.
    seen: u64,
    /// The root of the last gather.
    gathered_to: Option<u32>,
}

impl Lines {
    pub(super) fn new(board: RemoteAddress, rank: u32, size: u32) -> Self {
        Self { at: board, rank, size, step: 0, seen: 0, gathered_to: None }
    }

    pub(super) fn board(&self) -> RemoteAddress {
        self.at
    }

    /// Maximum number of bytes that one of `size` tasks can write in a step.
    pub(crate) fn area_bytes(size: u32) -> usize {
        let areas = BOARD_BYTES - DATA - size as usize * SLOTS * LINE_BYTES;
        (areas / (size as usize * SLOTS)).min(AREA_BYTES_MAX) / LINE_BYTES * LINE_BYTES
    }

    /// The last step that this task has marked.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Notes the root of a gather; returns whether the last gather had another root.
    pub(crate) fn changes_root(&mut self, root: u32) -> bool {
        self.gathered_to.replace(root).is_some_and(|last| last != root)
    }

    /// The step that all tasks must have entered before this task may write data in its next step; `None` if they are known to have entered
    /// it.
    pub(crate) fn before_writing(&self) -> Option<u64> {
        let step = (self.step + 2).saturating_sub(SLOTS as u64);
        (step > self.seen).then_some(step)
    }

    /// Notes that all tasks have entered a step.
    pub(crate) fn saw_all(&mut self, step: u64) {
        self.seen = self.seen.max(step);
    }

    /// Enters the next step: writes this task's data, if it has any, and marks the step. Returns the ranks to ring, as bits. If there are
    /// data, all tasks must have entered the step that [`before_writing`](Self::before_writing) names.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn enter<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        data: Option<&SendData>,
    ) -> Result<u64> {
        let next = Self { step: self.step + 1, ..*self };
        let sleepers = lend(context, self.at, |board| {
            let line = next.line_of(next.rank);
            if let Some(data) = data {
                let len = data.packed_len();
                if len > Self::area_bytes(self.size) as u64 {
                    return None;
                }
                // Relaxed: the Release store in `mark` orders this store, and the data.
                board.atomic_u64(line + WORD_BYTES)?.store(len, Ordering::Relaxed);
                with_bytes(board, next.data_of(next.rank, len), len, |bytes| data.copy_to(bytes))?;
            }
            mark(board.atomic_u64(line)?, next.step, fence);
            Some(take_sleepers(sleepers_of(board, 0)?))
        })?;
        *self = next;
        Ok(sleepers)
    }

    /// Looks at most `looks` times whether the awaited tasks have entered a step. If `may_sleep` is true, this task will be rung when a
    /// task enters a step.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn have_entered<F: Fabric>(
        &self,
        context: &mut Context<F, MpiHandlers>,
        (awaited, step): (Awaited, u64),
        looks: u32,
        may_sleep: bool,
    ) -> Result<bool> {
        let slot = Self { step, ..*self };
        lend(context, self.at, |board| {
            if may_sleep {
                sleep(sleepers_of(board, 0)?, self.rank, fence);
            }
            let has_entered = |rank| Some(has_entered(board.atomic_u64(slot.line_of(rank))?, step));
            for _ in 0..looks {
                let is_met = match awaited {
                    Awaited::Rank(rank) => has_entered(rank)?,
                    // Looks at all lines, so that the processor fetches them at the same time.
                    Awaited::All => {
                        (0..self.size).try_fold(true, |all, rank| Some(all & has_entered(rank)?))?
                    }
                };
                if is_met {
                    return Some(true);
                }
                std::hint::spin_loop();
            }
            Some(false)
        })
    }

    /// Copies data of the present step to memory of this task. `parts` lists the writers' ranks, the lengths of their data, the offsets in
    /// the data, and the destinations. The writers must have entered the step. If a writer's data have another length than listed, returns
    /// that length and the listed one.
    ///
    /// # Errors
    /// Rank 0 has failed.
    pub(crate) fn read<F: Fabric>(
        &self,
        context: &mut Context<F, MpiHandlers>,
        mut parts: impl Iterator<Item = (u32, u64, u64, RecvData)>,
    ) -> Result<Option<(u64, u64)>> {
        lend(context, self.at, |board| {
            for (rank, len, offset, to) in parts.by_ref() {
                // Relaxed: the Acquire in `has_entered` orders this load.
                let written = board.atomic_u64(self.line_of(rank) + WORD_BYTES)?.load(Ordering::Relaxed);
                if written != len {
                    return Some(Some((written, len)));
                }
                let end = offset.checked_add(to.packed_len())?;
                if end > len {
                    return None;
                }
                let from = self.data_of(rank, len) + usize::try_from(offset).ok()?;
                with_bytes(board, from, to.packed_len(), |bytes| bytes.as_send().copy_to(&to))?;
            }
            Some(None)
        })
    }

    /// The offset of a task's line in the slot of this step.
    fn line_of(&self, rank: u32) -> usize {
        DATA + (rank as usize * SLOTS + self.slot()) * LINE_BYTES
    }

    /// The offset of a task's data, of `len` bytes, in the slot of this step.
    fn data_of(&self, rank: u32, len: u64) -> usize {
        if len <= (LINE_BYTES - DATA_IN_LINE) as u64 {
            return self.line_of(rank) + DATA_IN_LINE;
        }
        let areas = DATA + self.size as usize * SLOTS * LINE_BYTES;
        areas + (rank as usize * SLOTS + self.slot()) * Self::area_bytes(self.size)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the remainder is below the number of slots")]
    fn slot(&self) -> usize {
        (self.step % SLOTS as u64) as usize
    }
}

/// Marks a step, after this task has written its data.
#[inline(always)]
fn mark(line: &impl Word, step: u64, fence: impl FnOnce(Ordering)) {
    // Release: pairs with the Acquire in `has_entered`. This task's data of this step, and its reads of earlier steps, come before this
    // store.
    line.store(step, Ordering::Release);
    // SeqCst: pairs with the fence in `sleep`. Either `take_sleepers`, which follows, finds the sleeper, or the sleeper finds the mark.
    fence(Ordering::SeqCst);
}

/// Whether a task has entered a step. If so, the task's data of this step can be read, and the task has read all that it needs of the step
/// before.
#[inline(always)]
fn has_entered(line: &impl Word, step: u64) -> bool {
    // Acquire: pairs with the Release store in `mark`.
    line.load(Ordering::Acquire) >= step
}

/// Notes that a task may sleep. The task must then look at the marks once more.
#[inline]
fn sleep(sleepers: &impl Word, bit: u32, fence: impl FnOnce(Ordering)) {
    // Relaxed: the fence below orders the change. The word is changed only if the bit is not set yet, because all other tasks read it.
    if sleepers.load(Ordering::Relaxed) >> bit & 1 == 0 {
        sleepers.fetch_or(1 << bit, Ordering::Relaxed);
    }
    // SeqCst: pairs with the fence in `mark`.
    fence(Ordering::SeqCst);
}

/// Takes the tasks that may sleep, after a mark. The caller must ring them: each may be waiting for that mark.
#[inline(always)]
fn take_sleepers(sleepers: &impl Word) -> u64 {
    // Relaxed: the fence in `mark` comes before this load. The task that takes the word rings all sleepers in it, after its own mark.
    if sleepers.load(Ordering::Relaxed) == 0 { 0 } else { sleepers.swap(0, Ordering::AcqRel) }
}

#[cfg(all(test, feature = "models"))]
mod models {
    use loom::sync::Notify;
    use loom::sync::atomic::{AtomicU64 as Modelled, fence};

    use super::*;
    use crate::message::board::model::check_all_orders;

    /// Fewer slots than on a real board, so that they are used again.
    const FEW: usize = 2;

    /// A board with a word of data for each task and slot.
    struct Board {
        marks: Vec<[Modelled; FEW]>,
        /// Relaxed accesses: only the marks order them.
        data: Vec<[Modelled; FEW]>,
        sleepers: Modelled,
        doorbells: Vec<Notify>,
    }

    fn slot_of(step: u64) -> usize {
        usize::try_from(step).expect("few steps") % FEW
    }

    impl Board {
        fn new(size: u32) -> Self {
            let words = || (0..size).map(|_| [Modelled::new(0), Modelled::new(0)]).collect();
            let doorbells = (0..size).map(|_| Notify::new()).collect();
            Self { marks: words(), data: words(), sleepers: Modelled::new(0), doorbells }
        }

        fn wait_for(&self, rank: u32, task: u32, step: u64) {
            let has_entered = || has_entered(&self.marks[task as usize][slot_of(step)], step);
            while !has_entered() {
                sleep(&self.sleepers, rank, fence);
                if has_entered() {
                    return;
                }
                self.doorbells[rank as usize].wait();
            }
        }

        /// Takes part in steps. In each, task 0 sends a word to all, or (in odd steps) all send one to task 0.
        fn run(&self, rank: u32, size: u32, steps: u64) {
            for step in 1..=steps {
                let slot = slot_of(step);
                let (from_root, is_root) = (step % 2 == 0, rank == 0);
                if from_root == is_root {
                    if let Some(before) = (step + 1).checked_sub(FEW as u64) {
                        (0..size).for_each(|task| self.wait_for(rank, task, before));
                    }
                    self.data[rank as usize][slot].store(step, Ordering::Relaxed);
                }
                mark(&self.marks[rank as usize][slot], step, fence);
                let sleepers = take_sleepers(&self.sleepers);
                for task in (0..size).filter(|task| sleepers >> task & 1 != 0) {
                    self.doorbells[task as usize].notify();
                }
                for task in (0..size).filter(|task| from_root != is_root && (*task == 0) == from_root) {
                    self.wait_for(rank, task, step);
                    assert_eq!(self.data[task as usize][slot].load(Ordering::Relaxed), step);
                }
            }
        }
    }

    fn model(size: u32, steps: u64, preemptions_max: usize) {
        check_all_orders(
            size,
            preemptions_max,
            move || Board::new(size),
            move |board, rank| {
                board.run(rank, size, steps);
            },
        );
    }

    #[test]
    fn loom_no_data_are_overwritten_before_they_are_read_and_no_wake_up_is_lost() {
        model(2, 3, 2);
    }

    #[test]
    fn loom_three_tasks_on_lines() {
        model(3, 1, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_and_areas_of_all_tasks_lie_apart_on_the_board() {
        let at = RemoteAddress::from_bytes([0; RemoteAddress::BYTES]);
        for size in 3..=LINES_TASKS_MAX {
            let area = Lines::area_bytes(size);
            assert!(area >= 4000 && area.is_multiple_of(LINE_BYTES), "{size} tasks have {area} bytes each");
            let mut ranges = Vec::new();
            for (rank, step) in (0..size).flat_map(|rank| (1..=SLOTS as u64).map(move |step| (rank, step))) {
                let lines = Lines { step, ..Lines::new(at, rank, size) };
                let (line, data) = (lines.line_of(rank), lines.data_of(rank, area as u64));
                assert_eq!(lines.data_of(rank, 48), line + DATA_IN_LINE);
                ranges.extend([(line, line + LINE_BYTES), (data, data + area)]);
            }
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|two| two[0].1 <= two[1].0), "{size} tasks");
            assert!(ranges[0].0 >= DATA && ranges[ranges.len() - 1].1 <= BOARD_BYTES, "{size} tasks");
        }
    }

    #[test]
    fn a_slot_is_written_again_when_all_tasks_have_read_it() {
        let at = RemoteAddress::from_bytes([0; RemoteAddress::BYTES]);
        let lines = |step, seen| Lines { step, seen, ..Lines::new(at, 0, 3) };
        // Step 8 writes to a slot that no step has used; step 9 to that of step 1, which all have read when all have entered step 2.
        assert_eq!(lines(7, 0).before_writing(), Some(1));
        assert_eq!(lines(8, 0).before_writing(), Some(2));
        assert_eq!(lines(8, 2).before_writing(), None);
        assert_eq!(lines(14, 7).before_writing(), Some(8));
    }
}
