//! New communicators of one group (MPI 5.0 section 7.4.2).
//!
//! One member allocates a context id ([`crate::context_id`]) and sends it to the other members in a note. So a duplicate costs one short
//! message to each member, and can complete in the background.

use std::sync::{Arc, OnceLock};

use am_core::fabric::Fabric;
use am_core::task::TaskId;

use super::{Communicator, InheritedState};
use crate::communicator::error_handler::ErrorHandler;
use crate::communicator::info::Info;
use crate::communicator::topology::Topology;
use crate::context_id::{SPACES, id_in};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::message::consensus::Decision;
use crate::message::notes::{BY_ALL, Key, Slot, Words};
use crate::message::request_id::RequestId;
use crate::message::state::State;
use crate::policy::LockPolicy;
use crate::tag;

/// The criterion of [`Communicator::split_type`] (MPI 5.0 section 7.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitType {
    /// Tasks that can share memory: those of one host (`MPI_COMM_TYPE_SHARED`).
    Shared,
    /// Tasks that share the resource named by the hint `mpi_hw_resource_type` (`MPI_COMM_TYPE_HW_GUIDED`). Only `mpi_shared_memory` is
    /// supported.
    HardwareGuided,
    /// Tasks that share the next smaller resource (`MPI_COMM_TYPE_HW_UNGUIDED`): for a communicator with tasks on several hosts, a host. No
    /// smaller resource is supported.
    HardwareUnguided,
    /// Like `HardwareGuided`; or the tasks on one host, if the hint `mpi_pset_name` names the set of all tasks
    /// (`MPI_COMM_TYPE_RESOURCE_GUIDED`).
    ResourceGuided,
}

impl SplitType {
    /// The colour of the tasks on `host` for this type; `None` if the resource is not supported. `is_on_one_host`: whether no task of the
    /// communicator is on another host.
    ///
    /// # Errors
    /// An invalid key of a hint.
    pub(crate) fn color(self, info: &Info, host: u32, is_on_one_host: bool) -> Result<Option<i32>> {
        let is = |key, value| Ok::<_, Error>(info.get(key)? == Some(value));
        let memory = |info_key| is(info_key, "mpi_shared_memory");
        let shares_memory = match self {
            Self::Shared => true,
            Self::HardwareGuided => memory("mpi_hw_resource_type")?,
            // Each new communicator must have fewer tasks than the old one (MPI 5.0 section 7.4.2).
            Self::HardwareUnguided => !is_on_one_host,
            Self::ResourceGuided => {
                memory("mpi_hw_resource_type")? || is("mpi_pset_name", crate::group::WORLD_SET)?
            }
        };
        Ok(shares_memory.then_some(host.cast_signed()))
    }
}

/// The context id of notes about communicators without a parent. No communicator has it.
const WITHOUT_PARENT: u32 = u32::MAX;

/// A communicator that is being made, such as a duplicate (`MPI_Comm_idup`).
#[derive(Debug)]
#[must_use = "a wait returns the communicator"]
pub struct PendingCommunicator<F: Fabric, L: LockPolicy> {
    parent: Communicator<F, L>,
    request: RequestId,
    words: Awaited,
    /// The communicator's group and, for an inter-communicator, its remote group; `None` if this task is not a member.
    groups: Option<(Group, Option<Group>)>,
    inherited: InheritedState<F, L>,
}

/// Where the context ids of a communicator that is being made will be.
#[derive(Debug)]
enum Awaited {
    /// The members get them from one of them.
    Note(Slot),
    /// The members agree about them, and about the failed tasks, which are left out of the groups.
    Decision(Arc<OnceLock<Decision>>),
}

impl Awaited {
    fn are_there(&self) -> bool {
        match self {
            Self::Note(slot) => slot.get().is_some(),
            Self::Decision(slot) => slot.get().is_some(),
        }
    }
}

