//! The progress thread: it sleeps until a message arrives, and handles the message while the program computes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use am_core::fabric::{Fabric, NO_SPIN, Waker};

use crate::error::{Error, Result};
use crate::message::state::State;
use crate::message::turn::Turn;
use crate::policy::{LockPolicy, StateCell};

/// Time after which a thread that waits for the end of the progress thread wakes the progress thread again.
const RING_AGAIN: Duration = Duration::from_micros(50);

/// The progress thread of an environment. The thread ends when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct ProgressThread(Mutex<Option<RunningThread>>);

/// A running progress thread, to be stopped by a thread that is not in a call of the environment.
pub struct RunningThread {
    is_on: Arc<AtomicBool>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl std::fmt::Debug for RunningThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningThread").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl ProgressThread {
    /// Starts the thread, if it is not running. The thread runs `serve`, which must return when its flag becomes false.
    ///
    /// # Errors
    /// [`Error::Thread`]: the thread cannot be started.
    pub(crate) fn start(&self, waker: Waker, serve: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<()> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Ok(());
        }
        let is_on = Arc::new(AtomicBool::new(true));
        let keep_on = Arc::clone(&is_on);
        let started =
            std::thread::Builder::new().name("mpi progress".to_owned()).spawn(move || serve(&keep_on));
        let thread = started.map_err(|error| Error::Thread { error })?;
        *running = Some(RunningThread { is_on, waker, thread });
        Ok(())
    }

    /// Whether the thread is running.
    pub(crate) fn is_on(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes the running thread, which the caller must stop.
    pub(crate) fn take(&self) -> Option<RunningThread> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops the thread, and waits for its end.
    pub(crate) fn stop(&self) {
        if let Some(running) = self.take() {
            running.stop();
        }
    }
}

impl RunningThread {
    /// Stops the thread, and waits for its end. The calling thread must not be in a call of the environment, which would keep the progress
    /// thread from ending.
    pub fn stop(self) {
        let Self { is_on, waker, thread } = self;
        // Release: pairs with the Acquire in `serve`, so that the thread sees earlier stores.
        is_on.store(false, Ordering::Release);
        while !thread.is_finished() {
            waker();
            std::thread::sleep(RING_AGAIN);
        }
        // Ignored: the thread can only have panicked because a handler did, and the panic was printed to standard error.
        let _ = thread.join();
    }
}

impl Drop for ProgressThread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Makes progress, and sleeps while nothing arrives, until `is_on` is false or an error occurs. A thread of the program that waits for long
/// makes the progress itself, and notes what it waits for.
pub(crate) fn serve<F: Fabric, L: LockPolicy>(shared: &L::Cell<State<F>>, is_on: &AtomicBool) {
    let Ok(mut turn) = Turn::<F, L>::enter(shared) else { return };
    while is_on.load(Ordering::Acquire) {
        if shared.has_poller() {
            turn.sleep();
            continue;
        }
        let served = turn.take_in().and_then(|()| {
            // A thread that wants a turn wakes this thread again and again, until this thread gives up its turn. Spinning here would take
            // the processor from the program.
            if shared.is_wanted() { Ok(()) } else { Ok(turn.context.rest(&mut { NO_SPIN })?) }
        });
        if let Err(error) = served {
            turn.handlers().defer(error);
            return;
        }
        turn.pass();
    }
}
