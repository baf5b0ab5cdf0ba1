//! Groups: ordered sets of tasks (MPI 5.0 section 7.3).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use am_core::task::TaskId;

use crate::error::{Error, ErrorClass, Result};
use crate::rank::PROC_NULL;

/// The name of the set of all tasks of the job.
pub const WORLD_SET: &str = "mpi://WORLD";
/// The name of the set of this task alone.
pub const SELF_SET: &str = "mpi://SELF";

/// An ordered set of tasks (`MPI_Group`). Cloning is cheap.
#[derive(Clone)]
pub struct Group {
    members: Members,
    /// The task of this process.
    own: u32,
    /// Number of the session that made the group (`MPI_Group_from_session_pset`); 0 if none did.
    session: u64,
}

/// The tasks, by rank.
#[derive(Clone, Debug)]
enum Members {
    /// Tasks at equal distances, ascending, such as all tasks, or every second one.
    Strided { first: u32, stride: u32, size: u32 },
    /// Tasks in any order.
    Listed(Arc<[u32]>),
}

/// The relation of two groups, or of the groups of two communicators (`MPI_Group_compare`, `MPI_Comm_compare`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same object; for groups, the same tasks in the same order (`MPI_IDENT`).
    Identical,
    /// Different communicators with identical groups (`MPI_CONGRUENT`).
    Congruent,
    /// The same tasks in another order (`MPI_SIMILAR`).
    Similar,
    /// Anything else (`MPI_UNEQUAL`).
    Unequal,
}

/// Ranks `first`, `first + stride`, ... up to `last`, which need not be one of them (`MPI_Group_range_incl`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRange {
    /// The first rank.
    pub first: i32,
    /// The bound, inclusive.
    pub last: i32,
    /// The distance; negative to count down, never 0.
    pub stride: i32,
}

impl Members {
    fn of(tasks: Vec<u32>) -> Self {
        let (first, stride) = match tasks[..] {
            [] => (0, 1),
            [first] => (first, 1),
            [first, second, ..] if second > first => (first, second - first),
            _ => return Self::Listed(tasks.into()),
        };
        let is_strided = tasks.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(stride));
        let Ok(size) = u32::try_from(tasks.len()) else { return Self::Listed(tasks.into()) };
        if is_strided { Self::Strided { first, stride, size } } else { Self::Listed(tasks.into()) }
    }
}

impl PartialEq for Members {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Strided { size: 0, .. }, Self::Strided { size: 0, .. }) => true,
            (
                Self::Strided { first, stride, size },
                Self::Strided { first: other_first, stride: other_stride, size: other_size },
            ) => first == other_first && size == other_size && (*size == 1 || stride == other_stride),
            (Self::Listed(own), Self::Listed(other)) => own == other,
            // Every group that can be stored as `Strided` is.
            (Self::Strided { .. }, Self::Listed(_)) | (Self::Listed(_), Self::Strided { .. }) => false,
        }
    }
}

impl Eq for Members {}

/// Groups are equal if they have the same tasks in the same order.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        (&self.members, self.own) == (&other.members, other.own)
    }
}

impl Eq for Group {}

impl Group {
    /// The empty group (`MPI_GROUP_EMPTY`).
    pub const EMPTY: Self =
        Self { members: Members::Strided { first: 0, stride: 1, size: 0 }, own: PROC_NULL, session: 0 };

    /// The tasks from `first` on.
    pub(crate) fn consecutive(first: TaskId, size: u32, own: TaskId) -> Self {
        Self { members: Members::Strided { first: first.0, stride: 1, size }, own: own.0, session: 0 }
    }

    /// These tasks, each of which must exist and occur once.
    pub(crate) fn of_tasks(tasks: Vec<u32>, own: TaskId) -> Self {
        Self { members: Members::of(tasks), own: own.0, session: 0 }
    }

    fn with(&self, other: &Self, tasks: Vec<u32>) -> Self {
        // The empty group does not know the task of this process.
        let own = if self.own == PROC_NULL { other.own } else { self.own };
        let session = if self.session == 0 { other.session } else { self.session };
        Self { members: Members::of(tasks), own, session }
    }

