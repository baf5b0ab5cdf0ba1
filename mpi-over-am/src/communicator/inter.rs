//! Inter-communicators: two groups whose tasks communicate with those of the other group (MPI 5.0 section 7.6).
//!
//! Both groups send and receive with one context id: a task is in one group only, so it gets messages from the other group only. The tasks
//! of each group also have a communicator of their own. These two communicators can have the same context id, because no task is in both
//! groups.

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use super::create::{Choice, check_apart, take_numbers};
use super::{Communicator, InheritedState};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::policy::LockPolicy;

/// The tag of lists that leaders exchange in the library's message space (`Space::Management`).
pub(crate) const LISTS: i32 = 0;

const CREATE: &str = "create_inter_with";

pub(crate) fn no_bridge(tag: i32) -> Error {
    let what =
        "the local leader must pass the communicator that contains the other leader; the value is the tag";
    Error::refused(ErrorClass::Communicator, CREATE, what, i64::from(tag))
}

/// The numbers of a group's tasks, for a list.
pub(crate) fn numbers_of(group: &Group) -> Vec<u64> {
    group.tasks().map(|task| u64::from(task.0)).collect()
}

/// The length of a leader's list, from its greeting.
pub(crate) fn list_len(greeting: [u64; 4], leader: TaskId) -> Result<usize> {
    let len = usize::try_from(greeting[0]).ok().filter(|&len| len < u32::MAX as usize);
    len.ok_or(Error::Protocol { peer: leader.0, what: "a list that is too long" })
}

