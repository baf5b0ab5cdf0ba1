//! A value for one thread at a time: the base of [`SharedContext`](crate::shared::SharedContext) and of MPI for several threads.
//!
//! The value is behind a lock. A thread that waits for an operation (the poller) holds the lock while it polls and sleeps, on behalf of all
//! threads. A thread that wants the lock increments a count and rings the task's doorbell; the poller sees the count, and releases the lock
//! before it polls again. A ring just before the poller sleeps may be lost, so the thread rings until it has the lock. A thread may also
//! wait for the results of pollers without polling itself ([`sleep`](Turns::sleep)), and then takes the lock like any other thread.
//!
//! If several threads have waited for a while and nothing has happened, one of them polls for all. The others sleep, and look again when
//! that thread wakes them ([`part`](Turns::part)).

#[cfg(loom)]
use loom::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    sync::{Condvar, Mutex as PlainMutex},
    thread::yield_now,
};
#[cfg(not(loom))]
use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    sync::{Condvar, Mutex, Mutex as PlainMutex, MutexGuard},
    thread::yield_now,
};

#[cfg(loom)]
use model::{Mutex, MutexGuard};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long nothing happens in a task until all but one of its waiting threads sleep. Before that, each polls in its turns: to wake a
/// thread takes longer than a turn.
const AWAKE: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_millis(100) };
/// Attempts to take the lock between two rings. A loom model rings before each attempt.
const LOOKS_BETWEEN_RINGS: u32 = if cfg!(loom) { 1 } else { 50 };

/// A value, and the threads that want it.
#[derive(Debug)]
pub struct Turns<T> {
    value: Mutex<T>,
    /// Number of threads that found the lock taken and wait for it, or were told to look.
    wanting: AtomicUsize,
    /// Number of threads in [`sleep`](Self::sleep) that have not been told to look. Changed during turns only.
    sleeping: AtomicUsize,
    /// How often sleeping threads have been told to look. A thread in `sleep` holds this lock from before the end of its turn until it
    /// waits. The value's own lock would not do: the wait would end by taking that lock again without a ring, even if a poller sleeps
    /// with it.
    told: PlainMutex<u64>,
    /// Signalled when `told` changes.
    is_told: Condvar,
    /// Whether a thread polls for all. Changed during turns only.
    has_poller: AtomicBool,
    /// Number of turns in which a call has ended. Changed during turns only.
    calls_ended: AtomicUsize,
}

/// A thread's wait for something that may take long.
#[derive(Debug, Default)]
pub struct Waiter {
    /// The time since which nothing has happened, and [`Turns::calls_ended`] then.
    since: Option<(Instant, usize)>,
    polls_for_all: bool,
}

/// What a thread does in its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It polls in its turns.
    Polls,
    /// It polls, and sleeps in its turn. The other threads that wait sleep until it tells them to look.
    PollsForAll,
    /// It sleeps until another thread tells it to look ([`Turns::sleep`]).
    Sleeps,
}

/// A thread's turn with the value; dropping this ends the turn. If a thread panics during its turn, other threads can still use the value,
/// so a call that unwinds must have undone or finished its changes.
pub type Turn<'a, T> = MutexGuard<'a, T>;

