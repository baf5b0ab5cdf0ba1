//! What an algorithm says, and who carries it out.
//!
//! An algorithm is a function over a [`Plan`]: this task sends that, receives this, combines these. [`Direct`](super::Direct)
//! does it at once, for calls that wait; [`Recorder`](super::Recorder) writes it down as a schedule, for those that don't.

use crate::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::settings::Selection;
use mpi_datatype::Datatype;

/// One task's part in a collective. Ranks are those that messages go to: of an inter-communicator, the other side's.
pub(super) trait Plan: Sized {
    /// This task's rank.
    fn rank(&self) -> u32;

    /// Tasks on this side.
    fn size(&self) -> u32;

    /// Ranks that messages can go to.
    fn peers(&self) -> u32;

    /// Whether messages go to another group than this task's.
    fn is_inter(&self) -> bool;

    /// Whether operands of the reduction may change places.
    fn is_commutative(&self) -> bool;

    /// From where on which algorithm is used.
    fn selection(&self) -> Selection;

    /// Starts a send.
    fn send(&mut self, data: &SendData, to: u32) -> Result<()>;

    /// Starts a receive of exactly these elements.
    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()>;

    /// All that was started is over.
    fn wait(&mut self) -> Result<()>;

    /// Makes each later element what the two come to.
    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()>;

    /// Copies elements, which do not overlap.
    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()>;

    /// Looks at bytes, which are in one piece, when all that was started is over.
    fn examine(&mut self, bytes: &SendData, look: fn(&[u8]) -> Result<()>) -> Result<()>;

    /// Elements in memory of the operation's own, until its end.
    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData>;

    /// Carries a part out among the tasks of this side.
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
