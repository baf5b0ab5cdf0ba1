//! What a collective does at a board, in the task's turn: a blocking collective waits between these functions, and a schedule continues in
//! whichever call makes progress.

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::task::Target;

use super::check_len;
use crate::data::buffer::{RecvData, Scratch, SendData};
use crate::data::op::Combine;
use crate::error::Result;
use crate::message::board::{Arrival, Boards, Order, Step};
use crate::message::handlers::MpiHandlers;
use crate::message::request_table::{Act, Awaited, LinesPart, MetPart};
use crate::message::state::State;
use crate::message::status::Status;

impl Act {
    /// Whether a schedule can carry this out now. With `may_sleep`, this task will be rung when that changes.
    ///
    /// # Errors
    /// A task that is waited for has failed.
    pub(crate) fn can_be_carried_out<F: Fabric>(
        &self,
        boards: &mut Boards,
        context: &mut Context<F, MpiHandlers>,
        board: u32,
        may_sleep: bool,
    ) -> Result<bool> {
        if self.is_awaited(boards, context, board, may_sleep)? {
            return Ok(true);
        }
        if !context.handlers().is_unusual() {
            return Ok(false);
        }
        match boards.trouble(context, board) {
            None => Ok(false),
            // The failed task may have arrived before its failure.
            Some(trouble) => match self.is_awaited(boards, context, board, false)? {
                true => Ok(true),
                false => Err(trouble),
            },
        }
    }

    fn is_awaited<F: Fabric>(
        &self,
        boards: &mut Boards,
        context: &mut Context<F, MpiHandlers>,
        board: u32,
        may_sleep: bool,
    ) -> Result<bool> {
        match self {
            Self::Arrive { .. } | Self::Meet => boards.step(board)?.has_ended(context, may_sleep),
            Self::Enter { data: Some(_) } => {
                let lines = boards.lines(board)?;
                let Some(step) = lines.before_writing() else { return Ok(true) };
                let have_entered = lines.have_entered(context, (Awaited::All, step), 1, may_sleep)?;
                if have_entered {
                    lines.saw_all(step);
                }
                Ok(have_entered)
            }
            Self::Await(awaited) => {
                let lines = boards.lines(board)?;
                lines.have_entered(context, (*awaited, lines.step()), 1, may_sleep)
            }
            Self::Enter { data: None }
            | Self::Read { .. }
            | Self::ReadReduced { .. }
            | Self::ReadLines { .. } => Ok(true),
        }
    }

    /// Carries this out, with the operation `op`.
    ///
    /// # Errors
    /// Data of another length; rank 0 has failed.
    pub(crate) fn carry_out<F: Fabric>(
        &self,
        state: &mut State<F>,
        board: u32,
        op: Option<&dyn Combine>,
    ) -> Result<()> {
        match self {
            Self::Arrive { own, reduced } => {
                let (Arrival::Last, step) = arrive(state, board, own)? else { return Ok(()) };
                let prepared = reduced.as_ref().map_or(Ok(()), |own| {
                    with_reduced(state, step, own, op, |state, reduced| {
                        step.replace(&mut state.context, reduced)
                    })
                });
                end_step(state, (board, step), prepared.is_err())?;
                prepared
            }
            Self::Meet => {
                let step = state.schedules.boards.step(board)?;
                if step.compares() { spread(state, (board, step)) } else { Ok(()) }
            }
            Self::Read { len, parts } => {
                let step = state.schedules.boards.step(board)?;
                read(state, step, *len, parts.iter().cloned())
            }
            Self::ReadReduced { into } => {
                let step = state.schedules.boards.step(board)?;
                if step.has_failed(&mut state.context)? {
                    // The vectors are still there, and this task finds the same error.
                    return with_reduced(state, step, into, op, |_, reduced| {
                        reduced.copy_to(into);
                        Ok(())
                    });
                }
                read(state, step, into.packed_len(), std::iter::once((0, 0, into.clone())))
            }
            Self::Enter { data } => enter(state, board, data.as_ref()),
            Self::Await(awaited) => {
                let lines = state.schedules.boards.lines(board)?;
                if *awaited == Awaited::All {
                    lines.saw_all(lines.step());
                }
                Ok(())
            }
            Self::ReadLines { parts } => read_lines(state, board, parts.iter().cloned()),
        }
    }
}

/// Writes this task's data to a board with a counter, and arrives at the next step, if the step before has ended.
///
/// # Errors
/// Rank 0 has failed.
pub(crate) fn arrive<F: Fabric>(state: &mut State<F>, board: u32, own: &SendData) -> Result<(Arrival, Step)> {
    let State { context, schedules, .. } = state;
    schedules.boards.arrive(context, board, own)
}

