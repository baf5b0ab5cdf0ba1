//! Blocking collectives on the communicator's [board]: each task writes its data, waits until all tasks have arrived, and
//! reads the result.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use am_core::Context;
use am_core::buffer::RawBytes;
use am_core::fabric::Fabric;
use am_core::task::Target;

use super::direct::Direct;
use super::{Collective, Parts, Plan, on_lines};
use crate::board::{self, Arrival, Board, Method, Step, Use};
use crate::buffer::{RecvData, SendData};
use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::handlers::MpiHandlers;
use crate::policy::LockPolicy;
use crate::progress::check_len;
use crate::remote::{ADDRESS_WORDS, from_words, to_words};
use crate::settings::BoardKind;
use crate::state::State;
use crate::status::Status;

/// Maximum total bytes of all tasks' vectors in a reduction, because one task combines all of them.
const REDUCED_BYTES_MAX: u64 = 32 << 10;
/// Number of looks at the board, each with a yield of the processor, before a task may sleep.
const LOOKS_AWAKE: u32 = 40;
/// Rank 0's word for the method of a new board; 0 if there is no board.
const COUNTER: u64 = 1;
const LINES: u64 = 2;

impl<F: Fabric, L: LockPolicy> Communicator<F, L> {
    /// Carries out a collective on the board. Returns false, on all tasks, if the collective has to use messages: the collective has not
    /// begun then.
    pub(super) fn try_on_board(&self, collective: &Collective, plan: &mut Direct<'_, F, L>) -> Result<bool> {
        let (rank, size) = (self.rank(), self.size());
        let len = self.bytes_on_board(collective);
        let has_lines = self.is_plain() && on_lines::serve(collective, rank, size);
        if len.is_none() && !has_lines {
            return Ok(false);
        }
        let can = |method| if method == Method::Lines { has_lines } else { len.is_some() };
        let (step, len) = match (self.begin_on_board(can), len) {
            (Use::Step(step), Some(len)) => (step, len),
            (Use::Lines(mut lines), _) => {
                if let Collective::Gather { root, .. } = collective
                    && lines.changes_root(*root)
                {
                    self.set_lines(lines);
                    return Ok(false);
                }
                return self.carry_out_on_lines(collective, plan, lines).map(|()| true);
            }
            (Use::Agree, _) => return self.agree_about_board().map(|()| false),
            _ => return Ok(false),
        };
        match collective {
            Collective::Allreduce { send, recv, .. } => {
                let own = send.clone().unwrap_or_else(|| recv.as_send());
                self.meet_on_board(step, &own, || {
                    let reduced = self.reduced_on_board(step, recv, plan)?;
                    step.replace(&mut self.state()?.context, &reduced)
                })?;
                if step.has_failed(&mut self.state()?.context)? {
                    // The vectors are still on the board. This task combines them itself, and so gets the same error.
                    let reduced = self.reduced_on_board(step, recv, plan)?;
                    plan.copy(&reduced, recv)?;
                } else {
                    self.read_board(step, len, [(0, 0, recv.clone())].into_iter())?;
                }
            }
            Collective::Allgather { send, recv } => {
                let own = send.clone().unwrap_or_else(|| recv.of(rank).as_send());
                self.meet_on_board(step, &own, || Ok(()))?;
                self.read_board(step, len, (0..size).map(|rank| (rank, 0, recv.of(rank))))?;
            }
            Collective::Alltoall { send, recv: recv @ Parts::Equal { all, .. } } => {
                let own = match send {
                    Some(Parts::Equal { all, .. }) => all.clone(),
                    _ => all.as_send(),
                };
                self.meet_on_board(step, &own, || Ok(()))?;
                let offset = len / u64::from(size) * u64::from(rank);
                self.read_board(step, len, (0..size).map(|rank| (rank, offset, recv.of(rank))))?;
            }
            _ => self.meet_on_board(step, &SendData::from_bytes(RawBytes::EMPTY), || Ok(()))?,
        }
        if step.compares() {
            let is_uneven = step.spread(&mut self.state()?.context)?;
            self.note_comparison(is_uneven);
        }
        Ok(true)
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

    /// Makes a board if all tasks are on one host, the settings of rank 0 allow it, rank 0 has memory for it, and all tasks can access that
    /// memory. Otherwise the communicator never has a board.
    fn agree_about_board(&self) -> Result<()> {
        self.set_board(Board::Never);
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
        self.broadcast_words(&mut words, 0)?;
        let [method, address @ ..] = words;
        let method = match method {
            COUNTER => Method::Counter,
            LINES => Method::Lines,
            _ => return Ok(()),
        };
        let at = from_words(address);
        let mut unreachable = [u64::from(!board::is_reachable(&mut self.state()?.context, at))];
        self.combine_words(&mut unreachable)?;
        if unreachable == [0] {
            self.set_board(Board::open(method, at, (self.rank(), self.size())));
        }
        Ok(())
    }

    /// Combines all tasks' vectors, which must be as long as `own`. The last task to arrive does this for all: tasks that share processors
    /// would not compute at the same time anyway.
    fn reduced_on_board(&self, step: Step, own: &RecvData, plan: &mut Direct<'_, F, L>) -> Result<SendData> {
        let (size, count) = (self.size(), own.count());
        let all = plan.scratch(count * u64::from(size), own.datatype())?;
        let vector = |rank| all.part((u64::from(rank) * count).cast_signed(), count);
        self.read_board(step, own.packed_len(), (0..size).map(|rank| (rank, 0, vector(rank))))?;
        // In the order of the ranks: the operation need not commute.
        (1..size).try_for_each(|rank| plan.combine(&vector(rank - 1).as_send(), &vector(rank)))?;
        Ok(vector(size - 1).as_send())
    }

    /// Writes this task's data, and waits until all tasks have written theirs. The last task to arrive calls `prepare` before the others go
    /// on.
    fn meet_on_board(&self, step: Step, own: &SendData, prepare: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut arrival = step.arrive(&mut self.state()?.context, own)?;
        while matches!(arrival, Arrival::TooEarly) {
            self.wait_for_all(step.before())?;
            arrival = step.arrive(&mut self.state()?.context, own)?;
        }
        self.count_arrival();
        let Arrival::Last = arrival else { return self.wait_for_all(step) };
        // An operator may panic. The step must end even then, because the other tasks wait for its end.
        let prepared = catch_unwind(AssertUnwindSafe(prepare));
        // `state_to_end` instead of `state`: the error of an earlier call must not keep this call from ending the step.
        let mut state = self.state_to_end().ok_or(Error::Nested)?;
        let sleepers = step.end(&mut state.context, !matches!(prepared, Ok(Ok(()))))?;
        let own = state.context.endpoint().context;
        for task in sleepers.into_iter().filter_map(|rank| self.task_now(rank)) {
            state.context.ring(task.seen_from(own))?;
        }
        prepared.unwrap_or_else(|panic| resume_unwind(panic)).and_then(|()| state.waited_for_nothing())
    }

    /// Waits until the step has ended, or a task has failed.
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
            return self.state()?.waited_for_nothing();
        }
        let mut found = Ok(());
        self.wait_until(&mut |context| match self.has_ended_or_fails(context, step) {
            Ok(has_ended) => has_ended,
            Err(error) => {
                found = Err(error);
                true
            }
        })?;
        found
    }

    fn has_ended_or_fails(&self, context: &mut Context<F, MpiHandlers>, step: Step) -> Result<bool> {
        if step.has_ended(context, true)? {
            return Ok(true);
        }
        match self.failed_task(context) {
            None => Ok(false),
            // The failed task may have arrived before its failure, and the step may have ended.
            Some(failure) => match step.has_ended(context, false)? {
                true => Ok(true),
                false => Err(Error::Core(failure)),
            },
        }
    }

    /// The failure of a task of this communicator, if one has failed.
    pub(super) fn failed_task(&self, context: &mut Context<F, MpiHandlers>) -> Option<am_core::error::Error> {
        let own = context.endpoint().context;
        let tasks = (0..self.size()).filter_map(|rank| self.task_now(rank));
        tasks.map(|task| task.seen_from(own)).find_map(|peer| context.gone(peer))
    }

    fn read_board(
        &self,
        step: Step,
        len: u64,
        parts: impl Iterator<Item = (u32, u64, RecvData)>,
    ) -> Result<()> {
        let written = step.read(&mut self.state()?.context, len, parts)?;
        check_len(Status { len: written, ..Status::EMPTY }, Some(len))
    }
}
