//! Passive target: locks and flushes (MPI 5.0 section 12.5.3). A lock is a queue in the target's memory ([`LockQueue`]), and needs no
//! action of the target.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use am_core::buffer::RemoteAddress;
use am_core::fabric::{AtomicOp, Fabric, Width};
use am_core::task::{Endpoint, TaskId};

use super::epoch::{Held, refused};
use super::queue::{Lock, LockRequest, Words};
use super::transfer::Piece;
use super::{Assertion, LOCKED, LockQueue, PUTS, Window};
use crate::error::{Error, Result};
use crate::policy::{Field, LockPolicy};
use crate::rank::PROC_NULL;

/// Longest time between two looks at words that are far ([`Words::are_far`]): a conflicting task that dies wakes no other task.
const LOOK_FOR_DEAD_EVERY: Duration = Duration::from_millis(500);

impl<F: Fabric, L: LockPolicy> Window<F, L> {
    /// Locks the window of `rank` (`MPI_Win_lock`). Waits until no conflicting lock is held; locks are granted in the order of the
    /// requests, consecutive shared ones together. Locks and requests of dead tasks are ignored.
    ///
    /// # Errors
    /// The window is locked by this task, or another epoch is open; an unknown rank or promise; the death of a task.
    pub fn lock(&self, lock: Lock, rank: u32, promise: Assertion) -> Result<()> {
        self.begin_lock(rank, promise)?;
        let taken = if needs_lock(rank, promise) { self.take_lock(lock, rank) } else { Ok(()) };
        self.end_lock(rank, taken.is_ok().then_some(promise));
        taken
    }

    /// The beginning of [`lock`](Self::lock): checks the arguments, and begins an epoch that awaits the lock.
    pub(crate) fn begin_lock(&self, rank: u32, promise: Assertion) -> Result<()> {
        promise.only("Window::lock", Assertion::NO_CHECK)?;
        if rank == PROC_NULL {
            return Ok(());
        }
        self.check_rank(rank)?;
        self.change_epochs(|epochs| {
            epochs.begin_lock("Window::lock", Some(rank))?;
            epochs.set_lock(rank, Some(Held::Awaited));
            Ok(())
        })
    }

    /// The end of [`lock`](Self::lock). `promise` is `None` if the lock was not taken.
    pub(crate) fn end_lock(&self, rank: u32, promise: Option<Assertion>) {
        if rank != PROC_NULL {
            let held = promise.map(held);
            self.epochs.with(|epochs| epochs.set_lock(rank, held));
        }
    }

    /// Unlocks the window of `rank`. When the call returns, all operations are complete there (`MPI_Win_unlock`).
    ///
    /// # Errors
    /// The window is not locked; the death of a task.
    pub fn unlock(&self, rank: u32) -> Result<()> {
        let held = self.begin_unlock(rank)?;
        let given = self.flush_puts().and_then(|()| if held { self.give_lock(rank) } else { Ok(()) });
        self.end_lock(rank, None);
        given
    }

    /// The beginning of [`unlock`](Self::unlock). Returns whether a lock has to be released.
    pub(crate) fn begin_unlock(&self, rank: u32) -> Result<bool> {
        if rank == PROC_NULL {
            return Ok(false);
        }
        self.check_rank(rank)?;
        self.epochs.with(|epochs| {
            let held = epochs.lock_of(rank).and_then(was_taken);
            let held = held.ok_or_else(|| {
                refused(
                    "Window::unlock",
                    "the rank is not locked: lock it first; the value is the rank",
                    i64::from(rank),
                )
            })?;
            // Until the lock is released, another thread cannot ask for it.
            epochs.set_lock(rank, Some(Held::Awaited));
            Ok(held)
        })
    }

    /// Locks the windows of all ranks, shared (`MPI_Win_lock_all`).
    ///
    /// # Errors
    /// Another epoch is open; an unknown promise; the death of a task.
    pub fn lock_all(&self, promise: Assertion) -> Result<()> {
        let ranks = self.begin_lock_all(promise)?;
        let taken = ranks.into_iter().try_for_each(|rank| self.take_lock(Lock::Shared, rank));
        self.end_lock_all(taken.is_ok().then_some(promise));
        taken
    }

    /// The beginning of [`lock_all`](Self::lock_all). Returns the ranks whose locks have to be taken, shared.
    pub(crate) fn begin_lock_all(&self, promise: Assertion) -> Result<Range<u32>> {
        promise.only("Window::lock_all", Assertion::NO_CHECK)?;
        self.change_epochs(|epochs| {
            epochs.check_no_lock("Window::lock_all")?;
            epochs.begin_lock("Window::lock_all", None)?;
            epochs.locked_all = Some(Held::Awaited);
            Ok::<_, Error>(())
        })?;
        Ok(0..if promise.has(Assertion::NO_CHECK) { 0 } else { self.communicator.size() })
    }

