//! Epochs of windows that several threads use: they are the task's.

use am_core::Context;
use am_core::buffer::JobBuffer;
use am_core::fabric::Fabric;

use super::ThreadedWindow;
use crate::collective::Collective;
use crate::communicator::Communicator;
use crate::error::Result;
use crate::group::Group;
use crate::handlers::MpiHandlers;
use crate::notes::Key;
use crate::shared::Waiting;
use crate::window::{Assertion, Lock, Window, needs_lock};

impl<F: Fabric> ThreadedWindow<F> {
    /// Waits until all is in place that any thread has put before.
    fn flush_puts(&self) -> Result<()> {
        let batches = self.with(Window::close_puts)?;
        if batches.is_empty() {
            return Ok(());
        }
        let are_placed =
            |context: &mut Context<F, MpiHandlers>| batches.iter().all(|batch| batch.is_placed(context));
        self.inner().wait_until(self.handle.number, are_placed, |_| Ok(())).map_err(Waiting::into_error)
    }

    /// Waits until all tasks have come here.
    pub(in crate::shared) fn meet(&self) -> Result<()> {
        let start = |inside: &Communicator<F>| inside.begin_collective_data(&Collective::Barrier);
        self.inner().carry_out(self.handle.number, start).map(|_| ())
    }

    fn receive_notes(&self, notes: Vec<Key>) -> Result<()> {
        notes.into_iter().try_for_each(|key| {
            let take =
                |context: &mut Context<F, MpiHandlers>| context.handlers_mut().notes.take(key).is_some();
            self.inner().wait_until(self.handle.number, take, |_| Ok(())).map_err(Waiting::into_error)
        })
    }

    /// Waits until a lock is taken.
    fn take_lock(&self, lock: Lock, rank: u32) -> Result<()> {
        let mut request = self.with(|window| window.request_lock(lock, rank))?;
        let waited = self.inner().wait_until(self.handle.number, |context| request.look(context), |_| Ok(()));
        self.with(|window| window.end_request(request, waited.map_err(Waiting::into_error)))
    }

    /// As [`Window::fence`]; one thread of each task calls it.
    ///
    /// # Errors
    /// As there.
    pub fn fence(&self, promise: Assertion) -> Result<()> {
        self.with(|window| window.check_fence(promise))?;
        self.flush_puts()?;
        self.meet()?;
        self.with(|window| {
            window.end_fence(promise);
            Ok(())
        })
    }

    /// As [`Window::post`].
    ///
    /// # Errors
    /// As there.
    pub fn post(&self, group: &Group, promise: Assertion) -> Result<()> {
        self.with(|window| window.post(group, promise))
    }

    /// As [`Window::start`].
    ///
    /// # Errors
    /// As there; another thread is about to start.
    pub fn start(&self, group: &Group, promise: Assertion) -> Result<()> {
        let (ranks, notes) = self.with(|window| window.begin_start(group, promise))?;
        let posted = self.receive_notes(notes);
        self.with(|window| {
            window.end_start(posted.is_ok().then_some(ranks));
            posted
        })
    }

    /// As [`Window::complete`].
    ///
    /// # Errors
    /// As there.
    pub fn complete(&self) -> Result<()> {
        let ranks = self.with(Window::begin_complete)?;
        self.flush_puts()?;
        self.with(|window| window.end_complete(&ranks))
    }

    /// As [`Window::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait(&self) -> Result<()> {
        let notes = self.with(Window::begin_wait)?;
        self.receive_notes(notes)
    }

    /// As [`Window::test`].
    ///
    /// # Errors
    /// As there.
    pub fn test(&self) -> Result<bool> {
        self.with(Window::test)
    }

    /// As [`Window::lock`]. The lock is the task's: any of its threads may use the rank, and one of them unlocks it.
    ///
    /// # Errors
    /// As there; another thread has locked the rank, or is about to.
    pub fn lock(&self, lock: Lock, rank: u32, promise: Assertion) -> Result<()> {
        self.with(|window| window.begin_lock(rank, promise))?;
        let taken = if needs_lock(rank, promise) { self.take_lock(lock, rank) } else { Ok(()) };
        self.with(|window| {
            window.end_lock(rank, taken.is_ok().then_some((lock, promise)));
            taken
        })
    }

    /// As [`Window::unlock`].
    ///
    /// # Errors
    /// As there.
    pub fn unlock(&self, rank: u32) -> Result<()> {
        let held = self.with(|window| window.begin_unlock(rank))?;
        self.flush_puts()?;
        self.with(|window| held.map_or(Ok(()), |_| window.give_lock(rank)))
    }

    /// As [`Window::lock_all`].
    ///
    /// # Errors
    /// As there; another thread has locked a rank, or is about to.
    pub fn lock_all(&self, promise: Assertion) -> Result<()> {
        let mut ranks = self.with(|window| window.begin_lock_all(promise))?;
        let taken = ranks.try_for_each(|rank| self.take_lock(Lock::Shared, rank));
        self.with(|window| {
            window.end_lock_all(taken.is_ok().then_some(promise));
            taken
        })
    }

    /// As [`Window::unlock_all`].
    ///
    /// # Errors
    /// As there.
    pub fn unlock_all(&self) -> Result<()> {
        let mut ranks = self.with(Window::begin_unlock_all)?;
        self.flush_puts()?;
        self.with(|window| ranks.try_for_each(|rank| window.give_lock(rank)))
    }

    /// Waits until what any thread has put so far is in place (`MPI_Win_flush`), also what was put to other ranks.
    ///
    /// # Errors
    /// As for [`Window::flush`].
    pub fn flush(&self, rank: u32) -> Result<()> {
        // Of nobody nothing is checked.
        self.with(|window| window.flush_local(rank))?;
        self.flush_puts()
    }

    /// Waits until what any thread has put so far is in place (`MPI_Win_flush_all`).
    ///
    /// # Errors
    /// As for [`Window::flush_all`].
    pub fn flush_all(&self) -> Result<()> {
        self.with(|window| window.check_flush(None))?;
        self.flush_puts()
    }

    /// As [`Window::flush_local`]: of what calls have returned from, the origin's memory is free already.
    ///
    /// # Errors
    /// As there.
    pub fn flush_local(&self, rank: u32) -> Result<()> {
        self.with(|window| window.flush_local(rank))
    }

    /// As [`Window::flush_local_all`].
    ///
    /// # Errors
    /// As there.
    pub fn flush_local_all(&self) -> Result<()> {
        self.with(Window::flush_local_all)
    }

    /// As [`Window::sync`].
    ///
    /// # Errors
    /// As there.
    pub fn sync(&self) -> Result<()> {
        self.with(Window::sync)
    }

    /// As [`Window::free`]: one thread of each task calls it. Other handles refuse every call from then on.
    ///
    /// # Errors
    /// As there; the window is gone already.
    pub fn free(&self) -> Result<Option<JobBuffer>> {
        let deleted = self.with(|window| {
            let deleted = window.begin_free();
            window.check_free().map(|()| deleted)
        })?;
        self.flush_puts()?;
        self.meet()?;
        let mut turn = self.inner().enter()?;
        let memory = turn.value().take_window(self.number)?.end_free()?;
        deleted.map(|()| memory)
    }
}
