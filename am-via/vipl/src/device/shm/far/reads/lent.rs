//! Memory of this task that peers read by the network.

use am_via_ofi::{Endpoint, LentMemory, RemoteKey};
use am_via_shm::regions::ClaimFault;
use am_via_shm::{CheckedRange, HeldRange};

use super::words::{Name, Outbox, Saying};
use crate::device::MemHandle;

#[derive(Debug)]
struct Lent {
    handle: MemHandle,
    memory: LentMemory,
    len: u64,
    /// The peers that have the key.
    holders: Vec<usize>,
    is_ending: bool,
}

/// The registrations that peers may read.
#[derive(Debug, Default)]
pub(super) struct Lending(Vec<Lent>);

impl Lending {
    /// Lends the whole memory of a registration to a peer. Returns its key and its length.
    pub(super) fn lend(
        &mut self,
        endpoint: &mut Endpoint,
        to: usize,
        handle: MemHandle,
        memory: CheckedRange<'_>,
    ) -> Result<(RemoteKey, u64), ClaimFault> {
        let at = match self.0.iter().position(|lent| lent.handle == handle && !lent.is_ending) {
            Some(at) => at,
            None => {
                let len = memory.len() as u64;
                let memory = endpoint.lend(HeldRange::hold(memory)).map_err(|error| {
                    tracing::warn!(%error, "the network does not take memory that peers read");
                    ClaimFault::Stale
                })?;
                self.0.push(Lent { handle, memory, len, holders: Vec::new(), is_ending: false });
                self.0.len() - 1
            }
        };
        let lent = &mut self.0[at];
        if !lent.holders.contains(&to) {
            lent.holders.push(to);
        }
        Ok((lent.memory.remote, lent.len))
    }

    /// Ends the loans of a registration. Returns whether no peer reads it. `finished`: the caller knows that none does.
    pub(super) fn end(
        &mut self,
        endpoint: &mut Endpoint,
        outbox: &mut Outbox,
        handle: MemHandle,
        finished: bool,
    ) -> bool {
        let bytes = Name { handle, ptag: 0 }.words().to_bytes();
        for lent in self.0.iter_mut().filter(|lent| lent.handle == handle) {
            if !std::mem::replace(&mut lent.is_ending, true) {
                outbox.extend(lent.holders.iter().map(|&holder| (holder, Saying::End, bytes)));
            }
        }
        self.0.retain(|lent| {
            let is_over = lent.handle == handle && (finished || lent.holders.is_empty());
            if is_over {
                endpoint.end_lend(&lent.memory);
            }
            !is_over
        });
        !self.0.iter().any(|lent| lent.handle == handle)
    }

    /// A peer has answered that it uses the key of an ending registration no more.
    pub(super) fn note_ended(&mut self, from: usize, handle: MemHandle) {
        let is_it =
            |lent: &&mut Lent| lent.is_ending && lent.handle == handle && lent.holders.contains(&from);
        if let Some(lent) = self.0.iter_mut().find(is_it) {
            lent.holders.retain(|&holder| holder != from);
        }
    }

    /// Gives back what ends and has no holder any more.
    pub(super) fn give_back(&mut self, endpoint: &mut Endpoint) {
        self.0.retain(|lent| {
            let is_over = lent.is_ending && lent.holders.is_empty();
            if is_over {
                endpoint.end_lend(&lent.memory);
            }
            !is_over
        });
    }

    /// A peer is gone.
    pub(super) fn lose(&mut self, peer: usize) {
        self.0.iter_mut().for_each(|lent| lent.holders.retain(|&holder| holder != peer));
    }
}
