//! The lock of a layer above, taken for the length of each of its calls: the C interface's.
//!
//! One instance of the engine serves both kinds of programs: whether there are several threads is a flag, set when MPI starts and
//! tested where a call of that layer begins ([`Call::enter`]).

use std::cell::{RefCell, RefMut};
use std::fmt::Debug;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use am_core::fabric::Waker;
use am_core::turns::{Turn, Turns};

use super::{LockPolicy, StateCell};

/// A layer above takes one lock of the process for each of its calls ([`Call`]), if there are several threads, and each wait gives it
/// up for the threads that want it. A process has one environment of this kind at a time. What is made from it is neither `Send` nor
/// `Sync`: the layer above promises that one thread at a time reaches it.
#[derive(Debug)]
pub struct ByCall;

/// The lock of the process.
static LOCK: Turns<()> = Turns::new(());
/// Whether there are several threads.
static IS_LOCKING: AtomicBool = AtomicBool::new(false);
/// Ends the sleep of a thread that waits with the lock.
static WAKER: Mutex<Option<Waker>> = Mutex::new(None);

thread_local! {
    /// This thread's turn, and how many of its calls are in it: a callback of the program may make calls. Without a destructor, which
    /// each access would have to look after: the end of the outermost call ends the turn.
    static MINE: RefCell<(Option<ManuallyDrop<Turn<'static, ()>>>, u32)> = const { RefCell::new((None, 0)) };
}

/// A call of the layer above: the right to reach what one thread at a time may reach. It ends when this is dropped.
#[derive(Debug)]
pub struct Call {
    is_locked: bool,
}

impl Call {
    /// Begins a call. Waits until no other thread is in one, if there are several.
    #[inline(always)]
    #[must_use]
    pub fn enter() -> Self {
        // Relaxed: set before there is a second thread.
        let is_locked = IS_LOCKING.load(Ordering::Relaxed);
        if is_locked {
            begin();
        }
        Self { is_locked }
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_locked {
            end();
        }
    }
}

#[cold]
fn begin() {
    MINE.with_borrow_mut(|(turn, depth)| {
        if *depth == 0 {
            *turn = Some(ManuallyDrop::new(LOCK.enter(ring)));
        }
        *depth += 1;
    });
}

#[cold]
fn end() {
    MINE.with_borrow_mut(|(turn, depth)| {
        *depth -= 1;
        if *depth == 0 {
            drop(turn.take().map(ManuallyDrop::into_inner));
        }
    });
}

fn ring() {
    if let Some(wake) = &*WAKER.lock().unwrap_or_else(PoisonError::into_inner) {
        wake();
    }
}

impl ByCall {
    /// Says whether there are several threads, from the next [`Call::enter`] on. Called where no other thread is in a call.
    pub fn set_locking(is_locking: bool) {
        IS_LOCKING.store(is_locking, Ordering::Relaxed);
    }
}

impl LockPolicy for ByCall {
    type Cell<T: Debug> = CallCell<T>;
    type Field<T: Debug> = RefCell<T>;

    #[inline(always)]
    fn takes_turns() -> bool {
        IS_LOCKING.load(Ordering::Relaxed)
    }
}

/// A value that calls of the layer above take turns with.
#[derive(Debug)]
pub struct CallCell<T>(RefCell<T>);

/// The right to the value. It is `None` only while [`StateCell::pass`] gives it up.
#[derive(Debug)]
pub struct Held<'a, T>(Option<RefMut<'a, T>>);

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("a call uses the value during its turn")
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a call uses the value during its turn")
    }
}

impl<T: Debug> StateCell<T> for CallCell<T> {
    type Held<'a>
        = Held<'a, T>
    where
        T: 'a;

    fn new(state: T, waker: Waker) -> Self {
        *WAKER.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
        Self(RefCell::new(state))
    }

    #[inline(always)]
    fn enter(&self) -> Option<Held<'_, T>> {
        self.0.try_borrow_mut().ok().map(|held| Held(Some(held)))
    }

    #[inline(always)]
    fn is_wanted(&self) -> bool {
        LOCK.is_wanted()
    }

    /// A call inside a callback of another one keeps the lock.
    #[cold]
    fn pass<'a>(&'a self, held: &mut Held<'a, T>) {
        held.0 = None;
        let turn = MINE.with_borrow_mut(|(turn, depth)| if *depth == 1 { turn.take() } else { None });
        if let Some(turn) = turn {
            drop(ManuallyDrop::into_inner(turn));
            LOCK.give_way();
            let turn = ManuallyDrop::new(LOCK.enter(ring));
            MINE.with_borrow_mut(|mine| mine.0 = Some(turn));
        }
        // Other calls have ended what they had borrowed when they give the lock up.
        held.0 = Some(self.0.borrow_mut());
    }
}
