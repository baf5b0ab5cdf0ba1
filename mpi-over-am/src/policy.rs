//! The threads that may call an environment: the parameter `L` of [`Environment`](crate::Environment) and of everything made from it. Each
//! call is written once, over a [`LockPolicy`].
//!
//! A call takes its *turn* with the environment's state ([`StateCell::enter`]). A call that waits for another task gives its turn up
//! whenever another thread wants one, and repeats its look-ups afterwards; almost all waits go through
//! [`Turn::wait_for`](crate::message::turn::Turn::wait_for). An object's own state (a name, attributes, epochs) is in a [`Field`], which is
//! borrowed only for a moment: never during a wait or the program's code.

mod by_call;
mod one_thread;
mod threads;

use std::fmt::Debug;
use std::ops::DerefMut;

use am_core::fabric::Waker;
use am_core::turns::{Part, Waiter};

pub use by_call::{ByCall, Call};
pub use one_thread::OneThread;
pub use threads::Threads;

/// How the threads of a task share an environment: [`OneThread`], [`Threads`] or [`ByCall`].
pub trait LockPolicy: Debug + Sized + 'static {
    /// Holds the state of an environment.
    #[doc(hidden)]
    type Cell<T: Debug>: StateCell<T>;
    /// Holds an object's own state.
    #[doc(hidden)]
    type Field<T: Debug>: Field<T>;
    /// A member of each object, so that the compiler's first error about a second thread names the policy.
    #[doc(hidden)]
    type Mark: Debug + Default + Copy;

    /// Whether several threads take turns. If so, a call must give its turn up while it waits.
    #[doc(hidden)]
    fn takes_turns() -> bool;
}

/// The state of an environment, for one call at a time.
pub trait StateCell<T>: Debug {
    /// A call's turn with the state.
    type Held<'a>: DerefMut<Target = T>
    where
        Self: 'a;

    /// The turn of a call that does not give it up.
    type Brief<'a>: DerefMut<Target = T>
    where
        Self: 'a;

    /// A cell with a state that no call uses yet. `waker` wakes a thread that sleeps in a wait.
    fn new(state: T, waker: Waker) -> Self;

    /// Waits for the calling thread's turn; `None` if it already has one.
    fn enter(&self) -> Option<Self::Held<'_>>;

    /// [`enter`](Self::enter) for a turn that is not given up.
    fn enter_briefly(&self) -> Option<Self::Brief<'_>>;

    /// Whether another thread wants a turn.
    fn is_wanted(&self) -> bool;

    /// Gives the turn up for threads that want one, and waits for the calling thread's next turn.
    fn pass<'a>(&'a self, held: &mut Self::Held<'a>);

    /// What a thread does that has found nothing in its turn ([`am_core::turns::Turns::part`]).
    fn part(&self, _waiter: &mut Waiter) -> Part {
        Part::Polls
    }

    /// Ends the part of a thread in its wait, in its turn.
    fn leave(&self, _waiter: &mut Waiter) {}

    /// Whether a thread polls for others that sleep.
    fn has_poller(&self) -> bool {
        false
    }

    /// After a sleep of the thread that polls for all, in its turn ([`am_core::turns::Turns::after_sleep`]).
    fn after_sleep(&self, _waiter: &mut Waiter, _has_happened: bool) {}

    /// Lets the threads that sleep in their wait look again, in the caller's turn.
    fn tell_sleepers(&self) {}

    /// Gives the turn up until another thread tells this one to look again, and waits for the calling thread's next turn.
    fn sleep<'a>(&'a self, held: &mut Self::Held<'a>) {
        self.pass(held);
    }

    /// Runs code of the program. If threads take turns, the code runs outside the turn: it may make calls, and wait for threads that do.
    fn outside<'a, R>(&'a self, held: &mut Self::Held<'a>, code: impl FnOnce() -> R) -> R;
}

/// A value that is borrowed only for a moment.
pub trait Field<T>: Debug {
    /// A field with this value.
    fn new(value: T) -> Self;

    /// Runs `call` with the value. `call` must not make MPI calls, or wait.
    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R;

    /// A copy of the value.
    fn get(&self) -> T
    where
        T: Clone,
    {
        self.with(|value| value.clone())
    }

    /// Replaces the value.
    fn set(&self, value: T) {
        drop(self.replace(value));
    }

    /// Replaces the value; returns the old one.
    fn replace(&self, value: T) -> T {
        self.with(|old| std::mem::replace(old, value))
    }
}
