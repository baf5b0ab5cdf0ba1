//! The interface between algorithms and what carries them out.
//!
//! An algorithm is a function that calls the methods of a [`Plan`]: send, receive, combine. [`Direct`](super::Direct)
//! does it at once, for calls that wait; [`Recorder`](super::Recorder) records it as a schedule, for those that do not.

use crate::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::settings::Selection;
use mpi_datatype::Datatype;

/// One task's part in a collective. Ranks are those of the tasks that messages go to: in an inter-communicator, those of the other side.
pub(super) trait Plan: Sized {
    /// This task's rank.
    fn rank(&self) -> u32;

    /// The number of tasks on this side.
    fn size(&self) -> u32;

    /// The number of ranks that messages can go to.
    fn peers(&self) -> u32;

    /// Whether messages go to another group than this task's.
    fn is_inter(&self) -> bool;

    /// Whether the operation of the reduction commutes.
    fn is_commutative(&self) -> bool;

    /// Where to switch from one algorithm to the next.
    fn selection(&self) -> Selection;

    /// Starts a send.
    fn send(&mut self, data: &SendData, to: u32) -> Result<()>;

    /// Starts a receive of exactly these elements.
    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()>;

    /// Waits until everything that was started is complete.
    fn wait(&mut self) -> Result<()>;

    /// Replaces each element of `later` by the operation's result on it and that of `earlier`.
    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()>;

    /// Copies elements, which do not overlap.
    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()>;

    /// Calls `look` with contiguous bytes once everything that was started is complete.
    fn examine(&mut self, bytes: &SendData, look: fn(&[u8]) -> Result<()>) -> Result<()>;

    /// Elements in memory that the operation owns until its end.
    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData>;

    /// Carries out a part among the tasks of this side.
    fn among_own(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()>;

    /// Sends, and waits.
    fn push(&mut self, data: &SendData, to: u32) -> Result<()> {
        self.send(data, to)?;
        self.wait()
    }

    /// Receives, and waits.
    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        self.receive(data, from)?;
        self.wait()
    }

    /// Sends while receiving, and waits.
    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        self.receive(data, from)?;
        self.send(out, to)?;
        self.wait()
    }
}
