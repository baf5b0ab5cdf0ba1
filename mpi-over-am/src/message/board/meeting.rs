//! The words with which the tasks of a board synchronize.

use std::sync::atomic::{AtomicU64, Ordering};

/// A word that all tasks change.
pub(super) trait Word {
    fn load(&self, ordering: Ordering) -> u64;
    fn store(&self, value: u64, ordering: Ordering);
    fn swap(&self, value: u64, ordering: Ordering) -> u64;
    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64;
    fn fetch_or(&self, value: u64, ordering: Ordering) -> u64;
}

/// Implements [`Word`] by the type's own methods.
macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            #[inline(always)]
            fn load(&self, ordering: Ordering) -> u64 {
                self.load(ordering)
            }
            #[inline(always)]
            fn store(&self, value: u64, ordering: Ordering) {
                self.store(value, ordering);
            }
            #[inline(always)]
            fn swap(&self, value: u64, ordering: Ordering) -> u64 {
                self.swap(value, ordering)
            }
            #[inline(always)]
            fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
                self.fetch_add(value, ordering)
            }
            #[inline(always)]
            fn fetch_or(&self, value: u64, ordering: Ordering) -> u64 {
                self.fetch_or(value, ordering)
            }
        }
    };
}

word!(AtomicU64);

/// The words of all steps of a board.
pub(super) struct Meeting<'a, W> {
    /// Number of tasks that have arrived at the present step.
    pub(super) arrived: &'a W,
    /// Number of steps that have ended.
    pub(super) ended: &'a W,
}

impl<W: Word> Meeting<'_, W> {
    /// Counts an arrival of one of `size` tasks. Returns whether it is the last arrival; the task must then [end](Self::end) the step.
    #[inline]
    pub(super) fn arrive(&self, size: u32) -> bool {
        // AcqRel: pairs with itself in other tasks. The last task to arrive sees the data of all.
        self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == u64::from(size)
    }

    /// Ends the step, at which all tasks must have arrived.
    #[inline]
    pub(super) fn end(&self, step: u64) {
        // Relaxed: no task arrives at the next step before it has seen the store below.
        self.arrived.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `has_ended`. All writes of this step, and all reads of earlier steps, come before the accesses
        // of other tasks after this step.
        self.ended.store(step, Ordering::Release);
    }

    /// Whether a step has ended. If so, the data of all tasks can be read, and those of the previous step be overwritten.
    #[inline]
    pub(super) fn has_ended(&self, step: u64) -> bool {
        // Acquire: pairs with the Release store in `end`.
        self.ended.load(Ordering::Acquire) >= step
    }
}

/// Marks a task as one that may sleep. The task must then look once more whether the step has ended.
#[inline]
pub(super) fn mark(sleepers: &impl Word, bit: u32) {
    // AcqRel: pairs with `take_marks`. If this mark is set after `take_marks`, the look that follows finds the end of the step; if not,
    // `take_marks` finds the mark.
    sleepers.fetch_or(1 << bit, Ordering::AcqRel);
}

/// Takes the marks of the tasks to ring, when the step has ended.
#[inline]
pub(super) fn take_marks(sleepers: &impl Word) -> u64 {
    // AcqRel: pairs with `mark`. A load would not be enough: it may return a value older than the mark of a task that has not seen the end.
    sleepers.swap(0, Ordering::AcqRel)
}

/// Notes that a task does not use the board any more.
#[inline]
pub(super) fn leave(left: &impl Word) {
    // Release: pairs with the Acquire in `have_left`. This task's accesses come before the next use of the memory.
    left.fetch_add(1, Ordering::Release);
}

/// Whether none of `size` tasks uses the board any more.
#[inline]
pub(super) fn have_left(left: &impl Word, size: u32) -> bool {
    // Acquire: pairs with the Release in `leave`.
    left.load(Ordering::Acquire) >= size.into()
}

#[cfg(all(test, feature = "models"))]
mod models {
    use loom::sync::Notify;
    use loom::sync::atomic::AtomicU64 as Modelled;

    use super::*;
    use crate::message::board::model::check_all_orders;

    // Also for the model in `lines`.
    word!(Modelled);

    /// A board of tasks that write one word each.
    struct Board {
        arrived: Modelled,
        ended: Modelled,
        sleepers: Modelled,
        left: Modelled,
        /// By half and by rank. Relaxed accesses: only the words of the meeting order them.
        data: [Vec<Modelled>; 2],
        doorbells: Vec<Notify>,
    }

    /// What a task writes in a step.
    fn written(step: u64, rank: u32) -> u64 {
        step << 8 | u64::from(rank)
    }