impl<F: Fabric, L: LockPolicy> PendingCommunicator<F, L> {
    /// The request of the operation, to be waited for together with others. Once it is complete, [`wait`](Self::wait) returns at once.
    #[must_use]
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Makes progress; returns whether the communicator is ready.
    ///
    /// # Errors
    /// An error while making progress.
    pub fn is_over(&self) -> Result<bool> {
        if self.words.are_there() {
            return Ok(true);
        }
        // Does not run operators of the program: the layer above calls this while its own tables are borrowed.
        State::is_over_after_progress(&mut *self.parent.state()?, self.request)
    }

    /// Waits for the communicator.
    ///
    /// # Errors
    /// An error while making progress; all context ids are in use. No communicator is made then.
    pub fn wait(self) -> Result<Communicator<F, L>> {
        self.wait_for_part()?.ok_or_else(not_there)
    }

    /// Like [`wait`](Self::wait); `None` if this task is not a member.
    pub(crate) fn wait_for_part(self) -> Result<Option<Communicator<F, L>>> {
        self.parent.wait_over(self.request)?;
        let ended = self.parent.state()?.handlers().requests.take(self.request);
        // The program may have waited for the request itself. Without the words, the request has ended with an error.
        if !self.words.are_there() {
            ended?;
        }
        self.begin_part()
    }

    /// The communicator, after [`is_over`](Self::is_over) has returned true or a wait for the [`request`](Self::request) has ended.
    ///
    /// # Errors
    /// The communicator is not ready; all context ids are in use.
    pub fn begin(self) -> Result<Communicator<F, L>> {
        self.begin_part()?.ok_or_else(not_there)
    }

    /// Like [`begin`](Self::begin); `None` if this task is not a member.
    pub(crate) fn begin_part(self) -> Result<Option<Communicator<F, L>>> {
        let (words, left_out) = match &self.words {
            Awaited::Note(slot) => (*slot.get().ok_or_else(not_there)?, Vec::new()),
            Awaited::Decision(slot) => {
                let decision = slot.get().ok_or_else(not_there)?;
                (decision.numbers, decision.failed.clone())
            }
        };
        let Some((group, remote)) = self.groups else { return Ok(None) };
        let groups = (group.without(&left_out), remote.map(|remote| remote.without(&left_out)));
        if groups.1.as_ref().is_some_and(|remote| remote.size() == 0) {
            let what = "all tasks of the other group have failed; the value is how many have failed in all";
            let failed = i64::try_from(left_out.len()).unwrap_or(i64::MAX);
            return Err(Error::refused(ErrorClass::Communicator, "shrink", what, failed));
        }
        let attributes = self.inherited.attributes.clone();
        let made = self.parent.begin(words, groups, self.inherited);
        made.map(Some).inspect_err(|_| attributes.discard(self.parent.properties().handle()))
    }
}