    /// This group as a group of the session with this number, which must not be 0. Groups and communicators made from it belong to the
    /// session and use its send buffer ([`BufferOwner::Session`](crate::BufferOwner::Session)).
    #[must_use]
    pub fn of_session(self, session: u64) -> Self {
        Self { session, ..self }
    }

    /// The number of the group's session; 0: none.
    pub(crate) fn session(&self) -> u64 {
        self.session
    }

    /// Number of tasks (`MPI_Group_size`).
    #[must_use]
    pub fn size(&self) -> u32 {
        match &self.members {
            Members::Strided { size, .. } => *size,
            Members::Listed(tasks) => u32::try_from(tasks.len()).unwrap_or(u32::MAX),
        }
    }

    /// The rank of the calling task; `None` if it is not a member (`MPI_Group_rank`).
    #[must_use]
    pub fn rank(&self) -> Option<u32> {
        self.rank_of(TaskId(self.own))
    }

    /// The task with this rank.
    pub(crate) fn task_of(&self, rank: u32) -> Option<TaskId> {
        match &self.members {
            Members::Strided { first, stride, size } => {
                (rank < *size).then(|| TaskId(first.wrapping_add(rank.wrapping_mul(*stride))))
            }
            Members::Listed(tasks) => tasks.get(rank as usize).map(|&task| TaskId(task)),
        }
    }

    /// The rank of a task.
    pub(crate) fn rank_of(&self, task: TaskId) -> Option<u32> {
        match &self.members {
            Members::Strided { first, stride, size } => {
                let distance = task.0.checked_sub(*first)?;
                (distance % stride == 0 && distance / stride < *size).then(|| distance / stride)
            }
            Members::Listed(tasks) => {
                let at = tasks.iter().position(|&member| member == task.0)?;
                u32::try_from(at).ok()
            }
        }
    }

    /// Number of leading ranks that are also the numbers of their tasks, and so need no lookup.
    pub(crate) fn direct_ranks(&self) -> u32 {
        match self.members {
            Members::Strided { first: 0, stride: 1, size } => size,
            _ => 0,
        }
    }

    /// The tasks of this group without those in the list, in the same order.
    pub(crate) fn without(&self, left_out: &[u32]) -> Self {
        if left_out.is_empty() {
            return self.clone();
        }
        let kept = self.tasks().map(|task| task.0).filter(|task| !left_out.contains(task)).collect();
        self.with(self, kept)
    }

