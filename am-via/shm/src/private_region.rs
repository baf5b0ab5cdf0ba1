//! Private memory of this process, for devices whose NICs are in one process: buffers of the NIC, and a table of the memory that a task has
//! registered for others.
//!
//! The rules are those of memory files: no reference to the bytes is ever made, a claim is checked in one place
//! ([`PrivateRegions::claim`]), and the owner of registered memory keeps the memory alive until it is deregistered. A lock around the table
//! replaces the hazards: copies run under the lock, so that a registration never ends during a copy.

use std::ptr::NonNull;

use crate::copy::CheckedRange;
use crate::regions::{Claim, ClaimFault, Registration, missing};

/// The address and the length of a range, without its lifetime: a device keeps it until an operation or a registration has ended.
#[derive(Clone, Copy, Debug)]
pub struct HeldRange {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: an address and a length; the bytes are accessed by copies while the owner keeps them alive.
unsafe impl Send for HeldRange {}

impl HeldRange {
    /// Remembers where `range` is.
    #[must_use]
    pub fn hold(range: CheckedRange<'_>) -> Self {
        Self { at: range.at(), len: range.len() }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the range has 0 bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The range.
    ///
    /// # Safety
    /// During `'a`, the memory must be alive and left to this holder, as [`CheckedRange::new`] requires.
    #[must_use]
    pub unsafe fn range<'a>(self) -> CheckedRange<'a> {
        // SAFETY: the caller's contract.
        unsafe { CheckedRange::new(self.at, self.len) }
    }
}

/// The memory that one task has registered for others.
#[derive(Debug)]
pub struct PrivateRegions {
    slots: Vec<Slot>,
    free: Vec<u32>,
    regions_max: u32,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    live: Option<Live>,
}

#[derive(Clone, Copy, Debug)]
struct Live {
    memory: HeldRange,
    registration: Registration,
    /// The context that registered the memory.
    context: u32,
}

impl PrivateRegions {
    /// An empty table for at most `regions_max` registrations.
    #[must_use]
    pub fn new(regions_max: u32) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), regions_max }
    }

    /// Registers `memory`; returns region and generation, or `None` if the table is full.
    ///
    /// # Safety
    /// Until the registration is [removed](Self::remove), the memory must stay alive, and its owner must leave it to the copies that
    /// claims allow.
    pub unsafe fn insert(
        &mut self,
        memory: CheckedRange<'_>,
        registration: Registration,
        context: u32,
    ) -> Option<(u32, u32)> {
        let region = match self.free.pop() {
            Some(region) => region,
            None => {
                let region = u32::try_from(self.slots.len()).ok().filter(|&at| at < self.regions_max)?;
                self.slots.push(Slot { generation: 0, live: None });
                region
            }
        };
        let slot = &mut self.slots[region as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.live = Some(Live { memory: HeldRange::hold(memory), registration, context });
        Some((region, slot.generation))
    }

    /// Ends a registration; returns whether it existed.
    pub fn remove(&mut self, region: u32, generation: u32) -> bool {
        let slot = self.slots.get_mut(region as usize).filter(|slot| slot.generation == generation);
        let removed = slot.is_some_and(|slot| slot.live.take().is_some());
        if removed {
            self.free.push(region);
        }
        removed
    }

    /// Ends all registrations of a context that is closed.
    pub fn remove_context(&mut self, context: u32) {
        for (region, slot) in (0..).zip(&mut self.slots) {
            if slot.live.take_if(|live| live.context == context).is_some() {
                self.free.push(region);
            }
        }
    }

    /// Changes the rights and the protection tag of a registration; returns whether it exists.
    pub fn set_registration(&mut self, region: u32, generation: u32, registration: Registration) -> bool {
        let slot = self.slots.get_mut(region as usize).filter(|slot| slot.generation == generation);
        let live = slot.and_then(|slot| slot.live.as_mut());
        live.map(|live| live.registration = registration).is_some()
    }

    /// The memory that a claim of its owner names, if `context` has registered it: see [`claim`](Self::claim).
    ///
    /// # Errors
    /// Why the claim is refused.
    pub fn own(&self, context: u32, claim: Claim, need: u32) -> Result<CheckedRange<'_>, ClaimFault> {
        let slot = self.slots.get(claim.region as usize);
        let is_own = slot.and_then(|slot| slot.live).is_some_and(|live| live.context == context);
        if is_own { self.claim(claim, need) } else { Err(ClaimFault::Stale) }
    }

    /// Checks a claim and turns it into a range: generation, rights, protection tag, bounds. No other function turns a claim into a range.
    /// The table is borrowed as long as the range, so that the registration cannot end meanwhile.
    ///
    /// # Errors
    /// Why the claim is refused.
    pub fn claim(&self, claim: Claim, need: u32) -> Result<CheckedRange<'_>, ClaimFault> {
        let slot = self.slots.get(claim.region as usize).filter(|slot| slot.generation == claim.generation);
        let live = slot.and_then(|slot| slot.live).ok_or(ClaimFault::Stale)?;
        let Registration { access, ptag } = live.registration;
        if access & need != need {
            return Err(missing(access, need));
        }
        if ptag != claim.ptag {
            return Err(ClaimFault::Tag);
        }
        let bounds = ClaimFault::Bounds { len: live.memory.len as u64 };
        let (Ok(offset), Ok(len)) = (usize::try_from(claim.offset), usize::try_from(claim.len)) else {
            return Err(bounds);
        };
        // SAFETY: live and left to claims while it is registered (`insert`'s contract), and so while the table is borrowed.
        unsafe { live.memory.range() }.part(offset, len).ok_or(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ACCESS_READ, ACCESS_WRITE};
    use crate::private_bytes::PrivateBytes;

    fn insert(
        table: &mut PrivateRegions,
        memory: CheckedRange<'_>,
        registration: Registration,
        context: u32,
    ) -> Option<(u32, u32)> {
        // SAFETY: the tests keep the memory longer than the table, and do not access it.
        unsafe { table.insert(memory, registration, context) }
    }

    fn open(access: u32) -> Registration {
        Registration { access, ptag: 7 }
    }

    fn at(region: u32, generation: u32, offset: u64, len: u64) -> Claim {
        Claim { region, generation, offset, len, ptag: 7 }
    }

    #[test]
    fn a_claim_is_good_only_with_every_part_of_it_right() {
        let memory = PrivateBytes::new(100).unwrap();
        let mut table = PrivateRegions::new(4);
        let (region, generation) = insert(&mut table, memory.range(), open(ACCESS_READ), 0).unwrap();
        let good = at(region, generation, 90, 10);
        let fault = |claim, need| table.claim(claim, need).err();
        assert_eq!(fault(good, ACCESS_READ), None);
        assert_eq!(fault(good, ACCESS_WRITE), Some(ClaimFault::NotWritable));
        assert_eq!(fault(Claim { ptag: 8, ..good }, ACCESS_READ), Some(ClaimFault::Tag));
        let beyond = ClaimFault::Bounds { len: 100 };
        for (offset, len) in [(91, 10), (101, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(fault(at(region, generation, offset, len), ACCESS_READ), Some(beyond));
        }
        for (region, generation) in [(region, generation + 1), (region + 1, generation), (u32::MAX, 1)] {
            assert_eq!(fault(at(region, generation, 0, 1), 0), Some(ClaimFault::Stale));
        }
    }

    #[test]
    fn only_the_context_that_has_registered_memory_finds_it_as_its_own() {
        let memory = PrivateBytes::new(8).unwrap();
        let mut table = PrivateRegions::new(1);
        let (region, generation) = insert(&mut table, memory.range(), open(ACCESS_READ), 3).unwrap();
        let claim = at(region, generation, 0, 8);
        assert!(table.own(3, claim, ACCESS_READ).is_ok());
        assert_eq!(table.own(4, claim, ACCESS_READ).err(), Some(ClaimFault::Stale));
        assert_eq!(table.own(3, claim, ACCESS_WRITE).err(), Some(ClaimFault::NotWritable));
    }

    #[test]
    fn a_slot_that_is_used_again_has_another_generation() {
        let memory = PrivateBytes::new(8).unwrap();
        let mut table = PrivateRegions::new(1);
        let first = insert(&mut table, memory.range(), open(0), 0).unwrap();
        assert_eq!(insert(&mut table, memory.range(), open(0), 0), None);
        assert!(table.remove(first.0, first.1) && !table.remove(first.0, first.1));
        let second = insert(&mut table, memory.range(), open(0), 5).unwrap();
        assert_eq!((second.0, second.1), (first.0, first.1 + 1));
        table.remove_context(5);
        assert!(!table.set_registration(second.0, second.1, open(0)));
    }
}
