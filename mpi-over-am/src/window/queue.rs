//! The lock of a target: a queue in the target's control memory that each task reads and changes without the help of other tasks.
//!
//! The first word has the next ticket and the number of tasks in the queue. One word per task follows, with its state (waiting or holding,
//! shared or exclusive) and its ticket. A task gets the lock when no task with an earlier ticket conflicts, which each task checks itself
//! (Lamport's bakery). The lock is therefore granted in order of arrival, and adjacent shared requests get it together. Before a task draws
//! a ticket it marks its word as drawing; the others wait until it has stored the ticket, because that ticket may be earlier than theirs.
//!
//! A task that leaves the queue, or has stored its ticket, wakes the tasks that can now proceed. If the waking and the woken task are on
//! the target's host, the woken task's doorbell is rung; otherwise a message is sent. A task on the target's host looks at the words
//! whenever it is awake. A task on another host looks once for each message, because each of its looks is a request to the target. If a
//! task dies in the queue, a task that would have to wait for it clears the dead task's word; nothing else has to be repaired.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use am_core::buffer::RemoteAddress;
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::task::{Endpoint, TaskId};
use am_core::{AmOptions, Context, GetOptions};

use crate::error::{Error, Result};
use crate::message::handlers::{self, MpiHandlers};

/// How a window is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Shared with other tasks (`MPI_LOCK_SHARED`).
    Shared,
    /// Exclusive (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
}

const WORD_BYTES: usize = 8;

/// The first word: the number of tasks in the queue, and above it the next ticket. A task that died in the queue stays counted, which only
/// makes later tasks look at all words.
const ONE_MORE: u64 = 1;
const IN_QUEUE_BITS: u32 = 20;
const NEXT_TICKET: u64 = 1 << IN_QUEUE_BITS;

/// The word of a task: its state, and above it its ticket.
const STATE_BITS: u32 = 4;
const OUT: u64 = 0;
const DRAWS: u64 = 1;
/// The word of a task that draws while another task waits for it. When the task stores its ticket, it finds this word, and wakes the
/// others.
const DRAWS_FOR_OTHERS: Entry = Entry(1 << STATE_BITS | DRAWS);
const WAITS: u64 = 2;
const HOLDS: u64 = 4;
/// With [`WAITS`] or [`HOLDS`]: exclusive.
const ALONE: u64 = 1;
/// With [`WAITS`]: the task sleeps until a message wakes it.
const BY_MESSAGE: u64 = 8;

/// The decoded word of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    fn new(ticket: u64, state: u64) -> Self {
        Self(ticket << STATE_BITS | state)
    }

    fn state(self) -> u64 {
        self.0 & ((1 << STATE_BITS) - 1)
    }

    fn ticket(self) -> u64 {
        self.0 >> STATE_BITS
    }

    fn has_ticket(self) -> bool {
        self.state() & (WAITS | HOLDS) != 0
    }

    fn waits(self) -> bool {
        self.state() & WAITS != 0
    }

    fn needs_message(self) -> bool {
        self.state() & BY_MESSAGE != 0
    }

    fn is_alone(self) -> bool {
        self.has_ticket() && self.state() & ALONE != 0
    }

    /// Whether the task of `other`, which must have a ticket, has to wait for the task of this entry.
    fn is_in_the_way_of(self, other: Self) -> bool {
        let is_earlier = self.has_ticket() && self.ticket() < other.ticket();
        self.state() == DRAWS || is_earlier && (self.is_alone() || other.is_alone())
    }
}

/// Access to the words of a queue.
pub(super) trait Words {
    fn rmw(&mut self, at: RemoteAddress, operation: AtomicOp) -> Result<u64>;
    fn read(&mut self, at: RemoteAddress, words: &mut [u64]) -> Result<()>;
    /// Whether operations on the words have to wait for an answer of the target. Valid after the first [`rmw`](Self::rmw).
    fn are_far(&self) -> bool;
    fn ring(&mut self, task: Endpoint) -> Result<()>;
    /// Sends the message that ends a task's wait for a lock.
    fn send_wake(&mut self, task: Endpoint) -> Result<()>;
    fn has_ended(&self, task: TaskId) -> bool;
}

/// Access without giving up the turn. Only for words that are not [far](Words::are_far).
impl<F: Fabric> Words for Context<F, MpiHandlers> {
    fn rmw(&mut self, at: RemoteAddress, operation: AtomicOp) -> Result<u64> {
        Ok(self.rmw(at, Width::Bits64, operation)?)
    }

