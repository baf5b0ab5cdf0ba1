//! How a NIC accesses memory of a peer that is mapped here.

use am_via_shm::Copied;
use am_via_shm::regions::{Claim, ClaimFault};

use super::Shm;
use crate::device::{DeviceError, MemAttributes, MemHandle, RemoteMemory, Transfer};

impl Shm {
    /// Finds memory of a peer, for `lend_mapped` and `write_mapped`; returns whether the memory is mapped here.
    pub(super) fn find(
        &mut self,
        at: RemoteMemory,
        len: u64,
        need: MemAttributes,
    ) -> Result<bool, DeviceError> {
        let claim = Claim { len, ..claim(at, 0) };
        if !self.mapped.has(at.task.0, &claim, need.access()) && !self.find_region(at, need)? {
            return Ok(false);
        }
        let lent = self.mapped.lend((&self.hazard, self.barrier), at.task.0, claim, need.access())?;
        Ok(lent.is_some())
    }

    /// Finds the region of a peer's memory; returns whether that memory is accessible.
    #[cold]
    #[inline(never)]
    fn find_region(&mut self, at: RemoteMemory, need: MemAttributes) -> Result<bool, DeviceError> {
        if !self.files.open_peer(at.task.0)? {
            return Ok(false);
        }
        let peer = self.files.memory(at.task.0)?;
        let found = peer.mapped_region(&self.claimer(), claim(at, 0), need.access())?;
        self.mapped.keep(at.task.0, at.handle.region, found);
        Ok(true)
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
        Ok(Copied::Done) => Ok(Transfer::Done(())),
        Ok(Copied::NotYet) => Ok(Transfer::Retry),
        Ok(Copied::Unreachable) => Ok(Transfer::Unreachable),
        Err(fault) => Err(fault.into()),
    }
}
