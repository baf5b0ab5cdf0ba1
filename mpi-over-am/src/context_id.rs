//! Allocation of context ids. Each task owns a part of the ids, so that a new communicator needs no search for an id that is free in all
//! tasks: one member allocates one of its own ids, and sends it to the other members.
//!
//! ```text
//! task, in as many bits as the job needs | count | space (2)
//! ```
//!
//! Ids are used in rotation, so that a freed id is reused as late as possible. If a task has not yet freed a communicator that the other
//! tasks have freed, a new communicator is then unlikely to get the same id. The communicator's *number* is never used again: its upper
//! half counts the rotations. Revocations and agreements have it as their name, since those of a freed communicator may still arrive.

use std::collections::{HashMap, HashSet};

use am_core::task::TaskId;

use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::matching::ContextId;

/// Number of message spaces of a communicator, each with its own context id.
pub(crate) const SPACES: u32 = 4;
/// A part of a communicator's message space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    PointToPoint = 0,
    Collective = 1,
    /// Partitioned operations: the partitions, and the messages by which sender and receiver find each other's request.
    Partitioned = 2,
    /// Agreements of the library: new communicators, windows.
    Management = 3,
}

impl Space {
    /// Whether a context id is that of this message space, of whichever communicator.
    pub(crate) const fn has(self, context_id: u32) -> bool {
        context_id % SPACES == self as u32
    }
}

/// Whether the messages of this context id are those of a call that needs all tasks of a group: of a collective, or of a call that makes a
/// communicator or a window.
pub(crate) const fn needs_all_tasks(context_id: u32) -> bool {
    Space::Collective.has(context_id) || Space::Management.has(context_id)
}

/// The context id of the world.
pub(crate) const WORLD: u32 = 0;
/// There are context ids for so many tasks at least, since tasks may start others.
const TASKS_AT_LEAST: u32 = 4096;
/// How often a task may give all its context ids before its numbers are those of a task of the next world.
const ROTATIONS_OF_A_WORLD: u32 = 256;
/// The count in the first context id that a task allocates. Count 0 of task 0 is the world's, and count 1 is that of the task's own
/// communicator.
const FIRST_COUNT: u32 = 2;

/// The context id in a communicator's number.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
pub(crate) const fn id_in(number: u64) -> u32 {
    number as u32
}

/// The context ids that this task owns, and the context ids in use in this task.
#[derive(Debug)]
pub(crate) struct ContextIds {
    own: u32,
    counts: u32,
    next: u32,
    /// Number of times that all context ids of this task were given.
    rotations: u32,
    used: HashSet<u32>,
}

impl ContextIds {
    /// The ids of task `own`, whose world has this number. The numbers of all tasks are below `num_tasks` or [`TASKS_AT_LEAST`].
    pub(crate) fn new(own: TaskId, num_tasks: u32, world: u32) -> Self {
        let counts = (u32::MAX / SPACES + 1) / num_tasks.max(TASKS_AT_LEAST).next_power_of_two();
        // A task may have the task number of an earlier one, but gives no number that the earlier one has given.
        let rotations = world.wrapping_mul(ROTATIONS_OF_A_WORLD);
        Self { own: own.0, counts, next: FIRST_COUNT, rotations, used: HashSet::new() }
    }

    /// The context id of the communicator of this task alone.
    pub(crate) fn of_self(&self) -> u32 {
        self.number(1)
    }

    fn number(&self, count: u32) -> u32 {
        (self.own * self.counts + count) * SPACES
    }

    /// Allocates a context id that no other communicator of the job has, as a communicator's number; `None` if all context ids of this task
    /// are in use.
    pub(crate) fn take(&mut self) -> Option<u64> {
        for _ in FIRST_COUNT..self.counts {
            let (id, rotations) = (self.number(self.next), self.rotations);
            self.next += 1;
            if self.next >= self.counts {
                self.next = FIRST_COUNT;
                self.rotations = rotations.wrapping_add(1);
            }
            if !self.used.contains(&id) {
                return Some(u64::from(rotations) << 32 | u64::from(id));
            }
        }
        None
    }

    /// Leaves only so many context ids to allocate.
    #[cfg(test)]
    pub(crate) fn leave(&mut self, ids: u32) {
        self.counts = FIRST_COUNT + ids;
    }

    /// Notes that a communicator with this context id exists in this task. Any task may own the id.
    ///
    /// # Errors
    /// Another communicator has the id: the id's owner has freed that communicator, and this task has not.
    pub(crate) fn begin(&mut self, number: u32) -> Result<()> {
        if self.used.insert(number) {
            return Ok(());
        }
        Err(Error::refused(
            ErrorClass::Communicator,
            "a new communicator",
            "its context id belongs to a communicator that other tasks have freed: free it here too; the value is the id",
            i64::from(number),
        ))
    }

    /// Whether a communicator of this task has a context id that `task` has given. As long as that is so, no other task may have the number
    /// of `task`: it could give the id again.
    pub(crate) fn has_of(&self, task: TaskId) -> bool {
        self.used.iter().any(|id| id / SPACES / self.counts == task.0)
    }

