//! The mappings of each peer, opened on first use.

#![expect(clippy::cast_possible_truncation, reason = "there are fewer tasks than 2^32")]

use std::sync::Arc;

use crate::device::{DeviceError, MemHandle, RemoteMemory, Transfer};
use am_via_shm::layout::Hazard;
use am_via_shm::regions::{Claim, ClaimFault, PeerMemory};
use am_via_shm::{Copied, Mapping, Shared};

/// The tables, indexed by task.
#[derive(Debug)]
pub(super) struct Peers {
    heads: Vec<Option<Arc<Mapping>>>,
    memories: Vec<Option<PeerMemory>>,
    /// The hazard lines of all contexts of all tasks. Empty until memory that peers may be using is first deregistered.
    pub(super) hazards: Vec<Shared<Hazard>>,
}

impl Peers {
    pub(super) fn new(num_tasks: u32) -> Self {
        let empty = |_| None;
        Self {
            heads: (0..num_tasks).map(empty).collect(),
            memories: (0..num_tasks).map(|_| None).collect(),
            hazards: Vec::new(),
        }
    }

    pub(super) fn head_slot(&mut self, task: u32) -> Option<&mut Option<Arc<Mapping>>> {
        self.heads.get_mut(task as usize)
    }

    pub(super) fn memory_slot(&mut self, task: u32) -> Option<&mut Option<PeerMemory>> {
        self.memories.get_mut(task as usize)
    }

    /// The memory of a task, which must be open.
    #[inline]
    pub(super) fn memory(&self, task: u32) -> Result<&PeerMemory, DeviceError> {
        let num_tasks = self.memories.len() as u32;
        let found = self.memories.get(task as usize).and_then(Option::as_ref);
        found.ok_or(DeviceError::UnknownTask { task, num_tasks })
    }
}

/// The claim to `len` bytes of a peer's memory.
pub(super) fn claim(at: RemoteMemory, len: usize) -> Claim {
    let MemHandle { region, generation } = at.handle;
    Claim { region, generation, offset: at.offset, len: len as u64, ptag: at.ptag }
}

/// The outcome of a copy.
pub(super) fn transfer(copied: Result<Copied, ClaimFault>) -> Result<Transfer, DeviceError> {
    match copied {
        Ok(Copied::Done) => Ok(Transfer::Done),
        Ok(Copied::NotYet) => Ok(Transfer::Retry),
        Ok(Copied::Unreachable) => Ok(Transfer::Unreachable),
        Err(fault) => Err(fault.into()),
    }
}
