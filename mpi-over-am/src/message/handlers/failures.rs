//! What this task knows of failures, and what that ends (the extension ULFM).
//!
//! The launcher's record of failures, which reaches every task, is the detector: it names only tasks that have ended, and sooner or later
//! all of them. When a task has failed, operations end that only it could complete. A collective ends at every task that learns of the
//! failure of a member, since the tasks between which it is still under way may have left it with an error.

use std::collections::{HashMap, VecDeque};

use am_core::handler::{Answer, Completion, Message, Wanted};
use am_core::task::{Endpoint, TaskId};

use super::agreements::Agreements;
use super::{MpiHandlers, REVOKE};
use crate::context_id::{SPACES, Space, id_in, needs_all_tasks};
use crate::error::Error;
use crate::group::Group;
use crate::matching::{ContextId, Pattern};
use crate::message::notes::{BY_ALL, Key, Slot};
use crate::message::request_id::RequestId;
use crate::message::request_table::{Parts, Phase};

/// How a task was lost.
#[derive(Debug)]
enum Lost {
    /// It has failed, and how.
    Failed(String),
    /// It has closed its context, after the first failure of the job that is known; empty if there is none.
    Left { endpoint: Endpoint, after: String },
}

impl Lost {
    /// The error of an operation that needs this task.
    fn error(&self, task: TaskId) -> Error {
        Error::Core(match self {
            Self::Failed(what) => am_core::error::Error::PeerFailed { task, what: what.clone() },
            Self::Left { endpoint, after } => {
                am_core::error::Error::ContextClosed { endpoint: *endpoint, after: after.clone() }
            }
        })
    }
}

/// What this task knows of failures.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// The tasks that have failed or left, in the order in which this task has learned of them.
    lost: Vec<(TaskId, Lost)>,
    /// The number of entries of `lost` that the program has acknowledged, by the context id of the communicator.
    acknowledged: HashMap<u32, usize>,
    /// The revoked communicators, by their numbers. An entry stays: the communicator may not be known here yet, and others may have to
    /// be told after it has ended here.
    revoked: HashMap<u64, Revoked>,
    pub(super) agreements: Agreements,
    /// The messages that the context has to send.
    wanted: VecDeque<Wanted>,
}

/// A communicator that was revoked.
#[derive(Debug)]
struct Revoked {
    /// The task that has told this one. If it fails, it may have told only some: this task then tells all.
    told_by: TaskId,
    /// The number of the communicator of the local group, if it is an inter-communicator; otherwise its own again.
    local: u64,
    /// All members, once they are known here.
    members: Vec<TaskId>,
}

impl Failures {
    pub(super) fn next_wanted(&mut self) -> Option<Wanted> {
        self.wanted.pop_front()
    }