    /// The end of [`lock_all`](Self::lock_all). `promise` is `None` if the locks were not taken.
    pub(crate) fn end_lock_all(&self, promise: Option<Assertion>) {
        self.change_epochs(|epochs| epochs.locked_all = promise.map(held));
    }

    /// Unlocks the windows of all ranks. When the call returns, all operations are complete there (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    /// The windows are not locked; the death of a task.
    pub fn unlock_all(&self) -> Result<()> {
        let mut ranks = self.begin_unlock_all()?;
        let given = self.flush_puts().and_then(|()| ranks.try_for_each(|rank| self.give_lock(rank)));
        self.end_lock_all(None);
        given
    }

    /// The beginning of [`unlock_all`](Self::unlock_all). Returns the ranks whose locks have to be released.
    pub(crate) fn begin_unlock_all(&self) -> Result<Range<u32>> {
        let held = self.change_epochs(|epochs| {
            let held = epochs.locked_all.and_then(was_taken);
            if held.is_some() {
                epochs.locked_all = Some(Held::Awaited);
            }
            held
        });
        let held = held.ok_or_else(|| {
            refused(
                "Window::unlock_all",
                "not all ranks are locked: call lock_all first; the value is this task's rank",
                i64::from(self.rank()),
            )
        })?;
        Ok(0..if held { self.communicator.size() } else { 0 })
    }

    /// Waits until all puts to `rank` are stored (`MPI_Win_flush`).
    ///
    /// # Errors
    /// The window is not locked; an unknown rank; the death of a task.
    pub fn flush(&self, rank: u32) -> Result<()> {
        if self.try_flush(rank) || rank == PROC_NULL {
            return Ok(());
        }
        self.check_flush(Some(rank))?;
        self.flush_puts()
    }

    /// The fast path of [`flush`](Self::flush): whether there is nothing to wait for. It may return false at any time.
    #[inline(always)]
    pub fn try_flush(&self, rank: u32) -> bool {
        if rank as usize >= self.peers.len() {
            return false;
        }
        let is_locked = match self.brief.load(Ordering::Relaxed) & (LOCKED | PUTS) {
            LOCKED => true,
            0 => self.epochs.with(|epochs| epochs.is_locked(rank)),
            _ => false,
        };
        if !is_locked {
            return false;
        }
        self.communicator.state_briefly().is_some_and(|mut state| state.may_skip_progress())
    }

    /// Refuses a flush of a rank that is not locked, or of all ranks if none is locked.
    pub(crate) fn check_flush(&self, rank: Option<u32>) -> Result<()> {
        rank.map_or(Ok(()), |rank| self.check_rank(rank))?;
        self.epochs.with(|epochs| epochs.check_locked("Window::flush", rank))
    }

    /// Waits until all puts are stored (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// Nothing is locked; the death of a task.
    pub fn flush_all(&self) -> Result<()> {
        self.check_flush(None)?;
        self.flush_puts()
    }

    /// Returns when the origin's memory may be reused (`MPI_Win_flush_local`). This is already so when a put or get returns, so the call
    /// only checks its arguments.
    ///
    /// # Errors
    /// The window is not locked; an unknown rank.
    pub fn flush_local(&self, rank: u32) -> Result<()> {
        if rank == PROC_NULL {
            return Ok(());
        }
        self.check_rank(rank)?;
        self.epochs.with(|epochs| epochs.check_locked("Window::flush_local", Some(rank)))
    }

    /// Returns when the origin's memory may be reused (`MPI_Win_flush_local_all`). This is already so when a put or get returns, so the
    /// call only checks that something is locked.
    ///
    /// # Errors
    /// Nothing is locked.
    pub fn flush_local_all(&self) -> Result<()> {
        self.epochs.with(|epochs| epochs.check_locked("Window::flush_local_all", None))
    }

    /// Synchronizes this task's loads and stores with those of other tasks (`MPI_Win_sync`). Makes progress.
    ///
    /// # Errors
    /// Nothing is locked; an error while making progress.
    pub fn sync(&self) -> Result<()> {
        self.epochs.with(|epochs| epochs.check_locked("Window::sync", None))?;
        // SeqCst: pairs with this fence in another task, if one of the two tasks sets a flag in memory and the other reads it. The public
        // and the private copy of the window are the same memory.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.communicator.state()?.take_in()
    }

    pub(super) fn check_rank(&self, rank: u32) -> Result<()> {
        let size = self.communicator.size();
        if rank < size { Ok(()) } else { Err(Error::UnknownRank { rank, size }) }
    }

