//! The boards of this task's communicators, and the order of this task's collectives on each.
//!
//! A communicator has two boards: one for blocking collectives, and one for non-blocking ones. Each task begins the blocking collectives in
//! the same order, and the non-blocking ones in the same order, but one task may start a non-blocking collective before a blocking one, and
//! another task after it. Calls of the two kinds never match.
//!
//! A task carries out the collectives of a board one after the other: a non-blocking collective begins when the one before it has ended in
//! this task. So the steps of a board have the same numbers at all tasks, and no task enters a step before it has read what it needs of the
//! step before.

use std::collections::VecDeque;

use am_core::Context;
use am_core::buffer::RemoteAddress;
use am_core::fabric::Fabric;
use am_core::task::{Target, TaskId};

use super::{Arrival, Board, Lines, Method, Step, Use, both};
use crate::data::buffer::SendData;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::message::handlers::MpiHandlers;

/// A non-blocking collective on a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The board's number in [`Boards`].
    board: u32,
    /// The number of the collective among the non-blocking ones of the communicator.
    number: u64,
}

/// What a task knows of a board. The first fields are those of blocking collectives: tasks that share a processor find few lines in its
/// caches.
#[derive(Debug)]
#[repr(C, align(64))]
struct Entry {
    board: Board,
    rank: u32,
    size: u32,
    queue: Box<Queue>,
}

/// The tasks of a board, and the non-blocking collectives on it.
#[derive(Debug)]
struct Queue {
    /// The communicator's.
    context_id: u32,
    group: Group,
    /// Number of non-blocking collectives so far that could have used a board.
    begun: u64,
    /// Number of these that use messages, because a task began them before the tasks agreed about the board.
    by_messages: u64,
    /// The numbers of the collectives that have been started and have not ended, in the order of their starts.
    under_way: VecDeque<u64>,
    /// Whether the communicator has ended. Its board is closed when no collective is under way.
    has_ended: bool,
}

/// The boards of all communicators of this task: for each communicator the board of its blocking collectives, which has an even number,
/// and the board of its non-blocking ones, which has the next number.
#[derive(Debug, Default)]
pub(crate) struct Boards {
    entries: Vec<[Option<Entry>; 2]>,
    /// Indexes of entries without a board.
    free: Vec<usize>,
}

impl Boards {
    /// Adds the boards of a communicator of the tasks in `group`, in which this task has the given rank. Returns the number of the board of
    /// blocking collectives.
    pub(crate) fn add(&mut self, context_id: u32, group: &Group, rank: u32) -> u32 {
        let size = group.size();
        let both = [Board::default(), Board::Never].map(|board| {
            let (group, under_way) = (group.clone(), VecDeque::new());
            let queue = Queue { context_id, group, begun: 0, by_messages: 0, under_way, has_ended: false };
            Some(Entry { board, rank, size, queue: Box::new(queue) })
        });
        let at = self.free.pop().unwrap_or(self.entries.len());
        match self.entries.get_mut(at) {
            Some(entry) => *entry = both,
            None => self.entries.push(both),
        }
        u32::try_from(2 * at).unwrap_or(u32::MAX)
    }