    /// Forgets that a task was lost: another task may get its number, and no communicator has the lost one any more.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.agreements.begun.remove(&task.0);
        let Some(at) = self.lost.iter().position(|&(lost, _)| lost == task) else { return };
        self.lost.remove(at);
        for end in self.acknowledged.values_mut().filter(|end| **end > at) {
            *end -= 1;
        }
    }

    /// The first failed task of a group, and its error.
    fn first_failed(&self, group: &Group) -> Option<Error> {
        let failed =
            |(task, how): &&(TaskId, Lost)| matches!(how, Lost::Failed(_)) && group.rank_of(*task).is_some();
        self.lost.iter().find(failed).map(|(task, lost)| lost.error(*task))
    }

    /// The lost members of a group in the order in which this task has learned of them, up to an entry of `lost`.
    fn lost_up_to<'a>(&'a self, end: usize, group: &'a Group) -> impl Iterator<Item = TaskId> + 'a {
        self.lost[..end].iter().map(|(task, _)| *task).filter(|&task| group.rank_of(task).is_some())
    }

    /// The members of a group that have failed or left.
    pub(crate) fn lost_in(&self, group: &Group) -> Vec<TaskId> {
        self.lost_up_to(self.lost.len(), group).collect()
    }

    /// Acknowledges the first `count` lost members of the communicator's group, or all that this task knows of. Fewer than were
    /// acknowledged before change nothing. Returns the number of acknowledged members.
    pub(crate) fn acknowledge(&mut self, context_id: u32, group: &Group, count: Option<usize>) -> usize {
        let is_member = |(task, _): &(TaskId, Lost)| group.rank_of(*task).is_some();
        let wanted = count.unwrap_or(usize::MAX);
        let mut members = 0;
        let end = self.lost.iter().position(|lost| {
            let is_beyond = is_member(lost) && members == wanted;
            members += usize::from(is_member(lost) && !is_beyond);
            is_beyond
        });
        let end = end.unwrap_or(self.lost.len());
        let acknowledged = self.acknowledged.entry(context_id).or_default();
        *acknowledged = (*acknowledged).max(end);
        self.lost_up_to(self.acknowledged[&context_id], group).count()
    }

    /// The acknowledged members of the communicator's group.
    pub(crate) fn acknowledged_in(&self, context_id: u32, group: &Group) -> Vec<TaskId> {
        let end = self.acknowledged.get(&context_id).copied().unwrap_or(0);
        self.lost_up_to(end, group).collect()
    }

    /// Forgets what the program has asked about a communicator that has ended.
    pub(crate) fn end(&mut self, number: u64) {
        self.acknowledged.remove(&id_in(number));
        self.agreements.end(number);
    }

    pub(super) fn want(&mut self, wanted: Wanted) {
        self.wanted.push_back(wanted);
    }

    /// Whether a task has failed or left.
    pub(crate) fn has_lost(&self, task: u32) -> bool {
        self.lost.iter().any(|(lost, _)| lost.0 == task)
    }

    /// The error that names the first of these tasks that the program has not acknowledged; if it has acknowledged all of them, the first.
    pub(super) fn error_of_news(&self, context_id: u32, failed: &[u32]) -> Option<Error> {
        let known = self.acknowledged.get(&context_id).copied().unwrap_or(0);
        let is_named = |(task, _): &&(TaskId, Lost)| failed.contains(&task.0);
        let found = self.lost[known..].iter().find(is_named).or_else(|| self.lost.iter().find(is_named));
        match found {
            Some((task, lost)) => Some(lost.error(*task)),
            // The record of failures has not reached this task yet.
            None => failed.first().map(|&task| Lost::Failed(String::new()).error(TaskId(task))),
        }
    }
}

/// The context id of a communicator, from that of one of its message spaces.
fn communicator_of(context_id: u32) -> u32 {
    context_id - context_id % SPACES
}

impl MpiHandlers {
    /// Whether each start of an operation has to look whether it is possible: a task has failed or left, or a communicator is revoked.
    #[cold]
    pub(crate) fn is_troubled(&self) -> bool {
        let mut revoked = self.failures.revoked.keys();
        !self.failures.lost.is_empty() || revoked.any(|&number| self.peers.has_number(number))
    }

    /// From now on, each start of an operation and each wait looks whether it is possible.
    fn trouble_begins(&mut self) {
        self.attention = true;
        self.is_unusual = true;
        self.completions.look_at_each();
    }

    /// Whether a task has failed.
    pub(crate) fn has_failed(&self, task: TaskId) -> bool {
        self.failures.lost.iter().any(|(lost, how)| *lost == task && matches!(how, Lost::Failed(_)))
    }

    /// Notes that a task has failed or left, and ends the operations that only it could complete.
    #[cold]
    pub(super) fn lose(&mut self, task: TaskId, why: am_core::error::Error) {
        let how = match why {
            am_core::error::Error::PeerFailed { what, .. } => Lost::Failed(what),
            am_core::error::Error::ContextClosed { endpoint, after } => Lost::Left { endpoint, after },
            _ => return,
        };
        match self.failures.lost.iter_mut().find(|(other, _)| *other == task) {
            // A task that has left may fail afterwards.
            Some((_, before)) => *before = how,
            None => self.failures.lost.push((task, how)),
        }
        self.trouble_begins();
        self.end_hopeless_operations();
        self.tell_of_revoked(task);
        self.advance_agreements();
    }

