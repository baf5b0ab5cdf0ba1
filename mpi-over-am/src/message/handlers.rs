//! MPI's header handlers: matching happens here, in the order in which messages arrive (MPI-LAPI paper, figures 3 and 4).
//!
//! am-core knows the handlers at compile time, and calls them directly. They run no code of the program, so am-core need not mark that a
//! handler runs. A handler never waits and never sends; it reports to the sender by the reply in its answer.

mod agreements;
mod failures;
mod in_pieces;
mod pieces_of_window;

use am_core::buffer::Arrived;
use am_core::fabric::{UnderWay, WaitFacts};
use am_core::handler::{
    Answer, Completion, Delivered, Destination, HandlerId, HandlerSet, Message, MessageName, Reply, Ticket,
    Wanted,
};
use am_core::record;
use am_core::task::{Endpoint, TaskId};

use crate::context_id::{Peers, needs_all_tasks};
use crate::error::{Error, Side};
use crate::events::{self, EventKind, Fact};
use crate::matching::{EarlyArrivalQueue, Envelope, Pattern};
use crate::message::attached_buffers::{AttachedBuffers, BufferOwner};
use crate::message::budget::Budget;
use crate::message::completion::Completions;
use crate::message::early_message::{ENTRY_BYTES, EarlyBuffers, EarlyMessage, footprint, part_of_number};
use crate::message::envelope;
use crate::message::notes::{self, Key, Notes};
use crate::message::ports::{self, Ports};
use crate::message::request_id::RequestId;
use crate::message::request_table::{Requests, Wakers};
use crate::message::route::ReceiveBuffer;
use crate::message::waits;
use crate::settings::Settings;

pub(crate) use agreements::Awaited;
use failures::Failures;
use in_pieces::Arrivals;
pub(crate) use in_pieces::IN_PIECES_BYTES_MAX;
pub(crate) use pieces_of_window::{
    Found, HANDLED, HEAD_BYTES, IS_BUSY, Operation, PartByOwner, PiecesOfWindows, REFUSED, Run, WORDS_BYTES,
    find, head, header, withdraw,
};

/// A message with its data, charged to the sender's part of the budget; or a piece of a message: see [`in_pieces`].
pub(crate) const EAGER: HandlerId = HandlerId(0);
/// An announced message: its data are fetched when its receive is posted.
pub(crate) const REQUEST_TO_SEND: HandlerId = HandlerId(1);
/// A message whose receive must have been posted; answered with [`NOT_READY`] if it has not.
pub(crate) const READY: HandlerId = HandlerId(2);
/// To the sender of a ready-mode message: no receive had been posted. User header: that of the message, followed by the message's length.
pub(crate) const NOT_READY: HandlerId = HandlerId(3);
/// Asks how many bytes of the asker's eager messages have been received. Answered with [`REPORT`].
pub(crate) const ASK_REPORT: HandlerId = HandlerId(4);
/// Number of bytes of the asker's eager messages that have been received.
pub(crate) const REPORT: HandlerId = HandlerId(5);
/// A note: two words.
pub(crate) const NOTE: HandlerId = HandlerId(6);
/// An [`EAGER`] message whose sender waits for the match; the name of the sender's request follows the envelope. Answered with [`MATCHED`]
/// if a receive has been posted.
pub(crate) const EAGER_SYNCHRONOUS: HandlerId = HandlerId(7);
/// The message of the named request has matched its receive.
pub(crate) const MATCHED: HandlerId = HandlerId(8);
/// Asks to withdraw the message of the named request. Answered with [`WITHDRAWN`] if the message has matched no receive.
pub(crate) const WITHDRAW: HandlerId = HandlerId(9);
/// The message of the named request was withdrawn.
pub(crate) const WITHDRAWN: HandlerId = HandlerId(10);
/// Ends a wait for a window lock: the lock may be free.
pub(crate) const WAKE: HandlerId = HandlerId(11);
/// Pieces of a put to this task's part of a window, or of an accumulate.
pub(crate) const PIECES_OF_WINDOW: HandlerId = HandlerId(12);
/// A communicator is revoked. User header: its context id, and that of the communicator of the local group (or its own again).
const REVOKE: HandlerId = HandlerId(13);
/// A message of an agreement.
const AGREE: HandlerId = HandlerId(14);
const COUNT: usize = 15;
/// Maximum number of errors that wait for a call to report them.
const DEFERRED_MAX: usize = 64;

