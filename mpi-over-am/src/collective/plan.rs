//! The interface between algorithms and their execution.
//!
//! An algorithm is a function that calls the methods of a [`Plan`]: send, receive, combine. [`Direct`](super::Direct) executes them
//! immediately, for blocking calls; [`Recorder`](super::Recorder) records them as a schedule, for all other calls.
//! [`Among`](super::among::Among) passes the calls on to one of these two, for a stage among some of the tasks.

use std::sync::Arc;

use crate::communicator::hosts::Hosts;
use crate::data::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::message::request_table::{Awaited, LinesPart, MetPart};
use crate::settings::Selection;
use mpi_datatype::Datatype;

/// The elements with which received elements are combined.
#[derive(Clone, Copy)]
pub(super) enum Others<'a> {
    /// The first operands. The results replace the received elements.
    Earlier(&'a SendData),
    /// The second operands, which the results replace.
    Later(&'a RecvData),
}

/// One task's part in a collective. The ranks that methods take are those of peers: in an inter-communicator, ranks in the remote group.
pub(super) trait Plan {
    /// This task's rank.
    fn rank(&self) -> u32;

    /// The number of tasks in the local group.
    fn size(&self) -> u32;

    /// The number of ranks that messages can be sent to.
    fn peers(&self) -> u32;

    /// Whether messages are sent to a group other than this task's.
    fn is_inter(&self) -> bool;

    /// The hosts of the tasks, if the collective has to work within each host and between hosts.
    fn hosts(&self) -> Option<Arc<Hosts>> {
        None
    }

    /// Whether the operation of the reduction commutes.
    fn is_commutative(&self) -> bool;

    /// Thresholds between algorithms.
    fn selection(&self) -> Selection;

    /// Starts a send.
    fn send(&mut self, data: &SendData, to: u32) -> Result<()>;

    /// Starts a receive of exactly these elements.
    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()>;

    /// Waits until everything that was started is complete.
    fn wait(&mut self) -> Result<()>;

    /// Waits until the receives that were started are complete. Sends may stay under way: a receiver may wait for a later message of this
    /// task before it posts its receive.
    fn wait_for_receives(&mut self) -> Result<()>;

    /// Combines each element of `earlier` into the element of `later` with the same index, by the operation.
    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()>;

    /// Copies elements. `from` and `to` must not overlap.
    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()>;

    /// Calls `look` with `bytes`, which must be contiguous. Everything that was started before must be complete.
    fn examine(&mut self, bytes: &SendData, look: fn(&[u8]) -> Result<()>) -> Result<()>;

    /// Allocates memory for elements. The collective owns the memory until its end.
    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData>;

    /// Carries out a part of the collective among the tasks of the local group.
    fn among_own(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()>
    where
        Self: Sized;

    /// Sends, and waits.
    fn push(&mut self, data: &SendData, to: u32) -> Result<()> {
        self.send(data, to)?;
        self.wait()
    }

    /// Receives, and waits for the receives.
    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        self.receive(data, from)?;
        self.wait_for_receives()
    }

    /// Receives into `buffer`, and combines the received elements with `others`, which must have the same number of elements.
    fn pull_and_combine(&mut self, buffer: &RecvData, from: u32, others: Others<'_>) -> Result<()> {
        self.pull(buffer, from)?;
        match others {
            Others::Earlier(own) => self.combine(own, buffer),
            Others::Later(into) => self.combine(&buffer.as_send(), into),
        }
    }

    /// Sends while receiving, and waits.
    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        self.receive(data, from)?;
        self.send(out, to)?;
        self.wait()
    }
}

/// A plan that can also use the communicator's board.
pub(super) trait BoardPlan: Plan {
    /// Whether the last task to arrive at a step may combine the vectors of all tasks.
    fn reduces_at_board(&self) -> bool;

    /// On a board with a counter: writes this task's data, arrives, and waits until all have arrived. If the vectors of all tasks are to be
    /// reduced, the last task to arrive combines them; they are as long as `reduced`.
    fn meet(&mut self, own: &SendData, reduced: Option<&RecvData>) -> Result<()>;

    /// Reads data that tasks have written in the present step, each `len` bytes.
    fn read(&mut self, len: u64, parts: impl Iterator<Item = MetPart>) -> Result<()>;

    /// Reads the reduced vector.
    fn read_reduced(&mut self, into: &RecvData) -> Result<()>;

    /// On a board with lines: enters the next step, with data or without.
    fn enter(&mut self, data: Option<&SendData>) -> Result<()>;

    /// Waits until the awaited tasks have entered the present step.
    fn await_entries(&mut self, awaited: Awaited) -> Result<()>;

    /// Reads data that tasks have written in the present step.
    fn read_lines(&mut self, parts: impl Iterator<Item = LinesPart>) -> Result<()>;
}