    /// Adds a communicator: messages on it are exchanged with the ranks of `reached`. An inter-communicator also has a `local` group.
    pub(crate) fn begin_communicator(&mut self, context_id: u32, reached: Group, local: Option<Group>) {
        self.peers.begin(context_id, reached, local);
        if self.is_revoked(context_id) {
            self.trouble_begins();
            self.learn_members(self.peers.number_of(context_id));
        }
    }

    /// Removes a communicator.
    pub(crate) fn end_communicator(&mut self, context_id: u32) {
        self.peers.end(context_id);
        self.failures.end(self.peers.number_of(context_id));
    }

    /// Whether the communicator is revoked.
    pub(crate) fn is_revoked(&self, context_id: u32) -> bool {
        self.failures.revoked.contains_key(&self.peers.number_of(communicator_of(context_id)))
    }

    /// Revokes a communicator of this task, and tells its members. `local` is the context id of the communicator of the local group, if it
    /// is an inter-communicator; otherwise its own again.
    pub(crate) fn revoke(&mut self, context_id: u32, local: u32) {
        let [number, local] = [context_id, local].map(|id| self.peers.number_of(id));
        if self.begin_revoked(number, local, TaskId(self.own)) {
            self.tell_all(number);
        }
    }

    /// Notes that a communicator is revoked: operations on it end, and no more can be started. Returns false if it was revoked before.
    fn begin_revoked(&mut self, number: u64, local: u64, told_by: TaskId) -> bool {
        if self.failures.revoked.contains_key(&number) {
            return false;
        }
        self.failures.revoked.insert(number, Revoked { told_by, local, members: Vec::new() });
        if local != number {
            self.begin_revoked(local, local, told_by);
        }
        self.trouble_begins();
        self.end_hopeless_operations();
        self.learn_members(number);
        true
    }

    /// Handles the message that a communicator is revoked.
    pub(super) fn revoked(&mut self, message: &Message<'_>) -> Answer {
        let Ok(header) = <[u8; 16]>::try_from(message.uhdr) else { return self.malformed(message) };
        let [number, local] = bytemuck::cast::<_, [[u8; 8]; 2]>(header).map(u64::from_le_bytes);
        if [number, local].iter().any(|&number| !id_in(number).is_multiple_of(SPACES)) {
            return self.malformed(message);
        }
        self.begin_revoked(number, local, message.source.task);
        Answer::consumed(Completion::Wants)
    }

    /// Notes the members of a revoked communicator, once it is known here.
    fn learn_members(&mut self, number: u64) {
        let Some(revoked) = self.failures.revoked.get_mut(&number) else { return };
        let known = [number, revoked.local].into_iter().filter(|&number| self.peers.has_number(number));
        let groups = known.map(|number| self.peers.group(ContextId(id_in(number))));
        let own = self.own;
        let mut members: Vec<TaskId> = groups.flatten().flat_map(Group::tasks).collect();
        members.retain(|member| member.0 != own);
        members.sort_unstable();
        members.dedup();
        revoked.members = members;
        if self.failures.has_lost(self.failures.revoked[&number].told_by.0) {
            self.tell_all(number);
        }
    }

    /// Tells all members that their communicator is revoked.
    fn tell_all(&mut self, number: u64) {
        let Some(revoked) = self.failures.revoked.get(&number) else { return };
        let uhdr = [number.to_le_bytes(), revoked.local.to_le_bytes()].concat();
        for to in revoked.members.clone() {
            self.failures.want(Wanted { to, handler: REVOKE, uhdr: uhdr.clone(), udata: Vec::new() });
        }
    }

