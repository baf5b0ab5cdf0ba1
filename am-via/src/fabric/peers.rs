//! Whom this endpoint has talked to: a connection and its accounts each.

#![expect(clippy::cast_possible_truncation, reason = "there are fewer peers than 2^32")]

use am_core::task::Endpoint;

use crate::vipl::ViId;

use super::credits::Credits;

/// One connected peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    pub(super) vi: ViId,
    pub(super) credits: Credits,
    /// Its task has closed it: there is never room for anything but answers, which nobody reads.
    pub(super) is_closed: bool,
}

/// The connected peers, found by one indexed load: a hash on the message path costs as much as the rest of a send (measured
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

    pub(super) fn insert(&mut self, endpoint: Endpoint, vi: ViId, credits: Credits) {
        if self.index(endpoint).is_some() {
            return;
        }
        let place = self.table_index(endpoint);
        let Some(place) = self.by_endpoint.get_mut(place) else { return };
        self.list.push(Peer { endpoint, vi, credits, is_closed: false });
        let number = self.list.len() as u32;
        *place = number;
        let vi = vi.number() as usize;
        if self.by_vi.len() <= vi {
            self.by_vi.resize(vi + 1, 0);
        }
        self.by_vi[vi] = number;
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
    fn index(&self, endpoint: Endpoint) -> Option<usize> {
        let number = *self.by_endpoint.get(self.table_index(endpoint))?;
        (number as usize).checked_sub(1)
    }

    #[inline(always)]
    pub(super) fn get(&self, endpoint: Endpoint) -> Option<&Peer> {
        self.list.get(self.index(endpoint)?)
    }

    #[inline(always)]
    pub(super) fn find(&mut self, endpoint: Endpoint) -> Option<&mut Peer> {
        let index = self.index(endpoint)?;
        self.list.get_mut(index)
    }

    #[inline(always)]
    pub(super) fn knows(&self, vi: ViId) -> bool {
        self.by_vi.get(vi.number() as usize).is_some_and(|&number| number != 0)
    }

    #[inline(always)]
    pub(super) fn by_vi(&mut self, vi: ViId) -> Option<&mut Peer> {
        let index = (*self.by_vi.get(vi.number() as usize)? as usize).checked_sub(1)?;
        self.list.get_mut(index)
    }
}
