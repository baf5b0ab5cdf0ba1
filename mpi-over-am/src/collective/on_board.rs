//! Collectives on the communicator's [board](crate::message::board): each task writes its data, waits until all have arrived, and reads.
//!
//! As with messages, an algorithm is written once, over a [`BoardPlan`]: a blocking call carries it out at once, and a non-blocking one
//! records it. Persistent collectives use messages, because each task starts them in an order of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use am_core::Context;
use am_core::buffer::RawBytes;
use am_core::fabric::Fabric;
use am_core::task::Target;

use super::direct::Direct;
use super::plan::BoardPlan;
use super::recorder::Recorder;
use super::{Collective, Parts, Plan, allreduce, on_lines};
use crate::communicator::Communicator;
use crate::data::buffer::{RecvData, SendData};
use crate::data::op::{self, Op};
use crate::error::{Error, Result};
use crate::message::board::{self, Arrival, Board, Boards, Method, Order, Step, Ticket, Use};
use crate::message::handlers::MpiHandlers;
use crate::message::progress::LOOKS_AWAKE;
use crate::message::progress::at_board::{self, combine_vectors, vectors};
use crate::message::request_table::{Act, Awaited, LinesPart, MetPart, Step as Recorded};
use crate::message::state::State;
use crate::policy::LockPolicy;
use crate::request::remote::{ADDRESS_WORDS, from_words, to_words};
use crate::settings::{BoardKind, Selection};

