//! How a NIC finds memory of a peer that is mapped here.

use am_via_shm::regions::Claim;

use super::{Shm, claim};
use crate::device::{DeviceError, MemAttributes, RemoteMemory};

impl Shm {
    /// Finds memory of a peer, for `lend_mapped` and `write_mapped`; returns whether the memory is mapped here.
    pub(super) fn find(
        &mut self,
        at: RemoteMemory,
        len: u64,
        need: MemAttributes,
    ) -> Result<bool, DeviceError> {
        let claim = Claim { len, ..claim(at, 0) };
        if !self.mapped.has(at.task, &claim, need.access()) && !self.find_region(at, need)? {
            return Ok(false);
        }
        let lent = self.mapped.lend((&self.hazard, self.barrier), at.task, claim, need.access())?;
        Ok(lent.is_some())
    }

    /// Finds the region of a peer's memory; returns whether that memory is accessible.
    #[cold]
    #[inline(never)]
    fn find_region(&mut self, at: RemoteMemory, need: MemAttributes) -> Result<bool, DeviceError> {
        if !self.files.open_peer(&mut self.peers, at.task)? {
            return Ok(false);
        }
        let peer = self.peers.memory(at.task)?;
        let found = peer.mapped_region(&self.claimer(), claim(at, 0), need.access())?;
        self.mapped.keep(at.task, at.handle.region, found);
        Ok(true)
    }
}
