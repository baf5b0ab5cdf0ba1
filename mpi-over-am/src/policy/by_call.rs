//! A lock that a layer above takes in each of its calls: for the C interface.
//!
//! One instance of the engine serves programs whose calls must take the lock and programs whose calls need not: a flag, set when MPI starts
//! ([`ByCall::set_locking`]), is tested at the beginning of each call ([`Call::enter`]).

use std::cell::{Cell, RefCell, RefMut};
use std::fmt::Debug;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use am_core::fabric::Waker;
use am_core::record::{self, Event, EventKind};
use am_core::turns::{Part, Turn, Turns, Waiter};

use super::{LockPolicy, StateCell};

/// If locking is set ([`set_locking`](Self::set_locking)), each call of the layer above ([`Call`]) takes the process's lock, and each wait
/// releases it for threads that want it. A process has one environment of this kind at a time. The environment's objects are neither `Send`
/// nor `Sync`: the layer above must ensure that only one thread at a time uses them.
#[derive(Debug)]
pub struct ByCall;

/// The lock of the process.
static LOCK: Turns<()> = Turns::new(());
/// The additional work at the beginning and end of a call, a set of [`LOCKS`], [`REPORTS`] and [`RECORDS`]; and [`STOPPED`].
static EXTRAS: AtomicU8 = AtomicU8::new(STOPPED);
/// Each call takes the lock.
const LOCKS: u8 = 1;
/// The layer above is notified at the end of each call.
const REPORTS: u8 = 2;
/// Calls are passed to the recorder of the process.
const RECORDS: u8 = 4;
/// The layer above does not run: no call may skip [`Call::enter`].
const STOPPED: u8 = 8;
/// The function that runs at the end of a call.
static AT_END: Mutex<Option<fn()>> = Mutex::new(None);
/// Wakes the thread that has the lock, if it sleeps in a wait.
static WAKER: Mutex<Option<Waker>> = Mutex::new(None);

thread_local! {
    /// The outermost call ends the turn. A destructor that ended it would make each access check whether the destructor has run.
    static MINE: Mine = const { Mine { turn: Cell::new(None), calls: Cell::new(0) } };
}

/// The turn of a thread.
struct Mine {
    turn: Cell<Option<ManuallyDrop<Turn<'static, ()>>>>,
    /// Number of nested calls of the thread in this turn: a callback of the program may make calls.
    calls: Cell<u32>,
}

/// A call of the layer above, which ends when this value is dropped. Until then, its thread may use data that only one thread at a time may
/// use.
#[derive(Debug)]
pub struct Call {
    extras: u8,
}

impl Call {
    /// Whether a call that neither waits nor runs code of the program may skip [`enter`](Self::enter): the layer above runs
    /// ([`ByCall::set_running`]), and calls take no lock, and are neither recorded nor reported.
    #[inline(always)]
    #[must_use]
    pub fn is_plain() -> bool {
        // Relaxed: as in `enter`.
        EXTRAS.load(Ordering::Relaxed) == 0
    }

    /// Begins a call of `function`. If calls take the lock, waits until no other thread is in a call.
    #[inline(always)]
    #[must_use]
    pub fn enter(function: &str) -> Self {
        // Relaxed: the lock is enabled before a second thread makes calls, and the other bits may take effect at any later call.
        let extras = EXTRAS.load(Ordering::Relaxed);
        if extras != 0 {
            begin(extras, function);
        }
        Self { extras }
    }
}

impl Drop for Call {
    #[inline(always)]
    fn drop(&mut self) {
        if self.extras != 0 {
            end(self.extras);
        }
    }
}

#[cold]
fn begin(extras: u8, function: &str) {
    if extras & RECORDS != 0 {
        record::tell(&Event::plain(EventKind::Begin, function));
    }
    if extras & LOCKS == 0 {
        return;
    }
    MINE.with(|mine| {
        let calls = mine.calls.get();
        if calls == 0 {
            mine.turn.set(Some(ManuallyDrop::new(LOCK.enter(ring))));
        }
        mine.calls.set(calls + 1);
    });
}

#[cold]
fn end(extras: u8) {
    let is_inside = extras & LOCKS != 0 && end_locked();
    if extras & RECORDS != 0 {
        record::tell(&Event::plain(EventKind::End, ""));
    }
    if extras & REPORTS != 0 && !is_inside {
        let at_end = *AT_END.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at_end) = at_end {
            at_end();
        }
    }
}

/// Ends a call that has the lock; returns whether it was nested.
fn end_locked() -> bool {
    MINE.with(|mine| {
        let calls = mine.calls.get() - 1;
        mine.calls.set(calls);
        if calls == 0 {
            LOCK.end_call();
            drop(mine.turn.take().map(ManuallyDrop::into_inner));
        }
        calls > 0
    })
}

fn ring() {
    if let Some(wake) = &*WAKER.lock().unwrap_or_else(PoisonError::into_inner) {
        wake();
    }
}

fn set(extra: u8, is_wanted: bool) {
    if is_wanted {
        EXTRAS.fetch_or(extra, Ordering::Relaxed);
    } else {
        EXTRAS.fetch_and(!extra, Ordering::Relaxed);
    }
}

impl ByCall {
    /// Sets whether calls take the lock; effective from the next [`Call::enter`] on. Must be set before several threads make calls at once.
    /// Must not be called while another thread is in a call.
    pub fn set_locking(is_locking: bool) {
        set(LOCKS, is_locking);
    }

