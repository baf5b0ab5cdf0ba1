//! Connections to tasks of other hosts.
//!
//! Like every connection, one to a far task has two VI slots, this task's and the peer's. Here the peer's slot is a stand-in in private
//! memory, and the NIC holds both ends. The program posts lines into the stand-in. The *far end* sends these lines over the network, and
//! posts arriving lines into this task's slot, as a local peer would. So the message path is the same for all peers; the differences are in
//! the branch that wakes a peer.
//!
//! Waiting lines share a message, up to its maximum length, because each message costs a pass through the network stack. Messages are
//! numbered, since the network may let a short message overtake a long one. A line of the stand-in is returned when the peer's program has
//! returned the copy of that line (`Ack`), so that the ring limits the lines in transit from end to end.

mod kind;
mod line;
mod link;
mod links;
mod reads;
mod thread;
mod unconnected;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use am_via_job::{Carrier, Job};
use am_via_ofi::PeerAddress;
use am_via_os::{fork, poll, sched};
use am_via_shm::layout_job::TASKS_MAX;
use am_via_shm::regions::ClaimFault;
use am_via_shm::{CheckedRange, Connection, Doorbell, Draft, Outlet, Shared};

use line::BEFORE_AREA_BYTES;
use link::{Closing, Link};
use links::Links;
pub(super) use reads::Question;
use reads::Reads;
use thread::{NetworkThread, REST_MAX, Waiting};
use unconnected::Strangers;

use crate::device::{Claim, DeviceError, Endpoint, MemHandle};

/// Maximum number of bytes that a packet has in the area before the user's data.
const HEADS_BYTES_MAX: usize = 256;
/// Longest time that a closing context waits for its peers to receive everything.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Longest sleep of a task that no event of the network can wake.
const SLICE: Duration = Duration::from_micros(200);
/// Number of wake-ups without a message after which the provider's file is not used until the next message, because the files of some
/// providers are always readable.
const VAIN_MAX: u32 = 64;
/// How long the failure of a task may remain unreported after the network has lost the task. Longer than the time after which launchers
/// give up a silent host.
const REPORTED_WITHIN: Duration = Duration::from_secs(15);

/// The network end of a NIC. Clones share one state. The thread that uses the NIC takes the state's lock, also within a post, when a
/// connection calls its outlet. While messages wait to be sent, the network thread takes the lock, too.
#[derive(Clone, Debug)]
pub(super) struct Far(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    endpoint: am_via_ofi::Endpoint,
    links: Links,
    broken: Vec<PeerAddress>,
    /// The doorbell on which the task sleeps.
    doorbell: Shared<Doorbell>,
    thread: OnDemand,
    /// Wake-ups by the provider's file since the last message.
    vain: u32,
    /// Counts the task's calls of [`progress`](Far::progress) (wraps).
    rounds: u32,
    /// Whether the network thread has taken events that the task has not seen.
    has_unseen: bool,
    /// The error that ended the network thread. The error ends the task's use of the network when the task next makes progress.
    failed: Option<String>,
}

/// The network thread.
#[derive(Debug)]
enum OnDemand {
    NotYet,
    Here(NetworkThread),
    /// The thread cannot be started, or has ended.
    Never,
}

impl State {
    /// Whether the provider's file can wake the task.
    fn has_file(&self) -> bool {
        self.endpoint.file().is_some() && self.vain < VAIN_MAX
    }

    /// Handles arrived messages, and makes progress with the reads. Returns the number of arrived messages.
    fn receive(&mut self) -> Result<usize, String> {
        let Self { endpoint, links, broken, vain, .. } = self;
        let arrived = endpoint.poll(broken, |word, bytes| links.receive(word, bytes));
        let arrived = arrived.map_err(|error| error.to_string())?;
        if arrived > 0 {
            *vain = 0;
        }
        for address in broken.drain(..) {
            links.lose(endpoint, |link| link.address == address);
        }
        links.move_reads(endpoint);
        Ok(arrived)
    }

    /// Whether messages wait to be sent.
    fn has_unsent(&self) -> bool {
        self.links.reads.has_unsent() || self.links.all.iter().any(Link::has_unsent)
    }

    /// The network thread, which the first call starts. `None`: the thread cannot be started.
    fn thread(&mut self, far: &Arc<Mutex<State>>) -> Option<&NetworkThread> {
        if matches!(self.thread, OnDemand::NotYet) {
            let unsent = Unsent { far: Arc::downgrade(far), rounds: self.rounds };
            let (file, doorbell) = (self.endpoint.file(), self.doorbell.clone());
            let started = NetworkThread::start(file, doorbell, Box::new(unsent), REST_MAX);
            self.thread = started.map_or_else(
                |error| {
                    tracing::debug!(%error, "no thread can be started for the network; the task polls at short intervals instead");
                    OnDemand::Never
                },
                OnDemand::Here,
            );
        }
        match &self.thread {
            OnDemand::Here(thread) => Some(thread),
            OnDemand::NotYet | OnDemand::Never => None,
        }
    }

