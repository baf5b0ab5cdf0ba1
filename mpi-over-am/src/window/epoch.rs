//! Epochs: when a window may be used, and when its operations are complete (MPI 5.0 section 12.5).

use std::sync::atomic::Ordering;

use am_core::fabric::Fabric;

use super::{Batch, FENCED, LOCKED, Window};
use crate::error::{Error, ErrorClass, Result};
use crate::group::Group;
use crate::message::notes::Key;
use crate::policy::{Field, LockPolicy};

/// Promises of the program about an epoch (MPI 5.0 section 12.5.5), combined by `|`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assertion(u32);

impl Assertion {
    /// No promise.
    pub const NONE: Self = Self(0);
    /// For a lock: no conflicting lock is held. For a start: all tasks of the group have already called [`Window::post`], with the same
    /// promise (`MPI_MODE_NOCHECK`).
    pub const NO_CHECK: Self = Self(1);
    /// This task has not stored into its part (`MPI_MODE_NOSTORE`).
    pub const NO_STORE: Self = Self(2);
    /// No task will put into this task's part until the next fence or wait (`MPI_MODE_NOPUT`).
    pub const NO_PUT: Self = Self(4);
    /// The fence ends no epoch (`MPI_MODE_NOPRECEDE`).
    pub const NO_PRECEDE: Self = Self(8);
    /// The fence begins no epoch (`MPI_MODE_NOSUCCEED`).
    pub const NO_SUCCEED: Self = Self(16);

    /// Whether this set contains all promises of `other`.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Rejects promises that do not apply to a call.
    pub(super) fn only(self, call: &'static str, known: Self) -> Result<()> {
        if self.0 & !known.0 == 0 { Ok(()) } else { Err(unknown(call, i64::from(self.0))) }
    }
}

impl std::ops::BitOr for Assertion {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

fn unknown(call: &'static str, bits: i64) -> Error {
    Error::refused(
        ErrorClass::Assertion,
        call,
        "the call has no such promise; the value has a bit for each promise given",
        bits,
    )
}

/// The open epochs of this task.
#[derive(Debug)]
pub(super) struct Epochs {
    /// Whether the window is between two fences.
    fenced: bool,
    /// The ranks passed to [`Window::start`].
    started: Option<Vec<u32>>,
    /// The ranks passed to [`Window::post`], without those whose completion [`Window::test`] has already found.
    posted: Option<Vec<u32>>,
    /// Whether a thread waits in [`Window::start`].
    is_starting: bool,
    /// The locks of single ranks, by rank.
    locks: Box<[Option<Held>]>,
    /// Number of locks that are held or awaited.
    locked: u32,
    pub(super) locked_all: Option<Held>,
}

/// The state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A thread waits for the lock, or is releasing it.
    Awaited,
    /// The lock is not taken, because the program has promised that it is not needed.
    Promised,
    /// The lock is held.
    Taken,
}

impl Held {
    #[inline(always)]
    fn is_here(self) -> bool {
        self != Self::Awaited
    }
}

/// Whether a lock is held or promised.
#[inline(always)]
fn is_here(held: Option<Held>) -> bool {
    held.is_some_and(Held::is_here)
}

impl Epochs {
    /// No open epochs, for a window of this many tasks.
    pub(super) fn new(tasks: usize) -> Self {
        Self {
            fenced: false,
            started: None,
            posted: None,
            is_starting: false,
            locks: vec![None; tasks].into(),
            locked: 0,
            locked_all: None,
        }
    }

    /// The lock on a rank, which must be in the window.
    pub(super) fn lock_of(&self, rank: u32) -> Option<Held> {
        self.locks[rank as usize]
    }

    pub(super) fn set_lock(&mut self, rank: u32, held: Option<Held>) {
        let before = std::mem::replace(&mut self.locks[rank as usize], held);
        self.locked += u32::from(held.is_some());
        self.locked -= u32::from(before.is_some());
    }

    pub(super) fn has_locks(&self) -> bool {
        self.locked > 0
    }

    /// Whether this task may access the window of `rank`, which must exist.
    #[inline(always)]
    pub(super) fn is_open(&self, rank: u32) -> bool {
        self.fenced || self.is_locked(rank) || self.is_started(rank)
    }

    #[inline(always)]
    fn is_started(&self, rank: u32) -> bool {
        self.started.as_ref().is_some_and(|started| started.contains(&rank))
    }

