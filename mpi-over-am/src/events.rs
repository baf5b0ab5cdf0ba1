//! Events of the engine, for tools (MPI 5.0 section 15.3.8).
//!
//! An event is recorded only while a tool watches its kind ([`watch`]), or if the process has a recorder. Otherwise an event costs one
//! test, which is not on the fast path of a short message that meets its receive. Events stay in one log of the process until they are
//! taken ([`take`]); those that do not fit are dropped and counted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use am_core::record;

use crate::matching::Envelope;

/// Maximum number of events in the log.
pub const EVENTS_MAX: usize = 1024;

/// Maximum number of values of an event.
const WORDS: usize = 5;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// A message arrived before its receive (an *unexpected* message).
    MessageEarly,
    /// A message met its receive.
    MessageMatched,
    /// A long message was announced to its receiver.
    RendezvousBegun,
    /// The data of an announced message are stored.
    RendezvousEnded,
    /// A blocking collective begins.
    CollectiveBegun,
    /// A blocking collective has ended.
    CollectiveEnded,
}

impl EventKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::MessageEarly,
        Self::MessageMatched,
        Self::RendezvousBegun,
        Self::RendezvousEnded,
        Self::CollectiveBegun,
        Self::CollectiveEnded,
    ];

    /// The name and the description of the kind, and the names of its values.
    #[must_use]
    pub fn description(self) -> (&'static str, &'static str, &'static [&'static str]) {
        const MESSAGE: [&str; 4] = ["source", "tag", "context", "bytes"];
        const ENDED: [&str; 3] = ["source", "tag", "bytes"];
        const SENT: [&str; 4] = ["destination", "tag", "context", "bytes"];
        const MATCHED: [&str; 5] = ["source", "tag", "context", "bytes", "was_early"];
        const COLLECTIVE: [&str; 2] = ["context", "ranks"];
        match self {
            Self::MessageEarly => ("message_early", "A message arrived before its receive", &MESSAGE),
            Self::MessageMatched => ("message_matched", "A message met its receive", &MATCHED),
            Self::RendezvousBegun => ("rendezvous_begun", "A long message was announced", &SENT),
            Self::RendezvousEnded => {
                ("rendezvous_ended", "The data of an announced message are stored", &ENDED)
            }
            Self::CollectiveBegun => ("collective_begun", "A blocking collective begins", &COLLECTIVE),
            Self::CollectiveEnded => ("collective_ended", "A blocking collective has ended", &COLLECTIVE),
        }
    }

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of the event.
    pub kind: EventKind,
    /// The time of the event, in nanoseconds of [`now`].
    pub nanoseconds: u64,
    words: [i64; WORDS],
}

impl Event {
    /// The values of the event, in the order of their names in [`EventKind::description`].
    #[must_use]
    pub fn words(&self) -> &[i64] {
        &self.words[..self.kind.description().2.len()]
    }
}

#[derive(Debug)]
struct Log {
    events: VecDeque<Event>,
    /// Number of dropped events of each kind since the last [`take_dropped`].
    dropped: [u64; EventKind::ALL.len()],
}

/// The kinds that are watched, as bits: those of tools, or all if this process has a recorder ([`am_core::record`]).
static WATCHED: AtomicU32 = AtomicU32::new(0);
/// The kinds that tools watch.
static BY_TOOLS: AtomicU32 = AtomicU32::new(0);
static LOG: Mutex<Log> = Mutex::new(Log { events: VecDeque::new(), dropped: [0; EventKind::ALL.len()] });

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time of events: nanoseconds since the first call. It never goes back.
#[must_use]
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Records events of these kinds from now on, and no others. An existing environment records matches only after
/// [`Environment::look_at_watched`](crate::Environment::look_at_watched).
pub fn watch(kinds: impl IntoIterator<Item = EventKind>) {
    let bits = kinds.into_iter().fold(0, |bits, kind| bits | kind.bit());
    // Relaxed, like every load: an event of another thread at this moment may be recorded or not.
    BY_TOOLS.store(bits, Ordering::Relaxed);
    look_at_recorder();
    // Sets the origin of the clock now, not on the message path.
    let _ = now();
}

/// From now on, passes all events to the recorder of this process, if there is one.
pub(crate) fn look_at_recorder() {
    let by_recorder = if record::is_on() { u32::MAX } else { 0 };
    WATCHED.store(BY_TOOLS.load(Ordering::Relaxed) | by_recorder, Ordering::Relaxed);
}

/// Whether any kind is watched.
#[must_use]
pub fn is_watching() -> bool {
    WATCHED.load(Ordering::Relaxed) != 0
}

/// Removes the earliest event from the log.
#[must_use]
pub fn take() -> Option<Event> {
    log().events.pop_front()
}

