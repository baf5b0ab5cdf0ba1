//! Counts and marks for each peer, indexed by the fabric's number of the peer.

use crate::fabric::Peer;
use alloc::vec::Vec;

/// A count for each peer.
#[derive(Debug, Default)]
pub(crate) struct Tally(Vec<usize>);

impl Tally {
    pub(crate) fn add(&mut self, peer: Peer) {
        let index = peer.index.0 as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
    }

    pub(crate) fn subtract(&mut self, peer: Peer) {
        if let Some(count) = self.0.get_mut(peer.index.0 as usize) {
            *count = count.saturating_sub(1);
        }
    }

    pub(crate) fn of(&self, peer: Peer) -> usize {
        self.0.get(peer.index.0 as usize).copied().unwrap_or(0)
    }

    pub(crate) fn has(&self, peer: Peer) -> bool {
        self.of(peer) > 0
    }
}

/// The peers to which packets were sent since the last fence with them.
#[derive(Debug, Default)]
pub struct UnfencedPeers {
    marks: Vec<Mark>,
    /// The marked peers, in the order of their first packets.
    list: Vec<Peer>,
}

/// What was sent to a peer since the last fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    #[default]
    Nothing,
    /// Notices of data that are already stored.
    Notices,
    Data,
}

impl UnfencedPeers {
    #[inline(always)]
    fn of(&self, peer: Peer) -> Mark {
        self.marks.get(peer.index.0 as usize).copied().unwrap_or_default()
    }

    /// Whether data were sent to a peer. This function must stay short: the message path calls it for each packet.
    #[inline(always)]
    #[must_use]
    pub fn has(&self, peer: Peer) -> bool {
        self.of(peer) == Mark::Data
    }

    /// Whether anything was sent to a peer.
    #[inline(always)]
    pub(crate) fn has_notices(&self, peer: Peer) -> bool {
        self.of(peer) != Mark::Nothing
    }

    /// Marks a peer as a target of data.
    #[inline(always)]
    pub(crate) fn mark(&mut self, peer: Peer) {
        if !self.has(peer) {
            self.raise(peer, Mark::Data);
        }
    }

    /// Marks a peer as a target of a notice about data that are already stored. A fence of data skips this peer.
    #[inline(always)]
    pub(crate) fn mark_notice(&mut self, peer: Peer) {
        if !self.has_notices(peer) {
            self.raise(peer, Mark::Notices);
        }
    }

    #[cold]
    #[inline(never)]
    fn raise(&mut self, peer: Peer, mark: Mark) {
        let index = peer.index.0 as usize;
        if index >= self.marks.len() {
            self.marks.resize(index + 1, Mark::Nothing);
        }
        if core::mem::replace(&mut self.marks[index], mark) == Mark::Nothing {
            self.list.push(peer);
        }
    }

    /// The peers marked so far.
    pub fn list(&self) -> Vec<Peer> {
        self.list.clone()
    }

    /// Removes the mark of a peer.
    pub fn clear(&mut self, peer: Peer) {
        if let Some(mark) = self.marks.get_mut(peer.index.0 as usize) {
            *mark = Mark::Nothing;
            self.list.retain(|&other| other != peer);
        }
    }
}
