//! Agreement among the tasks of a communicator, some of which may fail meanwhile: a state machine without any means to communicate.
//!
//! The first member that has not failed coordinates. It collects what the members contribute, proposes a value, and decides when every
//! member that has not failed has accepted the proposal; then it tells the decision. If it fails, the next member coordinates: each member
//! tells it what it holds, and a member that has accepted a proposal ignores those of earlier coordinators from then on. The agreement is
//! uniform: a task decides only a value that every member still alive has accepted, so the next coordinator finds this value, even if
//! nobody else has decided yet.
//!
//! This relies on a detector of failures that names only tasks that have failed, and sooner or later names each to every member
//! ([`crate::message::handlers`]). Messages between two tasks arrive in order, or not at all if their sender has failed.
//!
//! A record of the decision has to stay until all members have it. Each confirms the decision, and the coordinator then tells all to
//! forget it.

#[cfg(test)]
mod model;
mod wire;

pub(crate) use wire::BYTES as HEADER_BYTES;

use std::collections::{BTreeMap, BTreeSet};

/// What a member contributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contribution {
    /// The bits that are combined by "and".
    pub(crate) flags: u32,
    /// Numbers that this member would give: those of communicators.
    pub(crate) numbers: [u64; 2],
    /// The failed members that this member knows, or has acknowledged.
    pub(crate) failed: Vec<u32>,
}

/// What the members agree about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Decision {
    /// The bits that all contributions have.
    pub(crate) flags: u32,
    /// The numbers of the first member that has contributed and is not in `failed`.
    pub(crate) numbers: [u64; 2],
    /// Whether a member has failed, before it contributed, that not all contributors have named.
    pub(crate) is_news: bool,
    /// The members that have failed before they contributed, and those that contributors have named.
    pub(crate) failed: Vec<u32>,
}

/// What a member tells a coordinator: the most that it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holding {
    Contribution(Contribution),
    /// The proposal that it has accepted last, and the place of the coordinator that made it.
    Accepted(u32, Decision),
    Decided(Decision),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// To the coordinator at this place among the members.
    Hold(u32, Holding),
    /// From the coordinator at this place.
    Propose(u32, Decision),
    /// To the coordinator at this place: its proposal is accepted.
    Accept(u32),
    Decide(Decision),
    /// The decision has arrived.
    Done,
    /// All members have the decision.
    Forget,
}

/// One agreement, as one of its members sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Agreement {
    own: u32,
    /// The members, the same list at all; empty until this member takes part.
    members: Vec<u32>,
    contribution: Option<Contribution>,
    accepted: Option<(u32, Decision)>,
    decision: Option<Decision>,
    /// No proposal of a coordinator before this place is accepted.
    promised: u32,
    /// The place of the last coordinator that this member has told what it holds.
    told: Option<u32>,
    /// As the coordinator: what the members hold.
    holdings: BTreeMap<u32, Holding>,
    /// As the coordinator: the proposal, and the members that have accepted it.
    proposal: Option<(Decision, BTreeSet<u32>)>,
    /// As the coordinator, after the decision was told: the members that have confirmed it.
    done: Option<BTreeSet<u32>>,
    is_forgotten: bool,
}

/// Messages to other members, in the order in which they must be sent.
pub(crate) type Outbox = Vec<(u32, Message)>;

impl Agreement {
    /// An agreement in which the task `own` does not take part yet, although messages about it may arrive.
    pub(crate) fn new(own: u32) -> Self {
        Self {
            own,
            members: Vec::new(),
            contribution: None,
            accepted: None,
            decision: None,
            promised: 0,
            told: None,
            holdings: BTreeMap::new(),
            proposal: None,
            done: None,
            is_forgotten: false,
        }
    }

    /// Takes part: `members` has the tasks in the same order at all members.
    pub(crate) fn contribute(
        &mut self,
        members: Vec<u32>,
        contribution: Contribution,
        has_failed: &dyn Fn(u32) -> bool,
        outbox: &mut Outbox,
    ) {
        self.members = members;
        self.contribution = Some(contribution);
        self.advance(has_failed, outbox);
    }

    /// The answer to a message about an agreement whose record this member has forgotten: all members have the decision.
    pub(crate) fn answer_when_over(message: &Message) -> Option<Message> {
        match message {
            Message::Hold(_, Holding::Decided(_)) => Some(Message::Forget),
            Message::Decide(_) => Some(Message::Done),
            _ => None,
        }
    }

    /// Handles a message.
    pub(crate) fn receive(
        &mut self,
        from: u32,
        message: Message,
        has_failed: &dyn Fn(u32) -> bool,
        outbox: &mut Outbox,
    ) {
        match message {
            Message::Hold(place, holding) => {
                // Before this member takes part, it does not know its place.
                if self.members.is_empty() || self.members.get(place as usize) == Some(&self.own) {
                    self.holdings.insert(from, holding);
                }
            }
            Message::Propose(place, decision) if place >= self.promised => {
                self.promised = place;
                self.accepted = Some((place, decision));
                outbox.push((from, Message::Accept(place)));
            }
            Message::Propose(..) => {}
            Message::Accept(place) => {
                if self.members.get(place as usize) == Some(&self.own)
                    && let Some((_, accepted_by)) = &mut self.proposal
                {
                    accepted_by.insert(from);
                }
            }
            Message::Decide(decision) => {
                self.decision.get_or_insert(decision);
                outbox.push((from, Message::Done));
            }
            Message::Done => {
                if let Some(done) = &mut self.done {
                    done.insert(from);
                }
            }
            Message::Forget => {
                self.is_forgotten = true;
                // They take this member for the coordinator, and wait for its word.
                let waiting = self.holdings.keys().copied().filter(|&member| member != self.own);
                outbox.extend(waiting.map(|member| (member, Message::Forget)));
                return;
            }
        }
        self.advance(has_failed, outbox);
    }