/// Number of events of a kind that were dropped since the last call, because [`EVENTS_MAX`] others were in the log.
#[must_use]
pub fn take_dropped(kind: EventKind) -> u64 {
    std::mem::take(&mut log().dropped[kind as usize])
}

/// Whether events of this kind are recorded.
#[inline(always)]
pub(crate) fn is_watched(kind: EventKind) -> bool {
    WATCHED.load(Ordering::Relaxed) & kind.bit() != 0
}

/// The properties of an event, for tools and for the recorder.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fact<'a> {
    /// The name of a collective.
    pub(crate) name: &'a str,
    /// The rank of the sender, or of the receiver; for a collective, the number of ranks.
    pub(crate) rank: u32,
    /// The task of that rank, if known.
    pub(crate) task: Option<u32>,
    pub(crate) tag: i32,
    pub(crate) context: u32,
    pub(crate) bytes: u64,
    /// Whether the message arrived before its receive.
    pub(crate) was_early: bool,
}

impl Fact<'_> {
    /// The properties of a message, from its envelope.
    pub(crate) fn of_message(envelope: &Envelope, bytes: u64) -> Self {
        let (rank, tag, context) = (envelope.source(), envelope.tag(), envelope.context_id().0);
        Self { rank, tag, context, bytes, ..Self::default() }
    }

    /// The values, in the order of their names in [`EventKind::description`].
    fn words(&self, kind: EventKind) -> [i64; WORDS] {
        let &Self { rank, tag, context, bytes, was_early, .. } = self;
        let (rank, tag, context) = (rank.into(), tag.into(), context.into());
        match kind {
            EventKind::MessageEarly | EventKind::MessageMatched | EventKind::RendezvousBegun => {
                [rank, tag, context, bytes.cast_signed(), was_early.into()]
            }
            EventKind::RendezvousEnded => [rank, tag, bytes.cast_signed(), 0, 0],
            EventKind::CollectiveBegun | EventKind::CollectiveEnded => [context, rank, 0, 0, 0],
        }
    }

    /// The event for the recorder.
    fn recorded(&self, kind: EventKind) -> record::Event<'_> {
        let &Self { name, task: peer, tag, context, bytes: amount, .. } = self;
        let (kind, name) = match kind {
            EventKind::MessageEarly => (record::EventKind::Mark, "early arrival"),
            EventKind::MessageMatched => (record::EventKind::Received, "received"),
            EventKind::RendezvousBegun => (record::EventKind::Mark, "rendezvous begun"),
            EventKind::RendezvousEnded => (record::EventKind::Mark, "rendezvous ended"),
            EventKind::CollectiveBegun => (record::EventKind::Begin, name),
            EventKind::CollectiveEnded => (record::EventKind::End, ""),
        };
        record::Event { kind, name, peer, tag, context, amount }
    }
}

/// Reports an event to tools that watch its kind, and to the recorder.
#[inline(always)]
pub(crate) fn tell<'a>(kind: EventKind, fact: impl FnOnce() -> Fact<'a>) {
    if is_watched(kind) {
        // The closure is inlined, so that what it borrows can stay in registers.
        tell_now(kind, &fact());
    }
}

#[cold]
#[inline(never)]
fn tell_now(kind: EventKind, fact: &Fact<'_>) {
    if BY_TOOLS.load(Ordering::Relaxed) & kind.bit() != 0 {
        keep(kind, fact.words(kind));
    }
    record::tell(&fact.recorded(kind));
}

fn keep(kind: EventKind, words: [i64; WORDS]) {
    let mut log = log();
    if log.events.len() >= EVENTS_MAX {
        log.dropped[kind as usize] += 1;
    } else {
        let nanoseconds = now();
        log.events.push_back(Event { kind, nanoseconds, words });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The only test of the log, since a process has one log.
    #[test]
    fn watched_kinds_are_recorded_in_order_and_what_is_too_much_is_counted() {
        use EventKind::{CollectiveBegun, CollectiveEnded};
        tell(CollectiveBegun, || panic!("no kind is watched yet"));
        watch([CollectiveBegun]);
        tell(CollectiveEnded, || panic!("it is not watched"));
        for context in (0..).take(EVENTS_MAX + 3) {
            tell(CollectiveBegun, || Fact { context, rank: 4, ..Fact::default() });
        }
        watch([]);
        assert!(!is_watching());
        let mut before = 0;
        for number in 0..EVENTS_MAX as i64 {
            let event = take().expect("it was recorded");
            assert_eq!((event.kind, event.words()), (CollectiveBegun, &[number, 4][..]));
            assert!(event.nanoseconds >= before);
            before = event.nanoseconds;
        }
        assert_eq!(take(), None);
        assert_eq!([take_dropped(CollectiveBegun), take_dropped(CollectiveBegun)], [3, 0]);
    }
}
