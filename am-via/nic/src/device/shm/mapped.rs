//! How a NIC accesses memory of a peer that is mapped here.

use am_via_shm::Copied;
use am_via_shm::Lent;
use am_via_shm::regions::{Claim, ClaimFault};

use super::Shm;
use crate::device::{DeviceError, TaskId, Transfer};

impl Shm {
    /// Finds memory of a peer, for [`lend`](Self::lend); returns whether the memory is mapped here.
    pub(super) fn find(
        &mut self,
        (TaskId(task), claim): (TaskId, Claim),
        need: u32,
    ) -> Result<bool, DeviceError> {
        if !self.mapped.has(task, &claim, need) && !self.find_region(task, claim, need)? {
            return Ok(false);
        }
        let lent = self.mapped.lend((&self.hazard, self.barrier), task, claim, need)?;
        Ok(lent.is_some())
    }

    /// Lends memory of a peer whose region [`find`](Self::find) has found; `None` if the region is not known with the rights `need` (or no
    /// longer), or not mapped here.
    #[inline(always)]
    pub(super) fn lend(&self, (TaskId(task), claim): (TaskId, Claim), need: u32) -> Option<Lent<'_>> {
        self.mapped.lend((&self.hazard, self.barrier), task, claim, need).unwrap_or_default()
    }

    /// Finds the region of a peer's memory; returns whether that memory is accessible.
    #[cold]
    #[inline(never)]
    fn find_region(&mut self, task: u32, claim: Claim, need: u32) -> Result<bool, DeviceError> {
        if !self.files.open_peer(task)? {
            return Ok(false);
        }
        let peer = self.files.memory(task)?;
        let found = peer.mapped_region(&self.claimer(), Claim { len: 0, ..claim }, need)?;
        self.mapped.keep(task, claim.region, found);
        Ok(true)
    }
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