    /// Sets whether the layer above runs. Must be set only after everything that the layer's calls use has been made, and cleared before
    /// any of that is removed.
    pub fn set_running(is_running: bool) {
        set(STOPPED, !is_running);
    }

    /// Runs code of the program (a callback) in a call of the layer above, and releases the lock of the process meanwhile. Other threads
    /// and the code itself may make calls, so the caller must not have borrowed anything that another call needs.
    #[inline]
    pub fn outside<R>(code: impl FnOnce() -> R) -> R {
        if !Self::takes_turns() {
            return code();
        }
        let _back = CallsBack(MINE.with(|mine| {
            LOCK.end_call();
            drop(mine.turn.take().map(ManuallyDrop::into_inner));
            mine.calls.take()
        }));
        code()
    }

    /// From now on, passes calls to the recorder of this process if there is one.
    pub(crate) fn look_at_recorder() {
        set(RECORDS, record::is_on());
    }

    /// Sets the function that runs at the end of each call that begins from now on, when the thread is outside all calls and has no lock;
    /// `None`: no function. The function may make calls.
    pub fn at_end_of_calls(told: Option<fn()>) {
        *AT_END.lock().unwrap_or_else(PoisonError::into_inner) = told;
        set(REPORTS, told.is_some());
    }
}

/// When dropped, takes the lock again if it was released (the number is not 0), and restores the thread's number of nested calls.
struct CallsBack(u32);

impl Drop for CallsBack {
    fn drop(&mut self) {
        if self.0 > 0 {
            MINE.with(|mine| {
                mine.turn.set(Some(ManuallyDrop::new(LOCK.enter(ring))));
                mine.calls.set(self.0);
            });
        }
    }
}

impl LockPolicy for ByCall {
    type Cell<T: Debug> = CallCell<T>;
    type Field<T: Debug> = RefCell<T>;
    type Mark = ();

    #[inline(always)]
    fn takes_turns() -> bool {
        EXTRAS.load(Ordering::Relaxed) & LOCKS != 0
    }
}

/// A value that calls of the layer above use one at a time.
#[derive(Debug)]
pub struct CallCell<T>(RefCell<T>);

/// A turn with the value. `None` only while [`StateCell::pass`] or [`StateCell::outside`] has given it up.
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

/// When dropped, even by a panic of the program's code, borrows the value again.
struct Back<'a, 'h, T> {
    cell: &'a RefCell<T>,
    held: &'h mut Held<'a, T>,
}

impl<T> Drop for Back<'_, '_, T> {
    fn drop(&mut self) {
        self.held.0 = Some(self.cell.borrow_mut());
    }
}

impl<T> CallCell<T> {
    /// Ends the turn of a call that is not nested; `next` returns the call's next turn.
    fn between_turns<'a>(
        &'a self,
        held: &mut Held<'a, T>,
        next: impl FnOnce(Turn<'static, ()>) -> Turn<'static, ()>,
    ) {
        held.0 = None;
        MINE.with(|mine| {
            if mine.calls.get() == 1
                && let Some(turn) = mine.turn.take()
            {
                mine.turn.set(Some(ManuallyDrop::new(next(ManuallyDrop::into_inner(turn)))));
            }
        });
        // This cannot panic: every other call ends its borrow before it releases the lock.
        held.0 = Some(self.0.borrow_mut());
    }
}

impl<T: Debug> StateCell<T> for CallCell<T> {
    type Held<'a>
        = Held<'a, T>
    where
        T: 'a;

    type Brief<'a>
        = RefMut<'a, T>
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
    fn enter_briefly(&self) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }

    #[inline(always)]
    fn is_wanted(&self) -> bool {
        LOCK.is_wanted()
    }

    /// A nested call keeps the lock, unless the call is made by a callback ([`ByCall::outside`]).
    #[cold]
    fn pass<'a>(&'a self, held: &mut Held<'a, T>) {
        self.between_turns(held, |turn| {
            drop(turn);
            LOCK.give_way();
            LOCK.enter(ring)
        });
    }

    fn part(&self, waiter: &mut Waiter) -> Part {
        // A nested call cannot give its turn up.
        if MINE.with(|mine| mine.calls.get()) == 1 { LOCK.part(waiter) } else { Part::Polls }
    }

    fn leave(&self, waiter: &mut Waiter) {
        LOCK.leave(waiter);
    }

    fn has_poller(&self) -> bool {
        LOCK.has_poller()
    }

    fn after_sleep(&self, waiter: &mut Waiter, has_happened: bool) {
        LOCK.after_sleep(waiter, has_happened);
    }

    fn tell_sleepers(&self) {
        LOCK.tell_sleepers();
    }

    #[cold]
    fn sleep<'a>(&'a self, held: &mut Held<'a, T>) {
        self.between_turns(held, |turn| LOCK.sleep(turn, ring));
    }

    /// Ends the borrow while `code` runs. The call keeps the lock of the process; the layer above releases the lock around a callback of
    /// the program ([`ByCall::outside`]).
    fn outside<'a, R>(&'a self, held: &mut Held<'a, T>, code: impl FnOnce() -> R) -> R {
        held.0 = None;
        let _back = Back { cell: &self.0, held };
        code()
    }
}