    /// The tasks, by rank.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = TaskId> + Clone + '_ {
        (0..self.size()).filter_map(|rank| self.task_of(rank))
    }

    fn numbers(&self) -> Vec<u32> {
        self.tasks().map(|task| task.0).collect()
    }

    /// The ranks by task, for many lookups.
    fn ranks(&self) -> HashMap<u32, u32> {
        self.tasks().map(|task| task.0).zip(0..).collect()
    }

    /// Compares two groups (`MPI_Group_compare`); never [`Comparison::Congruent`].
    #[must_use]
    pub fn compare(&self, other: &Self) -> Comparison {
        if self.members == other.members {
            return Comparison::Identical;
        }
        let theirs = other.ranks();
        if self.size() == other.size() && self.tasks().all(|task| theirs.contains_key(&task.0)) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// Translates ranks of this group to ranks of another group (`MPI_Group_translate_ranks`): `None` for a task that is not in the other
    /// group. [`PROC_NULL`] stays `PROC_NULL`.
    ///
    /// # Errors
    /// A rank that this group does not have.
    pub fn translate_ranks(&self, ranks: &[u32], other: &Self) -> Result<Vec<Option<u32>>> {
        let theirs = if ranks.len() > 1 { Some(other.ranks()) } else { None };
        let translate = |&rank: &u32| {
            if rank == PROC_NULL {
                return Ok(Some(PROC_NULL));
            }
            let task = self.task_of(rank).ok_or_else(|| self.unknown_rank(i64::from(rank)))?;
            Ok(match &theirs {
                Some(theirs) => theirs.get(&task.0).copied(),
                None => other.rank_of(task),
            })
        };
        ranks.iter().map(translate).collect()
    }

    /// The tasks of this group, then those of the other group that are not in this one (`MPI_Group_union`).
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mine = self.ranks();
        let mut tasks = self.numbers();
        tasks.extend(other.tasks().map(|task| task.0).filter(|task| !mine.contains_key(task)));
        self.with(other, tasks)
    }

    /// The tasks of this group that are also in the other group (`MPI_Group_intersection`).
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let theirs = other.ranks();
        self.with(other, self.numbers().into_iter().filter(|task| theirs.contains_key(task)).collect())
    }

    /// The tasks of this group that are not in the other group (`MPI_Group_difference`).
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let theirs = other.ranks();
        self.with(other, self.numbers().into_iter().filter(|task| !theirs.contains_key(task)).collect())
    }

    /// The tasks with these ranks, in this order (`MPI_Group_incl`).
    ///
    /// # Errors
    /// A rank that does not exist, or occurs twice.
    pub fn incl(&self, ranks: &[u32]) -> Result<Self> {
        self.check_ranks(ranks.iter().map(|&rank| i64::from(rank)))?;
        let tasks = ranks.iter().filter_map(|&rank| self.task_of(rank)).map(|task| task.0).collect();
        Ok(self.with(self, tasks))
    }

    /// All tasks except those with these ranks (`MPI_Group_excl`).
    ///
    /// # Errors
    /// Those of [`incl`](Self::incl).
    pub fn excl(&self, ranks: &[u32]) -> Result<Self> {
        let out = self.check_ranks(ranks.iter().map(|&rank| i64::from(rank)))?;
        let tasks = self.tasks().zip(out).filter(|(_, out)| !out).map(|(task, _)| task.0).collect();
        Ok(self.with(self, tasks))
    }

    /// The tasks of these ranges of ranks, in this order (`MPI_Group_range_incl`).
    ///
    /// # Errors
    /// A stride of 0; a rank that does not exist or occurs twice.
    pub fn range_incl(&self, ranges: &[RankRange]) -> Result<Self> {
        self.incl(&self.ranks_of_ranges(ranges)?)
    }

    /// All tasks except those of these ranges of ranks (`MPI_Group_range_excl`).
    ///
    /// # Errors
    /// Those of [`range_incl`](Self::range_incl).
    pub fn range_excl(&self, ranges: &[RankRange]) -> Result<Self> {
        self.excl(&self.ranks_of_ranges(ranges)?)
    }

    fn ranks_of_ranges(&self, ranges: &[RankRange]) -> Result<Vec<u32>> {
        let mut ranks = Vec::new();
        for &RankRange { first, last, stride } in ranges {
            if stride == 0 {
                return Err(Error::refused(
                    ErrorClass::Argument,
                    "a range of ranks",
                    "the stride must not be 0",
                    0,
                ));
            }
            let (first, last, stride) = (i64::from(first), i64::from(last), i64::from(stride));
            let mut rank = first;
            while if stride > 0 { rank <= last } else { rank >= last } {
                // A rank outside the group is refused at once, so that an absurd range does not make a long list.
                let known = u32::try_from(rank).ok().filter(|&rank| rank < self.size());
                ranks.push(known.ok_or_else(|| self.unknown_rank(rank))?);
                rank += stride;
            }
        }
        Ok(ranks)
    }

    /// Checks that the ranks exist and occur once. Returns for each rank of the group whether it is listed.
    fn check_ranks(&self, ranks: impl Iterator<Item = i64>) -> Result<Vec<bool>> {
        let mut named = vec![false; self.size() as usize];
        for rank in ranks {
            let place = usize::try_from(rank).ok().and_then(|rank| named.get_mut(rank));
            let place = place.ok_or_else(|| self.unknown_rank(rank))?;
            if std::mem::replace(place, true) {
                return Err(Error::TwiceInGroup { rank });
            }
        }
        Ok(named)
    }

    fn unknown_rank(&self, rank: i64) -> Error {
        Error::NotInGroup { rank, size: self.size() }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tasks().map(|task| task.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(tasks: &[u32]) -> Group {
        Group::of_tasks(tasks.to_vec(), TaskId(5))
    }

    fn range(first: i32, last: i32, stride: i32) -> RankRange {
        RankRange { first, last, stride }
    }

    #[test]
    fn ranges_are_found_and_look_like_lists() {
        for tasks in [&[][..], &[5], &[0, 1, 2], &[1, 3, 5, 7], &[5, 4], &[0, 2, 3], &[9, 5, 7]] {
            let group = group(tasks);
            assert_eq!(group.size() as usize, tasks.len());
            assert_eq!(group.numbers(), tasks);
            for task in 0..12 {
                let expected = tasks.iter().position(|&member| member == task);
                assert_eq!(
                    group.rank_of(TaskId(task)).map(|rank| rank as usize),
                    expected,
                    "{task} in {tasks:?}"
                );
            }
            assert_eq!(group.task_of(group.size()), None);
            assert_eq!(group.compare(&group), Comparison::Identical);
        }
        assert_eq!(group(&[0, 1, 2]).direct_ranks(), 3);
        assert_eq!(group(&[0, 2]).direct_ranks(), 0);
        assert_eq!(group(&[1, 2]).direct_ranks(), 0);
    }

    #[test]
    fn set_operations_keep_the_order_that_the_standard_says() {
        let (a, b) = (group(&[4, 2, 5, 0]), group(&[5, 3, 4]));
        assert_eq!(a.union(&b), group(&[4, 2, 5, 0, 3]));
        assert_eq!(a.intersection(&b), group(&[4, 5]));
        assert_eq!(a.difference(&b), group(&[2, 0]));
        assert_eq!(a.difference(&a).size(), 0);
        assert_eq!(a.difference(&a).compare(&Group::EMPTY), Comparison::Identical);
        assert_eq!(Group::EMPTY.union(&a).rank(), Some(2));
        assert_eq!(a.compare(&group(&[0, 2, 4, 5])), Comparison::Similar);
        assert_eq!(a.compare(&b), Comparison::Unequal);
    }

    #[test]
    fn ranks_are_translated() {
        let (a, b) = (group(&[4, 2, 5, 0]), group(&[5, 3, 4]));
        let translated = a.translate_ranks(&[0, 1, 2, PROC_NULL], &b).unwrap();
        assert_eq!(translated, [Some(2), None, Some(0), Some(PROC_NULL)]);
        assert_eq!(a.translate_ranks(&[2], &b).unwrap(), [Some(0)]);
        assert!(matches!(a.translate_ranks(&[4], &b), Err(Error::NotInGroup { rank: 4, size: 4 })));
    }

    #[test]
    fn parts_by_rank_and_by_range() {
        let all = Group::consecutive(TaskId(0), 10, TaskId(5));
        assert_eq!(all.incl(&[3, 1]).unwrap(), group(&[3, 1]));
        assert_eq!(all.excl(&[0, 9, 5]).unwrap(), group(&[1, 2, 3, 4, 6, 7, 8]));
        assert_eq!(all.range_incl(&[range(6, 7, 1), range(1, 6, 3)]).unwrap(), group(&[6, 7, 1, 4]));
        assert_eq!(all.range_incl(&[range(9, 1, -4)]).unwrap(), group(&[9, 5, 1]));
        assert_eq!(all.range_incl(&[range(3, 2, 1)]).unwrap().size(), 0);
        assert_eq!(all.range_excl(&[range(1, 9, 1)]).unwrap(), group(&[0]));
    }

    #[test]
    fn bad_ranks_are_refused() {
        let all = Group::consecutive(TaskId(0), 4, TaskId(0));
        assert!(matches!(all.incl(&[4]), Err(Error::NotInGroup { rank: 4, size: 4 })));
        assert!(matches!(all.excl(&[1, 1]), Err(Error::TwiceInGroup { rank: 1 })));
        assert!(matches!(
            all.range_incl(&[range(0, 3, 0)]),
            Err(Error::Refused { class: ErrorClass::Argument, .. })
        ));
        assert!(matches!(all.range_incl(&[range(0, i32::MAX, 1)]), Err(Error::NotInGroup { rank: 4, .. })));
        assert!(matches!(all.range_excl(&[range(-1, 2, 1)]), Err(Error::NotInGroup { rank: -1, .. })));
        assert!(matches!(
            all.range_incl(&[range(0, 2, 1), range(2, 3, 1)]),
            Err(Error::TwiceInGroup { rank: 2 })
        ));
    }
}
