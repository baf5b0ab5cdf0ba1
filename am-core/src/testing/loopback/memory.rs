//! The regions of one task.

use crate::buffer::{Access, Grant, MappedRange, RawBuffer, RemoteAddress};
use crate::error::{Error, RangeFault, Result};

#[derive(Debug)]
struct Region {
    generation: u32,
    memory: Option<(RawBuffer, Access)>,
    /// Whether the region is closed to new accesses.
    closed: bool,
}

/// The regions of one task, by slot.
#[derive(Debug, Default)]
pub(super) struct Regions {
    slots: Vec<Region>,
}

impl Regions {
    pub(super) fn insert(&mut self, memory: RawBuffer, access: Access) -> Grant {
        let slot = match self.slots.iter().position(|region| region.memory.is_none()) {
            Some(slot) => slot,
            None => {
                self.slots.push(Region { generation: 0, memory: None, closed: false });
                self.slots.len() - 1
            }
        };
        let generation = self.slots[slot].generation.wrapping_add(1);
        self.slots[slot] = Region { generation, memory: Some((memory, access)), closed: false };
        let operation_bit = if access.for_operation { Grant::OPERATION_BIT } else { 0 };
        Grant { region: slot as u32 | operation_bit, generation }
    }

    fn find(&self, grant: Grant) -> Option<&Region> {
        self.slots.get(slot_of(grant)).filter(|region| {
            let is_for_operation = region.memory.map(|(_, access)| access.for_operation);
            region.generation == grant.generation && is_for_operation == Some(grant.is_for_operation())
        })
    }

    /// Whether the grant has not ended.
    pub(super) fn is_live(&self, grant: Grant) -> bool {
        self.find(grant).is_some()
    }

    /// Refuses new accesses; an access in progress goes on.
    pub(super) fn close(&mut self, grant: Grant) {
        if self.find(grant).is_some() {
            self.slots[slot_of(grant)].closed = true;
        }
    }

    pub(super) fn remove(&mut self, grant: Grant) {
        if self.find(grant).is_some() {
            self.slots[slot_of(grant)].memory = None;
        }
    }

    pub(super) fn check_open(&self, at: RemoteAddress, len: u64) -> Result<()> {
        match self.find(at.grant) {
            Some(region) if region.closed => Err(fault(at, len, RangeFault::Stale)),
            _ => Ok(()),
        }
    }

    /// Like [`range`](Self::range), borrowed for a call that is made under the network's lock.
    #[allow(unsafe_code, reason = "the promise of every fabric")]
    pub(super) fn lend(&self, at: RemoteAddress, len: u64, need: Access) -> Result<MappedRange<'_>> {
        let range = self.range(at, len, need)?;
        // SAFETY: the range lies in live, readable and writable memory of this process, granted for what the caller does with it (`range`).
        // The grant cannot end while the regions are borrowed, because its end changes them.
        Ok(unsafe { MappedRange::new(range.at(), range.len()) })
    }

    pub(super) fn range(&self, at: RemoteAddress, len: u64, access: Access) -> Result<RawBuffer> {
        let Some((memory, rights)) = self.find(at.grant).and_then(|region| region.memory) else {
            return Err(fault(at, len, RangeFault::Stale));
        };
        if !rights.covers(access) {
            let missing = if access.write && !rights.write { "write" } else { "read" };
            return Err(fault(at, len, RangeFault::Access(missing)));
        }
        let part = usize::try_from(at.offset).ok().zip(usize::try_from(len).ok());
        part.and_then(|(offset, len)| memory.part(offset, len))
            .ok_or_else(|| fault(at, len, RangeFault::Bounds { region_len: memory.len() as u64 }))
    }
}

fn slot_of(grant: Grant) -> usize {
    (grant.region & !Grant::OPERATION_BIT) as usize
}

fn fault(at: RemoteAddress, len: u64, why: RangeFault) -> Error {
    let Grant { region, generation } = at.grant;
    Error::RemoteRange { task: at.task, region, generation, offset: at.offset, len, why }
}
