//! The lock of a target: a queue in the target's control memory that each task reads and changes by itself, without the target and
//! without any other task.
//!
//! The first word counts tickets, and the tasks that are in the queue. Then each task has a word: whether it waits or holds, how, and its
//! ticket. A task may go on if no task with an earlier ticket is in its way, which each sees for itself (Lamport's bakery). So the lock
//! is granted in order of arrival; tasks that share it go on together between two that do not. A task says that it is about to draw a
//! ticket before it draws one; until it has written it down the others wait for it, since it may be an earlier one.
//!
//! A task that leaves, or has written its ticket down, rings those that may go on now. No step leaves the queue in a state that another
//! task has to repair: the word of a task whose process has ended is wiped by whoever finds it in its way.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use am_core::buffer::RemoteAddress;
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::handler::HandlerSet;
use am_core::task::{Endpoint, TaskId};
use am_core::{Context, GetOptions};

use super::Lock;
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;

const WORD_BYTES: usize = 8;

/// The first word: how many tasks are in the queue, and above that the next ticket. A task that has died in the queue stays counted,
/// which costs those who come later a look at all words, and nothing else.
const ONE_MORE: u64 = 1;
const IN_QUEUE_BITS: u32 = 20;
const NEXT_TICKET: u64 = 1 << IN_QUEUE_BITS;

/// The word of a task: its state, and above that its ticket.
const STATE_BITS: u32 = 3;
const OUT: u64 = 0;
const DRAWS: u64 = 1;
const WAITS: u64 = 2;
const HOLDS: u64 = 4;
/// With [`WAITS`] or [`HOLDS`]: alone.
const ALONE: u64 = 1;

/// What a task's word says.
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

    fn is_alone(self) -> bool {
        self.has_ticket() && self.state() & ALONE != 0
    }

    /// Whether this entry keeps `other`, which has a ticket, from going on.
    fn is_in_the_way_of(self, other: Self) -> bool {
        let is_earlier = self.has_ticket() && self.ticket() < other.ticket();
        self.state() == DRAWS || is_earlier && (self.is_alone() || other.is_alone())
    }
}

/// How the words of a queue are reached.
pub(super) trait Words {
    fn rmw(&mut self, at: RemoteAddress, operation: AtomicOp) -> Result<u64>;
    fn read(&mut self, at: RemoteAddress, words: &mut [u64]) -> Result<()>;
    fn ring(&mut self, task: Endpoint) -> Result<()>;
    fn has_ended(&self, task: TaskId) -> bool;
}

/// In one turn.
impl<F: Fabric, H: HandlerSet> Words for Context<F, H> {
    fn rmw(&mut self, at: RemoteAddress, operation: AtomicOp) -> Result<u64> {
        Ok(self.rmw(at, Width::Bits64, operation)?)
    }

    fn read(&mut self, at: RemoteAddress, words: &mut [u64]) -> Result<()> {
        Ok(self.get(at, bytemuck::cast_slice_mut::<u64, u8>(words), GetOptions::default())?)
    }

    fn ring(&mut self, task: Endpoint) -> Result<()> {
        Ok(self.ring(task)?)
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.has_ended(task)
    }
}

/// The queue for the lock of one target.
#[derive(Clone, Debug)]
pub(super) struct LockQueue {
    /// Where its words are.
    pub(super) at: RemoteAddress,
    /// This task's rank.
    pub(super) own: u32,
    /// The tasks of the window, by rank.
    pub(super) tasks: Arc<[Endpoint]>,
}

impl LockQueue {
    /// Bytes of the words of a queue of so many tasks.
    pub(super) fn bytes(tasks: u32) -> usize {
        WORD_BYTES * (1 + tasks as usize)
    }

