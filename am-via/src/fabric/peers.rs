//! Whom this endpoint has talked to: a connection and its accounts each.

use std::collections::HashMap;

use am_core::task::Endpoint;

use crate::vipl::ViId;

use super::credits::Credits;

/// One connected peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    pub(super) vi: ViId,
    pub(super) credits: Credits,
}

/// The connected peers. First contexts are found by task number; others, which are rare, by a map.
#[derive(Debug)]
pub(super) struct Peers {
    list: Vec<Peer>,
    /// Index into `list` plus 1, by task, for context 0.
    by_task: Vec<u32>,
    others: HashMap<Endpoint, u32>,
    /// Index into `list` plus 1, by VI.
    by_vi: Vec<u32>,
}

impl Peers {
    pub(super) fn new(num_tasks: u32) -> Self {
        Self {
            list: Vec::new(),
            by_task: vec![0; num_tasks as usize],
            others: HashMap::new(),
            by_vi: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, endpoint: Endpoint, vi: ViId, credits: Credits) {
        if self.index(endpoint).is_some() {
            return;
        }
        self.list.push(Peer { endpoint, vi, credits });
        let number = self.list.len() as u32;
        if endpoint.context.0 == 0 {
            if let Some(slot) = self.by_task.get_mut(endpoint.task.index()) {
                *slot = number;
            }
        } else {
            self.others.insert(endpoint, number);
        }
        let vi = vi.number() as usize;
        if self.by_vi.len() <= vi {
            self.by_vi.resize(vi + 1, 0);
        }
        self.by_vi[vi] = number;
    }

    #[inline(always)]
    fn index(&self, endpoint: Endpoint) -> Option<usize> {
        let number = if endpoint.context.0 == 0 {
            *self.by_task.get(endpoint.task.index())?
        } else {
            *self.others.get(&endpoint)?
        };
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
    pub(super) fn by_vi(&mut self, vi: ViId) -> Option<&mut Peer> {
        let index = (*self.by_vi.get(vi.number() as usize)? as usize).checked_sub(1)?;
        self.list.get_mut(index)
    }
}