    /// Removes the boards of a communicator, the one of its non-blocking collectives after the last of these has ended.
    pub(crate) fn remove<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>, board: u32) {
        for board in [board, Self::of_non_blocking(board)] {
            if let Some(entry) = self.entry(board) {
                entry.queue.has_ended = true;
                self.close_unused(context, board);
            }
        }
    }

    fn close_unused<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>, board: u32) {
        let Some(slot) = self.slot(board) else { return };
        if let Some(entry) = slot.take_if(|entry| entry.queue.has_ended && entry.queue.under_way.is_empty()) {
            entry.board.close(context);
            let at = board as usize / 2;
            if self.entries[at].iter().all(Option::is_none) {
                self.free.push(at);
            }
        }
    }

    #[inline]
    fn slot(&mut self, board: u32) -> Option<&mut Option<Entry>> {
        self.entries.get_mut(board as usize / 2).map(|both| &mut both[board as usize % 2])
    }

    #[inline]
    fn entry(&mut self, board: u32) -> Option<&mut Entry> {
        self.slot(board)?.as_mut()
    }

    /// A board. `None` if the communicator was made inside another call, and so has no number here.
    #[inline]
    pub(crate) fn board(&mut self, board: u32) -> Option<&mut Board> {
        self.entry(board).map(|entry| &mut entry.board)
    }

    /// The number of the board of a communicator's non-blocking collectives. `board` is the number of the board of its blocking ones.
    pub(crate) fn of_non_blocking(board: u32) -> u32 {
        board.saturating_add(1)
    }

    /// Begins a collective on a board. `can` tells whether the collective can use a board with the given method.
    #[inline]
    pub(crate) fn begin(&mut self, board: u32, can: impl Fn(Method) -> bool) -> Use {
        let Some(entry) = self.entry(board) else { return Use::Messages };
        if !board.is_multiple_of(2) {
            let queue = &mut entry.queue;
            queue.begun += 1;
            if queue.begun <= queue.by_messages {
                return Use::Messages;
            }
        }
        entry.board.begin(can)
    }

    /// Number of non-blocking collectives of a communicator so far that could have used a board.
    pub(crate) fn begun_non_blocking(&mut self, board: u32) -> u64 {
        self.entry(Self::of_non_blocking(board)).map_or(0, |entry| entry.queue.begun)
    }

    /// Opens the boards of a communicator, which are in the memory at `at`. `by_messages` is the largest
    /// [number of non-blocking collectives](Self::begun_non_blocking) that a task has begun: if one task began a collective before this
    /// call, all tasks must carry it out by messages.
    pub(crate) fn open(&mut self, board: u32, method: Method, at: RemoteAddress, by_messages: u64) {
        for (board, at) in [board, Self::of_non_blocking(board)].into_iter().zip(both(at)) {
            if let Some(entry) = self.entry(board) {
                entry.board = Board::open(method, at, (entry.rank, entry.size));
                entry.queue.by_messages = by_messages;
            }
        }
    }

    /// Queues the non-blocking collective that has just begun, which must use the board.
    pub(crate) fn queue(&mut self, board: u32) -> Option<Ticket> {
        let queue = &mut self.entry(board)?.queue;
        queue.under_way.push_back(queue.begun);
        Some(Ticket { board, number: queue.begun })
    }

    /// Whether a non-blocking collective may use the board now: all earlier ones have ended.
    pub(crate) fn is_next(&mut self, ticket: Ticket) -> bool {
        self.entry(ticket.board).is_none_or(|entry| entry.queue.under_way.front() == Some(&ticket.number))
    }

    /// Ends a non-blocking collective.
    pub(crate) fn end<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>, ticket: Ticket) {
        if let Some(entry) = self.entry(ticket.board) {
            entry.queue.under_way.retain(|&number| number != ticket.number);
            self.close_unused(context, ticket.board);
        }
    }

    /// The last step at which this task has arrived, on a board with a counter, and whether the tasks compare their processors in it.
    ///
    /// # Errors
    /// There is no such board.
    #[inline]
    pub(crate) fn step(&mut self, board: u32) -> Result<Step> {
        match self.entry(board) {
            Some(&mut Entry { board: Board::Open { at, arrived, comparisons }, rank, size, .. }) => {
                Ok(Step { at, number: arrived, rank, size, comparisons })
            }
            _ => Err(no_board()),
        }
    }

    /// Writes this task's data to a board with a counter, and arrives at the next step. Also returns the step; the present step if this
    /// task is too early.
    ///
    /// # Errors
    /// There is no such board; rank 0 has failed.
    pub(crate) fn arrive<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        board: u32,
        own: &SendData,
    ) -> Result<(Arrival, Step)> {
        let present = self.step(board)?;
        let step = present.next();
        let arrival = step.arrive(context, own)?;
        if let Arrival::TooEarly = arrival {
            return Ok((arrival, present));
        }
        if let Some(Board::Open { arrived, .. }) = self.board(board) {
            *arrived = step.number;
        }
        Ok((arrival, step))
    }

    /// This task's position on a board with lines.
    ///
    /// # Errors
    /// There is no such board.
    #[inline]
    pub(crate) fn lines(&mut self, board: u32) -> Result<&mut Lines> {
        match self.board(board) {
            Some(Board::Lines(lines)) => Ok(lines),
            _ => Err(no_board()),
        }
    }

    /// The task of a rank.
    pub(crate) fn task_of(&mut self, board: u32, rank: u32) -> Option<TaskId> {
        self.entry(board)?.queue.group.task_of(rank)
    }

    /// Why a step may never end: the communicator is revoked, or one of its tasks has failed or has closed its context.
    #[cold]
    pub(crate) fn trouble<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        board: u32,
    ) -> Option<Error> {
        let queue = &self.entry(board)?.queue;
        let own = context.endpoint().context;
        let gone = queue.group.tasks().find_map(|task| context.gone(task.seen_from(own)));
        context.handlers().trouble_of(queue.context_id).or(gone.map(Error::Core))
    }
}

impl Ticket {
    pub(crate) fn board(self) -> u32 {
        self.board
    }
}

#[cold]
fn no_board() -> Error {
    Error::Protocol { peer: 0, what: "a collective on a board that the communicator does not have" }
}
