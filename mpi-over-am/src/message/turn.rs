//! A call's turn with the state, and the wait that all calls use.

use std::ops::{Deref, DerefMut};

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::turns::{Part, Waiter};

use crate::error::{Error, Result};
use crate::message::handlers::MpiHandlers;
use crate::message::progress::{Looked, drive_schedules, is_over};
use crate::message::request_id::RequestId;
use crate::message::state::State;
use crate::message::under_way::{AtOperator, Schedules};
use crate::policy::{LockPolicy, StateCell};

/// A call's turn: its right to use the state.
pub(crate) struct Turn<'a, F: Fabric, L: LockPolicy> {
    cell: &'a L::Cell<State<F>>,
    held: <L::Cell<State<F>> as StateCell<State<F>>>::Held<'a>,
}

impl<'a, F: Fabric, L: LockPolicy> Turn<'a, F, L> {
    /// Takes the turn of a call.
    ///
    /// # Errors
    /// [`Error::Nested`]: the calling thread is in another call.
    #[inline(always)]
    pub(crate) fn enter(cell: &'a L::Cell<State<F>>) -> Result<Self> {
        // A match: `ok_or` would construct and drop an error in each call.
        match cell.enter() {
            Some(held) => Ok(Self { cell, held }),
            None => Err(Error::Nested),
        }
    }

    /// Makes progress, including schedules, until `done` returns true. Other threads that want a turn get one meanwhile, so what the caller
    /// has looked up before may be outdated.
    ///
    /// # Errors
    /// An error while making progress.
    pub(crate) fn wait_for(
        &mut self,
        done: &mut dyn FnMut(&mut Context<F, MpiHandlers>) -> bool,
    ) -> Result<()> {
        if !L::takes_turns() {
            return self.held.wait_for(done);
        }
        self.wait_and_drive(&mut |context, _| done(context))
    }

    /// Makes progress, including schedules and their operators, until `done` returns true.
    fn wait_and_drive(
        &mut self,
        done: &mut dyn FnMut(&mut Context<F, MpiHandlers>, &Schedules) -> bool,
    ) -> Result<()> {
        let cell = self.cell;
        let mut waiting = Waiting::<F, L> { cell, waiter: Waiter::default() };
        let mut part = Part::Polls;
        loop {
            drive_schedules(&mut self.held);
            if self.held.schedules.is_at_operator() {
                // The program's code may take long, and no other thread would poll meanwhile.
                cell.leave(&mut waiting.waiter);
                part = Part::Polls;
                self.run_operators();
            }
            match self.held.look_at_boards(done, || cell.is_wanted())? {
                Looked::Done => return Ok(()),
                Looked::GoOn => {
                    cell.tell_sleepers();
                    continue;
                }
                Looked::InVain => {}
            }
            if part != Part::Polls || cell.has_poller() {
                if self.wait_beside_others(part, &mut waiting.waiter, done)? {
                    return Ok(());
                }
                part = cell.part(&mut waiting.waiter);
                continue;
            }
            let State { context, schedules, .. } = &mut *self.held;
            let (mut found, mut looks) = (false, 0);
            context.wait_until(|context| {
                found = done(context, schedules);
                // Progress is made at least once before another thread gets the turn, because that thread may itself only wait.
                looks += 1;
                Ok(found || schedules.can_go_on(context, true) || looks > 1 && cell.is_wanted())
            })?;
            if found {
                return Ok(());
            }
            part = cell.part(&mut waiting.waiter);
            if cell.has_poller() {
                cell.tell_sleepers();
            }
            self.pass();
        }
    }

    /// One round of a wait while other threads wait, too, and one of them polls for all. Returns whether `done` has returned true.
    #[cold]
    #[inline(never)]
    fn wait_beside_others(
        &mut self,
        part: Part,
        waiter: &mut Waiter,
        done: &mut dyn FnMut(&mut Context<F, MpiHandlers>, &Schedules) -> bool,
    ) -> Result<bool> {
        let cell = self.cell;
        let State { context, schedules, .. } = &mut *self.held;
        if done(context, schedules) {
            return Ok(true);
        }
        if schedules.can_go_on(context, true) {
            cell.tell_sleepers();
            return Ok(false);
        }
        match part {
            // The turn in which the part was decided may have ended, and the thread that polls for all may have left since.
            Part::Sleeps if cell.has_poller() => {
                cell.sleep(&mut self.held);
                // If that thread has left, something has happened, and this one polls for a while. Otherwise it only looks.
                if !cell.has_poller() {
                    *waiter = Waiter::default();
                }
            }
            Part::PollsForAll if !cell.is_wanted() => {
                // It may be a change in memory that only the thread that waits for it knows.
                let has_happened = context.wait_round()?;
                cell.after_sleep(waiter, has_happened);
            }
            _ => {
                if context.probe()? {
                    cell.tell_sleepers();
                }
                self.pass();
            }
        }
        Ok(false)
    }