    impl Board {
        fn new(size: u32) -> Self {
            let words = || (0..size).map(|_| Modelled::new(0)).collect::<Vec<_>>();
            let word = || Modelled::new(0);
            let doorbells = (0..size).map(|_| Notify::new()).collect();
            let (arrived, ended, sleepers, left) = (word(), word(), word(), word());
            Self { arrived, ended, sleepers, left, data: [words(), words()], doorbells }
        }

        /// Takes part in a number of steps. In each, the last task to arrive replaces the word of rank 0 with the sum of all. A task starts
        /// `at_once` steps, and then waits for each of them: a blocking task starts one step at a time.
        fn run(&self, rank: u32, size: u32, steps: u64, at_once: u64) {
            let mut task = Task { board: self, rank, size, started: 0, arrived: 0, read: 0 };
            while task.read < steps {
                (0..at_once.min(steps - task.started)).for_each(|_| task.start());
                (task.read + 1..=task.started).for_each(|step| task.wait_for(step));
            }
            leave(&self.left);
            if rank == 0 {
                self.use_again(size);
            }
        }

        /// If no task uses the board any more, it is memory of rank 0 for another use. Tasks that still read would see these words.
        fn use_again(&self, size: u32) {
            if have_left(&self.left, size) {
                self.data.iter().flatten().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
            }
        }
    }

    /// A task with steps that it has started and not ended. It takes part in them one after the other.
    struct Task<'a> {
        board: &'a Board,
        rank: u32,
        size: u32,
        /// The last step that the task has started.
        started: u64,
        /// The last step at which the task has arrived.
        arrived: u64,
        /// The last step whose data the task has read.
        read: u64,
    }

    impl Task<'_> {
        fn meeting(&self) -> Meeting<'_, Modelled> {
            Meeting { arrived: &self.board.arrived, ended: &self.board.ended }
        }

        /// Starts the next step, and returns at once.
        fn start(&mut self) {
            self.started += 1;
            self.advance();
        }

        /// Does what can be done without a wait.
        fn advance(&mut self) {
            while self.read < self.started && self.meeting().has_ended(self.arrived) {
                if self.read < self.arrived {
                    self.read_data();
                } else {
                    self.arrive();
                }
            }
        }

        fn arrive(&mut self) {
            let Self { board, rank, size, .. } = *self;
            self.arrived += 1;
            let (step, data) = (self.arrived, &board.data[(self.arrived % 2) as usize]);
            data[rank as usize].store(written(step, rank), Ordering::Relaxed);
            if self.meeting().arrive(size) {
                data[0].store(data.iter().map(|word| word.load(Ordering::Relaxed)).sum(), Ordering::Relaxed);
                self.meeting().end(step);
                let marks = take_marks(&board.sleepers);
                for bell in (0..size).filter(|rank| marks >> rank & 1 != 0) {
                    board.doorbells[bell as usize].notify();
                }
            }
        }

        fn read_data(&mut self) {
            let (step, data) = (self.arrived, &self.board.data[(self.arrived % 2) as usize]);
            let read = |rank: u32| data[rank as usize].load(Ordering::Relaxed);
            assert_eq!(read(0), (0..self.size).map(|rank| written(step, rank)).sum::<u64>());
            (1..self.size).for_each(|rank| assert_eq!(read(rank), written(step, rank)));
            self.read = step;
        }

        /// Sleeps until the step has ended. The model reports a lost wake-up as a deadlock.
        fn wait_for(&mut self, step: u64) {
            loop {
                self.advance();
                if self.read >= step {
                    return;
                }
                mark(&self.board.sleepers, self.rank);
                if !self.meeting().has_ended(self.arrived) {
                    self.board.doorbells[self.rank as usize].wait();
                }
            }
        }
    }

    /// A model in which rank 0 starts `at_once` steps at a time, and the other tasks one.
    fn model(size: u32, steps: u64, at_once: u64, preemptions_max: usize) {
        check_all_orders(
            size,
            preemptions_max,
            move || Board::new(size),
            move |board, rank| {
                board.run(rank, size, steps, if rank == 0 { at_once } else { 1 });
            },
        );
    }

    #[test]
    fn loom_two_tasks_read_the_data_of_each_step_and_no_wake_up_is_lost() {
        model(2, 3, 1, 3);
    }

    #[test]
    fn loom_three_tasks_read_the_data_of_each_step_and_no_wake_up_is_lost() {
        model(3, 2, 1, 1);
    }

    #[test]
    fn loom_a_task_with_two_steps_under_way_meets_two_that_wait_for_each() {
        model(3, 2, 2, 1);
    }

    #[test]
    fn loom_a_task_with_two_steps_under_way_meets_one_that_waits_for_each() {
        model(2, 4, 2, 2);
    }
}
