//! Carries an algorithm out at once, by puts and counters: the same algorithms as by messages, over [`Lanes`](crate::lanes::Lanes).

use am_core::fabric::Fabric;
use smallvec::SmallVec;

use super::direct::Direct;
use super::{Plan, Selection};
use crate::buffer::{RecvData, SendData};
use crate::error::Result;
use crate::lanes::{Lanes, TakenLanes};
use crate::policy::LockPolicy;
use crate::state::State;
use mpi_datatype::Datatype;

/// A collective that is carried out by puts while its caller waits. Nobody but the caller uses the caller's memory.
pub(super) struct ByPuts<'a, F: Fabric, L: LockPolicy> {
    /// What is done in this task.
    own: Direct<'a, F, L>,
    /// What was asked for and not waited for.
    pending: SmallVec<[(RecvData, u32); 8]>,
}

impl<'a, F: Fabric, L: LockPolicy> ByPuts<'a, F, L> {
    /// On a communicator that has lanes.
    pub(super) fn new(own: Direct<'a, F, L>) -> Self {
        Self { own, pending: SmallVec::new() }
    }

    #[inline]
    fn with_lanes<R>(&self, call: impl FnOnce(&mut Lanes, &mut State<F>) -> Result<R>) -> Result<R> {
        let communicator = self.own.communicator();
        let mut taken = TakenLanes::<L>::take(communicator.lanes())?;
        let mut state = communicator.state()?;
        call(taken.lanes.lanes(), &mut state)
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
    fn is_inter(&self) -> bool {
        self.own.is_inter()
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

    fn examine(&mut self, bytes: &SendData, look: fn(&[u8]) -> Result<()>) -> Result<()> {
        self.own.examine(bytes, look)
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
        self.with_lanes(|lanes, state| lanes.send(state, data, to))
    }

    #[inline]
    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        self.with_lanes(|lanes, state| lanes.receive(state, data, from))
    }

    #[inline]
    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        self.with_lanes(|lanes, state| {
            lanes.send(state, out, to)?;
            lanes.receive(state, data, from)
        })
    }
}