    fn read(&mut self, at: RemoteAddress, words: &mut [u64]) -> Result<()> {
        Ok(self.get(at, bytemuck::cast_slice_mut::<u64, u8>(words), GetOptions::default())?)
    }

    fn are_far(&self) -> bool {
        false
    }

    fn ring(&mut self, task: Endpoint) -> Result<()> {
        Ok(self.ring(task)?)
    }

    fn send_wake(&mut self, task: Endpoint) -> Result<()> {
        Ok(self.amsend(task, handlers::WAKE, &[], &[], AmOptions::default())?)
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.has_ended(task)
    }
}

/// The queue for the lock of one target.
#[derive(Clone, Debug)]
pub(super) struct LockQueue {
    /// The address of the queue's words.
    pub(super) at: RemoteAddress,
    /// This task's rank.
    pub(super) own: u32,
    /// The tasks of the window, by rank.
    pub(super) tasks: Arc<[Endpoint]>,
}

impl LockQueue {
    /// Bytes of the words of a queue of this many tasks.
    pub(super) fn bytes(tasks: u32) -> usize {
        WORD_BYTES * (1 + tasks as usize)
    }

    /// Draws a ticket. The wait for the lock is over when [`LockRequest::look`] returns true.
    ///
    /// # Errors
    /// The target is dead.
    pub(super) fn arrive(self, words: &mut impl Words, lock: Lock) -> Result<LockRequest> {
        self.write(words, Entry::new(0, DRAWS))?;
        let add = AtomicOp::FetchAdd(NEXT_TICKET + ONE_MORE);
        let before = words.rmw(self.at, add)?;
        let ticket = before >> IN_QUEUE_BITS;
        let alone = if lock == Lock::Exclusive { ALONE } else { 0 };
        let is_free = before & (NEXT_TICKET - 1) == 0;
        let waits = if words.are_far() { WAITS | BY_MESSAGE } else { WAITS };
        let own = Entry::new(ticket, alone | if is_free { HOLDS } else { waits });
        let drew = self.write(words, own)?;
        let mut request = LockRequest { queue: self, own, in_the_way: None, failure: None };
        if !is_free || drew == DRAWS_FOR_OTHERS {
            // A task may have been waiting because this task was drawing its ticket.
            let woken = request.queue.wake(words).and_then(|entries| match is_free {
                true => Ok(true),
                false => request.hold_if_free(words, entries),
            });
            // From here on this task is in the queue. After an error, it leaves the queue at the end of the request.
            request.failure = woken.err();
        }
        Ok(request)
    }

    /// Releases the lock, or ends the wait for it, and wakes the tasks that can now proceed.
    ///
    /// # Errors
    /// The target is dead.
    pub(super) fn leave(&self, words: &mut impl Words) -> Result<()> {
        self.write(words, Entry(OUT))?;
        let less = AtomicOp::FetchAdd(ONE_MORE.wrapping_neg());
        let before = words.rmw(self.at, less)?;
        if before & (NEXT_TICKET - 1) == ONE_MORE { Ok(()) } else { self.wake(words).map(drop) }
    }

    /// Wakes the waiting tasks that can now proceed, and returns the words that it has read.
    fn wake(&self, words: &mut impl Words) -> Result<Vec<Entry>> {
        let entries = self.read(words)?;
        let waiting = self.tasks.iter().zip(&entries).filter(|(_, entry)| entry.waits());
        for (&task, &entry) in waiting {
            if task == self.tasks[self.own as usize] || self.in_the_way(words, &entries, entry).is_some() {
                continue;
            }
            if entry.needs_message() || words.are_far() {
                // An error is ignored: a task that no message can reach no longer waits.
                let _ = words.send_wake(task);
            } else {
                words.ring(task)?;
            }
        }
        Ok(entries)
    }

    /// A live task that the task of entry `of` has to wait for. Clears the words of dead tasks that the task of `of` would have to wait
    /// for.
    fn in_the_way(&self, words: &mut impl Words, entries: &[Entry], of: Entry) -> Option<TaskId> {
        let in_the_way = |entry: &Entry| *entry != of && entry.is_in_the_way_of(of);
        let mut found = None;
        for (rank, &entry) in entries.iter().enumerate().filter(|(_, entry)| in_the_way(entry)) {
            if words.has_ended(self.tasks[rank].task) {
                let wipe = AtomicOp::CompareSwap { expected: entry.0, new: OUT };
                // If this fails, the next look finds the word again.
                let _ = words.rmw(self.word_of(rank), wipe);
            } else {
                found = Some(self.tasks[rank].task);
            }
        }
        found
    }

