//! Memory of this task that peers read over the network.

use am_via_ofi::{Endpoint, LentMemory, RemoteKey};
use am_via_shm::regions::ClaimFault;
use am_via_shm::{CheckedRange, HeldRange};

use super::words::{KEY_MESSAGE_BYTES, KeyMessage, Name, Outbox, Words};
use crate::device::MemHandle;

#[derive(Debug)]
pub(super) struct Lent {
    handle: MemHandle,
    memory: LentMemory,
    len: u64,
    /// The peers that have the key.
    holders: Vec<usize>,
    /// Whether the key was offered to its only holder.
    was_offered: bool,
    is_ending: bool,
}

impl Lent {
    /// `words`, with the key and the length of the memory.
    pub(super) fn words(&self, words: Words) -> Words {
        let RemoteKey { key, base } = self.memory.remote;
        Words { key, base, len: self.len, ..words }
    }
}

/// The registrations that peers may read.
#[derive(Debug, Default)]
pub(super) struct Lending {
    lent: Vec<Lent>,
}

impl Lending {
    /// Lends the whole memory of a registration to the peer `to`. The network registers the memory when it is first lent.
    pub(super) fn lend(
        &mut self,
        endpoint: &mut Endpoint,
        to: usize,
        handle: MemHandle,
        memory: CheckedRange<'_>,
    ) -> Result<&mut Lent, ClaimFault> {
        let at = match self.lent.iter().position(|lent| lent.handle == handle && !lent.is_ending) {
            Some(at) => at,
            None => {
                let len = memory.len() as u64;
                // SAFETY: registered memory stays live and left to peers until `deregister` has returned `Done`, which needs the end of its
                // loans (`end`), or until the device is dropped, and its endpoint with it.
                let lent = unsafe { endpoint.lend(HeldRange::hold(memory)) };
                let memory = lent.map_err(|error| {
                    tracing::warn!(%error, "the network cannot register memory for reads by peers");
                    ClaimFault::Stale
                })?;
                let (holders, was_offered, is_ending) = (Vec::new(), false, false);
                self.lent.push(Lent { handle, memory, len, holders, was_offered, is_ending });
                self.lent.len() - 1
            }
        };
        let lent = &mut self.lent[at];
        if !lent.holders.contains(&to) {
            lent.holders.push(to);
        }
        lent.was_offered = false;
        Ok(lent)
    }

    /// Lends memory that the peer `to` will read once. Returns the key; `None` if the network cannot read memory of peers, or cannot
    /// register this memory.
    pub(super) fn lend_once(
        &mut self,
        endpoint: &mut Endpoint,
        to: usize,
        name: Name,
        memory: CheckedRange<'_>,
    ) -> Option<[u8; KEY_MESSAGE_BYTES]> {
        if !endpoint.can_read() {
            return None;
        }
        let lent = self.lend(endpoint, to, name.handle, memory).ok()?;
        lent.was_offered = true;
        Some(lent.words(name.words()).to_bytes())
    }

    /// Ends the loans of a registration. Returns true when no peer can still be reading the memory. `finished`: the caller knows that no
    /// peer is reading it, so the loans end at once.
    pub(super) fn end(
        &mut self,
        endpoint: &mut Endpoint,
        outbox: &mut Outbox,
        handle: MemHandle,
        finished: bool,
    ) -> bool {
        let bytes = Name { handle, ptag: 0 }.words().to_bytes();
        for lent in self.lent.iter_mut().filter(|lent| lent.handle == handle) {
            let has_been_read = finished && lent.was_offered;
            if !std::mem::replace(&mut lent.is_ending, true) && !has_been_read {
                outbox.extend(lent.holders.iter().map(|&holder| (holder, KeyMessage::Revoke, bytes)));
            }
        }
        self.lent.retain(|lent| {
            let is_over = lent.handle == handle && (finished || lent.holders.is_empty());
            if is_over {
                endpoint.end_lend(&lent.memory);
            }
            !is_over
        });
        !self.lent.iter().any(|lent| lent.handle == handle)
    }

    /// Notes a peer's answer that it no longer uses the key of an ending registration.
    pub(super) fn note_ended(&mut self, from: usize, handle: MemHandle) {
        let is_it =
            |lent: &&mut Lent| lent.is_ending && lent.handle == handle && lent.holders.contains(&from);
        if let Some(lent) = self.lent.iter_mut().find(is_it) {
            lent.holders.retain(|&holder| holder != from);
        }
    }

    /// Ends the loans of ending registrations whose holders have all answered.
    pub(super) fn give_back(&mut self, endpoint: &mut Endpoint) {
        self.lent.retain(|lent| {
            let is_over = lent.is_ending && lent.holders.is_empty();
            if is_over {
                endpoint.end_lend(&lent.memory);
            }
            !is_over
        });
    }

    /// Forgets a peer that is gone, and so holds no key.
    pub(super) fn lose(&mut self, peer: usize) {
        self.lent.iter_mut().for_each(|lent| lent.holders.retain(|&holder| holder != peer));
    }
}
