//! The activity of a task, recorded in memory that outlives it, for `amrun --stats` and `--trace`; or printed as text for debugging.
//!
//! Recording is off unless the launcher was asked for it. If it is on, the layers above call the recorder at each call, message and sleep;
//! the recorder takes a lock and reads the clock. If it is off, there is no recorder, and no layer looks for one on its message path.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32 as Number};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use am_events::{Event, EventKind};
use am_via_os::atomics::Ordering;
use am_via_os::clock;
use am_via_shm::layout_record::{EVENTS_MAX, EventSlot, NAMES_MAX, TALLIES_MAX, Tally, TaskRecord};
use am_via_shm::{Mapping, Shared};

/// An event as the launcher reads it from the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// The time, in nanoseconds of the system's monotonic clock.
    pub nanoseconds: u64,
    /// The kind of event.
    #[serde(serialize_with = "kind_to", deserialize_with = "kind_from")]
    pub kind: EventKind,
    /// The thread of the task, numbered from 0.
    pub thread: u32,
    /// Index of the event's name in [`Recorded::names`].
    pub name: usize,
    /// The task at the other end, if there is one.
    pub peer: Option<u32>,
    /// The tag of the message.
    pub tag: i32,
    /// The number space of the tag: a communicator, or `u32::MAX` if the tag is the number of a handler.
    pub context: u32,
    /// Bytes, or a value.
    pub amount: u64,
    /// Number of earlier messages in this direction between these two tasks with this tag and context; `None` if the event is not numbered.
    pub order: Option<u32>,
}

/// Sums over the events with one name and one peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedTally {
    /// The kind of these events; [`EventKind::Begin`] for spans.
    #[serde(serialize_with = "kind_to", deserialize_with = "kind_from")]
    pub kind: EventKind,
    /// Index of the name in [`Recorded::names`].
    pub name: usize,
    /// The task at the other end, if there is one.
    pub peer: Option<u32>,
    /// Number of events.
    pub count: u64,
    /// Their bytes in total.
    pub bytes: u64,
    /// Their time in total, in nanoseconds.
    pub nanoseconds: u64,
    /// The largest value.
    pub largest: u64,
}

/// The record of a task. The task writes it itself, so it is not to be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Names of events and tallies.
    pub names: Vec<String>,
    /// Sums over all events.
    pub tallies: Vec<RecordedTally>,
    /// Number of events without a tally, because the table was full.
    pub not_counted: u64,
    /// The last events, in order.
    pub events: Vec<RecordedEvent>,
    /// Number of earlier events that are no longer stored.
    pub events_dropped: u64,
}

fn kind_to<S: Serializer>(kind: &EventKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u8(*kind as u8)
}

fn kind_from<'de, D: Deserializer<'de>>(from: D) -> Result<EventKind, D::Error> {
    EventKind::of(u32::deserialize(from)?).ok_or_else(|| de::Error::custom("there is no such kind of event"))
}

impl Recorded {
    /// Moves all times by `nanoseconds`, for a record of a host whose clock differs by this much from the reader's.
    pub fn shift(&mut self, nanoseconds: i64) {
        for event in &mut self.events {
            event.nanoseconds = event.nanoseconds.saturating_add_signed(nanoseconds);
        }
    }

    /// The name with this index; empty if the task has claimed an index that does not exist.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }
}

/// The name of the total time that a task spends in calls of the library: spans that lie in no other span.
pub const IN_CALLS: &str = "in calls";
/// The name of spans in which a task sleeps because nothing arrives.
pub const SLEEP: &str = "sleep";
/// The name of the span of MPI's progress thread, which lasts as long as the thread.
const PROGRESS_THREAD: &str = "the progress thread";

/// Records the activity of this task.
#[derive(Debug)]
pub struct Recorder {
    task: u32,
    shared: Option<Shared<TaskRecord>>,
    keeps_events: bool,
    /// Whether each event is also printed to standard error.
    says: AtomicBool,
    book: Mutex<Book>,
}

/// Maximum number of keys (direction, peer, tag, context) whose messages are numbered, since a program may use new tags without end.
/// Messages with later keys have no [order](RecordedEvent::order).
const ORDERS_MAX: usize = 1 << 16;
/// The order of a message that is not numbered.
const NO_ORDER: u32 = u32::MAX;