    /// Makes a demand of the network thread, which is started again if it has ended. Returns whether the demand is new; `None`: the thread
    /// cannot be started.
    fn demand(&mut self, far: &Arc<Mutex<State>>, what: fn(&NetworkThread) -> Option<bool>) -> Option<bool> {
        if let Some(is_new) = what(self.thread(far)?) {
            return Some(is_new);
        }
        self.thread = OnDemand::NotYet;
        what(self.thread(far)?)
    }

    /// Lets the network thread send the waiting messages if the task does not send them soon.
    fn carry_unsent(&mut self, far: &Arc<Mutex<State>>) {
        self.demand(far, NetworkThread::carry);
    }
}

/// The messages of a context that wait to be sent, for the network thread. The reference is weak: the context owns the state.
#[derive(Debug)]
struct Unsent {
    far: Weak<Mutex<State>>,
    /// `rounds` of the state at the last call of `carry`.
    rounds: u32,
}

impl Waiting for Unsent {
    fn carry(&mut self) -> bool {
        let Some(far) = self.far.upgrade() else { return false };
        let mut state = lock(&far);
        if state.failed.is_some() {
            return false;
        }
        // The thread must not take the events that wake a sleeping task. When such a task wakes, it sends the waiting messages itself.
        let sleeps = matches!(&state.thread, OnDemand::Here(thread) if thread.alarm_is_set());
        if sleeps || std::mem::replace(&mut self.rounds, state.rounds) != state.rounds {
            return state.has_unsent();
        }
        match state.receive() {
            Ok(arrived) => {
                state.has_unseen |= arrived > 0 || !state.links.reads.ended.is_empty();
                let State { endpoint, links: Links { own, all, .. }, .. } = &mut *state;
                // Links with expected posts are left out: the task is about to post more lines, which are then sent in the same message.
                all.iter_mut()
                    .filter(|link| link.expected_posts == 0)
                    .for_each(|link| link.send(endpoint, *own));
            }
            Err(why) => state.failed = Some(why),
        }
        state.failed.is_none() && state.has_unsent()
    }

    fn fail(&mut self, why: String) {
        if let Some(far) = self.far.upgrade() {
            lock(&far).failed.get_or_insert(why);
        }
    }
}

fn lock(far: &Mutex<State>) -> MutexGuard<'_, State> {
    far.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of a connection at the peer's slot here.
#[derive(Debug)]
pub(super) struct StandIn {
    pub(super) end: Connection,
    pub(super) draft: Arc<Draft>,
}

/// The outlet of one connection.
#[derive(Debug)]
struct LinkOutlet {
    far: Far,
    link: usize,
}

impl Outlet for LinkOutlet {
    fn carry(&self) {
        // In a forked copy, the network belongs to the process that was copied.
        if fork::is_copy() {
            return;
        }
        let mut state = self.far.lock();
        if state.failed.is_some() {
            return;
        }
        let may_hold = !matches!(state.thread, OnDemand::Never);
        let State { endpoint, links, .. } = &mut *state;
        let Links { own, all, .. } = links;
        if let Some(link) = all.get_mut(self.link) {
            if link.expected_posts > 1 {
                link.expected_posts -= 1;
                return;
            }
            link.end_expected();
            link.send_posted(endpoint, *own, may_hold);
            if link.has_unsent() {
                state.carry_unsent(&self.far.0);
            }
        }
    }
}

/// The events that progress found.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Peers whose messages have arrived before there is a connection to them.
    pub(super) strangers: Vec<Endpoint>,
    /// Peers that have closed.
    pub(super) closed: Vec<Endpoint>,
    /// Questions of peers about memory of this task: [`Far::answer`].
    pub(super) questions: Vec<Question>,
    pub(super) reads_ended: Vec<(u64, Result<u64, ClaimFault>)>,
}

