//! The progress thread: it sleeps until a message comes, and has it handled, while the program computes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use am_core::fabric::{Fabric, Waker};

use super::{Inner, SharedEnvironment, WORLD};
use crate::error::{Error, Result};

/// Between two rings of a thread that waits for the end of the progress thread.
const RING_AGAIN: Duration = Duration::from_micros(50);

/// What is told to the progress thread, and by it.
#[derive(Debug, Default)]
pub(super) struct Control {
    is_on: AtomicBool,
    /// What it met last: for the next call that waits.
    met: Mutex<Option<Error>>,
}

impl Control {
    pub(super) fn take_error(&self) -> Option<Error> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops the thread, and waits for its end.
    pub(super) fn stop(&self, waker: &Waker, thread: JoinHandle<()>) {
        // Release, with the thread's Acquire: what was done before is done for it too.
        self.is_on.store(false, Ordering::Release);
        while !thread.is_finished() {
            waker();
            std::thread::sleep(RING_AGAIN);
        }
        // It panics where a handler does, which has been told to standard error.
        let _ = thread.join();
    }
}

impl<F: Fabric + Send + 'static> SharedEnvironment<F> {
    /// Starts or stops a thread that makes progress while no other thread waits: messages are handled while the program
    /// computes. Each then costs the waking of that thread. Off at first.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn set_progress_thread(&self, on: bool) -> Result<()> {
        if !on {
            self.shared.stop_progress_thread();
            return Ok(());
        }
        let mut thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return Ok(());
        }
        let inner = Arc::clone(&self.shared.inner);
        inner.progress.is_on.store(true, Ordering::Release);
        let started = std::thread::Builder::new().name("mpi progress".to_owned()).spawn(move || {
            if let Err(error) = serve(&inner) {
                *inner.progress.met.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        });
        *thread = Some(started.map_err(|error| Error::Thread { error })?);
        Ok(())
    }

    /// Whether a thread makes progress.
    #[must_use]
    pub fn has_progress_thread(&self) -> bool {
        // Relaxed: an answer to a question, which orders nothing.
        self.shared.inner.progress.is_on.load(Ordering::Relaxed)
    }
}

/// Makes progress, asleep most of the time, until it is told to stop.
fn serve<F: Fabric>(inner: &Inner<F>) -> Result<()> {
    let is_on = || inner.progress.is_on.load(Ordering::Acquire);
    while is_on() {
        let mut turn = inner.enter()?;
        turn.value().communicator(WORLD)?.state()?.wait_for(|_| !is_on() || inner.inside.is_wanted())?;
        drop(turn);
        inner.inside.give_way();
    }
    Ok(())
}