/// Ends a step at which all tasks have arrived, and rings the tasks that may sleep.
///
/// # Errors
/// Rank 0 has failed.
pub(crate) fn end_step<F: Fabric>(
    state: &mut State<F>,
    (board, step): (u32, Step),
    has_failed: bool,
) -> Result<()> {
    let sleepers = step.end(&mut state.context, has_failed)?;
    ring(state, board, sleepers.into_iter())
}

/// After the end of a step with a comparison: moves this task to another processor if the tasks are distributed unevenly.
///
/// # Errors
/// Rank 0 has failed.
#[cold]
pub(crate) fn spread<F: Fabric>(state: &mut State<F>, (board, step): (u32, Step)) -> Result<()> {
    let is_uneven = step.spread(&mut state.context)?;
    if let Some(board) = state.schedules.boards.board(board) {
        board.note_comparison(is_uneven);
    }
    Ok(())
}

/// Reads parts of the data of tasks, which must be `len` bytes long each, after the end of a step.
///
/// # Errors
/// Data of another length; rank 0 has failed.
pub(crate) fn read<F: Fabric>(
    state: &mut State<F>,
    step: Step,
    len: u64,
    parts: impl Iterator<Item = MetPart>,
) -> Result<()> {
    let written = step.read(&mut state.context, len, parts)?;
    check_len(Status { len: written, ..Status::EMPTY }, Some(len))
}

/// Calls `call` with the combination of all tasks' vectors, which must be as long as `own`.
fn with_reduced<F: Fabric>(
    state: &mut State<F>,
    step: Step,
    own: &RecvData,
    op: Option<&dyn Combine>,
    call: impl FnOnce(&mut State<F>, &SendData) -> Result<()>,
) -> Result<()> {
    let elements = own.count() * u64::from(step.size());
    let (scratch, all) = Scratch::with_elements(state.spare.take(), elements, own.datatype())?;
    let read = read(state, step, own.packed_len(), vectors(&all, own.count(), step.size()));
    let reduced = read.and_then(|()| {
        let is_commutative = op.is_none_or(|op| op.is_commutative());
        let order = Order::new(&state.selection, step.size(), own.packed_len(), is_commutative);
        combine_vectors(&all, own.count(), order, |earlier, later| {
            op.map_or(Ok(()), |op| op.combine(earlier, later))
        })
    });
    let result = reduced.and_then(|reduced| call(state, &reduced));
    state.spare = Some(scratch);
    result
}

/// Destinations for the vectors of all tasks, of `count` elements each, one after the other in `all`.
pub(crate) fn vectors(all: &RecvData, count: u64, size: u32) -> impl Iterator<Item = MetPart> {
    (0..size).map(move |rank| (rank, 0, all.part((u64::from(rank) * count).cast_signed(), count)))
}

/// Combines the vectors that [`vectors`] lists. Returns the result, which replaces one of the vectors.
///
/// # Errors
/// The error of `combine`.
pub(crate) fn combine_vectors(
    all: &RecvData,
    count: u64,
    order: Order,
    mut combine: impl FnMut(&SendData, &RecvData) -> Result<()>,
) -> Result<SendData> {
    let vector = |rank: u32| all.part((u64::from(rank) * count).cast_signed(), count);
    let result = order.combine(|earlier, later| combine(&vector(earlier).as_send(), &vector(later)))?;
    Ok(vector(result).as_send())
}

/// Enters the next step of a board with lines, with data or without, and rings the tasks that may sleep.
///
/// # Errors
/// Rank 0 has failed.
pub(crate) fn enter<F: Fabric>(state: &mut State<F>, board: u32, data: Option<&SendData>) -> Result<()> {
    let State { context, schedules, .. } = state;
    let sleepers = schedules.boards.lines(board)?.enter(context, data)?;
    if sleepers != 0 {
        return ring(state, board, (0..u64::BITS).filter(|rank| sleepers >> rank & 1 != 0));
    }
    Ok(())
}

/// Reads parts of the data of tasks that have entered the present step.
///
/// # Errors
/// Data of another length; rank 0 has failed.
pub(crate) fn read_lines<F: Fabric>(
    state: &mut State<F>,
    board: u32,
    parts: impl Iterator<Item = LinesPart>,
) -> Result<()> {
    let State { context, schedules, .. } = state;
    let other = schedules.boards.lines(board)?.read(context, parts)?;
    other
        .map_or(Ok(()), |(given, expected)| check_len(Status { len: given, ..Status::EMPTY }, Some(expected)))
}

fn ring<F: Fabric>(state: &mut State<F>, board: u32, ranks: impl Iterator<Item = u32>) -> Result<()> {
    let State { context, schedules, .. } = state;
    let own = context.endpoint().context;
    for rank in ranks {
        if let Some(task) = schedules.boards.task_of(board, rank) {
            context.ring(task.seen_from(own))?;
        }
    }
    Ok(())
}