    /// Notes that the communicator has ended.
    pub(crate) fn end(&mut self, number: u32) {
        self.used.remove(&number);
    }
}

/// The task of each rank of the live communicators, by context id.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    groups: HashMap<u32, Group>,
    /// The local groups of inter-communicators.
    local_groups: HashMap<u32, Group>,
    /// The upper half of the last number of each context id; a context id that is not here was used once or never.
    rotations: HashMap<u32, u32>,
    /// The communicator of the last [`sender`](Self::sender), and the number of its [direct ranks](Group::direct_ranks).
    recent: Option<(u32, u32)>,
}

impl Peers {
    /// Adds a communicator: messages on it are exchanged with the ranks of this group. An inter-communicator also has a local group.
    pub(crate) fn begin(&mut self, context_id: u32, group: Group, local: Option<Group>) {
        self.recent = None;
        self.groups.insert(context_id, group);
        self.local_groups.extend(local.map(|local| (context_id, local)));
    }

    /// Notes the number of a communicator that is about to [begin](Self::begin).
    pub(crate) fn note_number(&mut self, number: u64) {
        let rotations = u32::try_from(number >> 32).unwrap_or(u32::MAX);
        if rotations > 0 {
            self.rotations.insert(id_in(number), rotations);
        } else {
            self.rotations.remove(&id_in(number));
        }
    }

    /// The number of the last communicator with this context id, which may have ended.
    pub(crate) fn number_of(&self, context_id: u32) -> u64 {
        let rotations = self.rotations.get(&context_id).copied().unwrap_or(0);
        u64::from(rotations) << 32 | u64::from(context_id)
    }

    /// Whether the communicator with this number has begun and not ended.
    pub(crate) fn has_number(&self, number: u64) -> bool {
        self.groups.contains_key(&id_in(number)) && self.number_of(id_in(number)) == number
    }

    /// Removes a communicator.
    pub(crate) fn end(&mut self, context_id: u32) {
        self.recent = None;
        self.groups.remove(&context_id);
        self.local_groups.remove(&context_id);
    }

    /// Like [`task_of`](Self::task_of), but faster if the communicator is that of the last call.
    #[inline]
    pub(crate) fn sender(&mut self, context_id: ContextId, rank: u32) -> Option<TaskId> {
        let number = context_id.0 - context_id.0 % SPACES;
        let direct = match self.recent {
            Some((recent, direct)) if recent == number => direct,
            _ => self.recent.insert((number, self.groups.get(&number)?.direct_ranks())).1,
        };
        if rank < direct { Some(TaskId(rank)) } else { self.task_of(context_id, rank) }
    }

    pub(crate) fn task_of(&self, context_id: ContextId, rank: u32) -> Option<TaskId> {
        self.group(context_id)?.task_of(rank)
    }

    /// The ranks that messages on a communicator are exchanged with.
    pub(crate) fn group(&self, context_id: ContextId) -> Option<&Group> {
        self.groups.get(&(context_id.0 - context_id.0 % SPACES))
    }

    /// Whether the communicator is an inter-communicator.
    pub(crate) fn is_inter(&self, context_id: ContextId) -> bool {
        self.local_groups.contains_key(&(context_id.0 - context_id.0 % SPACES))
    }

    /// The groups of all communicators.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().chain(self.local_groups.values())
    }

    /// The groups with all tasks of a communicator: one, or the two of an inter-communicator.
    pub(crate) fn all_groups(&self, context_id: ContextId) -> impl Iterator<Item = &Group> {
        let local = self.local_groups.get(&(context_id.0 - context_id.0 % SPACES));
        self.group(context_id).into_iter().chain(local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_never_give_the_same_number() {
        for num_tasks in [1, 2, 3, 8, 1000, 1 << 20] {
            let mut seen = HashSet::from([WORLD]);
            for task in [0, num_tasks / 2, num_tasks - 1].into_iter().collect::<HashSet<_>>() {
                let mut ids = ContextIds::new(TaskId(task), num_tasks, 0);
                assert!(seen.insert(ids.of_self()));
                for _ in 0..100 {
                    let number = ids.take().unwrap();
                    assert_eq!(number % u64::from(SPACES), 0);
                    assert!(seen.insert(id_in(number)), "{number} twice, with {num_tasks} tasks");
                }
            }
        }
    }

    #[test]
    fn numbers_rest_and_run_out() {
        let mut ids = ContextIds::new(TaskId(3), 1 << 27, 0);
        let count = ids.counts - FIRST_COUNT;
        let first = ids.take().unwrap();
        ids.begin(id_in(first)).unwrap();
        assert!(ids.begin(id_in(first)).is_err());
        for _ in 1..count {
            let number = ids.take().unwrap();
            ids.begin(id_in(number)).unwrap();
        }
        assert_eq!(ids.take(), None);
        ids.end(id_in(first));
        let again = ids.take().unwrap();
        assert_eq!(id_in(again), id_in(first));
        assert_ne!(again, first, "the number of the communicator is new");
    }
}
