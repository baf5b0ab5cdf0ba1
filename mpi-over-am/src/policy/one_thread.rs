//! One thread: no lock.

use std::cell::{RefCell, RefMut};
use std::fmt::Debug;
use std::marker::PhantomData;

use am_core::fabric::Waker;

use super::{Field, LockPolicy, StateCell};

/// Only one thread makes calls, without a lock (`MPI_THREAD_FUNNELED`). The objects of an environment with this policy are neither `Send`
/// nor `Sync`.
#[derive(Debug)]
pub struct OneThread;

/// The compiler names this type, which names the remedy, if a program passes an object of a single-threaded environment to another thread.
#[derive(Clone, Copy, Debug)]
#[expect(non_camel_case_types, reason = "it names a function, in a message of the compiler")]
pub struct OneThread_see_Environment_init_threads;

impl LockPolicy for OneThread {
    type Cell<T: Debug> = RefCell<T>;
    type Field<T: Debug> = RefCell<T>;
    type Mark = PhantomData<*const OneThread_see_Environment_init_threads>;

    #[inline(always)]
    fn takes_turns() -> bool {
        false
    }
}

impl<T: Debug> StateCell<T> for RefCell<T> {
    type Held<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    type Brief<'a>
        = RefMut<'a, T>
    where
        T: 'a;

    fn new(state: T, _waker: Waker) -> Self {
        Self::new(state)
    }

    #[inline(always)]
    fn enter(&self) -> Option<RefMut<'_, T>> {
        self.try_borrow_mut().ok()
    }

    #[inline(always)]
    fn enter_briefly(&self) -> Option<RefMut<'_, T>> {
        self.enter()
    }

    #[inline(always)]
    fn is_wanted(&self) -> bool {
        false
    }

    #[inline(always)]
    fn pass<'a>(&'a self, _held: &mut RefMut<'a, T>) {}

    fn outside<'a, R>(&'a self, _held: &mut RefMut<'a, T>, code: impl FnOnce() -> R) -> R {
        code()
    }
}

impl<T: Debug> Field<T> for RefCell<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline(always)]
    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        call(&mut self.borrow_mut())
    }
}