    fn word_of(&self, rank: usize) -> RemoteAddress {
        self.at.plus((WORD_BYTES * (1 + rank)) as u64)
    }

    /// Stores this task's word, and returns the word before.
    fn write(&self, words: &mut impl Words, own: Entry) -> Result<Entry> {
        words.rmw(self.word_of(self.own as usize), AtomicOp::Swap(own.0)).map(Entry)
    }

    /// Asks the tasks that drew in `entries` to wake the others. Returns whether all of them still drew.
    fn wait_for_draws(&self, words: &mut impl Words, entries: &[Entry]) -> Result<bool> {
        let mut still_draw = true;
        for (rank, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.0 == DRAWS) {
            let mark = AtomicOp::CompareSwap { expected: entry.0, new: DRAWS_FOR_OTHERS.0 };
            let before = Entry(words.rmw(self.word_of(rank), mark)?);
            still_draw &= before.state() == DRAWS;
        }
        Ok(still_draw)
    }

    /// The words of all tasks.
    fn read(&self, words: &mut impl Words) -> Result<Vec<Entry>> {
        let mut entries = vec![0; self.tasks.len()];
        // SeqCst: pairs with itself in other tasks. It separates a task's store of its own word from its loads of the others' words, so
        // that of any two tasks at least one sees the other's word.
        fence(Ordering::SeqCst);
        words.read(self.word_of(0), &mut entries)?;
        // SeqCst: pairs with the holder's change of its word (`write`). What the previous holder stored under the lock is visible once its
        // word has been read.
        fence(Ordering::SeqCst);
        Ok(entries.into_iter().map(Entry).collect())
    }
}

/// A lock that a task waits for, or holds.
#[derive(Debug)]
pub(super) struct LockRequest {
    queue: LockQueue,
    own: Entry,
    /// A task that conflicted at the last look.
    in_the_way: Option<TaskId>,
    failure: Option<Error>,
}

impl LockRequest {
    /// Takes the lock if that is possible; returns whether the wait is over: this task has the lock, or the request has failed
    /// ([`end`](Self::end)).
    pub(super) fn look(&mut self, words: &mut impl Words) -> bool {
        if !self.own.waits() || self.failure.is_some() {
            return true;
        }
        self.try_to_hold(words).unwrap_or_else(|error| {
            self.failure = Some(error);
            true
        })
    }