fn not_there() -> Error {
    Error::refused(ErrorClass::Request, "idup", "the request is not complete, or was cancelled", None)
}

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// A communicator of the same tasks, with its own message space and the attributes that the copy callbacks return (`MPI_Comm_dup`).
    /// Collective; hints are not copied.
    ///
    /// # Errors
    /// The error of a callback; all context ids are in use; the death of a task.
    pub fn dup(&self) -> Result<Self> {
        self.idup()?.wait()
    }

    /// Like [`dup`](Self::dup), with hints (`MPI_Comm_dup_with_info`).
    ///
    /// # Errors
    /// Those of [`dup`](Self::dup).
    pub fn dup_with_info(&self, info: &Info) -> Result<Self> {
        self.idup_with_info(info)?.wait()
    }

    /// Starts a [`dup`](Self::dup) (`MPI_Comm_idup`).
    ///
    /// # Errors
    /// Those of [`dup`](Self::dup).
    pub fn idup(&self) -> Result<PendingCommunicator<F, L>> {
        self.idup_with_info(&Info::new())
    }

    /// Like [`idup`](Self::idup), with hints (`MPI_Comm_idup_with_info`).
    ///
    /// # Errors
    /// Those of [`dup`](Self::dup).
    pub fn idup_with_info(&self, info: &Info) -> Result<PendingCommunicator<F, L>> {
        // The note is sent or awaited even after an error, so that the other tasks get it and later notes are not confused with it.
        let (request, slot) = self.start_agreement()?;
        let attributes = match self.properties().attributes_for_duplicate() {
            Ok(attributes) => attributes,
            Err(error) => {
                self.state()?.handlers().requests.detach(request);
                return Err(error);
            }
        };
        let topology = self.common.topology.clone();
        let inherited = InheritedState { topology, info: info.clone(), attributes, ..self.inherited_state() };
        let groups = (self.group(), self.remote_group().ok());
        Ok(self.pending((request, slot), Some(groups), inherited))
    }

    fn pending(
        &self,
        (request, slot): (RequestId, Slot),
        groups: Option<(Group, Option<Group>)>,
        inherited: InheritedState<F, L>,
    ) -> PendingCommunicator<F, L> {
        PendingCommunicator { parent: self.clone(), request, words: Awaited::Note(slot), groups, inherited }
    }

    /// A communicator of the tasks that have not failed. They agree about its context ids.
    pub(super) fn pending_shrink(
        &self,
        request: RequestId,
        decision: Arc<OnceLock<Decision>>,
    ) -> PendingCommunicator<F, L> {
        let groups = Some((self.group(), self.remote_group().ok()));
        let words = Awaited::Decision(decision);
        PendingCommunicator {
            parent: self.clone(),
            request,
            words,
            groups,
            inherited: self.inherited_state(),
        }
    }

    /// The initial state that every new communicator inherits from its parent.
    pub(super) fn inherited_state(&self) -> InheritedState<F, L> {
        InheritedState { error_handler: self.properties().error_handler(), ..InheritedState::default() }
    }

    /// At the leader: allocates the context ids of the new communicator, and sends them to the other tasks. At any other task: starts to
    /// wait for them.
    fn start_agreement(&self) -> Result<(RequestId, Slot)> {
        drop(self.state_for_all()?);
        let own = self.group();
        let remote = self.remote_group().unwrap_or(Group::EMPTY);
        let leader = own.tasks().chain(remote.tasks()).min_by_key(|task| {
            // Of the first ranks of both groups, the leader is the one with the lower task number.
            let is_first = own.rank_of(*task) == Some(0) || remote.rank_of(*task) == Some(0);
            (!is_first, task.0)
        });
        let leader = leader.expect("this task is a member");
        self.start_telling(leader, own.tasks().chain(remote.tasks()), (self.context_id, BY_ALL))
    }

    /// At the leader: allocates context ids, and sends them to the tasks in `told`. At any other task in `told`: starts to wait for the
    /// ids. A task that is not in `told` has nothing to wait for.
    fn start_telling(
        &self,
        leader: TaskId,
        told: impl Iterator<Item = TaskId> + Clone,
        (context_id, tag): (u32, i32),
    ) -> Result<(RequestId, Slot)> {
        let mut state = self.state_to_start()?;
        let own = state.context.task();
        if own != leader && told.clone().any(|task| task == own) {
            let key = Key { context_id, tag, from: leader.0 };
            return Ok(state.start_note(key));
        }
        let mut words = [0; 2];
        if own == leader {
            words = take_numbers(&mut state);
            // Each task waits for its note, also if the note can't be sent to another task.
            let mut sent = Ok(());
            for task in told.filter(|&task| task != leader) {
                sent = sent.and(state.send_note(task, (context_id, tag), words));
            }
            sent?;
        }
        let request = state.handlers().requests.insert(true);
        state.handlers().requests.end(request, None);
        let slot = Slot::default();
        // This cannot fail: the slot is empty.
        let _ = slot.set(words);
        Ok((request, slot))
    }

    /// Makes the new communicator from its context ids: an intra-communicator of `group`, or an inter-communicator if there is a remote
    /// group.
    pub(super) fn begin(
        &self,
        [number, local_number]: Words,
        (group, remote): (Group, Option<Group>),
        inherited: InheritedState<F, L>,
    ) -> Result<Self> {
        let (id, local_id) = (checked(number)?, checked(local_number)?);
        let rank = group.rank().expect("only members begin a communicator");
        let mut state = self.state()?;
        state.handlers().attached.note_session(id, group.session());
        state.context_ids.begin(id)?;
        state.handlers().peers.note_number(number);
        let Some(remote) = remote else {
            drop(state);
            return Ok(Self::new(&self.shared, id, group, rank, inherited));
        };
        state.context_ids.begin(local_id)?;
        state.handlers().peers.note_number(local_number);
        drop(state);
        let local = Self::new(&self.shared, local_id, group.clone(), rank, InheritedState::default());
        let other = Some(super::OtherSide { group: remote, local });
        Ok(Self::new(&self.shared, id, group, rank, InheritedState { other, ..inherited }))
    }

    /// Starts the creation of a communicator of the tasks in `group`, which has rank 0. `self` must be an intra-communicator; all of its
    /// tasks must call this, with the same group.
    pub(crate) fn start_with(
        &self,
        group: Group,
        topology: Option<Topology>,
        info: &Info,
    ) -> Result<PendingCommunicator<F, L>> {
        drop(self.state_for_all()?);
        let leader = self.group().task_of(0).expect("this task is a member");
        let told = self.start_telling(leader, group.tasks(), (self.context_id, BY_ALL))?;
        let inherited = InheritedState { topology, info: info.clone(), ..self.inherited_state() };
        Ok(self.pending(told, group.rank().is_some().then_some((group, None)), inherited))
    }

    /// A communicator of the tasks of `group` (`MPI_Comm_create`). Collective; `None` if this task is not in `group`. Different tasks may
    /// pass different groups, if these do not overlap. For an inter-communicator, each group passes some of its own tasks. If one group
    /// passes none, no communicator is made.
    ///
    /// # Errors
    /// A group with tasks that this communicator does not have; all context ids are in use; the death of a task.
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        if self.is_inter() {
            self.check_part("create", group)?;
            return self.create_inter(group);
        }
        self.start_create(group)?.wait_for_part()
    }

    /// Starts a [`create`](Self::create) of an intra-communicator. Tasks may pass different groups, so the leader sends the context ids to
    /// all tasks of `self`, also to tasks that are in no group.
    pub(crate) fn start_create(&self, group: &Group) -> Result<PendingCommunicator<F, L>> {
        self.check_part("create", group)?;
        let told = self.start_agreement()?;
        let groups = group.rank().is_some().then(|| (group.clone(), None));
        Ok(self.pending(told, groups, self.inherited_state()))
    }

    pub(crate) fn check_part(&self, call: &'static str, group: &Group) -> Result<()> {
        let outside = group.difference(&self.common.group).size();
        if outside == 0 {
            return Ok(());
        }
        let what = "the group has tasks that the communicator does not have; the value is how many";
        Err(Error::refused(ErrorClass::Group, call, what, i64::from(outside)))
    }

    /// A communicator of the tasks of `group` (`MPI_Comm_create_group`). Only these tasks need to call this; a caller that is not in the
    /// group gets `None`.
    ///
    /// # Errors
    /// A group with tasks that this communicator does not have, or an inter-communicator; a tag out of range; all context ids are in use;
    /// the death of a task.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Self>> {
        self.start_group(group, tag)?.map_or(Ok(None), PendingCommunicator::wait_for_part)
    }

    /// Starts a [`create_group`](Self::create_group); `None` for a task that is not a member.
    pub(crate) fn start_group(&self, group: &Group, tag: i32) -> Result<Option<PendingCommunicator<F, L>>> {
        tag::check(tag)?;
        self.check_part("create_group", group)?;
        if self.is_inter() {
            let what = "the communicator is an inter-communicator; the value is the tag";
            return Err(Error::refused(ErrorClass::Communicator, "create_group", what, i64::from(tag)));
        }
        if group.rank().is_none() {
            return Ok(None);
        }
        let told = self.told_by_first(&[group], (self.context_id, tag))?;
        Ok(Some(self.pending(told, Some((group.clone(), None)), self.inherited_state())))
    }

    /// The first rank of the first group sends context ids to all tasks of the groups.
    fn told_by_first(&self, groups: &[&Group], key: (u32, i32)) -> Result<(RequestId, Slot)> {
        let leader = groups[0].task_of(0).expect("the group is not empty");
        self.start_telling(leader, groups.iter().flat_map(|group| group.tasks()), key)
    }

    /// See [`Session::create_from_group`](crate::Session::create_from_group).
    pub(crate) fn start_from_group(
        &self,
        group: &Group,
        tag: &str,
        (info, error_handler): (&Info, ErrorHandler),
    ) -> Result<Option<PendingCommunicator<F, L>>> {
        if group.rank().is_none() {
            return Ok(None);
        }
        let told = self.told_by_first(&[group], (WITHOUT_PARENT, name_number(tag, 0)))?;
        let inherited = InheritedState { info: info.clone(), error_handler, ..InheritedState::default() };
        Ok(Some(self.pending(told, Some((group.clone(), None)), inherited)))
    }

    /// See [`Session::inter_from_groups`](crate::Session::inter_from_groups).
    pub(crate) fn start_from_groups(
        &self,
        (local, remote): (&Group, &Group),
        tag: &str,
        (info, error_handler): (&Info, ErrorHandler),
    ) -> Result<PendingCommunicator<F, L>> {
        check_apart("create_from_groups", local, remote)?;
        // Both groups choose the same leader: of their first ranks, the one with the lower task number.
        let is_local_first = local.task_of(0).map(|task| task.0) < remote.task_of(0).map(|task| task.0);
        let groups = if is_local_first { [local, remote] } else { [remote, local] };
        let told = self.told_by_first(&groups, (WITHOUT_PARENT, name_number(tag, 1)))?;
        let inherited = InheritedState { info: info.clone(), error_handler, ..InheritedState::default() };
        Ok(self.pending(told, Some((local.clone(), Some(remote.clone()))), inherited))
    }

    /// Splits the tasks by colour, and orders those of each colour by key, then by rank (`MPI_Comm_split`). Collective; `None` without a
    /// colour (`MPI_UNDEFINED`). For an inter-communicator, the result has the tasks of the colour in both groups; `None` if a group has no
    /// task of the colour.
    ///
    /// # Errors
    /// A negative colour; all context ids are in use; the death of a task.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Self>> {
        if self.is_inter() {
            return self.split_inter(Choice::new(color, key)?);
        }
        let (own, mut words) = self.begin_split(color, key)?;
        self.combine_words(&mut words)?;
        self.end_split(own, &words)
    }

    /// This task's words in a split of one group, which are combined with the words of the other tasks by "or".
    ///
    /// # Errors
    /// A negative colour; all context ids are in use.
    pub(crate) fn begin_split(&self, color: Option<i32>, key: i32) -> Result<(Choice, Vec<u64>)> {
        let own = Choice::new(color, key)?;
        let is_leader = self.rank() == 0;
        let numbers = if is_leader { take_numbers(&mut *self.state()?) } else { [0; 2] };
        Ok((own, self.placed_words(&[own.to_word(), numbers[0], numbers[1]])))
    }

    /// The communicator that this task gets from a split, after the words have been combined; `None` for a task without a colour.
    ///
    /// # Errors
    /// An invalid context id.
    pub(crate) fn end_split(&self, own: Choice, words: &[u64]) -> Result<Option<Self>> {
        let choices: Vec<_> = words.chunks(SPLIT_WORDS).map(|words| Choice::from_word(words[0])).collect();
        let Some(group) = own.group_of(&choices, &self.common.group) else { return Ok(None) };
        self.begin([words[1], words[2]], (group, None), self.inherited_state()).map(Some)
    }

    /// Splits by a shared resource (`MPI_Comm_split_type`). Collective; `None` without a type (`MPI_UNDEFINED`), or if the resource is not
    /// supported.
    ///
    /// # Errors
    /// Those of [`split`](Self::split); an invalid key of a hint.
    pub fn split_type(&self, split_type: Option<SplitType>, key: i32, info: &Info) -> Result<Option<Self>> {
        let host = {
            let context = &self.state()?.context;
            context.host(context.task())
        };
        let is_on_one_host = self.is_on_one_host();
        let color = split_type.map_or(Ok(None), |split_type| split_type.color(info, host, is_on_one_host))?;
        let new = self.split(color, key)?;
        if let Some(new) = &new {
            new.properties().set_info(info);
        }
        Ok(new)
    }

    /// Whether all tasks of the group run on one host, so that they can share memory.
    pub(crate) fn is_on_one_host(&self) -> bool {
        let Some(state) = self.state_to_end() else { return false };
        let own = state.context.host(state.context.task());
        self.common.group.tasks().all(|task| state.context.host(task) == own)
    }

    /// Gives this new communicator a topology. There must be no other handle on it yet.
    pub(crate) fn with_topology(self, topology: Topology) -> Self {
        let Self { mut common, shared, .. } = self;
        let state = Arc::get_mut(&mut common).expect("it has just been made");
        state.topology = Some(topology);
        Self { shared, common, ..self }
    }

    /// The words of this task at its position, among zeros for all other tasks.
    pub(crate) fn placed_words(&self, own: &[u64]) -> Vec<u64> {
        let mut all = vec![0; own.len() * self.size() as usize];
        all[own.len() * self.rank() as usize..][..own.len()].copy_from_slice(own);
        all
    }

    /// The words of each task of the local group, by rank. All tasks must pass the same number of words, at least one. Other threads can
    /// have turns during the call.
    pub(crate) fn gather_words(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let local = self.local();
        let mut all = local.placed_words(own);
        local.combine_words(&mut all)?;
        Ok(all.chunks(own.len()).map(<[u64]>::to_vec).collect())
    }

    /// Like [`gather_words`](Self::gather_words), with any number of words from each task.
    pub(crate) fn gather_lists(&self, own: &[u64]) -> Result<Vec<Vec<u64>>> {
        let local = self.local();
        let lengths: Vec<usize> = self
            .gather_words(&[own.len() as u64])?
            .into_iter()
            .map(|words| usize::try_from(words[0]).map_err(|_| Error::TooLarge { call: "a list of words" }))
            .collect::<Result<_>>()?;
        let before: usize = lengths[..local.rank() as usize].iter().sum();
        let mut all = vec![0; lengths.iter().sum()];
        all[before..][..own.len()].copy_from_slice(own);
        local.combine_words(&mut all)?;
        let mut rest = all.as_slice();
        Ok(lengths
            .into_iter()
            .map(|len| {
                let (list, others) = rest.split_at(len);
                rest = others;
                list.to_vec()
            })
            .collect())
    }
}