/// What became of an eager message that has arrived whole.
pub(crate) enum Eager {
    /// The receive in this slot has the message, and is complete.
    Received(u32),
    /// The message waits for its receive.
    Kept,
    /// The message is beyond its sender's part of the budget.
    Refused,
}

/// The state that the handlers work on.
#[derive(Debug)]
pub(crate) struct MpiHandlers {
    pub(crate) early: EarlyArrivalQueue<EarlyMessage>,
    pub(crate) requests: Requests,
    pub(crate) wakers: Wakers,
    pub(crate) budget: Budget,
    pub(crate) buffers: EarlyBuffers,
    /// The messages in pieces.
    pub(crate) arrivals: Arrivals,
    pub(crate) completions: Completions,
    pub(crate) notes: Notes<RequestId>,
    /// The open ports of this task.
    pub(crate) ports: Ports,
    /// Whether a check is due before the next call: an earlier call left an error, or no further call is allowed.
    pub(crate) attention: bool,
    /// Errors of calls that have returned.
    pub(crate) deferred: Vec<Error>,
    /// The buffers for buffered sends.
    pub(crate) attached: AttachedBuffers,
    /// The task that holds the window lock that a call waits for, for the report of a hang.
    pub(crate) waits_for_lock_of: Option<TaskId>,
    /// The messages that calls wait for without receiving them, for the report of a hang: one for each thread that probes.
    pub(crate) probed: Vec<Pattern>,
    /// Number of [`WAKE`] messages so far.
    pub(crate) wakes: u64,
    /// The windows whose pieces this task stores for others.
    pub(crate) pieces_of_windows: PiecesOfWindows,
    /// The task of each rank of each communicator, for the report of a hang, and for receives from a failed task.
    pub(crate) peers: Peers,
    /// The tasks that have failed or left, and what the program has asked about them.
    pub(crate) failures: Failures,
    /// Whether several threads of this task may make calls, so that another one may end a wait.
    has_threads: bool,
    /// Whether several threads may make calls, or a failure needs attention: one check for two rare conditions.
    is_unusual: bool,
    /// This task.
    own: u32,
}

/// Ranks are lower: a job has far fewer tasks.
pub(crate) const RANKS_MAX: u32 = 1 << 24;

impl MpiHandlers {
    /// The handlers of a task of a job that began with `num_tasks` tasks.
    pub(crate) fn new(own: TaskId, num_tasks: u32, settings: &Settings) -> Self {
        let bytes_max = settings.early_arrival_bytes_max;
        // Each message is charged at least this, so `early_arrivals_max` messages use up the budget.
        let by_number = settings.early_arrivals_max.map_or(0, |messages| bytes_max.div_ceil(messages.max(1)));

        Self {
            early: EarlyArrivalQueue::new(),
            requests: Requests::default(),
            wakers: Wakers::default(),
            budget: Budget::new(num_tasks, bytes_max, by_number.max(ENTRY_BYTES)),
            buffers: EarlyBuffers::default(),
            arrivals: Arrivals::default(),
            completions: Completions::default(),
            notes: Notes::default(),
            ports: Ports::default(),
            attention: false,
            deferred: Vec::new(),
            attached: AttachedBuffers::default(),
            waits_for_lock_of: None,
            probed: Vec::new(),
            wakes: 0,
            pieces_of_windows: PiecesOfWindows::default(),
            peers: Peers::default(),
            failures: Failures::default(),
            has_threads: false,
            is_unusual: false,
            own: own.0,
        }
    }