    /// Draws a ticket. The lock is taken when [`LockRequest::look`] says so.
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
        let own = Entry::new(ticket, alone | if is_free { HOLDS } else { WAITS });
        self.write(words, own)?;
        let request = LockRequest { queue: self, own, in_the_way: None, failure: None };
        if !is_free {
            // One that could not go on because this task was drawing its ticket.
            request.queue.wake(words)?;
        }
        Ok(request)
    }

    /// Gives the lock back, or the wait for it up, and wakes those that may go on.
    ///
    /// # Errors
    /// The target is dead.
    pub(super) fn leave(&self, words: &mut impl Words) -> Result<()> {
        self.write(words, Entry(OUT))?;
        let less = AtomicOp::FetchAdd(ONE_MORE.wrapping_neg());
        let before = words.rmw(self.at, less)?;
        if before & (NEXT_TICKET - 1) == ONE_MORE { Ok(()) } else { self.wake(words) }
    }

    /// Rings the tasks that wait and that no other one is in the way of.
    fn wake(&self, words: &mut impl Words) -> Result<()> {
        let entries = self.read(words)?;
        let waiting = self.tasks.iter().zip(&entries).filter(|(_, entry)| entry.waits());
        for (&task, &entry) in waiting {
            if task != self.tasks[self.own as usize] && self.in_the_way(words, &entries, entry).is_none() {
                words.ring(task)?;
            }
        }
        Ok(())
    }

    /// A task that lives and is in the way of an entry. Words of the dead that would be are wiped.
    fn in_the_way(&self, words: &mut impl Words, entries: &[Entry], of: Entry) -> Option<TaskId> {
        let in_the_way = |entry: &Entry| *entry != of && entry.is_in_the_way_of(of);
        let mut found = None;
        for (rank, &entry) in entries.iter().enumerate().filter(|(_, entry)| in_the_way(entry)) {
            if words.has_ended(self.tasks[rank].task) {
                let wipe = AtomicOp::CompareSwap { expected: entry.0, new: OUT };
                // If it fails, the next look finds the word there again.
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

    fn write(&self, words: &mut impl Words, own: Entry) -> Result<()> {
        words.rmw(self.word_of(self.own as usize), AtomicOp::Swap(own.0))?;
        Ok(())
    }

    /// The words of all tasks.
    fn read(&self, words: &mut impl Words) -> Result<Vec<Entry>> {
        let mut entries = vec![0; self.tasks.len()];
        // Ordering: between this task's store of its own word and its look at the others', as in each other task, so that of two tasks
        // at least one sees the other's.
        fence(Ordering::SeqCst);
        words.read(self.word_of(0), &mut entries)?;
        // Ordering: what the task before has done under the lock is seen after its word.
        fence(Ordering::SeqCst);
        Ok(entries.into_iter().map(Entry).collect())
    }
}

/// A lock that a task waits for, or has.
#[derive(Debug)]
pub(super) struct LockRequest {
    queue: LockQueue,
    own: Entry,
    /// A task that was in the way at the last look.
    in_the_way: Option<TaskId>,
    failure: Option<Error>,
}

impl LockRequest {
    /// Whether the wait is over: the lock is this task's, or the request has failed ([`end`](Self::end)).
    pub(super) fn look(&mut self, words: &mut impl Words) -> bool {
        if !self.own.waits() {
            return true;
        }
        self.try_to_hold(words).unwrap_or_else(|error| {
            self.failure = Some(error);
            true
        })
    }

    /// Like [`look`](Self::look), in one turn, which has a hang report say whom the task waits for.
    pub(super) fn look_and_tell<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>) -> bool {
        let is_over = self.look(context);
        context.handlers_mut().waits_for_lock_of = self.in_the_way;
        is_over
    }

    fn try_to_hold(&mut self, words: &mut impl Words) -> Result<bool> {
        let entries = self.queue.read(words)?;
        self.in_the_way = self.queue.in_the_way(words, &entries, self.own);
        if self.in_the_way.is_some() {
            return Ok(false);
        }
        self.own = Entry::new(self.own.ticket(), self.own.state() & ALONE | HOLDS);
        self.queue.write(words, self.own)?;
        Ok(true)
    }

    /// Ends the wait: the lock is taken, or nothing is left in the queue.
    ///
    /// # Errors
    /// What the wait ended with, or the request.
    pub(super) fn end(self, words: &mut impl Words, waited: Result<()>) -> Result<()> {
        let failed = waited.err().or(self.failure);
        match failed {
            None => Ok(()),
            Some(error) => {
                // The first error tells more.
                let _ = self.queue.leave(words);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
}