impl<T> Turns<T> {
    /// A value that no thread uses yet.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            wanting: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            told: PlainMutex::new(0),
            is_told: Condvar::new(),
            has_poller: AtomicBool::new(false),
            calls_ended: AtomicUsize::new(0),
        }
    }

    /// Without `const`: parts of a model cannot be made at compile time.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            wanting: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            told: PlainMutex::new(0),
            is_told: Condvar::new(),
            has_poller: AtomicBool::new(false),
            calls_ended: AtomicUsize::new(0),
        }
    }

    /// Waits for the calling thread's turn. `ring` wakes a thread that sleeps during its turn, and may be called repeatedly. A thread in
    /// its turn must not call this: it would wait for itself.
    pub fn enter(&self, ring: impl Fn()) -> Turn<'_, T> {
        self.try_enter().unwrap_or_else(|| self.wait_for_turn(ring))
    }

    /// Returns the calling thread's turn, if no other thread has a turn.
    pub fn try_enter(&self) -> Option<Turn<'_, T>> {
        match self.value.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for_turn(&self, ring: impl Fn()) -> Turn<'_, T> {
        // SeqCst, like the load in `is_wanted`: a poller that is about to sleep sees the increment, or is rung after it has begun to sleep.
        self.wanting.fetch_add(1, Ordering::SeqCst);
        ring();
        self.wanted_turn(ring)
    }

    /// Waits for the turn of a thread that is among those that want one.
    fn wanted_turn(&self, ring: impl Fn()) -> Turn<'_, T> {
        let turn = loop {
            let mut looks = 0..LOOKS_BETWEEN_RINGS;
            let found = looks.find_map(|_| {
                yield_now();
                self.try_enter()
            });
            if let Some(turn) = found {
                break turn;
            }
            ring();
        };
        self.wanting.fetch_sub(1, Ordering::SeqCst);
        turn
    }

    /// Whether a thread waits for its turn. If so, the thread in its turn must not sleep.
    pub fn is_wanted(&self) -> bool {
        self.wanting.load(Ordering::SeqCst) > 0
    }

    /// Lets waiting threads have their turn. The caller must not have a turn itself.
    pub fn give_way(&self) {
        while self.is_wanted() {
            yield_now();
        }
    }

    /// Ends the turn of a poller that found nothing, and lets waiting threads have theirs. If no thread waits, the poller first sleeps, by
    /// `sleep`.
    pub fn rest(&self, mut turn: Turn<'_, T>, sleep: impl FnOnce(&mut T)) {
        if !self.is_wanted() {
            sleep(&mut turn);
        }
        drop(turn);
        self.give_way();
    }

    /// Tells the threads in [`sleep`](Self::sleep) to look, after progress was made. Must be called during the caller's turn, so that no
    /// thread misses it. From now on they want a turn: the next poller lets them in without being rung.
    pub fn tell_sleepers(&self) {
        // Relaxed: the turns order this load, the store below and the increment in `sleep`.
        let sleeping = self.sleeping.load(Ordering::Relaxed);
        if sleeping > 0 {
            self.sleeping.store(0, Ordering::Relaxed);
            self.wanting.fetch_add(sleeping, Ordering::SeqCst);
            // All threads that are counted wait, since this thread gets the lock `told`.
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.is_told.notify_all();
        }
    }

    /// Whether a thread polls for all.
    pub fn has_poller(&self) -> bool {
        self.has_poller.load(Ordering::Relaxed)
    }

    /// Notes, during a turn, that its call ends. What the call has found may be what another thread waits for: the thread that polls for
    /// all sees the note in its next turn.
    pub fn end_call(&self) {
        self.calls_ended.store(self.calls_ended.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// The part of a thread that has found nothing in its turn, in which it calls this.
    pub fn part(&self, waiter: &mut Waiter) -> Part {
        // If no other thread waits, the caller decides when it sleeps.
        if !self.is_wanted() && !self.has_poller() {
            return Part::Polls;
        }
        let ended = self.calls_ended.load(Ordering::Relaxed);
        match waiter.since {
            Some((since, seen)) if seen == ended => {
                if waiter.polls_for_all {
                    return Part::PollsForAll;
                }
                if since.elapsed() < AWAKE {
                    return Part::Polls;
                }
            }
            _ => {
                self.leave(waiter);
                waiter.since = Some((Instant::now(), ended));
                return Part::Polls;
            }
        }
        if self.has_poller() {
            return Part::Sleeps;
        }
        self.has_poller.store(true, Ordering::Relaxed);
        waiter.polls_for_all = true;
        Part::PollsForAll
    }

    /// For the thread that polls for all, after it has slept in its turn. If something has happened,
    /// perhaps to another thread, all threads look and then poll for a while. If nothing has happened, they look once, because a ring just
    /// before the sleep may have been lost.
    pub fn after_sleep(&self, waiter: &mut Waiter, has_happened: bool) {
        if has_happened {
            self.leave(waiter);
        } else {
            self.tell_sleepers();
        }
    }

    /// Ends a thread's wait, or its part in it, during its turn. If the thread has polled for all, the others look.
    pub fn leave(&self, waiter: &mut Waiter) {
        if std::mem::take(waiter).polls_for_all {
            self.has_poller.store(false, Ordering::Relaxed);
            self.tell_sleepers();
        }
    }

    /// Ends the turn until another thread tells its sleepers to look; then waits for the caller's turn, as [`enter`](Self::enter) does with
    /// `ring`.
    pub fn sleep<'a>(&'a self, turn: Turn<'a, T>, ring: impl Fn()) -> Turn<'a, T> {
        self.sleeping.fetch_add(1, Ordering::Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *told;
        drop(turn);
        while *told == before {
            told = self.is_told.wait(told).unwrap_or_else(PoisonError::into_inner);
        }
        drop(told);
        self.wanted_turn(ring)
    }
}

/// The lock in a model. Loom's own `try_lock` blocks if another thread takes the lock just before, so a flag is tested first.
#[cfg(loom)]
mod model {
    use std::ops::{Deref, DerefMut};
    use std::sync::{TryLockError, TryLockResult};

    use loom::sync;
    use loom::sync::atomic::{AtomicBool, Ordering};

    #[derive(Debug)]
    pub(super) struct Mutex<T>(AtomicBool, sync::Mutex<T>);

    #[derive(Debug)]
    pub struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>, &'a Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(AtomicBool::new(false), sync::Mutex::new(value))
        }

        fn take_flag(&self) -> bool {
            self.0.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok()
        }

        pub(super) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
            if !self.take_flag() {
                return Err(TryLockError::WouldBlock);
            }
            Ok(MutexGuard(Some(self.1.lock().expect("loom poisons nothing")), self))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("until it is dropped")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("until it is dropped")
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            if self.0.take().is_some() {
                self.1.0.store(false, Ordering::Release);
            }
        }
    }
}

