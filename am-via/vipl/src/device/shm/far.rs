//! Connections to tasks of other hosts.
//!
//! Like every connection, one to a far task has two slots, this task's and the peer's. Here the peer's slot is a stand-in in private
//! memory, and the NIC holds both ends. The program posts into the stand-in. The *far end* sends these lines over the network, and posts
//! arriving lines into this task's slot, as a local peer would. So the message path is the same for all peers; the differences are behind
//! the branch for peers that must be woken.
//!
//! Waiting lines share a message, up to its maximum length, because each message costs a pass through the network stack. Messages are
//! numbered, since the network may let a short message overtake a long one. A line of the stand-in is returned when the peer's program has
//! returned its copy (`Ack`), so that the ring limits the lines in transit from end to end.

mod alarm;
mod line;
mod reads;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use am_via_job::{Carrier, Job};
use am_via_ofi::{Endpoint, OfiError, PeerAddress};
use am_via_os::{poll, sched};
use am_via_shm::layout::{CONTEXTS_MAX, RING_LINES};
use am_via_shm::regions::ClaimFault;
use am_via_shm::{CheckedRange, Connection, Doorbell, Outlet, Shared, TELL_AFTER, Written};

use alarm::Alarm;
use line::BEFORE_AREA_BYTES;
pub(super) use reads::Question;
use reads::{KEY_MESSAGE_BYTES, KeyMessage, Reads};

use super::files::system;
use crate::device::{
    Completion, DeviceError, Entry, MemHandle, NodeAddress, Payload, RemoteMemory, ViNumber,
};

/// Bytes that a packet may have in the area before the user's data.
const HEADS_BYTES_MAX: usize = 256;
/// Longest time that a closing context waits for its peers to receive everything.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Longest sleep of a task that nothing wakes when the network has something for it.
const SLICE: Duration = Duration::from_micros(200);
/// Number of wake-ups without a message after which the provider's file is not used until the next message, because the files of some
/// providers are always readable.
const VAIN_MAX: u32 = 64;
/// How long the failure of a task may remain unreported after the network has lost the task. Longer than the time after which launchers
/// give up a silent host.
const REPORTED_WITHIN: Duration = Duration::from_secs(15);

/// The kind of a message: the low 4 bits of its word. The next 4 bits are the sender's context, and 24 bits are its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// Lines of the ring, each with the bytes of its area. `Part` messages may have carried the first bytes of the first line's area.
    Line = 0,
    /// The number of lines that the program has returned.
    Ack = 1,
    /// Numbered like a line: the sender posts nothing more.
    Close = 2,
    /// The answer to `Close`.
    Closed = 3,
    /// Numbered like a line: bytes of the area of the next line.
    Part = 4,
    /// About reads of memory ([`reads`]).
    RequestKey = 5,
    Key = 6,
    RevokeKey = 7,
    ReleasedKey = 8,
    /// An offered key (of memory that is read once), before the bytes of a `Line`.
    Keyed = 9,
}

impl Kind {
    fn of(word: u32) -> Option<Self> {
        const LINES: [Kind; 5] = [Kind::Line, Kind::Ack, Kind::Close, Kind::Closed, Kind::Part];
        const READS: [Kind; 5] =
            [Kind::RequestKey, Kind::Key, Kind::RevokeKey, Kind::ReleasedKey, Kind::Keyed];
        LINES.into_iter().chain(READS).find(|&kind| kind as u32 == word & 0xf)
    }

    fn of_key_message(message: KeyMessage) -> Self {
        match message {
            KeyMessage::Request => Self::RequestKey,
            KeyMessage::Grant => Self::Key,
            KeyMessage::Revoke => Self::RevokeKey,
            KeyMessage::Released => Self::ReleasedKey,
        }
    }

    fn word(self, from: NodeAddress) -> u32 {
        self as u32 | (from.context & 0xf) << 4 | from.task << 8
    }
}

fn sender(word: u32) -> NodeAddress {
    NodeAddress { task: word >> 8, context: word >> 4 & 0xf }
}

