//! Records an algorithm as a schedule.

use std::sync::Arc;

use am_core::fabric::Fabric;

use super::Plan;
use crate::communicator::Communicator;
use crate::communicator::hosts::Hosts;
use crate::context_id::Space;
use crate::data::buffer::{RecvData, Scratch, SendData};
use crate::data::op::Op;
use crate::error::Result;
use crate::message::request_table::{Schedule, Step};
use crate::policy::LockPolicy;
use crate::settings::Selection;
use mpi_datatype::Datatype;

/// The series of a recorded collective. Both series are numbered together: all tasks must make them in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    /// Non-blocking collectives (`MPI_Ibarrier` and the like).
    Started,
    /// Persistent collectives, which keep their tags from start to start.
    Persistent,
}

/// A schedule that is being recorded.
pub(super) struct Recorder<'a, F: Fabric, L: LockPolicy> {
    pub(super) communicator: &'a Communicator<F, L>,
    tag: i32,
    series: Series,
    pub(super) op: Option<Op>,
    selection: Selection,
    pub(super) steps: Vec<Step>,
    scratch: Vec<Scratch>,
}

impl<'a, F: Fabric, L: LockPolicy> Recorder<'a, F, L> {
    /// An empty schedule. Its messages have a tag of their own, which is the same at all tasks because all make their collectives in the
    /// same order.
    pub(super) fn new(communicator: &'a Communicator<F, L>, op: Option<Op>, series: Series) -> Result<Self> {
        let tag = next_tag(communicator, series)?;
        let selection = communicator.state_for_all()?.selection;
        let (steps, scratch) = (Vec::new(), Vec::new());
        Ok(Self { communicator, tag, series, op, selection, steps, scratch })
    }

    pub(super) fn into_schedule(self) -> Schedule {
        Schedule { steps: self.steps, op: self.op, scratch: self.scratch }
    }
}

/// The bit that is set in the tags of persistent collectives. Tags without it belong to non-blocking collectives, and tag 0 to blocking
/// ones.
const PERSISTENT: i32 = 1 << 29;

/// The part of a tag that numbers the collective.
fn number_of(collective: u32) -> i32 {
    (collective % (PERSISTENT.cast_unsigned() - 1)).cast_signed()
}

fn next_tag<F: Fabric, L: LockPolicy>(communicator: &Communicator<F, L>, series: Series) -> Result<i32> {
    Ok(match series {
        Series::Started => 1 + number_of(communicator.next_collective()?),
        Series::Persistent => PERSISTENT + number_of(communicator.next_collective()?),
    })
}

impl<F: Fabric, L: LockPolicy> Plan for Recorder<'_, F, L> {
    fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    fn size(&self) -> u32 {
        self.communicator.size()
    }

    fn peers(&self) -> u32 {
        self.communicator.remote_size().unwrap_or(self.communicator.size())
    }

    fn is_inter(&self) -> bool {
        self.communicator.is_inter()
    }

    fn hosts(&self) -> Option<Arc<Hosts>> {
        self.communicator.hosts().cloned()
    }

    fn is_commutative(&self) -> bool {
        self.op.as_ref().is_none_or(Op::is_commutative)
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn send(&mut self, data: &SendData, to: u32) -> Result<()> {
        let route = self.communicator.route(Space::Collective, to, self.tag)?;
        self.steps.push(Step::Send { route, data: data.clone() });
        Ok(())
    }

    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let pattern = self.communicator.pattern(Space::Collective, from.into(), self.tag.into())?;
        self.steps.push(Step::Receive { pattern, data: data.clone() });
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.steps.push(Step::Wait);
        Ok(())
    }

    fn wait_for_receives(&mut self) -> Result<()> {
        self.steps.push(Step::WaitForReceives);
        Ok(())
    }

    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()> {
        self.steps.push(Step::Combine { earlier: earlier.clone(), later: later.clone() });
        Ok(())
    }

    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()> {
        self.steps.push(Step::Copy { from: from.clone(), to: to.clone() });
        Ok(())
    }

    fn examine(&mut self, bytes: &SendData, look: fn(&[u8]) -> Result<()>) -> Result<()> {
        self.steps.push(Step::Examine { bytes: bytes.clone(), look });
        Ok(())
    }

    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData> {
        let (scratch, elements) = Scratch::with_elements(None, count, datatype)?;
        self.scratch.push(scratch);
        Ok(elements)
    }

    fn among_own(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let (whole, tag) = (self.communicator, self.tag);
        self.communicator = whole.local();
        // A tag of the local communicator, in which the tasks of the local group may have other collectives under way.
        self.tag = next_tag(self.communicator, self.series)?;
        let result = part(self);
        (self.communicator, self.tag) = (whole, tag);
        result
    }
}