/// Checks that the two groups have no common task, that this task is in the local group, and that the remote group is not empty.
///
/// # Errors
/// [`Error::Refused`]: one of these conditions does not hold.
pub(super) fn check_apart(call: &'static str, local: &Group, remote: &Group) -> Result<()> {
    let common = local.intersection(remote).size();
    if common > 0 {
        let what = "the two groups have tasks in common; the value is how many";
        return Err(Error::refused(ErrorClass::Communicator, call, what, i64::from(common)));
    }
    if local.rank().is_none() || remote.size() == 0 {
        let what = "this task is not in the local group, or the other group is empty; the value is the other group's size";
        return Err(Error::refused(ErrorClass::Group, call, what, i64::from(remote.size())));
    }
    Ok(())
}

/// A number for a new communicator, and one for the local communicators of both groups, if it is an inter-communicator.
pub(super) fn take_numbers<F: Fabric>(state: &mut crate::message::state::State<F>) -> Words {
    let mut take = || state.context_ids.take().unwrap_or(NO_NUMBER);
    [take(), take()]
}

/// What a task that has no free context id gives instead of one: all tasks that wait for the id then get the same error.
const NO_NUMBER: u64 = u64::MAX;

/// The context id in a number that the tasks of a group have agreed on.
fn checked(number: u64) -> Result<u32> {
    if number == NO_NUMBER {
        let what = "all context ids of the task that gives them out are in use: free communicators that are no longer needed";
        return Err(Error::refused(ErrorClass::Other, "a new communicator", what, None));
    }
    Some(id_in(number)).filter(|id| id % SPACES == 0).ok_or(Error::ContextId { number })
}

