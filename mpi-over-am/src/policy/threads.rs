//! Any number of threads: one lock.

use std::fmt::{self, Debug};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use am_core::fabric::Waker;
use am_core::turns::{Part, Turn, Turns, Waiter};

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

/// A thread's turn. `None` only while [`StateCell::pass`], [`StateCell::sleep`] or [`StateCell::outside`] has given it up.
#[derive(Debug)]
pub struct Held<'a, T: Debug> {
    turn: Option<Turn<'a, T>>,
    cell: &'a InTurns<T>,
}

impl<'a, T: Debug> Held<'a, T> {
    /// Takes the turn out.
    fn give_up(&mut self) -> Option<Turn<'a, T>> {
        self.cell.owner.store(0, Ordering::Relaxed);
        self.turn.take()
    }

    /// The next turn has begun.
    fn resume(&mut self, turn: Turn<'a, T>) {
        self.cell.owner.store(this_thread(), Ordering::Relaxed);
        self.turn = Some(turn);
    }
}

impl<T: Debug> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if self.turn.is_some() {
            self.cell.turns.end_call();
            self.give_up();
        }
    }
}

impl<T: Debug> Deref for Held<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.turn.as_ref().expect("a thread uses the value during its turn")
    }
}

impl<T: Debug> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.turn.as_mut().expect("a thread uses the value during its turn")
    }
}

impl<T: Debug> InTurns<T> {
    fn next_turn(&self) -> Turn<'_, T> {
        self.turns.enter(|| (self.waker)())
    }

    fn take(&self) -> Held<'_, T> {
        let mut held = Held { turn: None, cell: self };
        held.resume(self.next_turn());
        held
    }
}

/// When dropped, even by a panic of the program's code, waits for the thread's next turn.
struct Back<'a, 'h, T: Debug> {
    cell: &'a InTurns<T>,
    held: &'h mut Held<'a, T>,
}

impl<T: Debug> Drop for Back<'_, '_, T> {
    fn drop(&mut self) {
        self.held.resume(self.cell.next_turn());
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
        drop(held.give_up());
        self.turns.give_way();
        held.resume(self.next_turn());
    }

    fn part(&self, waiter: &mut Waiter) -> Part {
        self.turns.part(waiter)
    }

    fn leave(&self, waiter: &mut Waiter) {
        self.turns.leave(waiter);
    }

    fn has_poller(&self) -> bool {
        self.turns.has_poller()
    }

    fn after_sleep(&self, waiter: &mut Waiter, has_happened: bool) {
        self.turns.after_sleep(waiter, has_happened);
    }

    fn tell_sleepers(&self) {
        self.turns.tell_sleepers();
    }

    fn sleep<'a>(&'a self, held: &mut Held<'a, T>) {
        if let Some(turn) = held.give_up() {
            held.resume(self.turns.sleep(turn, || (self.waker)()));
        }
    }

    fn outside<'a, R>(&'a self, held: &mut Held<'a, T>, code: impl FnOnce() -> R) -> R {
        self.turns.end_call();
        drop(held.give_up());
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
