//! The state of the network, under one lock: packets in transit, credits, events, deaths.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use am_core_engine::protocol::packet::Kind;

use super::memory::Regions;
use super::{CONTEXTS_MAX, Config, Reach, endpoint};
use crate::buffer::{Access, Grant, InlineBytes, MappedRange, RawBuffer, RawBytes, RemoteAddress};
use crate::error::{Error, Outcome, Result};
use crate::fabric::{Event, Traffic};
use crate::task::{Endpoint, TaskId};
use crate::testing::Random;
use crate::transfer::{Atomic, AtomicOp, Class, OpId, Transfer, Width};

/// A handle of the network, to kill tasks.
#[derive(Clone, Debug)]
pub struct Network(Arc<Inner>);

impl Network {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self(inner)
    }

    /// Kills a task: its calls fail from now on, and the other tasks get an event.
    pub fn kill(&self, task: TaskId) {
        self.0.kill(task, "it was killed");
    }

    /// Number of times that a task has slept, and the longest limit of such a sleep.
    #[must_use]
    pub fn sleeps(&self, task: TaskId) -> (u64, Duration) {
        self.0.lock().tasks[task.index()].sleeps
    }
}

#[derive(Debug)]
pub(super) struct Inner {
    state: Mutex<State>,
    /// One condition variable per task, on which the task sleeps.
    news: Vec<Condvar>,
}

/// The payload of a packet.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    Inline(InlineBytes),
    /// Head and body.
    Buffered(InlineBytes, Box<[u8]>),
}

/// The result of a poll.
#[derive(Debug)]
pub(super) enum Polled {
    Event(Event),
    Packet { from: TaskId, class: Class, label: u16, bytes: Bytes },
}

/// An access to a peer's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    Write { to: RemoteAddress, from: RawBytes },
    Read { from: RemoteAddress, to: RawBuffer },
    Atomic { at: RemoteAddress, width: Width, operation: AtomicOp },
}

impl Job {
    fn remote(&self) -> RemoteAddress {
        match *self {
            Self::Write { to, .. } => to,
            Self::Read { from, .. } => from,
            Self::Atomic { at, .. } => at,
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Write { from, .. } => from.len() as u64,
            Self::Read { to, .. } => to.len() as u64,
            Self::Atomic { width, .. } => width.bytes(),
        }
    }

    fn access(&self) -> Access {
        match self {
            Self::Read { .. } => Access::READ,
            Self::Write { .. } | Self::Atomic { .. } => Access::WRITE,
        }
    }
}

/// An access to be performed later.
#[derive(Clone, Copy, Debug)]
struct Posted {
    op: OpId,
    job: Job,
    /// Whether the operation is a write that was performed and is not reported yet.
    written: bool,
}

#[derive(Debug)]
struct Packet {
    class: Class,
    label: u16,
    bytes: Bytes,
}

/// The sender's state towards one peer.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Packets sent but not released by the target.
    unreleased: u32,
    /// Requests that were neither answered nor waived.
    unanswered: u32,
    /// Slots of the sender's own receive queue that are reserved for answers.
    reserved: u32,
    /// Number of packets sent.
    sent: u64,
    /// Number of packets that the target has released.
    released: u64,
}

#[derive(Debug)]
struct Task {
    dead: Option<String>,
    gone: bool,
    woken: bool,
    /// Indexed by sender.
    inbox: Vec<VecDeque<Packet>>,
    /// Indexed by target.
    flows: Vec<Flow>,
    events: VecDeque<Event>,
    /// Tasks that have closed their endpoint; each is reported after its last packet was delivered.
    left: Vec<TaskId>,
    posted: VecDeque<Posted>,
    /// Whether anything was posted since posted writes were last performed, so that most checks for them are short.
    newly_posted: bool,
    regions: Regions,
    /// Number of sleeps, and the longest limit of one.
    sleeps: (u64, Duration),
}

#[derive(Debug)]
pub(super) struct State {
    config: Config,
    random: Random,
    tasks: Vec<Task>,
}