/// A number computed from a name, on which tasks without a communicator agree (FNV-1a).
fn name_number(name: &str, seed: u32) -> i32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5 ^ seed, mix).cast_signed()
}

/// Number of words of each task in a split: its choice, and from the first task also context ids for the new communicators.
const SPLIT_WORDS: usize = 3;

/// The choice of a task in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    color: Option<u32>,
    key: i32,
}

impl Choice {
    pub(crate) fn new(color: Option<i32>, key: i32) -> Result<Self> {
        if let Some(color) = color.filter(|&color| color < 0) {
            let what = "a colour must be 0 or more, or None (MPI_UNDEFINED); the value is the colour";
            return Err(Error::refused(ErrorClass::Argument, "split", what, i64::from(color)));
        }
        Ok(Self { color: color.map(i32::cast_unsigned), key })
    }

    /// The upper 32 bits are the colour plus 1, or 0 for no colour; the lower ones are the key.
    pub(crate) fn to_word(self) -> u64 {
        let color = self.color.map_or(0, |color| u64::from(color) + 1);
        color << 32 | u64::from(self.key.cast_unsigned())
    }

    #[expect(clippy::cast_possible_truncation, reason = "the halves of the word are meant")]
    pub(super) fn from_word(word: u64) -> Self {
        Self { color: ((word >> 32) as u32).checked_sub(1), key: (word as u32).cast_signed() }
    }