/// Maximum total bytes of all tasks' vectors in a reduction, because one task combines all of them.
const REDUCED_BYTES_MAX: u64 = 32 << 10;
/// Rank 0's word for the method of a new board; 0 if there is no board.
const COUNTER: u64 = 1;
const LINES: u64 = 2;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Carries out a collective on the board. Returns false, on all tasks, if the collective has to use messages: the collective has not
    /// begun then.
    pub(super) fn try_on_board(&self, collective: &Collective, plan: &mut Direct<'_, F, L>) -> Result<bool> {
        let (how, len) = self.begin_on_board(collective, self.board())?;
        let method = match how {
            Use::On(method) => method,
            Use::Agree => return self.agree_about_boards().map(|()| false),
            Use::Messages => return Ok(false),
        };
        perform(collective, plan, method, len)?;
        self.state()?.waited_for_nothing()?;
        Ok(true)
    }

    /// Records a non-blocking collective for the board. `None`, on all tasks, if the collective has to use messages: nothing has been
    /// recorded then.
    pub(super) fn record_on_board(
        &self,
        collective: &Collective,
        recorder: &mut Recorder<'_, F, L>,
    ) -> Result<Option<Ticket>> {
        let board = Boards::of_non_blocking(self.board());
        let (Use::On(method), len) = self.begin_on_board(collective, board)? else { return Ok(None) };
        perform(collective, recorder, method, len)?;
        Ok(self.state()?.schedules.boards.queue(board))
    }

    /// Begins a collective, blocking or not, which has the given board if it uses one. Finds how the collective has to be carried out: the
    /// same way on all tasks. Also returns the number of bytes that each task writes to a board with a counter.
    fn begin_on_board(&self, collective: &Collective, board: u32) -> Result<(Use, u64)> {
        let (rank, size) = (self.rank(), self.size());
        let len = self.bytes_on_board(collective);
        let has_lines = self.is_plain() && on_lines::serve(collective, rank, size);
        if len.is_none() && !has_lines {
            return Ok((Use::Messages, 0));
        }
        let mut state = self.state()?;
        let State { schedules, selection, .. } = &mut *state;
        let can = |method| match method {
            Method::Lines => has_lines,
            Method::Counter => len.is_some() && !is_reduced_in_parts(collective, selection, size),
        };
        let boards = &mut schedules.boards;
        let how = boards.begin(board, can);
        if let (Use::On(Method::Lines), Collective::Gather { root, .. }) = (&how, collective)
            && boards.lines(board)?.changes_root(*root)
        {
            return Ok((Use::Messages, 0));
        }
        Ok((how, len.unwrap_or(0)))
    }

    /// Bytes that each task writes to a board with a counter; `None` if such a board cannot serve the collective. The result is the same on
    /// all tasks.
    fn bytes_on_board(&self, collective: &Collective) -> Option<u64> {
        // Two tasks gain nothing: each waits only for the other.
        if self.size() <= 2 || !self.is_plain() {
            return None;
        }
        let len = match collective {
            Collective::Barrier => 0,
            Collective::Allreduce { recv, .. } => {
                let len = recv.packed_len();
                (1..=REDUCED_BYTES_MAX / u64::from(self.size())).contains(&len).then_some(len)?
            }
            Collective::Allgather { recv: recv @ Parts::Equal { .. }, .. } => {
                recv.of(self.rank()).packed_len()
            }
            Collective::Alltoall {
                send: None | Some(Parts::Equal { .. }),
                recv: Parts::Equal { all, .. },
            } => all.packed_len(),
            _ => return None,
        };
        Step::fits(self.size(), len).then_some(len)
    }

    /// Whether a collective that can use lines may use the board: there is one with lines, or none yet.
    pub(super) fn may_have_lines(&self) -> bool {
        self.state_briefly().is_none_or(|mut state| {
            state.schedules.boards.board(self.board()).is_some_and(|board| board.may_have_lines())
        })
    }

    /// Makes boards if all tasks are on one host, the settings of rank 0 allow it, rank 0 has memory for them, and all tasks can access
    /// that memory. Otherwise the communicator never has a board.
    ///
    /// The tasks agree by blocking collectives: one task may start a non-blocking collective before this call, and another task after it.
    fn agree_about_boards(&self) -> Result<()> {
        let begun = {
            let boards = &mut self.state()?.schedules.boards;
            if let Some(board) = boards.board(self.board()) {
                *board = Board::Never;
            }
            boards.begun_non_blocking(self.board())
        };
        let mut words = [0; 1 + ADDRESS_WORDS];
        if self.rank() == 0 && self.is_on_one_host() {
            let mut state = self.state()?;
            let State { context, boards, selection, .. } = &mut *state;
            let method = match selection.board {
                BoardKind::Lines => Method::Lines,
                BoardKind::Auto | BoardKind::Counter => Method::Counter,
            };
            if self.size() <= selection.board_tasks_max.unwrap_or(0)
                && self.size() <= method.tasks_max()
                && let Some(at) = boards.make(context, self.size())
            {
                words[0] = if method == Method::Lines { LINES } else { COUNTER };
                words[1..].copy_from_slice(&to_words(at));
            }
        }
        self.broadcast(&mut words, 0)?;
        let [method, address @ ..] = words;
        let method = match method {
            COUNTER => Method::Counter,
            LINES => Method::Lines,
            _ => return Ok(()),
        };
        let at = from_words(address);
        let is_unreachable = u64::from(!board::are_reachable(&mut self.state()?.context, at));
        let mut largest = [0; 2];
        self.allreduce(&[is_unreachable, begun], &mut largest, op::Max)?;
        let [is_unreachable, by_messages] = largest;
        if is_unreachable == 0 {
            self.state()?.schedules.boards.open(self.board(), method, at, by_messages);
        }
        Ok(())
    }

    /// Waits until a step of a board with a counter has ended, or a task has failed.
    fn wait_for_all(&self, step: Step) -> Result<()> {
        let has_ended = || step.has_ended(&mut self.state()?.context, false);
        if !has_ended()? {
            // Usually the step ends while the other tasks run, so this task lets them run first. A look at all rings before that would only
            // displace lines from the caches.
            std::thread::yield_now();
        }
        let mut looks = 1;
        let has_ended = self.try_until(|| {
            looks += 1;
            let has_ended = has_ended()?;
            Ok((has_ended || looks == LOOKS_AWAKE).then_some(has_ended))
        })?;
        if has_ended {
            return Ok(());
        }
        self.sleep_at_board(|context, may_sleep| step.has_ended(context, may_sleep))
    }

    /// Why a step at the board may never end: this communicator is revoked, or one of its tasks has failed or has closed its context.
    #[cold]
    fn trouble_at_board(&self, context: &mut Context<F, MpiHandlers>) -> Option<Error> {
        let own = context.endpoint().context;
        let tasks = (0..self.size()).filter_map(|rank| self.task_now(rank));
        let gone = tasks.map(|task| task.seen_from(own)).find_map(|peer| context.gone(peer));
        context.handlers().trouble_of(self.number()).or(gone.map(Error::Core))
    }

    /// Waits until `has_come` returns true, or a task has failed. `has_come` gets whether this task may sleep after it.
    pub(super) fn sleep_at_board(
        &self,
        has_come: impl Fn(&mut Context<F, MpiHandlers>, bool) -> Result<bool>,
    ) -> Result<()> {
        let come_or_failed = |context: &mut Context<F, MpiHandlers>| {
            if has_come(context, true)? {
                return Ok(true);
            }
            match context.handlers().is_unusual().then(|| self.trouble_at_board(context)).flatten() {
                None => Ok(false),
                // What is awaited may have come before the failure.
                Some(trouble) => match has_come(context, false)? {
                    true => Ok(true),
                    false => Err(trouble),
                },
            }
        };
        let mut found = Ok(());
        self.wait_until(&mut |context| match come_or_failed(context) {
            Ok(has_come) => has_come,
            Err(error) => {
                found = Err(error);
                true
            }
        })?;
        found
    }
}