    /// Forgets a task that has ended, and with which nothing is under way: another task may get its number.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.budget.forget(task.0);
        self.failures.forget(task);
        self.notes.forget_calls_of(task);
    }

    /// Frees the pieces of an attached buffer whose messages have been sent. The next call reports the errors of the messages.
    pub(crate) fn free_what_has_gone(&mut self, owner: BufferOwner) {
        while let Some(request) =
            self.attached.oldest(owner).filter(|&request| self.requests.is_over(request))
        {
            if let Err(error) = self.requests.take(request) {
                self.defer(error);
            }
            self.attached.free_oldest(owner);
        }
    }

    /// Lets the next call report an error.
    #[cold]
    #[inline(never)]
    pub(crate) fn defer(&mut self, error: Error) {
        // The first errors show the cause; a peer may cause any number of later ones.
        if self.deferred.len() < DEFERRED_MAX {
            self.deferred.push(error);
        }
        self.attention = true;
    }

    /// Handles an eager message or piece that [`consume`](Self::consume) has not taken: completions are not plain, or the message is
    /// invalid or beyond the budget.
    fn eager(&mut self, message: &Message<'_>) -> Answer {
        let Some(envelope) = self.envelope(message.uhdr) else { return self.piece(message) };
        self.completions.eager_arrived(message.source.task);
        match self.requests.take_match(&envelope) {
            Some(posted) => {
                self.budget.received(message.source.task.0, footprint_of(message.len));
                self.matched(posted, message, &envelope, true)
            }
            // An eager message arrives whole: the eager limit is below the capacity of a packet.
            None => match message.here {
                Some(here) if self.keep_early((message.source.task.0, 0), envelope, here) => {
                    Answer::discard()
                }
                _ => self.not_kept(message),
            },
        }
    }

    /// Takes an eager message from `task` that has arrived whole. Completions must be plain.
    #[inline(always)]
    pub(crate) fn take_eager(&mut self, task: u32, envelope: &Envelope, here: Arrived<'_>) -> Eager {
        match self.requests.deliver(envelope, here) {
            Some(slot) => {
                self.budget.received(task, footprint(here.len()));
                Eager::Received(slot)
            }
            None if self.keep_early((task, 0), *envelope, here) => Eager::Kept,
            None => Eager::Refused,
        }
    }

    /// Handles an eager message whose sender waits for the match.
    fn eager_synchronous(&mut self, message: &Message<'_>) -> Answer {
        let (Some((envelope, name)), Some(here)) = (self.envelope_and_word(message.uhdr), message.here)
        else {
            return self.malformed(message);
        };
        let task = message.source.task.0;
        if self.requests.deliver(&envelope, here).is_some() {
            self.record_match(|| message.source.task, &envelope, message.len, false);
            self.budget.received(task, footprint(here.len()));
            return Answer::consumed(reply(MATCHED, &name.to_le_bytes()));
        }
        if self.keep_early((task, name), envelope, here) { Answer::discard() } else { self.not_kept(message) }
    }

    /// Handles the report of a synchronous message's receiver: the message has matched, or `failure`.
    fn acknowledged(&mut self, message: &Message<'_>, failure: Option<Error>) -> Answer {
        let Ok(name) = message.uhdr.try_into().map(u32::from_le_bytes) else {
            return self.malformed(message);
        };
        self.requests.acknowledged(RequestId::from_number(name.into()), message.source.task, failure);
        Answer::discard()
    }

    /// Sets that several threads of this task may make calls.
    pub(crate) fn set_threads(&mut self, has_threads: bool) {
        self.has_threads = has_threads;
        self.is_unusual |= has_threads;
    }

    pub(crate) fn has_threads(&self) -> bool {
        self.has_threads
    }

    /// Whether several threads may make calls, or a failure needs attention.
    #[inline(always)]
    pub(crate) fn is_unusual(&self) -> bool {
        self.is_unusual
    }

    fn withdraw_synchronous(&mut self, message: &Message<'_>) -> Answer {
        let Ok(name) = message.uhdr.try_into().map(u32::from_le_bytes) else {
            return self.malformed(message);
        };
        let task = message.source.task.0;
        let Some((_, early)) = self.early.remove_if(|early| early.is_waited_for_by(task, name)) else {
            return Answer::discard();
        };
        self.budget.take(task, footprint_of(early.len()));
        if let EarlyMessage::Kept { buffer, .. } = early {
            self.buffers.give_back(buffer);
        }
        Answer::consumed(reply(WITHDRAWN, message.uhdr))
    }

    /// Keeps an eager message until its receive is posted. Returns false if it is too long for an eager message, or beyond its sender's
    /// part of the budget.
    #[inline(never)]
    fn keep_early(&mut self, (task, name): (u32, u32), envelope: Envelope, here: Arrived<'_>) -> bool {
        if !self.budget.keep(task, footprint(here.len())) {
            return false;
        }
        let Some(kept) = self.buffers.keep(task, name, here) else {
            self.budget.drop_kept(task, footprint(here.len()));
            return false;
        };
        self.record_early(task, &envelope, here.len() as u64);
        self.early.push(envelope, kept);
        true
    }

    fn request_to_send(&mut self, message: &Message<'_>) -> Answer {
        let Some(envelope) = self.envelope(message.uhdr) else { return self.malformed(message) };
        if let Some(posted) = self.requests.take_match(&envelope) {
            return self.matched(posted, message, &envelope, false);
        }
        let (task, ticket, len) = (message.source.task.0, message.ticket, message.len);
        if !self.budget.announce(task) {
            return self.beyond_budget(message);
        }
        self.record_early(task, &envelope, len);
        self.early.push(envelope, EarlyMessage::Announced { task, ticket, len });
        Answer::later()
    }

    fn ready(&mut self, message: &Message<'_>) -> Answer {
        let Some(envelope) = self.envelope(message.uhdr) else { return self.malformed(message) };
        if let Some(posted) = self.requests.take_match(&envelope) {
            return self.matched(posted, message, &envelope, false);
        }
        let task = message.source.task.0;
        if !self.budget.keep(task, 0) {
            return self.beyond_budget(message);
        }
        self.early.push(envelope, EarlyMessage::NotReady { task, len: message.len });
        let mut complaint = [0; envelope::BYTES + 8];
        complaint[..envelope::BYTES].copy_from_slice(message.uhdr);
        complaint[envelope::BYTES..].copy_from_slice(&message.len.to_le_bytes());
        Answer::consumed(reply(NOT_READY, &complaint))
    }

    fn not_ready(&mut self, message: &Message<'_>) -> Answer {
        let parsed = message.uhdr.split_last_chunk::<8>().and_then(|(header, len)| {
            envelope::parse(header).map(|(envelope, peer)| (envelope, peer, u64::from_le_bytes(*len)))
        });
        let Some((envelope, peer, len)) = parsed else { return self.malformed(message) };
        self.defer(Error::NotReady { side: Side::Sender, peer, tag: envelope.tag(), len });
        Answer::discard()
    }

    fn ask_report(&mut self, message: &Message<'_>) -> Answer {
        let received = self.budget.report_for(message.source.task.0);
        Answer::consumed(reply(REPORT, &received.to_le_bytes()))
    }

    fn report(&mut self, message: &Message<'_>) -> Answer {
        match <[u8; 8]>::try_from(message.uhdr) {
            Ok(received) => {
                self.budget.reported(message.source.task.0, u64::from_le_bytes(received));
                Answer::discard()
            }
            Err(_) => self.malformed(message),
        }
    }

    fn note(&mut self, message: &Message<'_>) -> Answer {
        let Ok(uhdr) = message.uhdr.try_into() else { return self.malformed(message) };
        let (mut key, mut words) = notes::of_bytes(message.source.task, uhdr);
        if key.context_id == notes::CALLS {
            if !self.ports.is_open(key.tag, words[0]) {
                return Answer::consumed(reply(
                    NOTE,
                    &notes::to_bytes(notes::ANSWERS, key.tag, ports::REFUSED),
                ));
            }
            words[1] = u64::from(key.from);
            key.from = ports::ANY_CALLER;
        }
        if let Some(request) = self.notes.arrived(key, words) {
            self.requests.end(request, None);
        }
        Answer::discard()
    }

    fn matched(
        &mut self,
        (request, buffer): (RequestId, ReceiveBuffer),
        message: &Message<'_>,
        envelope: &Envelope,
        is_eager: bool,
    ) -> Answer {
        self.record_match(|| message.source.task, envelope, message.len, false);
        let (destination, capacity) = match buffer {
            ReceiveBuffer::Bytes(buffer) => (Destination::Raw(buffer), buffer.len() as u64),
            ReceiveBuffer::Layout => self.requests.take_layout(request),
        };
        let lengths = (message.len, capacity);
        let completion = self.completions.completion(request, (message.source.task, is_eager), lengths);
        Answer::new(destination, completion)
    }

    /// The envelope of a message; `None` if its source is not below the number of tasks, since programs use the source as an index.
    #[inline(always)]
    pub(crate) fn envelope(&self, uhdr: &[u8]) -> Option<Envelope> {
        let (envelope, _) = envelope::parse(uhdr)?;
        (envelope.source() < RANKS_MAX).then_some(envelope)
    }

    /// Like [`envelope`](Self::envelope), with the word after it.
    fn envelope_and_word(&self, uhdr: &[u8]) -> Option<(Envelope, u32)> {
        envelope::parse_with_word(uhdr).filter(|(envelope, _)| envelope.source() < RANKS_MAX)
    }

    /// Refuses an eager message that is too long for its kind, or beyond its sender's part of the budget.
    #[cold]
    fn not_kept(&mut self, message: &Message<'_>) -> Answer {
        match message.here {
            Some(here) if u32::try_from(here.len()).is_ok() => self.beyond_budget(message),
            _ => self.malformed(message),
        }
    }

    #[cold]
    #[inline(never)]
    fn beyond_budget(&mut self, message: &Message<'_>) -> Answer {
        let what = "more messages without a receive than its part of early_arrival_bytes_max allows";
        self.defer(Error::Protocol { peer: message.source.task.0, what });
        Answer::discard()
    }

    #[cold]
    #[inline(never)]
    fn malformed(&mut self, message: &Message<'_>) -> Answer {
        let what = "an MPI message with an invalid envelope, or longer than its kind allows";
        self.defer(Error::Protocol { peer: message.source.task.0, what });
        Answer::discard()
    }
}