/// The network end of a NIC. Clones share one state. Only the thread that uses the NIC takes the state's lock, which exists because a
/// connection calls its outlet within a post.
#[derive(Clone, Debug)]
pub(super) struct Far(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    endpoint: Endpoint,
    links: Links,
    broken: Vec<PeerAddress>,
    alarm: Option<Alarm>,
    /// Wake-ups by the provider's file since the last message.
    vain: u32,
}

impl State {
    /// Whether the provider's file can wake the task.
    fn has_file(&self) -> bool {
        self.endpoint.can_sleep() && self.vain < VAIN_MAX
    }
}

#[derive(Debug)]
struct Links {
    own: NodeAddress,
    slot_bytes: usize,
    /// Longest message of the network, in bytes.
    message_bytes_max: usize,
    all: Vec<Link>,
    by_peer: HashMap<NodeAddress, usize>,
    /// Messages of peers without a connection, kept until there is one.
    strangers: Vec<(u32, Vec<u8>)>,
    reads: Reads,
}

/// The far end of a connection.
#[derive(Debug)]
struct Link {
    peer: NodeAddress,
    address: PeerAddress,
    end: Connection,
    /// The next lines to send, taken from the stand-in's ring, with the numbers of their slots.
    next: Vec<(Entry, Payload, u32)>,
    /// Number of bytes of the first line's area that have been sent.
    cut: usize,
    /// Number of lines that the program is about to post. They are sent together, with the last one.
    expected_posts: u32,
    /// Number of the next message to send, and of the next one expected.
    sent: u32,
    expected: u32,
    /// Messages that arrived out of order.
    early: BTreeMap<u32, (Kind, Vec<u8>)>,
    /// Bytes of the area of the next line.
    parts: Vec<u8>,
    /// Lines of this task that the peer has returned.
    acked: u32,
    /// Lines of the peer that were posted here and that the peer knows to be returned.
    posted: u32,
    told: u32,
    closing: Closing,
    owes_closed: bool,
    /// The peer's task has failed, or the network has lost it.
    is_lost: bool,
    /// When the network lost the peer; `None` again once the failure of the peer's task is known.
    lost_at: Option<Instant>,
    /// The peer has closed, and reads no more lines.
    has_closed: bool,
    /// The peer's close has yet to be reported.
    closed_due: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// `Close` has to be sent.
    Due,
    /// `Close` was sent.
    Sent,
    /// The peer has received everything.
    Done,
}

/// The outlet of one connection.
#[derive(Debug)]
struct LinkOutlet {
    far: Far,
    link: usize,
}

impl Outlet for LinkOutlet {
    fn carry(&self) {
        let mut state = self.far.lock();
        let State { endpoint, links, .. } = &mut *state;
        let Links { own, all, reads, .. } = links;
        if let Some(link) = all.get_mut(self.link) {
            link.expected_posts = link.expected_posts.saturating_sub(1);
            if link.expected_posts > 0 {
                return;
            }
            let key = reads.lend_offered(endpoint, self.link);
            link.send(endpoint, *own, key);
        }
    }
}

/// The events that progress found.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Peers whose messages have arrived before there is a connection to them.
    pub(super) strangers: Vec<NodeAddress>,
    /// Peers that have closed.
    pub(super) closed: Vec<NodeAddress>,
    /// Questions of peers about memory of this task: [`Far::answer`].
    pub(super) questions: Vec<Question>,
    /// Reads that have ended.
    pub(super) reads_ended: Vec<(u64, Result<u64, ClaimFault>)>,
}