/// Whether this is an allreduce that messages carry out in parts: a board would combine the vectors in another order.
fn is_reduced_in_parts(collective: &Collective, selection: &Selection, size: u32) -> bool {
    matches!(collective, Collective::Allreduce { recv, .. } if allreduce::is_in_parts(recv, selection, size))
}

/// The tasks' parts in a collective on a board of the given method. On a board with a counter, each task writes `len` bytes.
fn perform(collective: &Collective, plan: &mut impl BoardPlan, method: Method, len: u64) -> Result<()> {
    if method == Method::Lines {
        return on_lines::perform(collective, plan);
    }
    let (rank, size) = (plan.rank(), plan.size());
    match collective {
        Collective::Allreduce { send, recv, .. } => {
            let own = send.clone().unwrap_or_else(|| recv.as_send());
            if plan.reduces_at_board() {
                plan.meet(&own, Some(recv))?;
                return plan.read_reduced(recv);
            }
            plan.meet(&own, None)?;
            let reduced = read_and_combine(plan, recv)?;
            plan.copy(&reduced, recv)
        }
        Collective::Allgather { send, recv } => {
            let own = send.clone().unwrap_or_else(|| recv.of(rank).as_send());
            plan.meet(&own, None)?;
            plan.read(len, (0..size).map(|rank| (rank, 0, recv.of(rank))))
        }
        Collective::Alltoall { send, recv: recv @ Parts::Equal { all, .. } } => {
            let own = match send {
                Some(Parts::Equal { all, .. }) => all.clone(),
                _ => all.as_send(),
            };
            plan.meet(&own, None)?;
            let offset = len / u64::from(size) * u64::from(rank);
            plan.read(len, (0..size).map(|rank| (rank, offset, recv.of(rank))))
        }
        _ => plan.meet(&SendData::from_bytes(RawBytes::EMPTY), None),
    }
}

/// Reads all tasks' vectors, which must be as long as `own`, and combines them.
fn read_and_combine(plan: &mut impl BoardPlan, own: &RecvData) -> Result<SendData> {
    let (size, count) = (plan.size(), own.count());
    let all = plan.scratch(count * u64::from(size), own.datatype())?;
    plan.read(own.packed_len(), vectors(&all, count, size))?;
    let order = Order::new(&plan.selection(), size, own.packed_len(), plan.is_commutative());
    combine_vectors(&all, count, order, |earlier, later| plan.combine(earlier, later))
}