    /// Like [`look`](Self::look), in one turn; also notes the conflicting task for the report of a hang.
    pub(super) fn look_and_tell<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) -> bool {
        let is_over = self.look(context);
        context.handlers_mut().waits_for_lock_of = self.in_the_way;
        is_over
    }

    /// A task that conflicted at the last look.
    pub(super) fn in_the_way(&self) -> Option<TaskId> {
        self.in_the_way
    }

    fn try_to_hold(&mut self, words: &mut impl Words) -> Result<bool> {
        let entries = self.queue.read(words)?;
        self.hold_if_free(words, entries)
    }

    /// Takes the lock if `entries` allow it. They must have been read after this task stored its own word.
    fn hold_if_free(&mut self, words: &mut impl Words, mut entries: Vec<Entry>) -> Result<bool> {
        loop {
            self.in_the_way = self.queue.in_the_way(words, &entries, self.own);
            if self.in_the_way.is_none() {
                break;
            }
            if self.queue.wait_for_draws(words, &entries)? {
                return Ok(false);
            }
            entries = self.queue.read(words)?;
        }
        self.own = Entry::new(self.own.ticket(), self.own.state() & ALONE | HOLDS);
        self.queue.write(words, self.own)?;
        Ok(true)
    }

    /// Ends the wait: the lock is taken, or this task leaves the queue.
    ///
    /// # Errors
    /// The error of the wait, or of the request.
    pub(super) fn end(self, words: &mut impl Words, waited: Result<()>) -> Result<()> {
        let failed = waited.err().or(self.failure);
        match failed {
            None => Ok(()),
            Some(error) => {
                // The first error is more informative.
                let _ = self.queue.leave(words);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use am_core::task::ContextNumber;

    use super::*;

    fn entry(ticket: u64, state: u64) -> Entry {
        Entry::new(ticket, state)
    }

    #[test]
    fn who_came_earlier_is_in_the_way_unless_both_share() {
        let (shared, alone) = (entry(5, WAITS), entry(6, WAITS | ALONE));
        for earlier in [entry(4, HOLDS | ALONE), entry(3, WAITS | ALONE)] {
            assert!(earlier.is_in_the_way_of(shared) && earlier.is_in_the_way_of(alone));
        }
        for earlier in [entry(4, HOLDS), entry(3, WAITS)] {
            assert!(!earlier.is_in_the_way_of(shared) && earlier.is_in_the_way_of(alone));
        }
        for later in [entry(7, WAITS), entry(8, WAITS | ALONE), entry(9, HOLDS)] {
            assert!(!later.is_in_the_way_of(shared) && !later.is_in_the_way_of(alone));
        }
        assert!(!Entry(OUT).is_in_the_way_of(shared));
        assert!(entry(0, DRAWS).is_in_the_way_of(shared) && entry(0, DRAWS).is_in_the_way_of(alone));
    }

    type Step = Box<dyn FnOnce(&mut Here)>;

    /// The words of a queue, in this process.
    struct Here {
        words: Vec<u64>,
        far: bool,
        woken: Vec<Endpoint>,
        /// Called once, before the operation with this number.
        between: Option<(usize, Step)>,
        operations: usize,
    }

    fn index(at: RemoteAddress) -> usize {
        usize::try_from(at.offset).expect("the words are few") / WORD_BYTES
    }

    impl Here {
        fn next(&mut self) {
            if let Some((_, step)) = self.between.take_if(|(at, _)| *at == self.operations) {
                step(self);
            }
            self.operations += 1;
        }
    }

    impl Words for Here {
        fn rmw(&mut self, at: RemoteAddress, operation: AtomicOp) -> Result<u64> {
            self.next();
            let word = &mut self.words[index(at)];
            let before = *word;
            *word = match operation {
                AtomicOp::Swap(new) => new,
                AtomicOp::FetchAdd(more) => before.wrapping_add(more),
                AtomicOp::CompareSwap { expected, new } if expected == before => new,
                _ => before,
            };
            Ok(before)
        }

        fn read(&mut self, at: RemoteAddress, words: &mut [u64]) -> Result<()> {
            self.next();
            let first = index(at);
            words.copy_from_slice(&self.words[first..first + words.len()]);
            Ok(())
        }

        fn are_far(&self) -> bool {
            self.far
        }

        fn ring(&mut self, task: Endpoint) -> Result<()> {
            self.woken.push(task);
            Ok(())
        }

        fn send_wake(&mut self, task: Endpoint) -> Result<()> {
            self.woken.push(task);
            Ok(())
        }

        fn has_ended(&self, _: TaskId) -> bool {
            false
        }
    }

    /// The second task comes between any two steps of the first one. It holds the lock at once, or is woken when it can.
    #[test]
    fn who_waited_only_for_a_ticket_is_woken() {
        for (far, step) in [false, true].into_iter().flat_map(|far| (0..4).map(move |step| (far, step))) {
            let tasks: Arc<[Endpoint]> =
                [0, 1].map(|task| Endpoint::new(TaskId(task), ContextNumber(0))).into();
            let queue = |own| LockQueue {
                at: RemoteAddress::from_bytes([0; RemoteAddress::BYTES]),
                own,
                tasks: Arc::clone(&tasks),
            };
            let second = Rc::new(RefCell::new(None));
            let (arrived, its_queue) = (Rc::clone(&second), queue(1));
            let arrive: Step =
                Box::new(move |words| *arrived.borrow_mut() = its_queue.arrive(words, Lock::Shared).ok());
            let between = Some((step, arrive));
            let mut words = Here { words: vec![0; 3], far, woken: Vec::new(), between, operations: 0 };
            let mut first = queue(0).arrive(&mut words, Lock::Shared).expect("the words are here");
            if let Some((_, arrive)) = words.between.take() {
                arrive(&mut words);
            }
            let mut second = second.take().expect("the second task has arrived");
            let is_woken = words.woken.contains(&tasks[1]);
            assert!(!second.own.waits() || is_woken, "step {step}, far {far}: {:?}", words.words);
            assert!(first.look(&mut words) && second.look(&mut words));
        }
    }
}
