//! Any number of threads: one lock.

use std::fmt::{self, Debug};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use am_core::fabric::Waker;
use am_core::turns::{self, Turns};

use super::{Field, LockPolicy, StateCell};

/// Any thread may make calls, at any time (`MPI_THREAD_MULTIPLE`; MPI 5.0 section 11.6). All calls take one lock, which a waiting call
/// releases to threads that want it. The objects of an environment with this policy are `Send` and `Sync`.
#[derive(Debug)]
pub struct Threads;

impl LockPolicy for Threads {
    type Cell<T: Debug> = InTurns<T>;
    type Field<T: Debug> = Mutex<T>;
    type Mark = ();

    #[inline(always)]
    fn takes_turns() -> bool {
        true
    }
}

/// A value that threads use one at a time.
pub struct InTurns<T> {
    turns: Turns<T>,
    /// The thread whose turn it is; 0: none.
    owner: AtomicUsize,
    waker: Waker,
}

impl<T: Debug> Debug for InTurns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InTurns").field("turns", &self.turns).finish_non_exhaustive()
    }
}

/// A thread's turn. `None` only while [`StateCell::pass`] or [`StateCell::outside`] has given it up.
#[derive(Debug)]
pub struct Held<'a, T>(Option<Owned<'a, T>>);

#[derive(Debug)]
struct Owned<'a, T> {
    turn: turns::Turn<'a, T>,
    owner: &'a AtomicUsize,
}

impl<T> Drop for Owned<'_, T> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0.as_ref().expect("a thread uses the value during its turn").turn
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.as_mut().expect("a thread uses the value during its turn").turn
    }
}

impl<T> InTurns<T> {
    fn take(&self) -> Held<'_, T> {
        let turn = self.turns.enter(|| (self.waker)());
        self.owner.store(this_thread(), Ordering::Relaxed);
        Held(Some(Owned { turn, owner: &self.owner }))
    }
}

/// When dropped, even by a panic of the program's code, waits for the thread's next turn.
struct Back<'a, 'h, T> {
    cell: &'a InTurns<T>,
    held: &'h mut Held<'a, T>,
}

impl<T> Drop for Back<'_, '_, T> {
    fn drop(&mut self) {
        *self.held = self.cell.take();
    }
}

impl<T: Debug> StateCell<T> for InTurns<T> {
    type Held<'a>
        = Held<'a, T>
    where
        T: 'a;

    type Brief<'a>
        = Held<'a, T>
    where
        T: 'a;

    fn new(state: T, waker: Waker) -> Self {
        Self { turns: Turns::new(state), owner: AtomicUsize::new(0), waker }
    }

    fn enter(&self) -> Option<Held<'_, T>> {
        // Relaxed: only this thread stores its own number.
        (self.owner.load(Ordering::Relaxed) != this_thread()).then(|| self.take())
    }

    fn enter_briefly(&self) -> Option<Held<'_, T>> {
        self.enter()
    }

    #[inline(always)]
    fn is_wanted(&self) -> bool {
        self.turns.is_wanted()
    }

    fn pass<'a>(&'a self, held: &mut Held<'a, T>) {
        held.0 = None;
        self.turns.give_way();
        *held = self.take();
    }

    fn outside<'a, R>(&'a self, held: &mut Held<'a, T>, code: impl FnOnce() -> R) -> R {
        held.0 = None;
        let _back = Back { cell: self, held };
        code()
    }
}

impl<T: Debug> Field<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A number of the calling thread, never 0: the address of a thread-local variable.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}
