//! Passive targets: locks and flushes (MPI 5.0 section 12.5.3). A lock is a word in the target's memory, taken by atomic
//! operations; the target takes no part.

use am_core::fabric::{AtomicOp, Fabric, Width};

use super::epoch::refused;
use super::{Assertion, LOCK, Window};
use crate::error::{Error, Result};
use crate::rank::PROC_NULL;

/// How a window is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// With others who share it (`MPI_LOCK_SHARED`).
    Shared,
    /// Alone (`MPI_LOCK_EXCLUSIVE`).
    Exclusive,
}

/// Beside it stands how many share the lock.
const EXCLUSIVE: u64 = 1 << 63;

impl<F: Fabric> Window<F> {
    /// Begins to use the window of `rank` (`MPI_Win_lock`). Waits until no lock is in the way.
    ///
    /// # Errors
    /// It is locked by this task, or another epoch is open; an unknown rank or promise; the death of a task.
    pub fn lock(&self, lock: Lock, rank: u32, promise: Assertion) -> Result<()> {
        promise.only("Window::lock", Assertion::NO_CHECK)?;
        if rank == PROC_NULL {
            return Ok(());
        }
        self.check_rank(rank)?;
        self.epochs.borrow_mut().begin_lock("Window::lock", rank)?;
        let is_taken = !promise.has(Assertion::NO_CHECK);
        if is_taken {
            self.take_lock(lock, rank)?;
        }
        self.epochs.borrow_mut().locks.insert(rank, (lock, is_taken));
        Ok(())
    }

    /// Ends the use of the window of `rank`: all is in place there (`MPI_Win_unlock`).
    ///
    /// # Errors
    /// It is not locked; the death of a task.
    pub fn unlock(&self, rank: u32) -> Result<()> {
        if rank == PROC_NULL {
            return Ok(());
        }
        self.check_rank(rank)?;
        let held = self.epochs.borrow_mut().locks.remove(&rank);
        let (lock, is_taken) =
            held.ok_or_else(|| refused("Window::unlock", "the rank is not locked", i64::from(rank)))?;
        self.flush_puts()?;
        if is_taken { self.give_lock(lock, rank) } else { Ok(()) }
    }

    /// Begins to use all windows, with others (`MPI_Win_lock_all`).
    ///
    /// # Errors
    /// Another epoch is open; an unknown promise; the death of a task.
    pub fn lock_all(&self, promise: Assertion) -> Result<()> {
        promise.only("Window::lock_all", Assertion::NO_CHECK)?;
        self.epochs.borrow().check_no_lock("Window::lock_all")?;
        self.epochs.borrow_mut().begin_lock("Window::lock_all", PROC_NULL)?;
        let is_taken = !promise.has(Assertion::NO_CHECK);
        if is_taken {
            for rank in 0..self.communicator.size() {
                self.take_lock(Lock::Shared, rank)?;
            }
        }
        self.epochs.borrow_mut().locked_all = Some(is_taken);
        Ok(())
    }

    /// Ends the use of all windows: all is in place there (`MPI_Win_unlock_all`).
    ///
    /// # Errors
    /// They are not locked; the death of a task.
    pub fn unlock_all(&self) -> Result<()> {
        let locked = self.epochs.borrow_mut().locked_all.take();
        let is_taken = locked
            .ok_or_else(|| refused("Window::unlock_all", "nothing is locked", i64::from(self.rank())))?;
        self.flush_puts()?;
        if is_taken {
            for rank in 0..self.communicator.size() {
                self.give_lock(Lock::Shared, rank)?;
            }
        }
        Ok(())
    }

    /// Waits until what was put to `rank` is in place (`MPI_Win_flush`).
    ///
    /// # Errors
    /// It is not locked; an unknown rank; the death of a task.
    pub fn flush(&self, rank: u32) -> Result<()> {
        if rank == PROC_NULL {
            return Ok(());
        }
        self.check_rank(rank)?;
        self.epochs.borrow().check_locked("Window::flush", Some(rank))?;
        self.flush_puts()
    }

    /// Waits until all that was put is in place (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// Nothing is locked; the death of a task.
    pub fn flush_all(&self) -> Result<()> {
        self.epochs.borrow().check_locked("Window::flush_all", None)?;
        self.flush_puts()
    }

    /// The origin's memory is free again (`MPI_Win_flush_local`): so it is when each call returns.
    ///
    /// # Errors
    /// It is not locked; an unknown rank.
    pub fn flush_local(&self, rank: u32) -> Result<()> {
        if rank == PROC_NULL {
            return Ok(());
        }
        self.check_rank(rank)?;
        self.epochs.borrow().check_locked("Window::flush_local", Some(rank))
    }

    /// The origin's memory is free again (`MPI_Win_flush_local_all`): so it is when each call returns.
    ///
    /// # Errors
    /// Nothing is locked.
    pub fn flush_local_all(&self) -> Result<()> {
        self.epochs.borrow().check_locked("Window::flush_local_all", None)
    }

    /// Makes this task's own loads and stores and those of others agree (`MPI_Win_sync`). Makes progress.
    ///
    /// # Errors
    /// Nothing is locked; what progress reports.
    pub fn sync(&self) -> Result<()> {
        self.epochs.borrow().check_locked("Window::sync", None)?;
        // Ordering: pairs with the same fence of the task on the other side of a flag; both copies of the window are one.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.communicator.state()?.context.probe()?;
        Ok(())
    }

    pub(super) fn check_rank(&self, rank: u32) -> Result<()> {
        let size = self.communicator.size();
        if rank < size { Ok(()) } else { Err(Error::UnknownRank { rank, size }) }
    }

    fn take_lock(&self, lock: Lock, rank: u32) -> Result<()> {
        loop {
            let is_taken = match lock {
                Lock::Exclusive => {
                    self.on_control(rank, LOCK, AtomicOp::CompareSwap { expected: 0, new: EXCLUSIVE })? == 0
                }
                Lock::Shared => {
                    let found = self.on_control(rank, LOCK, AtomicOp::FetchAdd(1))?;
                    let is_free = found & EXCLUSIVE == 0;
                    if !is_free {
                        self.on_control(rank, LOCK, AtomicOp::FetchAdd(1u64.wrapping_neg()))?;
                    }
                    is_free
                }
            };
            if is_taken {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    fn give_lock(&self, lock: Lock, rank: u32) -> Result<()> {
        // Somebody who tries to share may have counted up meanwhile: only what was added is taken away.
        let held = match lock {
            Lock::Exclusive => EXCLUSIVE,
            Lock::Shared => 1,
        };
        self.on_control(rank, LOCK, AtomicOp::FetchAdd(held.wrapping_neg())).map(|_| ())
    }

    /// An atomic operation on a word of a task's control memory. Makes progress.
    pub(super) fn on_control(&self, rank: u32, offset: u64, operation: AtomicOp) -> Result<u64> {
        let at = self.peers[rank as usize].control.plus(offset);
        Ok(self.communicator.state()?.context.rmw(at, Width::Bits64, operation)?)
    }
}

impl super::Epochs {
    pub(super) fn check_no_lock(&self, call: &'static str) -> Result<()> {
        if self.locks.is_empty() { Ok(()) } else { Err(refused(call, "a rank is locked", -1)) }
    }
}