impl Far {
    /// Opens the network for a context, if the job has tasks on other hosts, and publishes the address in the job.
    pub(super) fn open(job: &Job, own: NodeAddress, slot_bytes: usize) -> Result<Option<Self>, DeviceError> {
        if !(0..job.num_tasks()).any(|task| job.is_far(task)) {
            return Ok(None);
        }
        let opening = "opening the network";
        let endpoint = Endpoint::open().map_err(|error| system(opening, error))?;
        if !job.set_network_address(own.context, endpoint.address()) {
            return Err(system(opening, "the address of the endpoint is too long"));
        }
        let links = Links {
            own,
            slot_bytes,
            message_bytes_max: endpoint.message_bytes_max(),
            all: Vec::new(),
            by_peer: HashMap::new(),
            strangers: Vec::new(),
            reads: Reads::default(),
        };
        Ok(Some(Self(Arc::new(Mutex::new(State {
            endpoint,
            links,
            broken: Vec::new(),
            alarm: None,
            vain: 0,
        })))))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection to the network: `near` is this task's end, `end` the stand-in's, and `address` the peer's network address.
    pub(super) fn join(
        &self,
        peer: NodeAddress,
        address: &[u8],
        near: &mut Connection,
        end: Connection,
    ) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        let address = endpoint.add_peer(address).map_err(|error| system("naming a peer", error))?;
        // Never cleared: each post goes through the outlet.
        end.set_parked(true);
        let link = links.all.len();
        near.set_outlet(Arc::new(LinkOutlet { far: self.clone(), link }));
        links.all.push(Link {
            peer,
            address,
            end,
            // The stand-in's ring has no more lines.
            next: Vec::with_capacity(RING_LINES as usize),
            cut: 0,
            expected_posts: 0,
            sent: 0,
            expected: 0,
            early: BTreeMap::new(),
            parts: Vec::new(),
            acked: 0,
            posted: 0,
            told: 0,
            closing: Closing::No,
            owes_closed: false,
            is_lost: false,
            lost_at: None,
            has_closed: false,
            closed_due: false,
        });
        links.by_peer.insert(peer, link);
        for (word, bytes) in std::mem::take(&mut links.strangers) {
            links.receive(word, &bytes);
        }
        Ok(())
    }

    /// Sends and receives as much as possible.
    ///
    /// # Errors
    /// If the network has failed, or has lost a task that is alive.
    pub(super) fn progress(&self) -> Result<Progress, String> {
        let mut state = self.lock();
        let State { endpoint, links, broken, vain, .. } = &mut *state;
        let arrived = endpoint.poll(broken, |word, bytes| links.receive(word, bytes));
        if arrived.map_err(|error| error.to_string())? > 0 {
            *vain = 0;
        }
        for address in broken.drain(..) {
            links.lose(endpoint, |link| link.address == address);
        }
        links.move_reads(endpoint);
        let own = links.own;
        let mut progress = Progress {
            questions: std::mem::take(&mut links.reads.questions),
            reads_ended: std::mem::take(&mut links.reads.ended),
            ..Progress::default()
        };
        for link in &mut links.all {
            link.expected_posts = 0;
            link.send(endpoint, own, None);
            if std::mem::take(&mut link.closed_due) {
                progress.closed.push(link.peer);
            }
            if link.lost_at.is_some_and(|at| at.elapsed() >= REPORTED_WITHIN) {
                return Err(format!("the network has lost task {}, which has not failed", link.peer.task));
            }
        }
        progress.strangers = links.strangers.iter().map(|&(word, _)| sender(word)).collect();
        Ok(progress)
    }

    /// Stops sending to the tasks that have failed.
    pub(super) fn lose_task(&self, task: u32) {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        links.lose(endpoint, |link| link.peer.task == task);
        links.all.iter_mut().filter(|link| link.peer.task == task).for_each(|link| link.lost_at = None);
    }