impl HandlerSet for MpiHandlers {
    const RUNS_USER_CODE: bool = false;

    #[inline(never)]
    fn header(&mut self, id: HandlerId, message: &Message<'_>) -> Option<Answer> {
        Some(match id {
            EAGER => self.eager(message),
            REQUEST_TO_SEND => self.request_to_send(message),
            READY => self.ready(message),
            NOT_READY => self.not_ready(message),
            ASK_REPORT => self.ask_report(message),
            REPORT => self.report(message),
            NOTE => self.note(message),
            EAGER_SYNCHRONOUS => self.eager_synchronous(message),
            MATCHED => self.acknowledged(message, None),
            WITHDRAW => self.withdraw_synchronous(message),
            WITHDRAWN => self.acknowledged(message, Some(Error::Cancelled)),
            WAKE => {
                self.wakes += 1;
                Answer::discard()
            }
            PIECES_OF_WINDOW => self.store_pieces(message),
            REVOKE => self.revoked(message),
            AGREE => self.message_of_agreement(message),
            _ => return None,
        })
    }

    /// Takes an eager message or piece that needs no answer; returns whether it was taken. If its receive has been posted, the bytes are
    /// stored in the receive's buffer when the call returns.
    #[inline(always)]
    fn consume(&mut self, id: HandlerId, source: Endpoint, uhdr: &[u8], here: Arrived<'_>) -> bool {
        if id != EAGER || !self.completions.are_plain() {
            return false;
        }
        let task = source.task.0;
        match self.envelope(uhdr) {
            Some(envelope) => !matches!(self.take_eager(task, &envelope, here), Eager::Refused),
            None => self.take_piece(task, uhdr, here),
        }
    }

