//! The peers that this endpoint has named or heard from: a connection and its accounts each, under the numbers that the engine uses.

#![expect(clippy::cast_possible_truncation, reason = "there are fewer peers than 2^32")]

use am_core::fabric::PeerIndex;
use am_core::task::Endpoint;

use crate::vipl::ViId;

use super::credits::{CreditPlan, Credits};

/// One peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    /// `None`: not connected yet. There are no credits then.
    pub(super) vi: Option<ViId>,
    pub(super) credits: Credits,
    /// Its task has closed it: there is never room for anything but answers, which nobody reads.
    pub(super) is_closed: bool,
}

/// The peers, found by one indexed load: a hash on the message path costs as much as the rest of a send (measured
/// with the second context of a task: 90 ns of 350).
#[derive(Debug)]
pub(super) struct Peers {
    list: Vec<Peer>,
    /// Index into `list` plus 1, by context and task.
    by_endpoint: Vec<u32>,
    num_tasks: usize,
    /// Index into `list` plus 1, by VI.
    by_vi: Vec<u32>,
}

impl Peers {
    pub(super) fn new(num_tasks: u32, contexts_max: u8) -> Self {
        let num_tasks = num_tasks as usize;
        let by_endpoint = vec![0; num_tasks * usize::from(contexts_max)];
        Self { list: Vec::new(), by_endpoint, num_tasks, by_vi: Vec::new() }
    }

    /// The number of an endpoint that the job can have.
    #[inline(always)]
    pub(super) fn number(&self, endpoint: Endpoint) -> Option<PeerIndex> {
        let number = *self.by_endpoint.get(self.table_index(endpoint))?;
        number.checked_sub(1).map(PeerIndex)
    }

    /// Gives an endpoint its number; `None` for one that the job cannot have.
    pub(super) fn add(&mut self, endpoint: Endpoint, plan: CreditPlan) -> Option<PeerIndex> {
        if let Some(index) = self.number(endpoint) {
            return Some(index);
        }
        let place = self.table_index(endpoint);
        let place = self.by_endpoint.get_mut(place)?;
        let mut credits = Credits::new(plan);
        credits.stop();
        self.list.push(Peer { endpoint, vi: None, credits, is_closed: false });
        *place = self.list.len() as u32;
        Some(PeerIndex(*place - 1))
    }

    /// A connection was made, by this side or the peer.
    pub(super) fn connected(&mut self, endpoint: Endpoint, vi: ViId, plan: CreditPlan) {
        let Some(index) = self.add(endpoint, plan) else { return };
        let Some(peer) = self.get_mut(index).filter(|peer| peer.vi.is_none()) else { return };
        peer.vi = Some(vi);
        peer.credits = Credits::new(plan);
        let vi = vi.number() as usize;
        if self.by_vi.len() <= vi {
            self.by_vi.resize(vi + 1, 0);
        }
        self.by_vi[vi] = index.0 + 1;
    }

    /// Where `by_endpoint` has this endpoint. A task beyond the last one would land in the next context's row: it gets an index
    /// that no table has. So has a context beyond the last one: both are found only where they are refused, when there is no
    /// connection yet.
    #[inline(always)]
    fn table_index(&self, endpoint: Endpoint) -> usize {
        if endpoint.task.index() < self.num_tasks {
            usize::from(endpoint.context.0) * self.num_tasks + endpoint.task.index()
        } else {
            usize::MAX
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, index: PeerIndex) -> Option<&Peer> {
        self.list.get(index.0 as usize)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        self.list.get_mut(index.0 as usize)
    }

    #[inline(always)]
    pub(super) fn knows(&self, vi: ViId) -> bool {
        self.by_vi.get(vi.number() as usize).is_some_and(|&number| number != 0)
    }

    #[inline(always)]
    pub(super) fn by_vi(&mut self, vi: ViId) -> Option<(PeerIndex, &mut Peer)> {
        let index = self.by_vi.get(vi.number() as usize)?.checked_sub(1)?;
        Some((PeerIndex(index), self.list.get_mut(index as usize)?))
    }
}