impl Inner {
    pub(super) fn new(config: Config) -> Self {
        let tasks = config.tasks as usize;
        let task = |_| Task {
            dead: None,
            gone: false,
            woken: false,
            inbox: (0..tasks).map(|_| VecDeque::new()).collect(),
            flows: vec![Flow::default(); tasks],
            events: VecDeque::new(),
            left: Vec::new(),
            posted: VecDeque::new(),
            newly_posted: false,
            regions: Regions::default(),
            sleeps: (0, Duration::ZERO),
        };
        let state = State { config, random: Random::new(config.seed), tasks: (0..tasks).map(task).collect() };
        Self { state: Mutex::new(state), news: (0..tasks).map(|_| Condvar::new()).collect() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A test thread that panicked has reported the panic; the other threads still have to end.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn notify(&self, task: TaskId) {
        if let Some(news) = self.news.get(task.index()) {
            news.notify_all();
        }
    }

    pub(super) fn wake(&self, task: TaskId) {
        self.lock().tasks[task.index()].woken = true;
        self.notify(task);
    }

    pub(super) fn sleep(&self, own: TaskId, limit: Duration) {
        let mut state = self.lock();
        let task = &mut state.tasks[own.index()];
        let something = std::mem::take(&mut task.woken)
            || !task.events.is_empty()
            || !task.left.is_empty()
            || !task.posted.is_empty()
            || task.inbox.iter().any(|queue| !queue.is_empty());
        if !something {
            let (count, longest) = task.sleeps;
            task.sleeps = (count + 1, longest.max(limit));
            drop(self.news[own.index()].wait_timeout(state, limit));
        }
    }

    pub(super) fn kill(&self, task: TaskId, why: &str) {
        self.lock().kill(task, why);
        for other in &self.news {
            other.notify_all();
        }
    }
}

impl State {
    fn check(&self, own: TaskId, to: Endpoint) -> Result<()> {
        to.check(self.config.tasks, CONTEXTS_MAX)?;
        self.check_alive(own)?;
        self.check_alive(to.task)
    }

    fn check_alive(&self, task: TaskId) -> Result<()> {
        match &self.tasks[task.index()].dead {
            Some(how) => Err(Error::PeerFailed { task, what: how.clone() }),
            None => Ok(()),
        }
    }

    /// Whether a packet would be accepted now.
    pub(super) fn has_credit(&mut self, own: TaskId, to: Endpoint, class: Class) -> Result<Outcome> {
        self.check(own, to)?;
        if self.tasks[to.task.index()].gone && class != Class::Answer {
            return Err(Error::ContextClosed { endpoint: to, after: String::new() });
        }
        let flow = self.tasks[own.index()].flows[to.task.index()];
        let Config { credits, requests_max, retry_one_in, .. } = self.config;
        let has_credit = match class {
            Class::Answer => true,
            Class::OneWay => flow.unreleased < credits,
            Class::Request => flow.unreleased < credits && flow.reserved < requests_max,
        };
        if !has_credit || (class != Class::Answer && self.random.one_in(retry_one_in)) {
            return Ok(Outcome::Retry);
        }
        Ok(Outcome::Done)
    }

    /// Whether this number of one-way packets would be accepted now.
    pub(super) fn takes(&self, own: TaskId, to: TaskId, packets: u32) -> bool {
        let flow = self.tasks[own.index()].flows.get(to.index());
        self.config.retry_one_in == 0
            && flow.is_some_and(|flow| flow.unreleased + packets <= self.config.credits)
    }

    /// Whether this number of one-way packets will be accepted once all earlier packets have been consumed.
    pub(super) fn takes_some_time(&self, packets: u32) -> bool {
        self.config.retry_one_in == 0 && packets <= self.config.credits
    }

    /// Accepts a packet, for which [`has_credit`](Self::has_credit) has just returned `Done`.
    pub(super) fn post(&mut self, own: TaskId, to: TaskId, class: Class, label: u16, bytes: Bytes) {
        self.write_what_was_posted(own);
        match class {
            Class::Answer => self.end_request(to, own, "answers"),
            Class::OneWay => self.tasks[own.index()].flows[to.index()].unreleased += 1,
            Class::Request => {
                let flow = &mut self.tasks[own.index()].flows[to.index()];
                flow.unreleased += 1;
                flow.unanswered += 1;
                flow.reserved += 1;
            }
        }
        self.tasks[own.index()].flows[to.index()].sent += 1;
        let target = &mut self.tasks[to.index()];
        if !target.gone {
            target.inbox[own.index()].push_back(Packet { class, label, bytes });
        }
    }

    /// Ends a request of `origin` to `target`, which was answered or waived.
    fn end_request(&mut self, origin: TaskId, target: TaskId, how: &str) {
        let origin_gone = self.tasks[origin.index()].gone;
        let flow = &mut self.tasks[origin.index()].flows[target.index()];
        assert!(flow.unanswered > 0 || origin_gone, "{target} {how} a request that {origin} has not made");
        flow.unanswered = flow.unanswered.saturating_sub(1);
    }

    pub(super) fn waive(&mut self, own: TaskId, origin: TaskId) {
        self.end_request(origin, own, "waives");
        let flow = &mut self.tasks[origin.index()].flows[own.index()];
        flow.reserved = flow.reserved.saturating_sub(1);
    }

    pub(super) fn traffic(&self, own: TaskId, peer: TaskId) -> Traffic {
        Traffic {
            packets_sent: self.tasks[own.index()].flows[peer.index()].sent,
            packets_received: self.tasks[peer.index()].flows[own.index()].released,
        }
    }

    pub(super) fn release(&mut self, own: TaskId, from: TaskId, class: Class) {
        self.tasks[from.index()].flows[own.index()].released += 1;
        match class {
            Class::Answer => self.tasks[own.index()].flows[from.index()].reserved -= 1,
            Class::OneWay | Class::Request => self.tasks[from.index()].flows[own.index()].unreleased -= 1,
        }
    }

    pub(super) fn poll(&mut self, own: TaskId) -> Option<Polled> {
        self.write_what_was_posted(own);
        if self.random.one_in(self.config.delay_one_in) {
            return None;
        }
        let task = &mut self.tasks[own.index()];
        if let Some(event) = task.events.pop_front() {
            if let Event::TaskFailed(dead) = event {
                task.inbox[dead.index()].clear();
            }
            return Some(Polled::Event(event));
        }
        if let Some(at) = task.left.iter().position(|left| task.inbox[left.index()].is_empty()) {
            let left = task.left.swap_remove(at);
            return Some(Polled::Event(Event::ContextClosed(endpoint(left))));
        }
        let posted = task.posted.len();
        if posted > 0 && self.random.one_in(2) {
            let next = self.random.below(posted);
            return self.complete(own, next);
        }
        let task = &mut self.tasks[own.index()];
        let senders: Vec<usize> =
            (0..task.inbox.len()).filter(|&sender| !task.inbox[sender].is_empty()).collect();
        if senders.is_empty() {
            return if posted > 0 { self.complete(own, 0) } else { None };
        }
        let sender = senders[self.random.below(senders.len())];
        let queue = &mut self.tasks[own.index()].inbox[sender];
        let pieces = queue.iter().take_while(|packet| Kind::of(packet.label) == Kind::Piece).count();
        let at = if self.config.reorder_pieces { self.random.below(pieces) } else { 0 };
        let Packet { class, label, bytes } = queue.remove(at)?;
        Some(Polled::Packet { from: TaskId(sender as u32), class, label, bytes })
    }

    /// The next packet of a sender, if it is one-way, has this label, and no event precedes it.
    pub(super) fn look_at_next(&mut self, own: TaskId, from: TaskId, label: u16) -> Option<&Bytes> {
        self.write_what_was_posted(own);
        if self.random.one_in(self.config.delay_one_in) {
            return None;
        }
        let task = &self.tasks[own.index()];
        let packet = task.inbox[from.index()].front().filter(|_| task.events.is_empty())?;
        (packet.class == Class::OneWay && packet.label == label).then_some(&packet.bytes)
    }

    /// Removes the next packet of a sender, which was looked at before.
    pub(super) fn take_next(&mut self, own: TaskId, from: TaskId) {
        let taken = self.tasks[own.index()].inbox[from.index()].pop_front();
        assert!(taken.is_some(), "a packet is taken that is not there");
    }

    pub(super) fn transfer(&mut self, own: TaskId, job: Job, op: OpId) -> Result<Transfer> {
        match self.start(own, job, op, self.config.reach)? {
            Started::AtOwner => Ok(Transfer::Staged),
            Started::Retry => Ok(Transfer::Retry),
            Started::Posted => Ok(Transfer::Posted),
            Started::Done(_) => Ok(Transfer::Done),
        }
    }

    /// Whether the memory is mapped: only in a network where all memory is accessed directly.
    pub(super) fn find_mapped(&self, own: TaskId, at: RemoteAddress, len: u64, need: Access) -> Result<bool> {
        if (self.config.reach, self.config.atomics) != (Reach::Direct, Reach::Direct) {
            return Ok(false);
        }
        self.check(own, endpoint(at.task))?;
        let regions = &self.tasks[at.task.index()].regions;
        regions.check_open(at, len)?;
        regions.lend(at, len, need).map(|_| true)
    }

    pub(super) fn lend_mapped<R>(
        &self,
        own: TaskId,
        at: RemoteAddress,
        len: u64,
        call: impl FnOnce(MappedRange<'_>) -> R,
    ) -> Option<R> {
        let need = Access::READ_WRITE;
        let is_mapped = self.find_mapped(own, at, len, need).is_ok_and(|is_mapped| is_mapped);
        let regions = &self.tasks[at.task.index()].regions;
        if is_mapped { regions.lend(at, len, need).ok().map(call) } else { None }
    }

    pub(super) fn write_mapped(&self, own: TaskId, at: RemoteAddress, bytes: &[u8]) -> bool {
        let (len, need) = (bytes.len() as u64, Access::WRITE);
        let is_mapped = self.find_mapped(own, at, len, need).is_ok_and(|is_mapped| is_mapped);
        let lent = is_mapped.then(|| self.tasks[at.task.index()].regions.lend(at, len, need));
        matches!(lent, Some(Ok(range)) if range.write(0, bytes))
    }

    pub(super) fn atomic(&mut self, own: TaskId, job: Job, op: OpId) -> Result<Atomic> {
        match self.start(own, job, op, self.config.atomics)? {
            Started::AtOwner => Ok(Atomic::AtOwner),
            Started::Retry => Ok(Atomic::Retry),
            Started::Posted => Ok(Atomic::Posted),
            Started::Done(value) => Ok(Atomic::Done(value)),
        }
    }

    fn start(&mut self, own: TaskId, job: Job, op: OpId, reach: Reach) -> Result<Started> {
        let remote = job.remote();
        self.check(own, endpoint(remote.task))?;
        let reach = reach_of(reach, remote.grant);
        if reach == Reach::Staged {
            return Ok(Started::AtOwner);
        }
        self.tasks[remote.task.index()].regions.check_open(remote, job.len())?;
        self.range(remote, job.len(), job.access())?;
        if self.random.one_in(self.config.retry_one_in) {
            return Ok(Started::Retry);
        }
        if reach == Reach::Posted {
            let task = &mut self.tasks[own.index()];
            task.posted.push_back(Posted { op, job, written: false });
            task.newly_posted = true;
            return Ok(Started::Posted);
        }
        self.carry_out(job).map(Started::Done)
    }

    fn carry_out(&mut self, job: Job) -> Result<u64> {
        let range = self.range(job.remote(), job.len(), job.access())?;
        match job {
            Job::Write { from, .. } => from.copy_to_buffer(range),
            Job::Read { to, .. } => range.as_bytes().copy_to_buffer(to),
            Job::Atomic { at, width, operation } => {
                let misaligned = Error::Misaligned { offset: at.offset, size: width.bytes() };
                return range.atomic(width, operation).ok_or(misaligned);
            }
        }
        Ok(0)
    }

    /// Carries out the posted writes of task `own`. Called before `own` posts a packet or polls, so that these writes are done when the
    /// packet arrives.
    fn write_what_was_posted(&mut self, own: TaskId) {
        if !std::mem::take(&mut self.tasks[own.index()].newly_posted) {
            return;
        }
        for at in 0..self.tasks[own.index()].posted.len() {
            let Posted { job, written, .. } = self.tasks[own.index()].posted[at];
            if matches!(job, Job::Write { .. }) && !written {
                self.tasks[own.index()].posted[at].written = true;
                // The region is live until the access completes; if the region's task has died, the completion reports that.
                let _ = self.carry_out(job);
            }
        }
    }

    fn complete(&mut self, own: TaskId, at: usize) -> Option<Polled> {
        let Posted { op, job, written } = self.tasks[own.index()].posted.remove(at)?;
        let result = match self.check_alive(job.remote().task) {
            Ok(()) if written => Ok(0),
            Ok(()) => self.carry_out(job),
            Err(error) => Err(error),
        };
        Some(Polled::Event(Event::Completed { op, result: result.map_err(Box::new) }))
    }

    pub(super) fn grant(&mut self, own: TaskId, memory: RawBuffer, access: Access) -> Grant {
        self.tasks[own.index()].regions.insert(memory, access)
    }

    fn is_in_use(&self, own: TaskId, grant: Grant) -> bool {
        self.tasks.iter().flat_map(|task| &task.posted).any(|posted| {
            let remote = posted.job.remote();
            remote.task == own && remote.grant == grant
        })
    }

    pub(super) fn revoke(&mut self, own: TaskId, grant: Grant) -> Result<Outcome> {
        assert!(
            !(grant.is_for_operation() && self.is_in_use(own, grant)),
            "{own} revokes a grant for one operation while its peer is copying"
        );
        self.revoke_in_use(own, grant)
    }

    pub(super) fn revoke_in_use(&mut self, own: TaskId, grant: Grant) -> Result<Outcome> {
        let in_use = self.is_in_use(own, grant);
        let regions = &mut self.tasks[own.index()].regions;
        // An ended grant must not be revoked again: other fabrics may have given its number to another grant.
        assert!(regions.is_live(grant), "{own} revokes a grant that has ended");
        if in_use {
            regions.close(grant);
            return Ok(Outcome::Retry);
        }
        regions.remove(grant);
        Ok(Outcome::Done)
    }

    pub(super) fn range(&self, at: RemoteAddress, len: u64, access: Access) -> Result<RawBuffer> {
        self.tasks[at.task.index()].regions.range(at, len, access)
    }

    pub(super) fn failure(&self, task: TaskId) -> Option<String> {
        self.tasks.get(task.index())?.dead.clone()
    }

    fn kill(&mut self, dead: TaskId, why: &str) {
        if self.tasks[dead.index()].dead.is_some() || self.tasks[dead.index()].gone {
            return;
        }
        self.tasks[dead.index()].dead = Some(why.to_owned());
        self.tasks[dead.index()].posted.clear();
        for task in &mut self.tasks {
            task.events.push_back(Event::TaskFailed(dead));
        }
    }

    /// Marks a task's endpoint as closed: its memory can no longer be accessed.
    pub(super) fn leave(&mut self, own: TaskId) {
        let task = &mut self.tasks[own.index()];
        task.gone = true;
        task.regions = Regions::default();
        task.posted.clear();
        if task.dead.is_none() && !std::thread::panicking() {
            for task in &mut self.tasks {
                task.left.push(own);
            }
        }
    }
}

enum Started {
    AtOwner,
    Retry,
    Posted,
    Done(u64),
}

fn reach_of(reach: Reach, grant: Grant) -> Reach {
    match (reach, grant.region % 3) {
        (Reach::Mixed, 0) => Reach::Direct,
        (Reach::Mixed, 1) => Reach::Posted,
        (Reach::Mixed, _) => Reach::Staged,
        (reach, _) => reach,
    }
}