    #[inline(always)]
    fn complete_request(&mut self, request: u64, delivered: Delivered) {
        if let Some((task, footprint)) = part_of_number(request) {
            return self.budget.take(task, footprint);
        }
        let (request, placed) = (RequestId::from_number(request), delivered.placed);
        self.requests.complete(request, delivered);
        if self.requests.is_receive(request) {
            events::tell(EventKind::RendezvousEnded, || {
                let status = self.requests.status(request).unwrap_or_default();
                Fact { rank: status.source(), tag: status.tag(), bytes: placed, ..Fact::default() }
            });
        }
    }

    #[inline(always)]
    fn complete_plain_request(&mut self, request: u64, _source: Endpoint, len: u64, placed: u64) {
        self.requests.complete_plain(RequestId::from_number(request), len, placed);
    }

    /// Withdraws an announced message; returns whether the message was withdrawn. A message that a receive or a matched probe has taken is
    /// not withdrawn, because it belongs to the receiver.
    fn withdraw(&mut self, ticket: Ticket) -> bool {
        let is_it = |message: &EarlyMessage| message.is_announced_as(ticket);
        let Some((_, message)) = self.early.remove_if(is_it) else { return false };
        self.budget.drop_announced(message.task().0);
        true
    }

    fn peer_is_gone(&mut self, task: TaskId, why: &dyn Fn() -> am_core::error::Error) {
        let requests =
            self.requests.unacknowledged().filter(|&(_, by)| by == task).map(|(request, _)| request);
        for request in requests.collect::<Vec<_>>() {
            self.requests.acknowledged(request, task, Some(Error::Core(why())));
        }
        self.end_arrivals_from(task, why);
        self.lose(task, why());
    }

    fn next_wanted(&mut self) -> Option<Wanted> {
        self.failures.next_wanted()
    }

    fn count(&self) -> usize {
        COUNT
    }