    /// Does what has become possible, after any input or after a failure.
    pub(crate) fn advance(&mut self, has_failed: &dyn Fn(u32) -> bool, outbox: &mut Outbox) {
        let Some(place) = self.members.iter().position(|&member| !has_failed(member)) else { return };
        let (coordinator, place) = (self.members[place], u32::try_from(place).unwrap_or(u32::MAX));
        // A later coordinator has made a proposal: this member has yet to learn that the earlier ones have failed.
        if self.told != Some(place)
            && place >= self.promised
            && let Some(holding) = self.holding()
        {
            self.told = Some(place);
            self.promised = place;
            if coordinator == self.own {
                self.holdings.insert(self.own, holding);
            } else {
                outbox.push((coordinator, Message::Hold(place, holding)));
            }
        }
        if coordinator == self.own {
            self.coordinate(place, has_failed, outbox);
        }
    }

    fn holding(&self) -> Option<Holding> {
        if let Some(decision) = &self.decision {
            return Some(Holding::Decided(decision.clone()));
        }
        if let Some((place, decision)) = &self.accepted {
            return Some(Holding::Accepted(*place, decision.clone()));
        }
        self.contribution.clone().map(Holding::Contribution)
    }

    fn coordinate(&mut self, place: u32, has_failed: &dyn Fn(u32) -> bool, outbox: &mut Outbox) {
        let alive: Vec<u32> = self.members.iter().copied().filter(|&member| !has_failed(member)).collect();
        let others = || alive.iter().copied().filter(|&member| member != self.own);
        if self.decision.is_none()
            && self.proposal.is_none()
            && alive.iter().all(|member| self.holdings.contains_key(member))
        {
            match self.choice(has_failed) {
                (decision, true) => self.decision = Some(decision),
                (decision, false) => {
                    outbox.extend(others().map(|member| (member, Message::Propose(place, decision.clone()))));
                    self.accepted = Some((place, decision.clone()));
                    self.proposal = Some((decision, BTreeSet::from([self.own])));
                }
            }
        }
        if self.decision.is_none()
            && let Some((decision, accepted_by)) = &self.proposal
            && alive.iter().all(|member| accepted_by.contains(member))
        {
            self.decision = Some(decision.clone());
        }
        let Some(decision) = &self.decision else { return };
        let done = self.done.get_or_insert_with(|| {
            outbox.extend(others().map(|member| (member, Message::Decide(decision.clone()))));
            BTreeSet::from([self.own])
        });
        if !self.is_forgotten && alive.iter().all(|member| done.contains(member)) {
            self.is_forgotten = true;
            outbox.extend(others().map(|member| (member, Message::Forget)));
        }
    }

    /// The value that the holdings of all members allow, and whether it is decided already.
    fn choice(&self, has_failed: &dyn Fn(u32) -> bool) -> (Decision, bool) {
        let mut last: Option<(u32, &Decision)> = None;
        for holding in self.holdings.values() {
            match holding {
                Holding::Decided(decision) => return (decision.clone(), true),
                Holding::Accepted(place, decision) if last.is_none_or(|(before, _)| *place > before) => {
                    last = Some((*place, decision));
                }
                Holding::Accepted(..) | Holding::Contribution(_) => {}
            }
        }
        (last.map_or_else(|| self.combined(has_failed), |(_, decision)| decision.clone()), false)
    }

    fn combined(&self, has_failed: &dyn Fn(u32) -> bool) -> Decision {
        let given = |member: &u32| match self.holdings.get(member) {
            Some(Holding::Contribution(given)) => Some(given),
            _ => None,
        };
        let contributions: Vec<&Contribution> = self.members.iter().filter_map(given).collect();
        let absent: BTreeSet<u32> =
            self.members.iter().copied().filter(|member| given(member).is_none()).collect();
        let is_named = |member: &u32| contributions.iter().all(|given| given.failed.contains(member));
        let is_news = !absent.iter().all(is_named);
        let named = contributions.iter().flat_map(|given| given.failed.iter().copied());
        let failed: BTreeSet<u32> =
            named.chain(self.members.iter().copied().filter(|&member| has_failed(member))).collect();
        let first = self.members.iter().filter(|member| !failed.contains(member)).find_map(given);
        Decision {
            flags: contributions.iter().fold(u32::MAX, |flags, given| flags & given.flags),
            numbers: first.map_or([u64::MAX; 2], |given| given.numbers),
            is_news,
            failed: failed.into_iter().collect(),
        }
    }

    /// The decision, once this member has it.
    pub(crate) fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Whether the record is not needed any more: all members have the decision.
    pub(crate) fn is_over(&self) -> bool {
        self.is_forgotten
    }
}
