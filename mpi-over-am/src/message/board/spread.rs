//! Distributes tasks evenly over processors.
//!
//! Tasks that share processors and wait for one another take as long as the tasks on the processor with the most tasks. The scheduler of
//! the system distributes the tasks when they start and when they wake, and leaves tasks that run often where they are: 16 tasks on 2
//! processors can run as 13 and 3 for a second. So the tasks of a board compare their processors now and then, and some of those on a
//! processor with too many tasks move. The scheduler may move them again, because other programs use the processors, too. So after each
//! comparison that finds an uneven distribution, the next one is more steps away.

use smallvec::SmallVec;

/// The first step with a comparison.
const FIRST: u64 = 4;
/// Minimum and maximum number of steps from one comparison to the next.
const STEPS_MIN: u64 = 256;
const STEPS_MAX: u64 = 1 << 16;

/// When the tasks of a board compare their processors. All tasks that may use the same processors have the same plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparisons {
    next: u64,
    steps: u64,
}

impl Comparisons {
    pub(super) const NEW: Self = Self { next: FIRST, steps: STEPS_MIN };

    pub(super) fn are_due(self, step: u64) -> bool {
        step == self.next
    }

    /// Plans the next comparison.
    pub(super) fn go_on(&mut self, was_uneven: bool) {
        let steps = if was_uneven { self.steps * 4 } else { self.steps / 2 };
        self.steps = steps.clamp(STEPS_MIN, STEPS_MAX);
        self.next += self.steps;
    }
}

/// Number of tasks on each processor.
pub(super) struct Distribution {
    counts: SmallVec<[usize; 16]>,
    /// The processor of this task, as an index, and the number of tasks with lower ranks on that processor.
    own: (usize, usize),
    /// Number of tasks that each processor has if the distribution is even, rounded up.
    share: usize,
}

impl Distribution {
    /// The distribution of tasks: `running` has the processor of each rank's task. `allowed` are this task's processors, in ascending
    /// order. `None` if a task runs on none of these processors: an even distribution is not best then.
    pub(super) fn new(running: &[u64], rank: u32, allowed: &[usize]) -> Option<Self> {
        let mut counts = SmallVec::from_elem(0, allowed.len());
        let mut own = None;
        for (&cpu, other) in running.iter().zip(0..) {
            let at = allowed.binary_search(&usize::try_from(cpu).ok()?).ok()?;
            if other == rank {
                own = Some((at, counts[at]));
            }
            counts[at] += 1;
        }
        Some(Self { counts, own: own?, share: running.len().div_ceil(allowed.len()) })
    }

    /// Whether a processor has many more tasks than its share.
    pub(super) fn is_uneven(&self) -> bool {
        self.counts.iter().any(|&count| count > self.share + self.share / 8)
    }

    /// The processor to which this task has to move if the distribution is uneven: one of `allowed`.
    pub(super) fn destination(&self, allowed: &[usize]) -> Option<usize> {
        let Self { counts, own: (own, before), share } = self;
        // The index of this task among the tasks beyond the share of their processors.
        let more = |count: &usize| count.saturating_sub(*share);
        let number = counts[..*own].iter().map(more).sum::<usize>() + before.checked_sub(*share)?;
        let free = |(&count, &cpu)| std::iter::repeat_n(cpu, share.saturating_sub(count));
        counts.iter().zip(allowed).flat_map(free).nth(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of tasks on each processor after all tasks have moved.
    fn counts_after(before: &[usize], allowed: &[usize]) -> Vec<usize> {
        let on = |(&count, &cpu): (&usize, &usize)| std::iter::repeat_n(cpu as u64, count);
        let running: Vec<u64> = before.iter().zip(allowed).flat_map(on).collect();
        let after = running.iter().zip(0..).map(|(&cpu, rank)| {
            let distribution = Distribution::new(&running, rank, allowed).expect("all have these processors");
            let destination = distribution.destination(allowed).filter(|_| distribution.is_uneven());
            destination.map_or(cpu, |cpu| cpu as u64)
        });
        let after: Vec<u64> = after.collect();
        allowed.iter().map(|&cpu| after.iter().filter(|&&other| other == cpu as u64).count()).collect()
    }

    #[test]
    fn no_processor_has_more_tasks_than_its_share() {
        assert_eq!(counts_after(&[13, 3], &[0, 1]), [8, 8]);
        assert_eq!(counts_after(&[0, 16], &[4, 7]), [8, 8]);
        assert_eq!(counts_after(&[1, 3], &[0, 1]), [2, 2]);
        assert_eq!(counts_after(&[7, 0, 0], &[0, 1, 2]), [3, 3, 1]);
        assert_eq!(counts_after(&[5, 1, 6, 0], &[1, 2, 3, 9]), [3, 3, 3, 3]);
        assert_eq!(counts_after(&[9, 7], &[0, 1]), [9, 7], "almost even");
        assert_eq!(counts_after(&[2, 1], &[0, 1]), [2, 1]);
        assert_eq!(counts_after(&[3, 0, 0, 0], &[0, 1, 2, 3]), [1, 1, 1, 0]);
    }

    #[test]
    fn tasks_with_other_processors_stay() {
        assert!(Distribution::new(&[0, 0, 0, 5], 2, &[0, 1]).is_none());
        assert!(Distribution::new(&[0, 0, 0, u64::MAX], 2, &[0, 1]).is_none(), "not known");
        assert!(Distribution::new(&[0, 0, 0], 2, &[]).is_none());
    }

    #[test]
    fn tasks_that_the_scheduler_moves_back_rarely_compare() {
        let mut comparisons = Comparisons::NEW;
        let mut due = (1..1 << 20).filter(|&step| {
            let is_due = comparisons.are_due(step);
            if is_due {
                comparisons.go_on(true);
            }
            is_due
        });
        assert_eq!(due.by_ref().take(5).collect::<Vec<_>>(), [4, 1028, 5124, 21508, 87044]);
        assert!(due.count() < 20);
        (0..20).for_each(|_| comparisons.go_on(false));
        assert_eq!(comparisons.steps, STEPS_MIN);
    }
}