    fn add_to_facts(&self, facts: &mut WaitFacts) {
        facts.has_threads |= self.has_threads;
        facts.may_end_alone |= self.requests.wait_for_helper();
        facts.operations.extend(self.waits_for_lock_of.map(|task| UnderWay {
            what: "window lock".into(),
            partner: Some(task),
            details: String::new(),
        }));
        let posted = || self.requests.posted_receives().map(|(_, pattern)| pattern);
        let of_all_tasks = posted().filter(|pattern| needs_all_tasks(pattern.context_id().0));
        facts.needed.extend(of_all_tasks.filter_map(|pattern| self.only_sender(&pattern)));
        let awaited = self.notes.awaited_keys();
        let named = awaited.iter().filter(|key| key.context_id != notes::CALLS);
        facts.needed.extend(named.map(|key| TaskId(key.from)));
        facts.operations.extend(awaited.into_iter().map(wait_for_note));
        let posted = posted().chain(self.probed.iter().copied());
        let early = self.early.iter().map(|(_, envelope, message)| (*envelope, message));
        let sends = self.requests.unacknowledged().map(|(_, task)| task);
        waits::add_facts(facts, &self.peers, posted, sends, early);
    }

    fn describe(&self, id: HandlerId, uhdr: &[u8]) -> MessageName {
        let protocol = match id {
            EAGER if uhdr.is_empty() => "control",
            EAGER if uhdr.len() != envelope::BYTES => "in pieces",
            EAGER => "eager",
            REQUEST_TO_SEND => "rendezvous",
            READY => "ready",
            EAGER_SYNCHRONOUS => "synchronous",
            _ => "control",
        };
        // After the envelope, a synchronous message has the name of its request, and a message in pieces has its length.
        let uhdr = uhdr.get(..envelope::BYTES).unwrap_or(uhdr);
        match envelope::parse(uhdr).filter(|_| protocol != "control") {
            Some((envelope, _)) => {
                MessageName { protocol, tag: envelope.tag(), context: envelope.context_id().0 }
            }
            None => MessageName { protocol, tag: i32::from(id.0), context: MessageName::OF_HANDLER },
        }
    }
}

impl MpiHandlers {
    /// Records, if watched, that a message met its receive.
    #[inline(always)]
    pub(crate) fn record_match(
        &self,
        source: impl FnOnce() -> TaskId,
        envelope: &Envelope,
        len: u64,
        was_early: bool,
    ) {
        if events::is_watched(EventKind::MessageMatched) {
            self.record_match_now(source(), *envelope, len, was_early);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_match_now(&self, source: TaskId, envelope: Envelope, len: u64, was_early: bool) {
        events::tell(EventKind::MessageMatched, || Fact {
            task: Some(source.0),
            was_early,
            ..Fact::of_message(&envelope, len)
        });
        tell_length("posted receives", self.requests.posted());
        if was_early {
            tell_length("early messages", self.early.len());
        }
    }

    /// Records, if watched, that a message arrived before its receive.
    #[inline(always)]
    fn record_early(&self, task: u32, envelope: &Envelope, len: u64) {
        if events::is_watched(EventKind::MessageEarly) {
            self.record_early_now(task, *envelope, len);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_early_now(&self, task: u32, envelope: Envelope, len: u64) {
        events::tell(EventKind::MessageEarly, || Fact {
            task: Some(task),
            ..Fact::of_message(&envelope, len)
        });
        tell_length("early messages", self.early.len() + 1);
    }
}

/// The wait for a note, for the report of a hang.
fn wait_for_note(key: Key) -> UnderWay {
    let (what, details) = match key.context_id {
        notes::CALLS => ("receive", format!("a connection to port {} of this task", key.tag)),
        notes::ANSWERS => ("receive", format!("the acceptance of a connection to port {}", key.tag)),
        _ => ("receive", "to make a communicator or a window".to_owned()),
    };
    let partner = (key.context_id != notes::CALLS).then_some(TaskId(key.from));
    UnderWay { what: what.into(), partner, details }
}

fn tell_length(queue: &str, len: usize) {
    record::tell(&record::Event {
        amount: len as u64,
        ..record::Event::plain(record::EventKind::Value, queue)
    });
}

fn reply(handler: HandlerId, uhdr: &[u8]) -> Completion {
    Completion::Reply(Reply::new(handler, uhdr).expect("the headers above fit into a reply"))
}

#[inline(always)]
fn footprint_of(len: u64) -> u64 {
    footprint(usize::try_from(len).unwrap_or(usize::MAX >> 1))
}