    /// The tasks with the same colour, in the order of their keys.
    pub(super) fn group_of(self, choices: &[Self], group: &Group) -> Option<Group> {
        let color = self.color?;
        let mut chosen: Vec<(i32, u32)> = choices
            .iter()
            .zip(0..)
            .filter(|(choice, _)| choice.color == Some(color))
            .map(|(choice, rank)| (choice.key, rank))
            .collect();
        chosen.sort_unstable();
        let ranks: Vec<u32> = chosen.into_iter().map(|(_, rank)| rank).collect();
        Some(group.incl(&ranks).expect("each rank gave one word"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::environment::Environment;
    use crate::policy::OneThread;
    use am_core_conform::watchdog::Watchdog;
    use am_double::{Config, Double, network};

    /// The task that gives out the context ids has none left. No other task waits for them for ever.
    #[test]
    fn all_tasks_are_told_that_no_context_id_is_left() {
        let _watchdog = Watchdog::new("no context id is left".to_owned(), std::time::Duration::from_secs(60));
        let (_network, fabrics) = network(Config::new(3));
        std::thread::scope(|scope| {
            for fabric in fabrics {
                scope.spawn(move || {
                    let environment =
                        Environment::<Double, OneThread>::on_fabric(fabric, &Settings::default());
                    let environment = environment.expect("three tasks");
                    let world = environment.world();
                    world.state().expect("no call is under way").context_ids.leave(0);
                    let refused = [world.dup().err(), world.split(Some(0), 0).err()];
                    for error in refused.map(|error| error.expect("no id is left")) {
                        assert!(error.to_string().contains("all context ids"), "{error}");
                    }
                    environment.finalize().expect("all tasks finalize");
                });
            }
        });
    }

    #[test]
    fn a_number_that_no_task_proposes_is_an_error_without_a_peer() {
        assert_eq!(checked(u64::from(SPACES)).expect("a multiple"), SPACES);
        let wrong = 1;
        let error = checked(wrong).expect_err("no number of a communicator");
        assert!(matches!(error, Error::ContextId { number } if number == wrong), "{error}");
        assert!(error.to_string().contains(&wrong.to_string()), "{error}");
    }
}