impl Far {
    /// Opens the network for a context, if the job has tasks on other hosts, and publishes the endpoint's address in the job.
    pub(super) fn open(
        job: &Job,
        own: Endpoint,
        slot_bytes: usize,
        doorbell: Shared<Doorbell>,
    ) -> Result<Option<Self>, DeviceError> {
        if !job.tasks().any(|task| job.is_far(task)) {
            return Ok(None);
        }
        let opening = "opening the network";
        let endpoint = am_via_ofi::Endpoint::open().map_err(|error| DeviceError::system(opening, error))?;
        if !job.set_network_address(u32::from(own.context.0), endpoint.address()) {
            return Err(DeviceError::system(opening, "the address of the endpoint is too long"));
        }
        let links = Links {
            own,
            num_tasks: TASKS_MAX,
            slot_bytes,
            message_bytes_max: endpoint.message_bytes_max(),
            all: Vec::new(),
            by_peer: HashMap::new(),
            latest: 0,
            strangers: Strangers::default(),
            reads: Reads::default(),
        };
        Ok(Some(Self(Arc::new(Mutex::new(State {
            endpoint,
            links,
            broken: Vec::new(),
            doorbell,
            thread: OnDemand::NotYet,
            vain: 0,
            rounds: 0,
            has_unseen: false,
            failed: None,
        })))))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Adds a connection to the network: `near` is this task's end, and `address` the peer's network address.
    pub(super) fn join(
        &self,
        peer: Endpoint,
        address: &[u8],
        near: &mut Connection,
        stand_in: StandIn,
    ) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        let address =
            endpoint.add_peer(address).map_err(|error| DeviceError::system("naming a peer", error))?;
        // The parked flag is never cleared, so that each post calls the outlet.
        stand_in.end.set_parked(true);
        let link = links.all.len();
        near.set_outlet(Arc::new(LinkOutlet { far: self.clone(), link }));
        links.all.push(Link::new(peer, address, stand_in));
        links.by_peer.insert(peer, link);
        for (word, bytes) in links.strangers.take(peer) {
            links.receive(word, &bytes);
        }
        Ok(())
    }

    /// Sends and receives as much as possible.
    ///
    /// # Errors
    /// The network or the network thread has failed; or the network has lost a task, and the task's failure was not reported within
    /// [`REPORTED_WITHIN`].
    pub(super) fn progress(&self) -> Result<Progress, String> {
        let mut state = self.lock();
        if let Some(why) = &state.failed {
            return Err(why.clone());
        }
        (state.rounds, state.has_unseen) = (state.rounds.wrapping_add(1), false);
        state.receive()?;
        let State { endpoint, links, .. } = &mut *state;
        let own = links.own;
        let mut progress = Progress {
            questions: std::mem::take(&mut links.reads.questions),
            reads_ended: std::mem::take(&mut links.reads.ended),
            ..Progress::default()
        };
        let mut has_unsent = links.reads.has_unsent();
        for link in &mut links.all {
            link.end_expected();
            link.sent_by_posts = 0;
            link.send(endpoint, own);
            has_unsent |= link.has_unsent();
            if std::mem::take(&mut link.closed_due) {
                progress.closed.push(link.peer);
            }
            if link.lost_at.is_some_and(|at| at.elapsed() >= REPORTED_WITHIN) {
                return Err(format!("the network has lost {}, which has not failed", link.peer.task));
            }
        }
        progress.strangers = links.strangers.senders();
        if has_unsent {
            state.carry_unsent(&self.0);
        }
        Ok(progress)
    }

    /// Stops sending to a task that has failed.
    pub(super) fn lose_task(&self, task: u32) {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        links.lose(endpoint, |link| link.peer.task.0 == task);
        links.all.iter_mut().filter(|link| link.peer.task.0 == task).for_each(|link| link.lost_at = None);
    }

    /// Whether there is a connection to a peer.
    pub(super) fn has_link(&self, peer: Endpoint) -> bool {
        self.lock().links.by_peer.contains_key(&peer)
    }

    /// Whether the network can read memory of peers.
    pub(super) fn can_read(&self) -> bool {
        self.lock().endpoint.can_read()
    }

    /// Whether one message carries this number of lines with `len` bytes in their areas.
    pub(super) fn carries_together(&self, lines: usize, len: usize) -> bool {
        let before = lines.saturating_mul(BEFORE_AREA_BYTES + HEADS_BYTES_MAX);
        before.saturating_add(len) <= self.lock().links.message_bytes_max
    }

    /// Sends the next lines to a peer when this number of lines has been posted, or with the next progress.
    pub(super) fn expect_posts(&self, peer: Endpoint, lines: u32) {
        let State { endpoint, links: Links { all, by_peer, .. }, .. } = &mut *self.lock();
        if let Some(&link) = by_peer.get(&peer) {
            all[link].expect(endpoint, lines);
        }
    }