/// The recorder's tables.
#[derive(Debug, Default)]
struct Book {
    names: HashMap<String, u32>,
    tallies: HashMap<(EventKind, u32, Option<u32>), usize>,
    /// Number of messages so far by direction, peer, tag and context, for at most [`ORDERS_MAX`] keys.
    orders: HashMap<(EventKind, Option<u32>, i32, u32), u32>,
    /// The spans of each thread that have not ended, the outermost first: the name and the time of the beginning.
    open: HashMap<u32, Vec<(u32, u64)>>,
    num_events: u64,
}

thread_local! {
    /// The number of this thread, counted from 1; 0: not assigned yet.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

fn this_thread() -> u32 {
    static THREADS: Number = Number::new(0);
    let number = THREAD.get();
    if number != 0 {
        return number - 1;
    }
    let number = THREADS.fetch_add(1, Ordering::Relaxed);
    THREAD.set(number + 1);
    number
}

impl am_events::Recorder for Recorder {
    fn record(&self, event: &Event<'_>) {
        let now = u64::try_from(clock::monotonic().as_nanos()).unwrap_or(u64::MAX);
        let thread = this_thread();
        let mut book = self.book();
        let mut took = None;
        let mut depth = book.open.get(&thread).map_or(0, Vec::len);
        match event.kind {
            EventKind::Begin => {
                let name = self.number_of(&mut book, event.name);
                book.open.entry(thread).or_default().push((name, now));
                self.keep(&mut book, (now, thread, name), event, 0);
            }
            EventKind::End => {
                let open = book.open.entry(thread).or_default();
                let Some((name, begun)) = open.pop() else { return };
                let outermost = open.first().map_or(name, |&(outermost, _)| outermost);
                depth -= 1;
                let nanoseconds = now.saturating_sub(begun);
                took = Some(nanoseconds);
                // A thread that only makes progress, or sleeps in no call, is not in a call of the program.
                let is_of_program =
                    [SLEEP, PROGRESS_THREAD].iter().all(|own| book.names.get(*own) != Some(&outermost));
                if is_of_program {
                    self.count(&mut book, (EventKind::Begin, name, None), (0, nanoseconds, nanoseconds));
                }
                if is_of_program && depth == 0 {
                    let calls = self.number_of(&mut book, IN_CALLS);
                    self.count(&mut book, (EventKind::Begin, calls, None), (0, nanoseconds, nanoseconds));
                }
                self.keep(&mut book, (now, thread, name), event, 0);
            }
            EventKind::Value => {
                let name = self.number_of(&mut book, event.name);
                self.count(&mut book, (event.kind, name, None), (0, 0, event.amount));
                self.keep(&mut book, (now, thread, name), event, 0);
            }
            EventKind::Sent | EventKind::Received => {
                let name = self.number_of(&mut book, event.name);
                let key = (event.kind, event.peer, event.tag, event.context);
                let order = self.order_of(&mut book, key);
                self.count(&mut book, (event.kind, name, event.peer), (event.amount, 0, event.amount));
                self.keep(&mut book, (now, thread, name), event, order);
            }
            EventKind::Moved | EventKind::Mark => {
                let name = self.number_of(&mut book, event.name);
                self.count(&mut book, (event.kind, name, event.peer), (event.amount, 0, event.amount));
                self.keep(&mut book, (now, thread, name), event, 0);
            }
        }
        drop(book);
        if self.says.load(Ordering::Relaxed) {
            am_via_os::complain!("{}", self.line(event, thread, depth, took));
        }
    }
}

impl Recorder {
    pub(crate) fn new(task: u32, shared: Option<Shared<TaskRecord>>, keeps_events: bool) -> Self {
        Self { task, shared, keeps_events, says: AtomicBool::new(false), book: Mutex::default() }
    }

    /// Prints each event to standard error from now on, as a tree of calls. MPICH over Portals printed the same for `MPI_DEBUG`.
    pub fn trace_to_stderr(&self) {
        self.says.store(true, Ordering::Relaxed);
    }

    /// Begins a span of this name.
    pub fn begin(&self, name: &str) {
        am_events::Recorder::record(self, &Event::plain(EventKind::Begin, name));
    }

    /// Ends the span that this thread began last.
    pub fn end(&self) {
        am_events::Recorder::record(self, &Event::plain(EventKind::End, ""));
    }

    /// Number of earlier messages with this key; [`NO_ORDER`] if it is not known or not needed.
    fn order_of(&self, book: &mut Book, key: (EventKind, Option<u32>, i32, u32)) -> u32 {
        let is_known = book.orders.len() < ORDERS_MAX || book.orders.contains_key(&key);
        if !self.keeps_events || !is_known {
            return NO_ORDER;
        }
        let next = book.orders.entry(key).or_default();
        let order = *next;
        *next = (order + 1) % NO_ORDER;
        order
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The event as a line for a person.
    fn line(&self, event: &Event<'_>, thread: u32, depth: usize, took: Option<u64>) -> String {
        let mut line = format!("task {}", self.task);
        // Writing to a String cannot fail.
        let _ = match thread {
            0 => write!(line, ": "),
            other => write!(line, ", thread {other}: "),
        };
        line.extend(std::iter::repeat_n("  ", depth));
        let _ = match (event.kind, event.peer) {
            (EventKind::Begin, _) => write!(line, "{} {{", event.name),
            (EventKind::End, _) => {
                write!(line, "}} {:.1} us", took.unwrap_or(0) as f64 / 1e3)
            }
            (EventKind::Value, _) => write!(line, "{}: {}", event.name, event.amount),
            (EventKind::Mark, None) => write!(line, "{}", event.name),
            (EventKind::Sent, Some(peer)) => {
                write!(line, "{} to task {peer}, tag {}, {} bytes", event.name, event.tag, event.amount)
            }
            (EventKind::Received, Some(peer)) => {
                write!(line, "{} from task {peer}, tag {}, {} bytes", event.name, event.tag, event.amount)
            }
            (_, Some(peer)) => write!(line, "{}, task {peer}, {} bytes", event.name, event.amount),
            (_, None) => write!(line, "{}, {} bytes", event.name, event.amount),
        };
        line
    }

    fn number_of(&self, book: &mut Book, name: &str) -> u32 {
        if let Some(&number) = book.names.get(name) {
            return number;
        }
        // All names that do not fit share the last entry.
        let number = book.names.len().min(NAMES_MAX - 1);
        if let Some(shared) = &self.shared {
            shared.names[number].write(if number == NAMES_MAX - 1 { "other" } else { name });
            // Release: "name written", pairs with the load in `read`.
            shared.num_names.store(number as u64 + 1, Ordering::Release);
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        book.names.insert(name.to_owned(), number);
        number
    }

    fn count(
        &self,
        book: &mut Book,
        (kind, name, peer): (EventKind, u32, Option<u32>),
        (bytes, nanoseconds, largest): (u64, u64, u64),
    ) {
        let Some(shared) = &self.shared else { return };
        let next = book.tallies.len();
        let place = *book.tallies.entry((kind, name, peer)).or_insert(next);
        let Some(tally) = shared.tallies.get(place) else {
            shared.not_counted.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if place == next {
            tally.of.store(
                halves(name | u32::from(kind as u8) << 24, peer.map_or(0, |peer| peer + 1)),
                Ordering::Relaxed,
            );
            // Release: "tally begun", pairs with the load in `read`.
            shared.num_tallies.store(next as u64 + 1, Ordering::Release);
        }
        // The lock admits one writer at a time.
        let add = |to: &am_via_os::atomics::AtomicU64, more: u64| {
            to.store(to.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
        };
        add(&tally.count, 1);
        add(&tally.bytes, bytes);
        add(&tally.nanoseconds, nanoseconds);
        if largest > tally.largest.load(Ordering::Relaxed) {
            tally.largest.store(largest, Ordering::Relaxed);
        }
    }

    fn keep(&self, book: &mut Book, (now, thread, name): (u64, u32, u32), event: &Event<'_>, order: u32) {
        let Some(shared) = self.shared.as_ref().filter(|_| self.keeps_events) else { return };
        let slot = &shared.events[usize::try_from(book.num_events).unwrap_or(0) % EVENTS_MAX];
        // A task may die between any two of these stores: the number, stored last, marks the slot as whole.
        slot.number.store(0, Ordering::Relaxed);
        slot.nanoseconds.store(now, Ordering::Relaxed);
        let kind_thread = u32::from(event.kind as u8) | thread << 8;
        slot.what.store(halves(kind_thread, name), Ordering::Relaxed);
        let peer = event.peer.map_or(0, |peer| peer + 1);
        slot.peer_tag.store(halves(peer, event.tag.cast_unsigned()), Ordering::Relaxed);
        slot.amount.store(event.amount, Ordering::Relaxed);
        slot.context_order.store(halves(event.context, order), Ordering::Relaxed);
        book.num_events += 1;
        // Release: "event written", pairs with the load in `read`.
        slot.number.store(book.num_events, Ordering::Release);
        shared.num_events.store(book.num_events, Ordering::Release);
    }
}

fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
fn both(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Maps a task's part of the file in which tasks record what they do.
pub(crate) fn map(file: BorrowedFd<'_>, task: u32) -> io::Result<Shared<TaskRecord>> {
    let offset = TaskRecord::FILE_BYTES * u64::from(task);
    let mapping = Mapping::new(file, offset, size_of::<TaskRecord>())?;
    mapping.atomics(0).ok_or_else(|| io::Error::other("it is shorter than a record"))
}

/// Reads what a task has recorded.
pub(crate) fn read(record: &TaskRecord) -> Recorded {
    // The counts are not trusted: they are cut to the size of the tables. Acquire: pairs with the stores in `number_of`, `count` and
    // `keep`.
    let up_to = |count: &am_via_os::atomics::AtomicU64, max: usize| {
        usize::try_from(count.load(Ordering::Acquire)).map_or(max, |count| count.min(max))
    };
    let names =
        record.names[..up_to(&record.num_names, NAMES_MAX)].iter().map(am_via_shm::layout_job::Text::read);
    let tallies = record.tallies[..up_to(&record.num_tallies, TALLIES_MAX)].iter().filter_map(read_tally);
    let num_events = record.num_events.load(Ordering::Acquire);
    let kept = num_events.min(EVENTS_MAX as u64);
    let first = num_events - kept;
    let events = (first..num_events).filter_map(|number| {
        let slot = &record.events[usize::try_from(number).unwrap_or(0) % EVENTS_MAX];
        read_event(slot, number)
    });
    Recorded {
        names: names.collect(),
        tallies: tallies.collect(),
        not_counted: record.not_counted.load(Ordering::Relaxed),
        events: events.collect(),
        events_dropped: first,
    }
}

fn read_tally(tally: &Tally) -> Option<RecordedTally> {
    let (name_kind, peer) = both(tally.of.load(Ordering::Relaxed));
    Some(RecordedTally {
        kind: EventKind::of(name_kind >> 24)?,
        name: (name_kind & 0xff_ffff) as usize,
        peer: peer.checked_sub(1),
        count: tally.count.load(Ordering::Relaxed),
        bytes: tally.bytes.load(Ordering::Relaxed),
        nanoseconds: tally.nanoseconds.load(Ordering::Relaxed),
        largest: tally.largest.load(Ordering::Relaxed),
    })
}

fn read_event(slot: &EventSlot, number: u64) -> Option<RecordedEvent> {
    // Acquire: pairs with the store in `keep` ("event written").
    if slot.number.load(Ordering::Acquire) != number + 1 {
        return None;
    }
    let (kind_thread, name) = both(slot.what.load(Ordering::Relaxed));
    let (peer, tag) = both(slot.peer_tag.load(Ordering::Relaxed));
    let (context, order) = both(slot.context_order.load(Ordering::Relaxed));
    Some(RecordedEvent {
        nanoseconds: slot.nanoseconds.load(Ordering::Relaxed),
        kind: EventKind::of(kind_thread & 0xff)?,
        thread: kind_thread >> 8,
        name: name as usize,
        peer: peer.checked_sub(1),
        tag: tag.cast_signed(),
        context,
        amount: slot.amount.load(Ordering::Relaxed),
        order: (order != NO_ORDER).then_some(order),
    })
}

#[cfg(test)]
mod tests {
    use am_events::Recorder as _;

    use super::*;

    fn recorder() -> (Recorder, Shared<TaskRecord>) {
        let (_file, mapping) = Mapping::anonymous(size_of::<TaskRecord>()).unwrap();
        let shared: Shared<TaskRecord> = mapping.atomics(0).unwrap();
        (Recorder::new(0, Some(shared.clone()), true), shared)
    }

    fn event(kind: EventKind, name: &str, peer: Option<u32>, amount: u64) -> Event<'_> {
        Event { kind, name, peer, tag: 7, context: 1, amount }
    }

    #[test]
    fn spans_nest_and_messages_with_the_same_tag_are_numbered() {
        let (recorder, shared) = recorder();
        recorder.record(&event(EventKind::Begin, "MPI_Send", None, 0));
        recorder.record(&event(EventKind::Sent, "eager", Some(3), 100));
        recorder.record(&event(EventKind::Begin, SLEEP, None, 0));
        recorder.record(&event(EventKind::End, "", None, 0));
        recorder.record(&event(EventKind::End, "", None, 0));
        recorder.record(&event(EventKind::Sent, "eager", Some(3), 50));
        recorder.record(&event(EventKind::End, "", None, 0));
        let read = read(&shared);
        let told: Vec<_> =
            read.events.iter().map(|event| (event.kind, read.name(event.name), event.order)).collect();
        use EventKind::{Begin, End, Sent};
        assert_eq!(
            told,
            [
                (Begin, "MPI_Send", Some(0)),
                (Sent, "eager", Some(0)),
                (Begin, SLEEP, Some(0)),
                (End, SLEEP, Some(0)),
                (End, "MPI_Send", Some(0)),
                (Sent, "eager", Some(1))
            ],
            "an end without a begin is none"
        );
        let of = |name: &str| read.tallies.iter().find(|tally| read.name(tally.name) == name).unwrap();
        let text = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Recorded>(&text).unwrap(), read);
        let eager = of("eager");
        assert_eq!((eager.peer, eager.count, eager.bytes, eager.largest), (Some(3), 2, 150, 100));
        assert_eq!((of("MPI_Send").count, of(IN_CALLS).count), (1, 1), "a sleep in a call is no call");
        assert!(of("MPI_Send").nanoseconds >= of(SLEEP).nanoseconds);
    }

    #[test]
    fn threads_that_only_make_progress_are_in_no_call() {
        let (recorder, shared) = recorder();
        for names in [&[SLEEP][..], &[PROGRESS_THREAD, SLEEP], &["MPI_Recv", SLEEP]] {
            names.iter().for_each(|name| recorder.record(&event(EventKind::Begin, name, None, 0)));
            names.iter().for_each(|_| recorder.record(&event(EventKind::End, "", None, 0)));
        }
        let read = read(&shared);
        let counts: Vec<_> = read.tallies.iter().map(|tally| (read.name(tally.name), tally.count)).collect();
        assert_eq!(counts, [(SLEEP, 1), ("MPI_Recv", 1), (IN_CALLS, 1)]);
        assert_eq!(read.events.len(), 10, "a trace shows all");
    }

    #[test]
    fn the_last_events_stay_and_the_others_are_counted() {
        let (recorder, shared) = recorder();
        let many = EVENTS_MAX as u64 + 10;
        for amount in 0..many {
            recorder.record(&event(EventKind::Value, "queue", None, amount));
        }
        let read = read(&shared);
        assert_eq!((read.events.len(), read.events_dropped), (EVENTS_MAX, 10));
        assert_eq!((read.events[0].amount, read.events[EVENTS_MAX - 1].amount), (10, many - 1));
        assert_eq!((read.tallies[0].count, read.tallies[0].largest), (many, many - 1));
    }

    #[test]
    fn a_program_of_ever_new_tags_takes_no_more_memory() {
        let (recorder, shared) = recorder();
        for tag in 0..ORDERS_MAX + 10 {
            let tag = i32::try_from(tag).unwrap();
            recorder.record(&Event { tag, ..event(EventKind::Sent, "eager", Some(3), 8) });
        }
        recorder.record(&event(EventKind::Sent, "eager", Some(3), 8));
        assert_eq!(recorder.book().orders.len(), ORDERS_MAX);
        let orders: Vec<_> = read(&shared).events.iter().rev().take(11).map(|event| event.order).collect();
        assert_eq!((orders[0], &orders[1..]), (Some(1), &[None; 10][..]));
    }

    #[test]
    fn what_a_task_claims_reads_no_further_than_its_memory() {
        let (recorder, shared) = recorder();
        recorder.record(&event(EventKind::Mark, "mark", None, 0));
        for count in [&shared.num_names, &shared.num_tallies, &shared.num_events] {
            count.store(u64::MAX, Ordering::Relaxed);
        }
        shared.events[1].number.store(2, Ordering::Relaxed);
        let read = read(&shared);
        assert_eq!((read.names.len(), read.tallies.len()), (NAMES_MAX, 1));
        assert!(read.events.is_empty());
    }
}