    fn take_lock(&self, lock: Lock, rank: u32) -> Result<()> {
        // Reports the error of an earlier call before this task asks for the lock.
        drop(self.communicator.state()?);
        let mut words = InTurns { window: self, are_far: false };
        let mut request = self.queue(rank).arrive(&mut words, lock)?;
        let waited = if words.are_far {
            self.wait_for_wakes(&mut request, &mut words)
        } else {
            self.communicator.wait_until(&mut |context| request.look_and_tell(context))
        };
        self.end_request(request, waited)
    }

    /// Waits for a lock whose words are far. Looks at them once for each message that wakes this task, and at intervals of
    /// [`LOOK_FOR_DEAD_EVERY`].
    fn wait_for_wakes(&self, request: &mut LockRequest, words: &mut InTurns<'_, F, L>) -> Result<()> {
        loop {
            let wakes = self.communicator.state()?.handlers().wakes;
            if request.look(words) {
                return Ok(());
            }
            let mut turn = self.communicator.state()?;
            turn.handlers().waits_for_lock_of = request.in_the_way();
            let looked = Instant::now();
            turn.wait_for(&mut |context| {
                context.handlers().wakes != wakes || looked.elapsed() >= LOOK_FOR_DEAD_EVERY
            })?;
        }
    }

    /// Ends the wait for a lock: the lock is taken, or this task leaves the queue.
    fn end_request(&self, request: LockRequest, waited: Result<()>) -> Result<()> {
        // `state_to_end` instead of `state`: the error of an earlier call must not keep this call from leaving the queue.
        let mut state = self.communicator.state_to_end().ok_or(Error::Nested)?;
        state.handlers().waits_for_lock_of = None;
        request.end(&mut state.context, waited)
    }

    /// Releases the lock of a rank.
    fn give_lock(&self, rank: u32) -> Result<()> {
        self.queue(rank).leave(&mut InTurns { window: self, are_far: false })
    }

    fn queue(&self, rank: u32) -> LockQueue {
        let at = self.peers[rank as usize].control.plus(super::control_bytes(self.flavor) as u64);
        LockQueue { at, own: self.rank(), tasks: Arc::clone(&self.endpoints) }
    }
}

/// Access to the words of a lock. While an operation on the words waits for the target's answer, other threads have their turns.
struct InTurns<'a, F: Fabric, L: LockPolicy> {
    window: &'a Window<F, L>,
    /// Whether an [`rmw`](Words::rmw) has had to wait for the target's answer.
    are_far: bool,
}

impl<F: Fabric, L: LockPolicy> Words for InTurns<'_, F, L> {
    fn rmw(&mut self, at: RemoteAddress, operation: AtomicOp) -> Result<u64> {
        // `state_to_end` instead of `state`: the error of an earlier call must not leave a change of the queue half done, because other
        // tasks would wait for the end of the change.
        let mut state = self.window.communicator.state_to_end().ok_or(Error::Nested)?;
        let begun = state.context.rmw_nonblocking(at, Width::Bits64, operation, None)?;
        match state.context.rmw_result(begun)? {
            Ok(word) => Ok(word),
            Err(begun) => {
                self.are_far = true;
                drop(state);
                self.window.communicator.wait_for_rmw(begun)
            }
        }
    }

    fn read(&mut self, at: RemoteAddress, words: &mut [u64]) -> Result<()> {
        let piece = Piece { to: at, len: size_of_val(words) };
        self.window.get_slice(words, std::slice::from_ref(&piece))
    }

    fn are_far(&self) -> bool {
        self.are_far
    }

    fn ring(&mut self, task: Endpoint) -> Result<()> {
        Words::ring(&mut self.window.communicator.state()?.context, task)
    }

    fn send_wake(&mut self, task: Endpoint) -> Result<()> {
        self.window.communicator.state()?.context.send_wake(task)
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.window.communicator.state_to_end().is_some_and(|state| state.context.has_ended(task))
    }
}

/// Whether a lock has to be taken.
pub(crate) fn needs_lock(rank: u32, promise: Assertion) -> bool {
    rank != PROC_NULL && !promise.has(Assertion::NO_CHECK)
}

/// The state of a lock that was granted.
fn held(promise: Assertion) -> Held {
    if promise.has(Assertion::NO_CHECK) { Held::Promised } else { Held::Taken }
}

/// Whether a granted lock has to be released; `None` if it was not granted.
fn was_taken(held: Held) -> Option<bool> {
    match held {
        Held::Awaited => None,
        Held::Promised => Some(false),
        Held::Taken => Some(true),
    }
}

impl super::Epochs {
    pub(super) fn check_no_lock(&self, call: &'static str) -> Result<()> {
        if self.has_locks() {
            Err(refused(call, "a single rank is locked: unlock it first; the value stands for all ranks", -1))
        } else {
            Ok(())
        }
    }
}