    /// After a task has failed: tells all members of the communicators that this task has said were revoked.
    fn tell_of_revoked(&mut self, failed: TaskId) {
        let told = self.failures.revoked.iter().filter(|(_, revoked)| revoked.told_by == failed);
        for number in told.map(|(&number, _)| number).collect::<Vec<_>>() {
            self.tell_all(number);
        }
    }

    fn end_hopeless_operations(&mut self) {
        for (request, _) in self.requests.posted_receives().collect::<Vec<_>>() {
            self.end_hopeless(request);
        }
        self.end_hopeless_notes();
    }

    /// Why no operation can be started on the communicator with this context id (or that of one of its spaces): it is revoked.
    #[cold]
    pub(crate) fn trouble_of(&self, context_id: u32) -> Option<Error> {
        let number = self.peers.number_of(communicator_of(context_id));
        let revoked = self.failures.revoked.get(&number)?;
        Some(Error::Revoked { told_by: revoked.told_by.0 })
    }

    /// Why no collective can be carried out on the communicator with this context id (or that of one of its spaces): it is revoked, or one
    /// of its tasks has failed.
    #[cold]
    pub(crate) fn trouble_of_all(&self, context_id: u32) -> Option<Error> {
        if let Some(revoked) = self.trouble_of(context_id) {
            return Some(revoked);
        }
        let mut groups = self.peers.all_groups(ContextId(context_id));
        groups.find_map(|group| self.failures.first_failed(group))
    }

    /// Why a persistent request cannot be started: see [`trouble_of`](Self::trouble_of) and, for a collective,
    /// [`trouble_of_all`](Self::trouble_of_all).
    #[cold]
    pub(crate) fn trouble_of_start(&self, request: RequestId) -> Option<Error> {
        let context_id = self.requests.context_of_recipe(request)?;
        if Space::Collective.has(context_id) {
            self.trouble_of_all(context_id)
        } else {
            self.trouble_of(context_id)
        }
    }