impl<F: Fabric, L: LockPolicy> BoardPlan for Direct<'_, F, L> {
    fn reduces_at_board(&self) -> bool {
        true
    }

    fn meet(&mut self, own: &SendData, reduced: Option<&RecvData>) -> Result<()> {
        let (communicator, board) = (self.communicator, self.communicator.board());
        let (arrival, step) = loop {
            // Not inside `match`, where the turn would last until the end of the wait.
            let arrived = at_board::arrive(&mut *communicator.state_for_all()?, board, own)?;
            match arrived {
                // An error ended this task's wait for the present step.
                (Arrival::TooEarly, present) => communicator.wait_for_all(present)?,
                arrived => break arrived,
            }
        };
        self.step = Some(step);
        if let Arrival::Last = arrival {
            // An operator may panic. The step must end even then, because the other tasks wait for its end.
            let prepared = catch_unwind(AssertUnwindSafe(|| {
                let Some(own) = reduced else { return Ok(()) };
                let reduced = read_and_combine(self, own)?;
                let mut state = communicator.state()?;
                step.replace(&mut state.context, &reduced)
            }));
            // `state_to_end` instead of `state`: the error of an earlier call must not keep this call from ending the step.
            let mut state = communicator.state_to_end().ok_or(Error::Nested)?;
            at_board::end_step(&mut *state, (board, step), !matches!(prepared, Ok(Ok(()))))?;
            prepared.unwrap_or_else(|panic| resume_unwind(panic))?;
        } else {
            communicator.wait_for_all(step)?;
        }
        if step.compares() {
            at_board::spread(&mut *communicator.state()?, (board, step))?;
        }
        Ok(())
    }

    fn read(&mut self, len: u64, parts: impl Iterator<Item = MetPart>) -> Result<()> {
        self.step.map_or(Ok(()), |step| at_board::read(&mut *self.communicator.state()?, step, len, parts))
    }

    fn read_reduced(&mut self, into: &RecvData) -> Result<()> {
        let Some(step) = self.step else { return Ok(()) };
        if step.has_failed(&mut self.communicator.state()?.context)? {
            // The vectors are still there, and this task finds the same error.
            let reduced = read_and_combine(self, into)?;
            return self.copy(&reduced, into);
        }
        self.read(into.packed_len(), std::iter::once((0, 0, into.clone())))
    }

    fn enter(&mut self, data: Option<&SendData>) -> Result<()> {
        let (communicator, board) = (self.communicator, self.communicator.board());
        if data.is_some() {
            on_lines::wait_to_write(communicator)?;
        }
        at_board::enter(&mut *communicator.state()?, board, data)
    }

    fn await_entries(&mut self, awaited: Awaited) -> Result<()> {
        on_lines::wait_for(self.communicator, awaited)
    }

    fn read_lines(&mut self, parts: impl Iterator<Item = LinesPart>) -> Result<()> {
        at_board::read_lines(&mut *self.communicator.state()?, self.communicator.board(), parts)
    }
}

impl<F: Fabric, L: LockPolicy> Recorder<'_, F, L> {
    fn push(&mut self, act: Act) {
        self.steps.push(Recorded::AtBoard(act));
    }
}

impl<F: Fabric, L: LockPolicy> BoardPlan for Recorder<'_, F, L> {
    /// Not if the operation runs code of the program: that code may unwind, and may have to run outside the task's turn.
    fn reduces_at_board(&self) -> bool {
        !self.op.as_ref().is_some_and(Op::is_of_program)
    }

    fn meet(&mut self, own: &SendData, reduced: Option<&RecvData>) -> Result<()> {
        self.push(Act::Arrive { own: own.clone(), reduced: reduced.cloned() });
        self.push(Act::Meet);
        Ok(())
    }

    fn read(&mut self, len: u64, parts: impl Iterator<Item = MetPart>) -> Result<()> {
        self.push(Act::Read { len, parts: parts.collect() });
        Ok(())
    }

    fn read_reduced(&mut self, into: &RecvData) -> Result<()> {
        self.push(Act::ReadReduced { into: into.clone() });
        Ok(())
    }

    fn enter(&mut self, data: Option<&SendData>) -> Result<()> {
        self.push(Act::Enter { data: data.cloned() });
        Ok(())
    }

    fn await_entries(&mut self, awaited: Awaited) -> Result<()> {
        self.push(Act::Await(awaited));
        Ok(())
    }

    fn read_lines(&mut self, parts: impl Iterator<Item = LinesPart>) -> Result<()> {
        self.push(Act::ReadLines { parts: parts.collect() });
        Ok(())
    }
}