    /// Rejects an access that [`is_open`](Self::is_open) does not allow.
    pub(super) fn check_access(&self, call: &'static str, rank: u32) -> Result<()> {
        if self.is_open(rank) {
            return Ok(());
        }
        let what = "no epoch is open for this rank: fence, start or lock first; the value is the rank";
        Err(refused(call, what, i64::from(rank)))
    }

    #[inline(always)]
    pub(super) fn is_locked(&self, rank: u32) -> bool {
        is_here(self.locked_all) || self.locks.get(rank as usize).is_some_and(|&held| is_here(held))
    }

    /// `handle`: the window's, for the message.
    pub(super) fn check_closed(&self, call: &'static str, handle: Option<i64>) -> Result<()> {
        let is_open = self.started.is_some()
            || self.is_starting
            || self.posted.is_some()
            || self.locked_all.is_some()
            || self.has_locks();
        if !is_open {
            return Ok(());
        }
        Err(refused(call, "an epoch of this window is open: end it first", handle))
    }

    /// Checks that a lock may begin: the rank must not be locked, and no epoch of [`Window::start`] or [`Window::lock_all`] may be open.
    /// Ends an epoch of fences.
    pub(super) fn begin_lock(&mut self, call: &'static str, rank: Option<u32>) -> Result<()> {
        let is_open = self.started.is_some()
            || self.is_starting
            || self.locked_all.is_some()
            || rank.is_some_and(|rank| self.lock_of(rank).is_some());
        if is_open {
            let rank = rank.map_or(-1, i64::from);
            return Err(refused(
                call,
                "the rank is locked, or another epoch is open: end it first; the value is the rank, or -1 for all",
                rank,
            ));
        }
        self.fenced = false;
        Ok(())
    }

    /// Rejects a flush outside a lock.
    #[inline]
    pub(super) fn check_locked(&self, call: &'static str, rank: Option<u32>) -> Result<()> {
        let is_locked = match rank {
            Some(rank) => self.is_locked(rank),
            None => {
                is_here(self.locked_all) || self.has_locks() && self.locks.iter().any(|&held| is_here(held))
            }
        };
        if is_locked {
            Ok(())
        } else {
            Err(refused(
                call,
                "nothing is locked: lock first; the value is the rank, or -1 for all",
                rank.map_or(-1, i64::from),
            ))
        }
    }
}

pub(super) fn refused(call: &'static str, what: &'static str, value: impl Into<Option<i64>>) -> Error {
    Error::refused(ErrorClass::RmaSync, call, what, value)
}

