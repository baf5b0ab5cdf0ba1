//! The boards of this task's communicators, and the order of this task's collectives on each.
//!
//! All tasks begin the collectives of a communicator in the same order, and a task carries them out on the board one after the other: a
//! non-blocking collective begins when the one before it has ended in this task, and a blocking one when none is left. So the steps of a
//! board have the same numbers at all tasks, and no task enters a step before it has read what it needs of the step before.

use std::collections::VecDeque;

use am_core::Context;
use am_core::fabric::Fabric;
use am_core::task::{Target, TaskId};

use super::{Arrival, Board, Lines, Method, Step, Use};
use crate::buffer::SendData;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::handlers::MpiHandlers;

/// A non-blocking collective on a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The communicator's number in [`Boards`].
    communicator: u32,
    /// The number of the collective among those of the communicator.
    number: u64,
}

/// What a task knows of the board of a communicator. The first fields are those of blocking collectives: tasks that share a processor find
/// few lines in its caches.
#[derive(Debug)]
#[repr(C, align(64))]
struct Entry {
    board: Board,
    rank: u32,
    size: u32,
    /// Whether no collective is under way in the queue.
    is_idle: bool,
    queue: Box<Queue>,
}

/// The non-blocking collectives of a communicator on its board.
#[derive(Debug)]
struct Queue {
    group: Group,
    /// The number of the next collective.
    next: u64,
    /// The collectives that have been started and have not ended, in the order of their starts.
    under_way: VecDeque<u64>,
    /// Whether the communicator has ended. Its board is closed when no collective is under way.
    has_ended: bool,
}

/// The boards of all communicators of this task.
#[derive(Debug, Default)]
pub(crate) struct Boards {
    entries: Vec<Option<Entry>>,
}

impl Boards {
    /// Adds a communicator of the tasks in `group`, in which this task has the given rank. Returns the communicator's number.
    pub(crate) fn add(&mut self, group: Group, rank: u32) -> u32 {
        let size = group.size();
        let queue = Box::new(Queue { group, next: 0, under_way: VecDeque::new(), has_ended: false });
        let entry = Entry { board: Board::default(), rank, size, is_idle: true, queue };
        let free = self.entries.iter().position(Option::is_none);
        let at = free.unwrap_or(self.entries.len());
        match free {
            Some(free) => self.entries[free] = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Removes a communicator. Its board is closed after the last collective under way.
    pub(crate) fn remove<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>, communicator: u32) {
        if let Some(entry) = self.entry(communicator) {
            entry.queue.has_ended = true;
            self.close_unused(context, communicator);
        }
    }

    fn close_unused<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>, communicator: u32) {
        let Some(slot) = self.entries.get_mut(communicator as usize) else { return };
        if let Some(entry) = slot.take_if(|entry| entry.queue.has_ended && entry.is_idle) {
            entry.board.close(context);
        }
    }

    #[inline]
    fn entry(&mut self, communicator: u32) -> Option<&mut Entry> {
        self.entries.get_mut(communicator as usize)?.as_mut()
    }

    /// The board of a communicator. `None` if the communicator was made inside another call, and so has no number here.
    #[inline]
    pub(crate) fn board(&mut self, communicator: u32) -> Option<&mut Board> {
        self.entry(communicator).map(|entry| &mut entry.board)
    }

    /// Begins a collective. `can` tells whether the collective can use a board with the given method. Also returns whether all non-blocking
    /// collectives of the communicator on its board have ended: a blocking one has to wait for that.
    #[inline]
    pub(crate) fn begin(&mut self, communicator: u32, can: impl Fn(Method) -> bool) -> (Use, bool) {
        match self.entry(communicator) {
            Some(entry) => (entry.board.begin(can), entry.is_idle),
            None => (Use::Messages, true),
        }
    }

    /// Queues a non-blocking collective, which must use the board.
    pub(crate) fn queue(&mut self, communicator: u32) -> Option<Ticket> {
        let Entry { is_idle, queue, .. } = self.entry(communicator)?;
        let number = queue.next;
        queue.next += 1;
        queue.under_way.push_back(number);
        *is_idle = false;
        Some(Ticket { communicator, number })
    }

    /// Whether all non-blocking collectives of the communicator on its board have ended.
    pub(crate) fn is_idle(&self, communicator: u32) -> bool {
        let entry = self.entries.get(communicator as usize).and_then(Option::as_ref);
        entry.is_none_or(|entry| entry.is_idle)
    }

    /// Whether a non-blocking collective may use the board now: all earlier ones have ended.
    pub(crate) fn is_next(&mut self, ticket: Ticket) -> bool {
        self.entry(ticket.communicator)
            .is_none_or(|entry| entry.queue.under_way.front() == Some(&ticket.number))
    }

    /// Ends a non-blocking collective.
    pub(crate) fn end<F: Fabric>(&mut self, context: &mut Context<F, MpiHandlers>, ticket: Ticket) {
        if let Some(Entry { is_idle, queue, .. }) = self.entry(ticket.communicator) {
            queue.under_way.retain(|&number| number != ticket.number);
            *is_idle = queue.under_way.is_empty();
            self.close_unused(context, ticket.communicator);
        }
    }

    /// The last step at which this task has arrived, on a board with a counter, and whether the tasks compare their processors in it.
    ///
    /// # Errors
    /// The communicator has no such board.
    #[inline]
    pub(crate) fn step(&mut self, communicator: u32) -> Result<Step> {
        match self.entry(communicator) {
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
    /// The communicator has no such board; rank 0 has failed.
    pub(crate) fn arrive<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        communicator: u32,
        own: &SendData,
    ) -> Result<(Arrival, Step)> {
        let present = self.step(communicator)?;
        let step = present.next();
        let arrival = step.arrive(context, own)?;
        if let Arrival::TooEarly = arrival {
            return Ok((arrival, present));
        }
        if let Some(Board::Open { arrived, .. }) = self.board(communicator) {
            *arrived = step.number;
        }
        Ok((arrival, step))
    }

    /// This task's position on a board with lines.
    ///
    /// # Errors
    /// The communicator has no such board.
    #[inline]
    pub(crate) fn lines(&mut self, communicator: u32) -> Result<&mut Lines> {
        match self.board(communicator) {
            Some(Board::Lines(lines)) => Ok(lines),
            _ => Err(no_board()),
        }
    }

    /// The task of a rank.
    pub(crate) fn task_of(&mut self, communicator: u32, rank: u32) -> Option<TaskId> {
        self.entry(communicator)?.queue.group.task_of(rank)
    }

    /// The failure of a task of the communicator, if a task has failed or has closed its context.
    pub(crate) fn failure<F: Fabric>(
        &mut self,
        context: &mut Context<F, MpiHandlers>,
        communicator: u32,
    ) -> Option<am_core::error::Error> {
        let own = context.endpoint().context;
        let mut tasks = self.entry(communicator)?.queue.group.tasks();
        tasks.find_map(|task| context.gone(task.seen_from(own)))
    }
}

impl Ticket {
    pub(crate) fn communicator(self) -> u32 {
        self.communicator
    }
}

#[cold]
fn no_board() -> Error {
    Error::Protocol { peer: 0, what: "a collective on a board that the communicator does not have" }
}