    /// Begins to read memory of a peer, to which there is a connection.
    ///
    /// # Errors
    /// The peer is gone, or has closed.
    pub(super) fn read(
        &self,
        peer: Endpoint,
        from: Claim,
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<(), ClaimFault> {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        let link = links.by_peer.get(&peer).copied().ok_or(ClaimFault::PeerDead)?;
        if links.all[link].is_lost {
            return Err(ClaimFault::PeerDead);
        }
        if links.all[link].has_closed {
            return Err(ClaimFault::Stale);
        }
        links.reads.begin(link, from, to, id);
        links.move_reads(endpoint);
        Ok(())
    }

    /// Offers memory to a peer that will read it once: if there is space, the next lines to this peer bring the key, so that the peer need
    /// not ask.
    pub(super) fn offer(&self, to: Endpoint, handle: MemHandle, ptag: u32, memory: CheckedRange<'_>) {
        let mut state = self.lock();
        let State { endpoint, links: Links { all, by_peer, reads, .. }, .. } = &mut *state;
        if let Some(&number) = by_peer.get(&to)
            && all[number].takes_key()
            && let Some(key) = reads.lend_once(endpoint, number, (handle, ptag), memory)
        {
            all[number].bring(handle, key);
        }
    }

    /// Answers a peer's question about memory of this task.
    pub(super) fn answer(&self, question: Question, memory: Result<CheckedRange<'_>, ClaimFault>) {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        links.reads.answer(endpoint, question, memory);
        links.move_reads(endpoint);
    }

    /// Refuses further reads of a registration by peers. Returns true when no peer can still be reading the memory. `finished`: the
    /// caller knows that no peer is reading it, so the loans end at once.
    pub(super) fn end_lent(&self, handle: MemHandle, finished: bool) -> bool {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        links.all.iter_mut().for_each(|link| link.drop_keys(handle));
        let is_over = links.reads.end_lent(endpoint, handle, finished);
        links.move_reads(endpoint);
        is_over
    }

    /// Whether messages wait to be sent, so that the task has to poll again soon. They may wait for ever: a provider connects only while
    /// the peer, too, makes progress.
    pub(super) fn has_unsent(&self) -> bool {
        self.lock().has_unsent()
    }

    /// Longest time that a task may sleep on its doorbell after a call of [`wakes`](Self::wakes).
    pub(super) fn longest_sleep(&self) -> Duration {
        if self.has_unsent() || !self.lock().has_file() { SLICE } else { Duration::MAX }
    }

    /// Makes the next arrival ring the doorbell, on which the task is about to sleep, if the provider's file can announce an arrival.
    /// Returns `false` if the task must poll before it sleeps.
    pub(super) fn wakes(&self) -> bool {
        let mut state = self.lock();
        if state.has_unseen || state.failed.is_some() {
            return false;
        }
        if !state.has_file() {
            return true;
        }
        if state.endpoint.file_to_sleep_on().is_none() {
            state.vain += 1;
            return false;
        }
        match state.demand(&self.0, NetworkThread::set_alarm) {
            Some(is_new) => {
                state.vain += u32::from(is_new);
                true
            }
            None => {
                state.vain = VAIN_MAX;
                false
            }
        }
    }

    /// Ends the network thread, so that the thread does not own the endpoint any more: the last owner closes it, and must be a thread of
    /// the program.
    pub(super) fn end_thread(&self) {
        let thread = std::mem::replace(&mut self.lock().thread, OnDemand::Never);
        // The state's lock is not held here, as `NetworkThread::end` requires.
        if let OnDemand::Here(thread) = thread {
            thread.end();
        }
    }

    /// Says whether messages of strangers have come, and where from.
    pub(super) fn say_strangers(&self) {
        if fork::is_copy() {
            return;
        }
        let state = self.lock();
        let strangers = state.endpoint.strangers();
        if strangers.messages > 0 {
            am_via_os::complain!(
                "{}: {} messages from {strangers} that belong to no task of this job were dropped",
                state.links.own.task,
                strangers.messages
            );
        }
    }

    /// Tells the peers that no line follows, and waits until they have received everything, or until `is_over` reports the end of the job,
    /// but at most for [`LEAVE_WITHIN`]. Does nothing in a forked copy, whose message the peers would take for the end of the task.
    pub(super) fn leave(&self, is_over: impl Fn() -> bool) {
        if fork::is_copy() {
            return;
        }
        self.lock()
            .links
            .all
            .iter_mut()
            .filter(|link| !link.has_closed)
            .for_each(|link| link.closing = Closing::Due);
        let end = Instant::now() + LEAVE_WITHIN;
        while Instant::now() < end && !is_over() {
            let Ok(progress) = self.progress() else { return };
            // The memory of this task is no longer registered.
            progress.questions.into_iter().for_each(|question| self.answer(question, Err(ClaimFault::Stale)));
            let state = self.lock();
            let is_done = |link: &Link| link.is_lost || link.closing == Closing::Done && !link.owes_closed;
            if state.endpoint.is_idle() && state.links.all.iter().all(is_done) {
                return;
            }
            drop(state);
            self.rest();
        }
    }

    /// Sleeps until there is something to poll, at most [`LOOK_EVERY`]. While messages wait to be sent, it only yields.
    fn rest(&self) {
        let is_busy = self.has_unsent();
        let mut state = self.lock();
        match state.endpoint.file_to_sleep_on().filter(|_| !is_busy) {
            // An error only means that the caller polls again.
            Some(file) => drop(poll::poll(&[file], Some(LOOK_EVERY))),
            None => sched::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests;