    /// Whether there is a connection to a peer.
    pub(super) fn has_link(&self, peer: NodeAddress) -> bool {
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

    /// Sends the next lines to a peer when this number of them has been posted, or with the next progress.
    pub(super) fn expect_posts(&self, peer: NodeAddress, lines: u32) {
        let Links { all, by_peer, .. } = &mut self.lock().links;
        if let Some(&link) = by_peer.get(&peer) {
            all[link].expected_posts = lines;
        }
    }

    /// Begins to read memory of a peer, to which there is a connection.
    ///
    /// # Errors
    /// The peer is gone.
    pub(super) fn read(
        &self,
        peer: NodeAddress,
        from: RemoteMemory,
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<(), ClaimFault> {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        let link = links.by_peer.get(&peer).copied().ok_or(ClaimFault::PeerDead)?;
        if links.all[link].is_lost || links.all[link].has_closed {
            return Err(ClaimFault::PeerDead);
        }
        links.reads.begin(link, from, to, id);
        links.move_reads(endpoint);
        Ok(())
    }

    /// Offers memory, which a peer will read once, to the peer of the next line: that line brings the key, so that the peer need not ask.
    pub(super) fn offer(&self, handle: MemHandle, ptag: u32, memory: CheckedRange<'_>) {
        self.lock().links.reads.offer(handle, ptag, memory);
    }

    /// Answers a peer's question about memory of this task.
    pub(super) fn answer(&self, question: Question, memory: Result<CheckedRange<'_>, ClaimFault>) {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        links.reads.answer(endpoint, question, memory);
        links.move_reads(endpoint);
    }

    /// Refuses further reads of a registration by peers. Returns whether no peer reads it any more. With `finished` the caller says that no
    /// peer does.
    pub(super) fn end_lent(&self, handle: MemHandle, finished: bool) -> bool {
        let mut state = self.lock();
        let State { endpoint, links, .. } = &mut *state;
        let is_over = links.reads.end_lent(endpoint, handle, finished);
        links.move_reads(endpoint);
        is_over
    }

    /// Whether messages wait to be sent, so that the task has to look again soon. They may wait for ever: a provider connects only while
    /// the peer, too, makes progress.
    pub(super) fn has_unsent(&self) -> bool {
        let state = self.lock();
        state.links.reads.has_unsent() || state.links.all.iter().any(Link::has_unsent)
    }

    /// Longest time that a task may sleep on its doorbell after a call of [`wakes`](Self::wakes).
    pub(super) fn longest_sleep(&self) -> Duration {
        if self.has_unsent() || !self.lock().has_file() { SLICE } else { Duration::MAX }
    }

    /// Makes the next arrival ring the doorbell, on which the task is about to sleep. Returns `false` if there is something to poll
    /// already.
    pub(super) fn wakes(&self, doorbell: &Shared<Doorbell>) -> bool {
        let mut state = self.lock();
        if !state.has_file() {
            return true;
        }
        let State { endpoint, alarm, vain, .. } = &mut *state;
        let Some(file) = endpoint.file_to_sleep_on() else {
            *vain += 1;
            return false;
        };
        let alarm = match alarm {
            Some(alarm) => alarm,
            None => match Alarm::start(file, doorbell.clone()) {
                Ok(started) => alarm.insert(started),
                Err(error) => {
                    tracing::debug!(%error, "no thread can be started to wait for the network; the task polls at short intervals instead");
                    *vain = VAIN_MAX;
                    return false;
                }
            },
        };
        *vain += u32::from(alarm.set());
        true
    }

    /// Tells the peers that no line follows, and waits until they have received everything, or until `is_over` reports the end of the job.
    pub(super) fn leave(&self, is_over: impl Fn() -> bool) {
        self.lock()
            .links
            .all
            .iter_mut()
            .filter(|link| !link.has_closed)
            .for_each(|link| link.closing = Closing::Due);
        let end = Instant::now() + LEAVE_WITHIN;
        while Instant::now() < end && !is_over() && self.progress().is_ok() {
            let state = self.lock();
            let is_done = |link: &Link| link.is_lost || link.closing == Closing::Done && !link.owes_closed;
            if state.endpoint.is_idle() && state.links.all.iter().all(is_done) {
                return;
            }
            drop(state);
            self.rest();
        }
    }

    /// Sleeps until there is something to poll, at most [`LOOK_EVERY`]. Only yields while messages wait to be sent.
    fn rest(&self) {
        let is_busy = self.has_unsent();
        let mut state = self.lock();
        match state.endpoint.file_to_sleep_on().filter(|_| !is_busy) {
            // An error means: look again.
            Some(file) => drop(poll::poll(&[file], Some(LOOK_EVERY))),
            None => sched::yield_now(),
        }
    }
}

impl Links {
    /// Handles the loss of the links for which `is_it` returns true: the network has lost them, or their tasks have failed.
    fn lose(&mut self, endpoint: &mut Endpoint, is_it: impl Fn(&Link) -> bool) {
        for (number, link) in self.all.iter_mut().enumerate().filter(|(_, link)| is_it(link)) {
            link.lose();
            self.reads.lose(endpoint, number, link.address);
        }
    }

    /// Makes progress with the reads, and sends their messages.
    fn move_reads(&mut self, endpoint: &mut Endpoint) {
        let Self { own, all, reads, .. } = self;
        reads.progress(endpoint, |link| all[link].address);
        reads.send(|link, message, bytes| all[link].send_key_message(endpoint, *own, message, bytes));
    }

    /// Handles an arrived message. None of its contents is trusted.
    fn receive(&mut self, word: u32, bytes: &[u8]) {
        let (Some(kind), from) = (Kind::of(word), sender(word)) else {
            tracing::warn!(word, "a message of an unknown kind");
            return;
        };
        let at = self.by_peer.get(&from).copied();
        let Some((at, link)) = at.and_then(|at| Some((at, self.all.get_mut(at)?))) else {
            // Peers respect their credits even before there is a connection here.
            if from.context < CONTEXTS_MAX && self.strangers.len() < RING_LINES as usize * 64 {
                self.strangers.push((word, bytes.to_vec()));
            } else {
                tracing::warn!(
                    word,
                    "a message of a peer that is not connected is dropped: too many such messages wait"
                );
            }
            return;
        };
        let (kind, bytes) = match bytes.split_at_checked(KEY_MESSAGE_BYTES) {
            Some((key, line)) if kind == Kind::Keyed => {
                self.reads.receive_offered(at, key);
                (Kind::Line, line)
            }
            _ => (kind, bytes),
        };
        let Some(number) = number_at(bytes, 0) else { return };
        match kind {
            Kind::Ack => link.acknowledge(number),
            Kind::Closed => link.closing = Closing::Done,
            Kind::RequestKey => self.reads.receive(at, KeyMessage::Request, bytes),
            Kind::Key => self.reads.receive(at, KeyMessage::Grant, bytes),
            Kind::RevokeKey => self.reads.receive(at, KeyMessage::Revoke, bytes),
            Kind::ReleasedKey => self.reads.receive(at, KeyMessage::Released, bytes),
            // Too short for a key.
            Kind::Keyed => {}
            Kind::Line | Kind::Part | Kind::Close if number == link.expected => {
                link.take(kind, bytes, self.slot_bytes);
                while let Some((kind, bytes)) = link.early.remove(&link.expected) {
                    link.take(kind, &bytes, self.slot_bytes);
                }
            }
            Kind::Line | Kind::Part | Kind::Close => {
                let ahead = number.wrapping_sub(link.expected) as usize;
                let messages_a_line = self.slot_bytes / part_bytes(self.message_bytes_max) + 1;
                if ahead <= (RING_LINES as usize + 1) * messages_a_line {
                    link.early.insert(number, (kind, bytes.to_vec()));
                }
            }
        }
    }
}

impl Link {
    /// Takes the next message in order.
    fn take(&mut self, kind: Kind, bytes: &[u8], slot_bytes: usize) {
        self.expected = self.expected.wrapping_add(1);
        if kind == Kind::Close {
            // A `Close` that this end has sent also serves as the answer.
            self.owes_closed = self.closing != Closing::Sent;
            self.closing = Closing::Done;
            (self.has_closed, self.closed_due) = (true, true);
            return;
        }
        if kind == Kind::Part {
            let len = slot_bytes.saturating_sub(self.parts.len()).min(bytes.len() - 4);
            return self.parts.extend_from_slice(&bytes[4..][..len]);
        }
        let mut rest = Some(bytes);
        while let Some(bytes) = rest.filter(|bytes| !bytes.is_empty()) {
            rest = self.take_line(bytes, slot_bytes);
        }
    }

    /// Takes the first line in `bytes`, and returns the bytes behind it.
    fn take_line<'a>(&mut self, bytes: &'a [u8], slot_bytes: usize) -> Option<&'a [u8]> {
        let (entry, payload, behind) = line::read(bytes)?;
        let len = if keeps_slot(entry) { (entry.length as usize).min(slot_bytes) } else { 0 };
        let (area, behind) = behind.split_at_checked(len.saturating_sub(self.parts.len()))?;
        let written = if keeps_slot(entry) {
            let parts = &self.parts;
            let fill = |buffer: CheckedRange<'_>, _| {
                for (offset, bytes) in [(0, &parts[..]), (parts.len(), area)] {
                    let len = bytes.len().min(buffer.len().saturating_sub(offset));
                    if let Some(buffer) = buffer.part(offset, len) {
                        buffer.copy_from_slice(&bytes[..len]);
                    }
                }
                Some(len)
            };
            let finish = |filled| Entry { length: filled as u32, ..entry };
            let written = self.end.post_area(&payload, len, fill, finish);
            self.parts.clear();
            written
        } else {
            self.end.post(entry, &payload)
        };
        match written {
            Written::Done => self.posted = self.posted.wrapping_add(1),
            Written::Full | Written::Closed | Written::Nothing => {
                tracing::warn!(peer = ?self.peer, "a peer of another host has sent more lines than the ring has");
            }
        }
        Some(behind)
    }

    /// Handles the peer's count of returned lines, which is not trusted.
    fn acknowledge(&mut self, count: u32) {
        let taken = self.end.consumed().wrapping_sub(self.next.len() as u32);
        let new = count.wrapping_sub(self.acked);
        if new > taken.wrapping_sub(self.acked) {
            tracing::warn!(peer = ?self.peer, "a peer of another host has returned lines that were never sent to it");
            return;
        }
        self.acked = count;
        (0..new).for_each(|_| self.end.release());
    }

    /// Sends waiting messages, as far as the network accepts them, and `key` with the first line. If the two do not fit into one message,
    /// the key is dropped and the peer asks for it.
    fn send(&mut self, endpoint: &mut Endpoint, own: NodeAddress, key: Option<[u8; KEY_MESSAGE_BYTES]>) {
        if self.owes_closed && self.send_number(endpoint, Kind::Closed, own, 0) {
            self.owes_closed = false;
        }
        if self.is_lost || self.has_closed {
            self.drop_lines();
            return;
        }
        if self.send_lines(endpoint, own, key) {
            while self.send_lines(endpoint, own, None) {}
        }
        let given_back = self.end.released_by_peer();
        if given_back.wrapping_sub(self.told) >= TELL_AFTER
            && given_back.wrapping_sub(self.told) <= self.posted.wrapping_sub(self.told)
            && self.send_number(endpoint, Kind::Ack, own, given_back)
        {
            self.told = given_back;
        }
        if self.closing == Closing::Due
            && self.next.is_empty()
            && self.send_number(endpoint, Kind::Close, own, self.sent)
        {
            self.sent = self.sent.wrapping_add(1);
            self.closing = Closing::Sent;
        }
    }

    /// Sends one message: the next lines, as many as it holds, or a part of the first line's area. Returns whether the network accepted the
    /// message.
    fn send_lines(
        &mut self,
        endpoint: &mut Endpoint,
        own: NodeAddress,
        key: Option<[u8; KEY_MESSAGE_BYTES]>,
    ) -> bool {
        let max = endpoint.message_bytes_max();
        let (lines, len) = self.gather(max);
        if lines == 0 {
            return self.send_part(endpoint, own);
        }
        let key = key.filter(|key| len + key.len() <= max);
        let key = key.as_ref().map_or(&[][..], |key| key);
        let kind = if key.is_empty() { Kind::Line } else { Kind::Keyed };
        let (number, cut) = (self.sent, self.cut);
        let (end, next) = (&self.end, &self.next[..lines]);
        let sent = endpoint.send(self.address, kind.word(own), key.len() + len, |buffer| {
            let (before, mut rest) = buffer.split_at_mut(key.len());
            before.copy_from_slice(key);
            for (at, (entry, payload, slot)) in next.iter().enumerate() {
                let area = area_from(end, *entry, *slot, if at == 0 { cut } else { 0 });
                let (line, behind) = rest.split_at_mut(BEFORE_AREA_BYTES + area.len());
                line::write(line, number, entry, payload, area);
                rest = behind;
            }
        });
        if self.was_sent(sent) {
            self.sent = self.sent.wrapping_add(1);
            self.next.drain(..lines);
            self.cut = 0;
            return true;
        }
        false
    }

    /// Takes lines from the stand-in's ring until one message is full. Returns the number of lines that fit, and their length in bytes.
    fn gather(&mut self, max: usize) -> (usize, usize) {
        let (mut lines, mut len) = (0, 0);
        loop {
            if lines == self.next.len() {
                let mut payload = Payload::default();
                let Some((entry, slot)) = self.end.poll(&mut payload) else { return (lines, len) };
                self.next.push((entry, payload, slot));
            }
            let (entry, _, slot) = self.next[lines];
            let cut = if lines == 0 { self.cut } else { 0 };
            let line = BEFORE_AREA_BYTES + area_from(&self.end, entry, slot, cut).len();
            if len + line > max {
                return (lines, len);
            }
            (lines, len) = (lines + 1, len + line);
        }
    }

    /// Sends a part of the area of the next line, if there is one.
    fn send_part(&mut self, endpoint: &mut Endpoint, own: NodeAddress) -> bool {
        let Some(&(entry, _, slot)) = self.next.first() else { return false };
        let area = area_from(&self.end, entry, slot, self.cut);
        let len = area.len().min(part_bytes(endpoint.message_bytes_max()));
        let Some(part) = area.part(0, len) else { return false };
        let number = self.sent;
        let sent = endpoint.send(self.address, Kind::Part.word(own), 4 + len, |buffer| {
            buffer[..4].copy_from_slice(&number.to_le_bytes());
            part.copy_to_slice(&mut buffer[4..]);
        });
        let was_sent = self.was_sent(sent);
        if was_sent {
            self.sent = self.sent.wrapping_add(1);
            self.cut += len;
        }
        was_sent
    }

    fn send_number(&mut self, endpoint: &mut Endpoint, kind: Kind, own: NodeAddress, number: u32) -> bool {
        let fill = |buffer: &mut [u8]| buffer.copy_from_slice(&number.to_le_bytes());
        let (address, word) = (self.address, kind.word(own));
        let sent = match kind {
            // The last messages of a context must leave before its endpoint closes.
            Kind::Close | Kind::Closed => endpoint.send_to_the_end(address, word, 4, fill),
            _ => endpoint.send(address, word, 4, fill),
        };
        self.was_sent(sent)
    }

    /// Sends a message about reads. Returns whether it was sent, or need not be sent because the peer is lost or has closed.
    fn send_key_message(
        &mut self,
        endpoint: &mut Endpoint,
        own: NodeAddress,
        message: KeyMessage,
        bytes: &[u8; KEY_MESSAGE_BYTES],
    ) -> bool {
        if self.is_lost || self.has_closed {
            return true;
        }
        let word = Kind::of_key_message(message).word(own);
        let sent = endpoint.send(self.address, word, bytes.len(), |buffer| buffer.copy_from_slice(bytes));
        self.was_sent(sent)
    }

    fn was_sent(&mut self, sent: Result<bool, OfiError>) -> bool {
        sent.unwrap_or_else(|error| {
            tracing::warn!(peer = ?self.peer, %error, "a peer of another host is lost");
            self.lose();
            false
        })
    }

    /// Marks the peer as lost by the network: posted lines are dropped until the failure of its task is known. A peer that has closed need
    /// not be reported as failed.
    fn lose(&mut self) {
        if !self.is_lost && !self.has_closed {
            self.lost_at = Some(Instant::now());
        }
        self.is_lost = true;
        self.drop_lines();
    }

    fn has_unsent(&self) -> bool {
        !self.is_lost && (!self.next.is_empty() || self.owes_closed || self.closing == Closing::Due)
    }

    fn drop_lines(&mut self) {
        let mut payload = Payload::default();
        self.next.clear();
        self.cut = 0;
        while self.end.poll(&mut payload).is_some() {}
    }
}

/// The bytes of a line's area from `cut` on.
fn area_from(end: &Connection, entry: Entry, slot: u32, cut: usize) -> CheckedRange<'_> {
    let area = if keeps_slot(entry) { end.area(slot, entry.length) } else { CheckedRange::empty() };
    area.part(cut, area.len().saturating_sub(cut)).unwrap_or_else(CheckedRange::empty)
}

/// Maximum number of bytes of an area that a `Part` carries: all of a message except its number (4 bytes).
fn part_bytes(message_bytes_max: usize) -> usize {
    message_bytes_max - 4
}

/// Whether the bytes of an entry are in the receive area.
fn keeps_slot(entry: Entry) -> bool {
    Completion { vi: ViNumber(0), slot: 0, entry }.keeps_slot()
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
