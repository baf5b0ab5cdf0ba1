//! What belongs to one thread at a time, for several threads that take turns.

use std::sync::atomic::{AtomicUsize, Ordering};

use am_core::fabric::Fabric;
use am_core::turns::{self, Turns};

use crate::shared::Inside;

/// What may go from thread to thread as a whole, though its parts may not one by one.
///
/// # Safety
/// A value of the type is tied to no thread, and nothing outside of it shares with it what may not be shared among threads: no
/// other handle on what it counts references of exists when it is given to an [`InTurns`], and none leaves a turn.
pub(crate) unsafe trait Isolated {}

// SAFETY: an environment, its communicators and its windows share what they count with each other only, and all of them are in here:
// `SharedEnvironment::of` puts them there as soon as the environment has been made; the modules of `shared` give none of them out
// (what their calls return is `Send`), and callbacks of the program get none. What lies below them is the fabric, which may change threads by itself, and memory of the
// process: also that of windows, which no thread reaches but in its turn.
unsafe impl<F: Fabric + Send> Isolated for Inside<F> {}

/// A value for one thread at a time, whichever that is.
#[derive(Debug)]
pub(crate) struct InTurns<T> {
    turns: Turns<Whole<T>>,
    /// Which thread has its turn; 0: none.
    owner: AtomicUsize,
}

#[derive(Debug)]
struct Whole<T>(T);

// SAFETY: the value may go as a whole, which is what `Isolated` promises; and it is reached through the lock only, by one thread
// after the other, which the lock orders.
unsafe impl<T: Isolated> Send for Whole<T> {}

/// A thread's turn. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a, T> {
    turn: turns::Turn<'a, Whole<T>>,
    owner: &'a AtomicUsize,
}

impl<T> InTurns<T> {
    /// Nobody's turn yet.
    pub(crate) fn new(value: T) -> Self {
        Self { turns: Turns::new(Whole(value)), owner: AtomicUsize::new(0) }
    }

    /// The calling thread's turn; `None` if it has one already. `wake` wakes a thread that sleeps during its turn.
    pub(crate) fn enter(&self, wake: impl Fn()) -> Option<Turn<'_, T>> {
        // Relaxed: only this thread stores its own number.
        if self.owner.load(Ordering::Relaxed) == this_thread() {
            return None;
        }
        let turn = self.turns.enter(wake);
        self.owner.store(this_thread(), Ordering::Relaxed);
        Some(Turn { turn, owner: &self.owner })
    }

    /// Whether a thread waits for its turn.
    pub(crate) fn is_wanted(&self) -> bool {
        self.turns.is_wanted()
    }

    /// Lets those have their turn who wait for it. The caller has none.
    pub(crate) fn give_way(&self) {
        self.turns.give_way();
    }
}

impl<T> Turn<'_, T> {
    /// The value, during the turn.
    pub(crate) fn value(&mut self) -> &mut T {
        &mut self.turn.0
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

/// A number of the calling thread, never 0: the address of something that each thread has its own of.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}
