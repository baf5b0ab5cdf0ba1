//! The helper thread: carries out work that keeps a thread in the system, one piece after the other, while the program goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use am_core::fabric::Waker;

use crate::error::{Error, Result};
use crate::message::status::Status;

/// A piece of work; its result is that of the request. It must not make MPI calls.
pub(crate) type Work = Box<dyn FnOnce() -> Result<Status> + Send>;

/// The thread of an environment. It starts with the first piece of work, and ends when this value is dropped, after the last one.
#[derive(Debug, Default)]
pub(crate) struct HelperThread {
    work: Option<Sender<(Work, Outcome)>>,
    thread: Option<JoinHandle<()>>,
}

/// What becomes of a piece of work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    result: Mutex<Progress>,
    is_over: Condvar,
}

#[derive(Debug, Default)]
enum Progress {
    #[default]
    UnderWay,
    Over(Result<Status>),
    Taken,
}

impl HelperThread {
    /// Passes a piece of work to the thread, which rings the caller when it has done the work.
    ///
    /// # Errors
    /// [`Error::Thread`]: the thread cannot be started.
    pub(crate) fn carry_out(&mut self, work: Work, waker: impl FnOnce() -> Waker) -> Result<Outcome> {
        let outcome = Outcome::default();
        let to_thread = match &self.work {
            Some(to_thread) => to_thread,
            None => self.start(waker())?,
        };
        // The thread lives as long as the sender, so the send does not fail.
        let _ = to_thread.send((work, outcome.clone()));
        Ok(outcome)
    }

    #[cold]
    fn start(&mut self, waker: Waker) -> Result<&Sender<(Work, Outcome)>> {
        let (to_thread, all_work) = channel::<(Work, Outcome)>();
        let run = move || {
            for (work, outcome) in all_work {
                // Unwind safety: the work owns what it uses, and is gone afterwards.
                let result = catch_unwind(AssertUnwindSafe(work));
                outcome.end(result.unwrap_or_else(|_| {
                    let error = std::io::Error::other("it has panicked, with the message on standard error");
                    Err(Error::Thread { error })
                }));
                waker();
            }
        };
        let started = std::thread::Builder::new().name("mpi files".to_owned()).spawn(run);
        self.thread = Some(started.map_err(|error| Error::Thread { error })?);
        Ok(self.work.insert(to_thread))
    }
}

impl Drop for HelperThread {
    fn drop(&mut self) {
        // Without a sender, the thread ends when it has done its work.
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches the panics of its work.
            let _ = thread.join();
        }
    }
}

impl Outcome {
    fn result(&self) -> MutexGuard<'_, Progress> {
        self.0.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: Result<Status>) {
        *self.result() = Progress::Over(result);
        self.0.is_over.notify_all();
    }

    /// Whether the work is done.
    pub(crate) fn is_over(&self) -> bool {
        !matches!(*self.result(), Progress::UnderWay)
    }

    /// The result of work that is done; `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<Result<Status>> {
        match std::mem::replace(&mut *self.result(), Progress::Taken) {
            Progress::Over(result) => Some(result),
            Progress::UnderWay | Progress::Taken => None,
        }
    }

    /// Waits until the work is done, without progress: for a caller that returns memory that the work uses.
    pub(crate) fn wait(&self) {
        let mut progress = self.result();
        while matches!(*progress, Progress::UnderWay) {
            progress = self.0.is_over.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_order_while_the_caller_goes_on() {
        let (to_work, held) = channel::<()>();
        let (woken, wakes) = channel();
        let woken = Mutex::new(woken);
        let waker: Waker = Arc::new(move || woken.lock().unwrap().send(()).unwrap());
        let mut thread = HelperThread::default();
        let mut carry_out = |work: Work| thread.carry_out(work, || Arc::clone(&waker)).unwrap();
        let first = carry_out(Box::new(move || {
            held.recv().unwrap();
            Ok(Status::new(0, 0, 1))
        }));
        let second = carry_out(Box::new(|| panic!("a panic of the test")));
        let third = carry_out(Box::new(|| Err(Error::Finalized)));
        // The first piece waits for the test, and the others wait for it.
        assert!(!first.is_over() && !second.is_over() && !third.is_over());
        to_work.send(()).unwrap();
        (0..3).for_each(|_| wakes.recv().unwrap());
        assert_eq!(first.take().unwrap().unwrap().len(), 1);
        assert!(matches!(second.take(), Some(Err(Error::Thread { .. }))));
        third.wait();
        assert!(matches!(third.take(), Some(Err(Error::Finalized))) && third.take().is_none());
    }
}