/// The context ids allocated by the leader with the lower task number, followed by the other leader's list.
pub(crate) fn met(own: [u64; 4], theirs: [u64; 4], remote: &[u64]) -> Vec<u64> {
    let [_, first, second, _] = if own[3] < theirs[3] { own } else { theirs };
    [&[first, second], remote].concat()
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// An inter-communicator between this communicator's tasks and those of another (`MPI_Intercomm_create`). Collective over both. The
    /// leaders communicate over `bridge`, which must contain both leaders, and is ignored at other tasks. `remote_leader` is the other
    /// leader's rank in `bridge`.
    ///
    /// # Errors
    /// An unknown leader, a leader without a bridge, groups that overlap, an inter-communicator; all context ids are in use; the death of a
    /// task.
    pub fn create_inter_with(
        &self,
        local_leader: u32,
        bridge: Option<&Self>,
        remote_leader: u32,
        tag: i32,
    ) -> Result<Self> {
        let own = self.begin_inter(local_leader)?;
        let met = if self.rank() == local_leader {
            bridge
                .ok_or_else(|| no_bridge(tag))
                .and_then(|bridge| self.meet(bridge, remote_leader, tag, &own))
        } else {
            Ok(Vec::new())
        };
        // If the leader failed, the other tasks learn of the failure from an empty list.
        let list = self.broadcast_list(local_leader, met.as_deref().unwrap_or_default());
        let list = met.and(list)?;
        self.end_inter(local_leader, &list)
    }

    /// Checks the arguments of [`create_inter_with`](Self::create_inter_with); returns the tasks of the local group.
    pub(crate) fn begin_inter(&self, local_leader: u32) -> Result<Vec<u64>> {
        if self.is_inter() {
            let what = "the local communicator is an inter-communicator; the value is its size";
            return Err(Error::refused(ErrorClass::Communicator, CREATE, what, i64::from(self.size())));
        }
        if local_leader >= self.size() {
            return Err(Error::UnknownRank { rank: local_leader, size: self.size() });
        }
        Ok(numbers_of(&self.group()))
    }

    /// The end of [`create_inter_with`](Self::create_inter_with), with the list from the leaders.
    pub(crate) fn end_inter(&self, local_leader: u32, list: &[u64]) -> Result<Self> {
        let [first, second, remote @ ..] = list else {
            let what =
                "the local leader could not reach the other leader; the value is the local leader's rank";
            return Err(Error::refused(ErrorClass::Other, CREATE, what, i64::from(local_leader)));
        };
        let group = self.group();
        let remote = self.group_of_numbers(remote);
        check_apart(CREATE, &group, &remote)?;
        self.begin([*first, *second], (group, Some(remote)), self.inherited_state())
    }

    /// The leaders exchange greetings, and then their lists. The context ids of the leader with the lower task number are used.
    pub(super) fn meet(&self, bridge: &Self, leader: u32, tag: i32, list: &[u64]) -> Result<Vec<u64>> {
        let out = self.greeting(list)?;
        let mut into = [0; 4];
        bridge.exchange_words(leader, tag, &out, &mut into)?;
        let mut remote = vec![0; list_len(into, bridge.task_of(leader)?)?];
        bridge.exchange_words(leader, tag, list, &mut remote)?;
        Ok(met(out, into, &remote))
    }

    /// The greeting of a leader: the length of its list, two context ids, and the number of its task.
    pub(crate) fn greeting(&self, list: &[u64]) -> Result<[u64; 4]> {
        let [first, second] = take_numbers(&mut *self.state()?);
        let own_task = self.state()?.context.task();
        Ok([list.len() as u64, first, second, u64::from(own_task.0)])
    }

    /// Broadcasts a list from one task of the local group to the others.
    pub(super) fn broadcast_list(&self, root: u32, list: &[u64]) -> Result<Vec<u64>> {
        let local = self.local();
        let mut len = [list.len() as u64];
        local.broadcast_words(&mut len, root)?;
        let len = usize::try_from(len[0]).map_err(|_| Error::TooLarge { call: "a list of tasks" })?;
        let mut all = if local.rank() == root { list.to_vec() } else { vec![0; len] };
        local.broadcast_words(&mut all, root)?;
        Ok(all)
    }

    /// The first ranks of both groups exchange context ids for a new communicator, and their lists. Returns the context ids and the remote
    /// group's list, at all tasks.
    fn exchange_lists(&self, list: &[u64]) -> Result<([u64; 2], Vec<u64>)> {
        let met = match self.rank() {
            // After a failure, nothing begins that could take what is left of an earlier call.
            0 => self.state_for_all().map(drop).and_then(|()| self.meet(self, 0, LISTS, list)),
            _ => Ok(Vec::new()),
        };
        // If the first rank failed, the other tasks learn of the failure from an empty list.
        let all = self.broadcast_list(0, met.as_deref().unwrap_or_default());
        match met.and(all)?.as_slice() {
            [first, second, list @ ..] => Ok(([*first, *second], list.to_vec())),
            _ => Err(self.why_not_met()?),
        }
    }

    /// Why the first rank of the local group could not reach that of the other one: usually, a task has failed. The record of failures then
    /// reaches this task, too, sooner or later.
    fn why_not_met(&self) -> Result<Error> {
        let mut state = self.state()?;
        state.take_in()?;
        Ok(state.handlers().trouble_of_all(self.context_id).unwrap_or_else(|| {
            let what = "the first ranks of both groups could not reach each other; the value is the size of the other group";
            let size = self.remote_group().map_or(0, |remote| remote.size());
            Error::refused(ErrorClass::Other, "a new communicator of two groups", what, i64::from(size))
        }))
    }

    fn group_of_numbers(&self, tasks: &[u64]) -> Group {
        let tasks = tasks.iter().map(|&task| u32::try_from(task).unwrap_or(u32::MAX)).collect();
        let own = self.group().task_of(self.rank()).expect("this task is a member");
        Group::of_tasks(tasks, own).of_session(self.group().session())
    }

    /// A communicator of both groups (`MPI_Intercomm_merge`). The group that passes `high` comes second; if both pass the same value, the
    /// group whose first rank has the lower task number comes first. Collective.
    ///
    /// # Errors
    /// The communicator is not an inter-communicator; all context ids are in use; the death of a task.
    pub fn merge(&self, high: bool) -> Result<Self> {
        self.remote_group()?;
        let (numbers, theirs) = self.exchange_lists(&[u64::from(high)])?;
        // All tasks use the value of their group's first rank.
        let mut own = [u64::from(high)];
        self.local().broadcast_words(&mut own, 0)?;
        self.end_merge(numbers, own, &theirs)
    }

    /// The end of [`merge`](Self::merge), with the values of both groups' first ranks.
    pub(crate) fn end_merge(&self, numbers: [u64; 2], own: [u64; 1], theirs: &[u64]) -> Result<Self> {
        let (group, remote) = (self.group(), self.remote_group()?);
        let lower = group.task_of(0).map(|task| task.0) < remote.task_of(0).map(|task| task.0);
        let is_first = if theirs[..] == own { lower } else { own[0] == 0 };
        let all = if is_first { group.union(&remote) } else { remote.union(&group) };
        self.begin(numbers, (all, None), self.inherited_state())
    }

    pub(super) fn create_inter(&self, group: &Group) -> Result<Option<Self>> {
        let (numbers, theirs) = self.exchange_lists(&numbers_of(group))?;
        self.end_create_inter(numbers, group, &theirs)
    }

    /// The end of a [`create`](Self::create) from an inter-communicator. `theirs` lists the tasks of the remote group.
    pub(crate) fn end_create_inter(
        &self,
        numbers: [u64; 2],
        group: &Group,
        theirs: &[u64],
    ) -> Result<Option<Self>> {
        self.begin_part(numbers, group.clone(), self.group_of_numbers(theirs))
    }

    fn begin_part(&self, numbers: [u64; 2], group: Group, remote: Group) -> Result<Option<Self>> {
        if group.rank().is_none() || remote.size() == 0 {
            return Ok(None);
        }
        let inherited: InheritedState<F, L> = self.inherited_state();
        self.begin(numbers, (group, Some(remote)), inherited).map(Some)
    }

    pub(super) fn split_inter(&self, own: Choice) -> Result<Option<Self>> {
        let words: Vec<u64> =
            self.gather_words(&[own.to_word()])?.into_iter().map(|words| words[0]).collect();
        let (numbers, theirs) = self.exchange_lists(&words)?;
        self.end_split_inter(own, numbers, (&words, &theirs))
    }

    /// The end of a [`split`](Self::split) of an inter-communicator, with the choices of both groups.
    pub(crate) fn end_split_inter(
        &self,
        own: Choice,
        numbers: [u64; 2],
        (words, theirs): (&[u64], &[u64]),
    ) -> Result<Option<Self>> {
        let choices = |words: &[u64]| words.iter().map(|&word| Choice::from_word(word)).collect::<Vec<_>>();
        let (own_side, other_side) = (choices(words), choices(theirs));
        let Some(group) = own.group_of(&own_side, &self.group()) else { return Ok(None) };
        let Some(remote) = own.group_of(&other_side, &self.remote_group()?) else { return Ok(None) };
        self.begin_part(numbers, group, remote)
    }
}