/// Note: a task has exposed its window.
const POSTED: i32 = -2;
/// Note: a task has completed its accesses.
const COMPLETED: i32 = -3;

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Changes the epochs, and copies those that are open for all ranks to `brief`.
    pub(super) fn change_epochs<R>(&self, change: impl FnOnce(&mut Epochs) -> R) -> R {
        self.epochs.with(|epochs| {
            let changed = change(epochs);
            // The bits are cleared first: a call that finds neither bit set looks at the epochs.
            self.brief.fetch_and(!(FENCED | LOCKED), Ordering::Relaxed);
            let fenced = if epochs.fenced { FENCED } else { 0 };
            let locked = if is_here(epochs.locked_all) { LOCKED } else { 0 };
            self.brief.fetch_or(fenced | locked, Ordering::Relaxed);
            changed
        })
    }

    /// Ends an epoch and begins another, for all tasks (`MPI_Win_fence`). Collective. When the call returns, the earlier operations of all
    /// tasks are complete.
    ///
    /// # Errors
    /// A lock or a start that is still open; an unknown promise; the death of a task.
    pub fn fence(&self, promise: Assertion) -> Result<()> {
        self.check_fence(promise)?;
        self.flush_puts()?;
        self.communicator.barrier()?;
        self.end_fence(promise);
        Ok(())
    }

    /// The checks of [`fence`](Self::fence).
    pub(crate) fn check_fence(&self, promise: Assertion) -> Result<()> {
        let known = Assertion::NO_STORE | Assertion::NO_PUT | Assertion::NO_PRECEDE | Assertion::NO_SUCCEED;
        promise.only("Window::fence", known)?;
        let handle = self.given_handle();
        self.epochs.with(|epochs| epochs.check_closed("Window::fence", handle))
    }

    /// The end of [`fence`](Self::fence), when all tasks have called it.
    pub(crate) fn end_fence(&self, promise: Assertion) {
        self.change_epochs(|epochs| epochs.fenced = !promise.has(Assertion::NO_SUCCEED));
    }

    /// Exposes this task's part to the tasks of a group, until [`wait`](Self::wait) (`MPI_Win_post`).
    ///
    /// # Errors
    /// The part is already exposed; a task that is not in the window; an unknown promise.
    pub fn post(&self, group: &Group, promise: Assertion) -> Result<()> {
        promise.only("Window::post", Assertion::NO_CHECK | Assertion::NO_STORE | Assertion::NO_PUT)?;
        let ranks = self.ranks_of("Window::post", group)?;
        if self.epochs.with(|epochs| epochs.posted.is_some()) {
            return Err(refused(
                "Window::post",
                "this task's part is already exposed: call wait first; the value is this task's rank",
                i64::from(self.rank()),
            ));
        }
        if !promise.has(Assertion::NO_CHECK) {
            self.send_notes(POSTED, &ranks)?;
        }
        self.epochs.with(|epochs| epochs.posted = Some(ranks));
        Ok(())
    }

    /// Begins an epoch in which this task may access the parts of a group's tasks. Waits until these tasks have exposed their parts
    /// (`MPI_Win_start`).
    ///
    /// # Errors
    /// Another epoch is open; a task that is not in the window; an unknown promise; the death of a task.
    pub fn start(&self, group: &Group, promise: Assertion) -> Result<()> {
        let (ranks, notes) = self.begin_start(group, promise)?;
        let posted = self.receive_notes(notes);
        self.end_start(posted.is_ok().then_some(ranks));
        posted
    }

    /// The beginning of [`start`](Self::start). Returns the group's ranks, and the notes to wait for.
    pub(crate) fn begin_start(&self, group: &Group, promise: Assertion) -> Result<(Vec<u32>, Vec<Key>)> {
        promise.only("Window::start", Assertion::NO_CHECK)?;
        let ranks = self.ranks_of("Window::start", group)?;
        let notes = if promise.has(Assertion::NO_CHECK) { Vec::new() } else { self.keys(POSTED, &ranks)? };
        let is_open = self.epochs.with(|epochs| {
            let is_open = epochs.started.is_some()
                || epochs.is_starting
                || epochs.locked_all.is_some()
                || epochs.has_locks();
            epochs.is_starting |= !is_open;
            is_open
        });
        if is_open {
            return Err(refused(
                "Window::start",
                "another epoch is open: end it first; the value is this task's rank",
                i64::from(self.rank()),
            ));
        }
        Ok((ranks, notes))
    }

    /// The end of [`start`](Self::start). `ranks` is `None` if the wait has failed.
    pub(crate) fn end_start(&self, ranks: Option<Vec<u32>>) {
        self.change_epochs(|epochs| {
            epochs.is_starting = false;
            epochs.fenced &= ranks.is_none();
            epochs.started = ranks;
        });
    }

    /// Ends the epoch of [`start`](Self::start): all operations are then complete at the targets (`MPI_Win_complete`).
    ///
    /// # Errors
    /// Nothing was started; the death of a task.
    pub fn complete(&self) -> Result<()> {
        let ranks = self.begin_complete()?;
        self.flush_puts()?;
        self.end_complete(&ranks)
    }

    /// The beginning of [`complete`](Self::complete). Returns the ranks that were passed to [`start`](Self::start).
    pub(crate) fn begin_complete(&self) -> Result<Vec<u32>> {
        let started = self.epochs.with(|epochs| epochs.started.take());
        started.ok_or_else(|| {
            refused(
                "Window::complete",
                "no epoch is open: call start first; the value is this task's rank",
                i64::from(self.rank()),
            )
        })
    }

    /// The end of [`complete`](Self::complete), when the operations are complete.
    pub(crate) fn end_complete(&self, ranks: &[u32]) -> Result<()> {
        self.send_notes(COMPLETED, ranks)
    }

    /// Waits until all tasks of the group have called [`complete`](Self::complete), and ends the exposure of this task's part
    /// (`MPI_Win_wait`).
    ///
    /// # Errors
    /// The part is not exposed; the death of a task.
    pub fn wait(&self) -> Result<()> {
        let notes = self.begin_wait()?;
        self.receive_notes(notes)
    }

    /// The beginning of [`wait`](Self::wait). Returns the notes to wait for.
    pub(crate) fn begin_wait(&self) -> Result<Vec<Key>> {
        let posted = self.epochs.with(|epochs| epochs.posted.take());
        let ranks = posted.ok_or_else(|| {
            refused(
                "Window::wait",
                "the part is not exposed: call post first; the value is this task's rank",
                i64::from(self.rank()),
            )
        })?;
        self.keys(COMPLETED, &ranks)
    }

    /// Like [`wait`](Self::wait), without waiting: returns whether the exposure has ended (`MPI_Win_test`). Makes progress.
    ///
    /// # Errors
    /// The part is not exposed; an error while making progress.
    pub fn test(&self) -> Result<bool> {
        let Some(mut ranks) = self.epochs.with(|epochs| epochs.posted.take()) else {
            return Err(refused(
                "Window::test",
                "the part is not exposed: call post first; the value is this task's rank",
                i64::from(self.rank()),
            ));
        };
        let looked = self.look_for_notes(COMPLETED, &mut ranks);
        if !matches!(looked, Ok(true)) {
            self.epochs.with(|epochs| epochs.posted = Some(ranks));
        }
        looked
    }

    /// Makes progress, and removes the ranks whose note has arrived; returns whether all have.
    fn look_for_notes(&self, tag: i32, ranks: &mut Vec<u32>) -> Result<bool> {
        let is_over = self.communicator.state()?.look(|state| {
            let mut known = Ok(());
            ranks.retain(|&rank| match self.key(tag, rank) {
                Ok(key) => state.handlers().notes.take(key).is_none(),
                Err(error) => {
                    known = Err(error);
                    true
                }
            });
            known.map(|()| ranks.is_empty().then_some(()))
        })?;
        Ok(is_over.is_some())
    }

    /// The ranks of a group's tasks in the window.
    fn ranks_of(&self, call: &'static str, group: &Group) -> Result<Vec<u32>> {
        let all: Vec<u32> = (0..group.size()).collect();
        let ranks = group.translate_ranks(&all, &self.communicator.group())?;
        ranks.into_iter().collect::<Option<_>>().ok_or_else(|| {
            let what = "the group has a task that is not in the window; the value is the group's size";
            Error::refused(ErrorClass::Group, call, what, i64::from(group.size()))
        })
    }

    fn keys(&self, tag: i32, ranks: &[u32]) -> Result<Vec<Key>> {
        ranks.iter().map(|&rank| self.key(tag, rank)).collect()
    }

    fn receive_notes(&self, notes: Vec<Key>) -> Result<()> {
        notes.into_iter().try_for_each(|key| {
            self.communicator.wait_until(&mut |context| context.handlers_mut().notes.take(key).is_some())
        })
    }

    fn key(&self, tag: i32, rank: u32) -> Result<Key> {
        let from = self.communicator.task_of(rank)?.0;
        Ok(Key { context_id: self.communicator.number(), tag, from })
    }

    fn send_notes(&self, tag: i32, ranks: &[u32]) -> Result<()> {
        let mut state = self.communicator.state()?;
        for &rank in ranks {
            let task = self.communicator.task_of(rank)?;
            state.send_note(task, (self.communicator.number(), tag), [0; 2])?;
        }
        Ok(())
    }

    /// Waits until all earlier puts are stored. Even without puts, some calls make progress, because the program may do nothing but poll
    /// memory.
    #[inline]
    pub(super) fn flush_puts(&self) -> Result<()> {
        let mut state = self.communicator.state()?;
        if self.puts.with(|puts| puts.are_placed(&state.context)) {
            return state.waited_for_nothing();
        }
        drop(state);
        self.wait_for_puts()
    }

    #[inline(never)]
    fn wait_for_puts(&self) -> Result<()> {
        let batches = self.close_puts()?;
        self.communicator.wait_until(&mut |context| batches.iter().all(|batch| batch.is_placed(context)))
    }

    /// Returns the batches of puts that a flush must wait for. Puts that start after this call are in none of them.
    ///
    /// # Errors
    /// Too many counters.
    pub(crate) fn close_puts(&self) -> Result<Vec<Batch>> {
        let mut state = self.communicator.state()?;
        self.puts.with(|puts| puts.close(&mut state.context))
    }
}