    /// Runs the user-defined operators that schedules have reached, outside the turn; returns whether there was one.
    fn run_operators(&mut self) -> bool {
        let mut has_run = false;
        while let Some(at_operator) = self.held.schedules.begin_operator() {
            let mut back = OperatorBack { turn: self, at_operator: Some(at_operator), result: None };
            back.run();
            drop(back);
            drive_schedules(&mut self.held);
            has_run = true;
        }
        has_run
    }

    /// Waits until no thread runs an operator of `request`, which the caller is about to end.
    pub(crate) fn wait_for_operator(&mut self, request: RequestId) {
        while self.held.schedules.is_outside(request) {
            self.cell.outside(&mut self.held, std::thread::yield_now);
        }
    }

    /// Like [`State::look`], also running the user-defined operators that arrivals make due.
    ///
    /// # Errors
    /// An error while making progress; the error of `done`.
    #[inline]
    pub(crate) fn look<T>(
        &mut self,
        mut done: impl FnMut(&mut State<F>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        loop {
            let found = self.held.look(&mut done)?;
            if found.is_some() || !self.run_operators() {
                return Ok(found);
            }
        }
    }

    /// Like [`State::take_in`], also running user-defined operators.
    ///
    /// # Errors
    /// An error while making progress.
    pub(crate) fn take_in(&mut self) -> Result<()> {
        self.look(|_| Ok(None::<()>)).map(drop)
    }

    /// Like [`State::is_over_after_progress`], also running user-defined operators.
    ///
    /// # Errors
    /// An error while making progress; the operation may then still be under way.
    #[inline]
    pub(crate) fn is_over_after_progress(&mut self, request: RequestId) -> Result<bool> {
        Ok(self.look(|state| Ok(is_over(&mut state.context, request).then_some(())))?.is_some())
    }

    /// Makes progress until no schedule is under way.
    ///
    /// # Errors
    /// An error while making progress.
    pub(crate) fn finish_schedules(&mut self) -> Result<()> {
        if self.held.schedules.are_over() {
            return Ok(());
        }
        self.wait_and_drive(&mut |_, schedules| schedules.are_over())
    }

    /// Whether another thread waits for its turn.
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.cell.is_wanted()
    }

    /// If other threads want a turn, gives up this turn, and takes a later turn.
    pub(crate) fn pass(&mut self) {
        if self.is_wanted() {
            self.cell.pass(&mut self.held);
        }
    }

    /// Gives up this turn until the thread that polls for all tells the others to look, and takes a later turn.
    pub(crate) fn sleep(&mut self) {
        self.cell.sleep(&mut self.held);
    }

    /// Makes progress until the operation is complete.
    ///
    /// # Errors
    /// An error while making progress; the operation may then still be under way.
    #[inline(never)]
    pub(crate) fn wait_over(&mut self, request: RequestId) -> Result<()> {
        if L::takes_turns() {
            return self.wait_for(&mut |context| is_over(context, request));
        }
        if let Some(source) = self.held.source_in_line(request)
            && self.held.is_over_in_line(source, request)?
        {
            return Ok(());
        }
        self.held.wait_for(|context| is_over(context, request))
    }
}

/// A wait, which ends in the caller's turn.
struct Waiting<'a, F: Fabric, L: LockPolicy> {
    cell: &'a L::Cell<State<F>>,
    waiter: Waiter,
}

impl<F: Fabric, L: LockPolicy> Drop for Waiting<'_, F, L> {
    fn drop(&mut self) {
        self.cell.leave(&mut self.waiter);
    }
}

/// An operator that runs outside the turn. Dropping this value returns the operator to the schedules, even if the operator panics.
struct OperatorBack<'t, 'a, F: Fabric, L: LockPolicy> {
    turn: &'t mut Turn<'a, F, L>,
    at_operator: Option<AtOperator>,
    result: Option<Result<()>>,
}

impl<F: Fabric, L: LockPolicy> OperatorBack<'_, '_, F, L> {
    fn run(&mut self) {
        if let Some(at_operator) = &self.at_operator {
            self.result = Some(self.turn.cell.outside(&mut self.turn.held, || at_operator.run()));
        }
    }
}

impl<F: Fabric, L: LockPolicy> Drop for OperatorBack<'_, '_, F, L> {
    fn drop(&mut self) {
        if let Some(at_operator) = self.at_operator.take() {
            self.turn.held.schedules.end_operator(at_operator, self.result.take());
        }
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