    /// Ends a receive that was just posted, if only a lost task could send its message. Messages from that task that have arrived stay,
    /// and can be received.
    #[inline(always)]
    pub(crate) fn end_if_its_sender_is_lost(&mut self, request: RequestId) {
        if self.is_unusual {
            self.end_hopeless(request);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_hopeless(&mut self, request: RequestId) {
        let Some(pattern) = self.requests.posted_pattern(request) else { return };
        let why = self.why_hopeless(&pattern).or_else(|| {
            // A call that waits has no later call that could report the failure.
            if request == RequestId::BLOCKING_RECEIVE { self.awaits_a_failed_task(&pattern) } else { None }
        });
        if let Some(why) = why {
            self.requests.withdraw(request, why);
        }
    }

    /// Why no message can come for this receive.
    fn why_hopeless(&self, pattern: &Pattern) -> Option<Error> {
        let context_id = pattern.context_id().0;
        if let Some(error) = self.trouble_of(context_id) {
            return Some(error);
        }
        // The leaders that make an inter-communicator meet on a communicator that may have other tasks. On an inter-communicator, they are
        // the first ranks in a call of all tasks.
        let is_of_all = Space::Collective.has(context_id)
            || Space::Management.has(context_id) && self.peers.is_inter(pattern.context_id());
        if is_of_all && let Some(error) = self.trouble_of_all(context_id) {
            return Some(error);
        }
        let sender = self.only_sender(pattern);
        let (task, lost) = self.failures.lost.iter().find(|&&(task, _)| Some(task) == sender)?;
        // A task may leave while others have receives posted, which they then cancel.
        (matches!(lost, Lost::Failed(_)) || needs_all_tasks(context_id)).then(|| lost.error(*task))
    }

    /// The failure of a task that could send a message for this receive from any source, if the program has not acknowledged it.
    pub(crate) fn awaits_a_failed_task(&self, pattern: &Pattern) -> Option<Error> {
        let context_id = pattern.context_id();
        if pattern.source().is_some() || !Space::PointToPoint.has(context_id.0) {
            return None;
        }
        let group = self.peers.group(context_id)?;
        let acknowledged =
            self.failures.acknowledged.get(&communicator_of(context_id.0)).copied().unwrap_or(0);
        let new = &self.failures.lost[acknowledged.min(self.failures.lost.len())..];
        let failed =
            |(task, how): &&(TaskId, Lost)| matches!(how, Lost::Failed(_)) && group.rank_of(*task).is_some();
        new.iter().find(failed).map(|(task, lost)| lost.error(*task))
    }

    /// Why a call must not wait for a receive that stays posted, or for an exchange with such a receive: see
    /// [`awaits_a_failed_task`](Self::awaits_a_failed_task).
    #[cold]
    pub(crate) fn is_in_doubt(&self, request: RequestId) -> Option<Error> {
        if let Some(pattern) = self.requests.posted_pattern(request) {
            return self.awaits_a_failed_task(&pattern);
        }
        let Some(Parts::Exchange(exchange)) = self.requests.parts(request) else { return None };
        exchange.under_way.iter().find_map(|&half| self.is_in_doubt(half))
    }

    /// Why a call must not wait for a message with this pattern, which no receive has been posted for.
    #[cold]
    pub(crate) fn why_not_probe(&self, pattern: &Pattern) -> Option<Error> {
        self.why_hopeless(pattern).or_else(|| self.awaits_a_failed_task(pattern))
    }

    /// Whether the receiver of a message under way may never take it: the communicator is revoked, or it is a message of a collective with
    /// a failed task, which its receiver may have left. Returns true once for each request, which ends with that error in any case.
    #[cold]
    pub(crate) fn is_hopeless_send(&mut self, request: RequestId) -> bool {
        if self.requests.phase(request) != Phase::Moving || self.requests.is_receive(request) {
            return false;
        }
        let Some(context_id) = self.requests.context_of(request) else { return false };
        let needs_all = Space::Collective.has(context_id);
        let why = if needs_all { self.trouble_of_all(context_id) } else { self.trouble_of(context_id) };
        let Some(why) = why else { return false };
        match self.requests.acknowledged_by(request) {
            // The data have been sent, and only the word of the match is missing.
            Some(receiver) => {
                self.requests.acknowledged(request, receiver, Some(why));
                false
            }
            None => self.requests.end_with(request, why),
        }
    }

    /// Ends the requests that wait for notes that will not come.
    #[cold]
    #[inline(never)]
    fn end_hopeless_notes(&mut self) {
        for key in self.notes.awaited_keys() {
            if self.why_no_note(key).is_some() {
                for request in self.notes.give_up(key) {
                    let why = self.why_no_note(key);
                    self.requests.end(request, why);
                }
            }
        }
    }

    /// Why a note may never come: its sender is lost; its communicator is revoked; or it is the leader's in a call that makes a
    /// communicator, which needs all tasks, and which the leader may have left because another task has failed.
    fn why_no_note(&self, key: Key) -> Option<Error> {
        if let Some((task, lost)) = self.failures.lost.iter().find(|(task, _)| task.0 == key.from) {
            return Some(lost.error(*task));
        }
        if key.tag == BY_ALL {
            return self.trouble_of_all(key.context_id);
        }
        self.trouble_of(key.context_id)
    }

    /// Starts to wait for a note: `request` completes when the note is in the slot.
    pub(crate) fn await_note(&mut self, key: Key, slot: &Slot, request: RequestId) {
        if self.notes.take_or_wait(key, slot, request) {
            self.requests.end(request, None);
        } else if self.is_unusual {
            self.end_hopeless_notes();
        }
    }

    /// The task that a receive names as its sender.
    pub(super) fn only_sender(&self, pattern: &Pattern) -> Option<TaskId> {
        self.peers.task_of(pattern.context_id(), pattern.source()?)
    }
}
