//! Carries an algorithm out at once, by puts and counters: the same algorithms as by messages, over [`Lanes`](super::lanes::Lanes).

use am_core::fabric::Fabric;
use smallvec::SmallVec;

use super::direct::Direct;
use super::lanes::{Lanes, Mark, TakenLanes};
use super::{Plan, Selection};
use crate::buffer::{RecvData, SendData};
use crate::communicator::Communicator;
use crate::error::Result;
use crate::policy::LockPolicy;
use crate::state::State;
use mpi_datatype::Datatype;

/// A collective that is carried out by puts while its caller waits. Nobody but the caller uses the caller's memory.
pub(super) struct ByPuts<'a, F: Fabric, L: LockPolicy> {
    /// What is done in this task.
    own: Direct<'a, F, L>,
    mark: Mark,
    /// What was asked for and not waited for.
    pending: SmallVec<[(RecvData, u32); 8]>,
}

impl<'a, F: Fabric, L: LockPolicy> ByPuts<'a, F, L> {
    /// On a communicator that has lanes.
    pub(super) fn new(own: Direct<'a, F, L>, mark: Mark) -> Self {
        Self { own, mark, pending: SmallVec::new() }
    }

    #[inline]
    fn with_lanes<R>(
        &self,
        call: impl FnOnce(&mut Lanes, &Communicator<F, L>, &mut State<F>) -> Result<R>,
    ) -> Result<R> {
        let communicator = self.own.communicator();
        let mut taken = TakenLanes::<L>::take(communicator.lanes())?;
        let mut state = communicator.state()?;
        call(taken.lanes.lanes(), communicator, &mut state)
    }
}

impl<F: Fabric, L: LockPolicy> Plan for ByPuts<'_, F, L> {
    #[inline]
    fn rank(&self) -> u32 {
        self.own.rank()
    }

    #[inline]
    fn size(&self) -> u32 {
        self.own.size()
    }

    #[inline]
    fn peers(&self) -> u32 {
        self.own.peers()
    }

    #[inline]
    fn is_commutative(&self) -> bool {
        self.own.is_commutative()
    }

    #[inline]
    fn selection(&self) -> Selection {
        self.own.selection()
    }

    fn send(&mut self, data: &SendData, to: u32) -> Result<()> {
        self.push(data, to)
    }

    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()> {
        self.pending.push((data.clone(), from));
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        for (data, from) in std::mem::take(&mut self.pending) {
            self.pull(&data, from)?;
        }
        Ok(())
    }

    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()> {
        self.own.combine(earlier, later)
    }

    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()> {
        self.own.copy(from, to)
    }

    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData> {
        self.own.scratch(count, datatype)
    }

    fn among_own(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        // There is one side: an inter-communicator has no lanes.
        part(self)
    }

    #[inline]
    fn push(&mut self, data: &SendData, to: u32) -> Result<()> {
        let mark = self.mark;
        self.with_lanes(|lanes, own, state| lanes.send(own, state, (data, to), mark))
    }

    #[inline]
    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let mark = self.mark;
        self.with_lanes(|lanes, own, state| lanes.receive(own, state, (data, from), mark))
    }

    #[inline]
    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        let mark = self.mark;
        self.with_lanes(|lanes, own, state| {
            lanes.send(own, state, (out, to), mark)?;
            lanes.receive(own, state, (data, from), mark)
        })
    }
}
