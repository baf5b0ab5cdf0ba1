//! A call's turn with the state, and the one wait of all calls.

use std::ops::{Deref, DerefMut};

use am_core::Context;
use am_core::fabric::Fabric;

use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::policy::{LockPolicy, StateCell};
use crate::request::RequestId;
use crate::state::{State, is_over, is_receive_over};

/// A call's right to the state.
pub(crate) struct Turn<'a, F: Fabric, L: LockPolicy> {
    cell: &'a L::Cell<State<F>>,
    held: <L::Cell<State<F>> as StateCell<State<F>>>::Held<'a>,
}

impl<'a, F: Fabric, L: LockPolicy> Turn<'a, F, L> {
    /// The turn of a call.
    ///
    /// # Errors
    /// [`Error::Nested`]: the calling thread is in another call.
    #[inline(always)]
    pub(crate) fn enter(cell: &'a L::Cell<State<F>>) -> Result<Self> {
        // A match: `ok_or` would make an error for each call, and drop it.
        match cell.enter() {
            Some(held) => Ok(Self { cell, held }),
            None => Err(Error::Nested),
        }
    }

    /// Makes progress until `done` says so, also with schedules. Other threads that want their turn have it meanwhile: what the caller
    /// has looked up before may have changed.
    ///
    /// # Errors
    /// What progress reports.
    #[inline(always)]
    pub(crate) fn wait_for(
        &mut self,
        mut done: impl FnMut(&mut Context<F, MpiHandlers>) -> bool,
    ) -> Result<()> {
        if !L::takes_turns() {
            return self.held.wait_for(done);
        }
        self.wait_in_turns(&mut done)
    }

    #[cold]
    #[inline(never)]
    fn wait_in_turns(&mut self, done: &mut dyn FnMut(&mut Context<F, MpiHandlers>) -> bool) -> Result<()> {
        let cell = self.cell;
        loop {
            let (mut found, mut looks) = (false, 0);
            self.held.wait_for(|context| {
                found = done(context);
                // Progress comes before the next turn of another thread, which may wait as well.
                looks += 1;
                found || looks > 1 && cell.is_wanted()
            })?;
            if found {
                return Ok(());
            }
            self.pass();
        }
    }

    /// Gives the turn up for the threads that want one, and takes the next.
    pub(crate) fn pass(&mut self) {
        if self.cell.is_wanted() {
            self.cell.pass(&mut self.held);
        }
    }

    /// Makes progress until the operation is over.
    ///
    /// # Errors
    /// What progress reports; the operation may then still be under way.
    #[inline(always)]
    pub(crate) fn wait_over(&mut self, request: RequestId) -> Result<()> {
        self.wait_for(|context| is_over(context, request))
    }

    /// As [`wait_over`](Self::wait_over), for the request of blocking receives.
    #[inline(never)]
    pub(crate) fn wait_receive_over(&mut self) -> Result<()> {
        self.wait_for(is_receive_over)
    }

    /// Makes progress until one of the operations is over: its place in the list, which is not empty.
    ///
    /// # Errors
    /// What progress reports; the operations may then still be under way.
    pub(crate) fn wait_any_over(
        &mut self,
        requests: impl Iterator<Item = RequestId> + Clone,
    ) -> Result<usize> {
        let mut found = None;
        self.wait_for(|context| {
            found = requests.clone().position(|request| is_over(context, request));
            found.is_some()
        })?;
        Ok(found.expect("the wait ended because one was found"))
    }
}

impl<F: Fabric, L: LockPolicy> Deref for Turn<'_, F, L> {
    type Target = State<F>;

    #[inline(always)]
    fn deref(&self) -> &State<F> {
        &self.held
    }
}

impl<F: Fabric, L: LockPolicy> DerefMut for Turn<'_, F, L> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut State<F> {
        &mut self.held
    }
}