/// Interleavings of the threads of a task. If all threads of a model yield, loom continues with the first, so a thread that waits for its
/// turn is started before the poller.
#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use loom::model::Builder;
    use loom::sync::{Condvar, Mutex};
    use loom::thread;

    use super::{Part, Turns, Waiter};

    /// What a fabric sleeps on.
    #[derive(Debug)]
    struct Doorbell(Mutex<u32>, Condvar);

    impl Doorbell {
        fn ring(&self) {
            *self.0.lock().expect("loom poisons nothing") += 1;
            self.1.notify_all();
        }

        /// Sleeps until the next ring. Earlier rings are lost, as they may be in a fabric.
        fn sleep(&self) {
            let mut rings = self.0.lock().expect("loom poisons nothing");
            let seen = *rings;
            while *rings == seen {
                rings = self.1.wait(rings).expect("loom poisons nothing");
            }
        }
    }

    type Task = Arc<(Turns<u32>, Doorbell)>;

    /// Runs threads of one task concurrently. A run has at most three preemptions.
    fn model<const N: usize>(bodies: [fn(&Turns<u32>, &Doorbell); N]) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let task = Task::new((Turns::new(0), Doorbell(Mutex::new(0), Condvar::new())));
            let start = |body: fn(&Turns<u32>, &Doorbell)| {
                let task = Task::clone(&task);
                thread::spawn(move || body(&task.0, &task.1))
            };
            bodies.map(start).into_iter().for_each(|thread| thread.join().expect("it ends"));
            assert!(!task.0.is_wanted());
        });
    }

    /// Polls until the value is `wanted`, as `SharedContext::wait_for` does.
    fn poll(turns: &Turns<u32>, doorbell: &Doorbell, wanted: u32) {
        loop {
            let turn = turns.enter(|| doorbell.ring());
            if *turn == wanted {
                return;
            }
            turns.rest(turn, |_| doorbell.sleep());
        }
    }

    fn add(turns: &Turns<u32>, doorbell: &Doorbell) {
        let mut turn = turns.enter(|| doorbell.ring());
        *turn += 1;
        turns.end_call();
        turns.tell_sleepers();
    }

    /// Waits until the value is at least `wanted`, as calls of MPI do.
    fn wait(turns: &Turns<u32>, doorbell: &Doorbell, wanted: u32) {
        let ring = || doorbell.ring();
        let (mut waiter, mut turn) = (Waiter::default(), turns.enter(ring));
        while *turn < wanted {
            match turns.part(&mut waiter) {
                Part::Sleeps => turn = turns.sleep(turn, ring),
                _ if turns.is_wanted() => {
                    drop(turn);
                    turns.give_way();
                    turn = turns.enter(ring);
                }
                _ => {
                    doorbell.sleep();
                    turns.after_sleep(&mut waiter, true);
                }
            }
        }
        turns.leave(&mut waiter);
        turns.end_call();
    }

    /// It does not matter which thread polls for both: it wakes the other one, which polls after the first has left.
    #[test]
    fn loom_of_two_threads_that_wait_one_polls_for_both() {
        model([
            |turns, doorbell| {
                add(turns, doorbell);
                wait(turns, doorbell, 2);
            },
            |turns, doorbell| {
                wait(turns, doorbell, 1);
                add(turns, doorbell);
            },
        ]);
    }

    /// A ring before the poller sleeps is lost, so the thread that waits repeats it.
    #[test]
    fn loom_a_poller_that_sleeps_lets_another_thread_in() {
        model([add, |turns, doorbell| poll(turns, doorbell, 1)]);
    }

    /// A thread that waits without polling is woken after progress, whenever it began to wait, and gets its turn from a poller that sleeps
    /// again.
    #[test]
    fn loom_a_thread_that_does_not_poll_is_told() {
        let sleeper = |turns: &Turns<u32>, doorbell: &Doorbell| {
            let mut turn = turns.enter(|| doorbell.ring());
            while *turn == 0 {
                turn = turns.sleep(turn, || doorbell.ring());
            }
            *turn = 2;
        };
        let mover = |turns: &Turns<u32>, doorbell: &Doorbell| {
            let mut turn = turns.enter(|| doorbell.ring());
            *turn = 1;
            turns.tell_sleepers();
            drop(turn);
            poll(turns, doorbell, 2);
        };
        model([sleeper, mover]);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    use super::{Turns, Waiter};
    use am_core_conform::watchdog::Watchdog;

    /// A change that only the sleeping thread knows (a word of memory) may come just before the poller sleeps, and then ends no sleep.
    #[test]
    fn after_a_sleep_in_vain_the_others_look() {
        let _watchdog = Watchdog::new("a look after a sleep in vain".to_owned(), Duration::from_secs(60));
        let (turns, has_changed) = (Turns::new(()), AtomicBool::new(false));
        let mut poller = Waiter { since: None, polls_for_all: true };
        turns.has_poller.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut turn = turns.enter(|| ());
                while !has_changed.load(Ordering::Relaxed) {
                    turn = turns.sleep(turn, || ());
                }
            });
            while turns.sleeping.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            has_changed.store(true, Ordering::Relaxed);
            let _turn = turns.enter(|| ());
            turns.after_sleep(&mut poller, false);
            assert!(turns.has_poller(), "nothing has happened that this thread knows");
        });
    }

    /// The poller sleeps with its turn until it is rung, so only a ring lets the woken thread in.
    #[test]
    fn a_thread_that_was_told_rings_a_poller_that_sleeps_again() {
        let _watchdog = Watchdog::new("a thread that was told".to_owned(), Duration::from_secs(60));
        let (turns, rings, rung) = (Turns::new(0), Mutex::new(0), Condvar::new());
        let lock = || rings.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = || {
            *lock() += 1;
            rung.notify_all();
        };
        for round in 0..100 {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut turn = turns.enter(ring);
                    while *turn == 0 {
                        turn = turns.sleep(turn, ring);
                    }
                    *turn = 2;
                });
                // In half of the rounds the other thread probably sleeps by then.
                std::thread::sleep(Duration::from_millis(round % 2));
                let mut turn = turns.enter(ring);
                *turn = 1;
                turns.tell_sleepers();
                while *turn != 2 {
                    turns.rest(turn, |_| {
                        let rings = lock();
                        let seen = *rings;
                        drop(rung.wait_while(rings, |rings| *rings == seen));
                    });
                    turn = turns.enter(ring);
                }
                *turn = 0;
            });
        }
    }
}
