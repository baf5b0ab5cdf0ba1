//! The grants of operations: how many there are, and those of ended operations that are kept for the next operation with the same buffer
//! in job memory.
//!
//! A grant is a registration, and a program may begin more operations than there are registrations. Operations beyond a part of the
//! registrations get no grant: their data are sent in pieces, and memory can still be exposed.
//!
//! Programs send from the same buffers repeatedly. Opening and closing a region changes a cache line of the region table, which the peer
//! then has to read again; the line of a region that stays open is in both caches. Only grants for reading are kept: a peer that uses one
//! after its operation has ended reads meaningless bytes, and cannot change anything. Grants of private memory are not kept: copies by the
//! kernel take much longer than the transfer of a cache line, and how often private addresses are reused varies between runs.

use std::num::NonZeroUsize;

use am_core::buffer::Grant;

/// Maximum number of kept grants: more buffers than a program usually sends from, and few enough for a linear search.
const KEPT_MAX: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Kept {
    at: NonZeroUsize,
    len: usize,
    grant: Grant,
    /// Whether an operation uses the grant.
    in_use: bool,
}

/// The grants for operations of one NIC.
#[derive(Debug)]
pub(super) struct KeptGrants {
    /// Number of grants for operations, those kept included.
    open: u32,
    open_max: u32,
    kept: Vec<Kept>,
    /// Index of the grant to replace next.
    next: usize,
}

/// What happened to a new grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// The grant is kept.
    Free,
    /// The grant is kept in place of this one, which has to end.
    InsteadOf(Grant),
    /// The grant is not kept: all kept grants are in use.
    None,
}

impl KeptGrants {
    /// The grants of a NIC with `regions_max` registrations, of which operations use at most a quarter.
    pub(super) fn new(regions_max: u32) -> Self {
        Self { open: 0, open_max: regions_max / 4, kept: Vec::with_capacity(KEPT_MAX), next: 0 }
    }

    /// Whether one more operation may get a grant.
    #[inline]
    pub(super) fn may_open(&self) -> bool {
        self.open < self.open_max
    }

    /// Counts a new grant of an operation.
    #[inline]
    pub(super) fn opened(&mut self) {
        self.open += 1;
    }

    /// Counts that a grant of an operation has ended.
    #[inline]
    pub(super) fn ended(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Returns the unused grant of exactly this memory, if there is one, and marks it as used.
    #[inline]
    pub(super) fn take(&mut self, at: NonZeroUsize, len: usize) -> Option<Grant> {
        let kept = self.kept.iter_mut().find(|kept| kept.at == at && kept.len == len && !kept.in_use)?;
        kept.in_use = true;
        Some(kept.grant)
    }

    /// Adds a new grant of this memory, in use. If the list is full, replaces an unused grant; if all are in use, adds nothing.
    pub(super) fn add(&mut self, at: NonZeroUsize, len: usize, grant: Grant) -> Added {
        let new = Kept { at, len, grant, in_use: true };
        if self.kept.len() < KEPT_MAX {
            self.kept.push(new);
            return Added::Free;
        }
        for _ in 0..KEPT_MAX {
            let place = self.next;
            self.next = (place + 1) % KEPT_MAX;
            if !self.kept[place].in_use {
                let old = std::mem::replace(&mut self.kept[place], new);
                return Added::InsteadOf(old.grant);
            }
        }
        Added::None
    }

    /// The operation of `grant` has ended; returns whether the grant is kept.
    #[inline]
    pub(super) fn give_back(&mut self, grant: Grant) -> bool {
        let kept = self.kept.iter_mut().find(|kept| kept.grant == grant);
        kept.map(|kept| kept.in_use = false).is_some()
    }

    pub(super) fn forget(&mut self, grant: Grant) {
        self.kept.retain(|kept| kept.grant != grant);
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: usize) -> NonZeroUsize {
        NonZeroUsize::new(address).expect("tests use addresses above 0")
    }

    fn grant(region: u32) -> Grant {
        Grant { region: region | Grant::OPERATION_BIT, generation: 1 }
    }

    #[test]
    fn a_grant_serves_one_operation_at_a_time_and_only_its_own_memory() {
        let mut kept = KeptGrants::new(64);
        assert_eq!(kept.take(at(4096), 100), None);
        assert_eq!(kept.add(at(4096), 100, grant(1)), Added::Free);
        assert_eq!(kept.take(at(4096), 100), None, "in use");
        assert!(kept.give_back(grant(1)));
        assert_eq!(kept.take(at(4096), 99), None, "shorter");
        assert_eq!(kept.take(at(4097), 100), None, "elsewhere");
        assert_eq!(kept.take(at(4096), 100), Some(grant(1)));
        assert!(!kept.give_back(grant(2)), "never kept");
    }

    #[test]
    fn what_nobody_uses_makes_room_in_turn_and_what_is_used_stays() {
        let mut kept = KeptGrants::new(64);
        for region in 0..KEPT_MAX as u32 {
            assert_eq!(kept.add(at(4096), region as usize, grant(region)), Added::Free);
        }
        assert_eq!(kept.add(at(4096), 1000, grant(1000)), Added::None, "all are in use");
        assert!(!kept.give_back(grant(1000)));
        for region in [3, 5] {
            assert!(kept.give_back(grant(region)));
        }
        assert_eq!(kept.add(at(4096), 2000, grant(2000)), Added::InsteadOf(grant(3)));
        assert_eq!(kept.add(at(4096), 3000, grant(3000)), Added::InsteadOf(grant(5)));
        assert_eq!(kept.add(at(4096), 4000, grant(4000)), Added::None);
        assert!(kept.give_back(grant(2000)) && !kept.give_back(grant(3)));
    }

    #[test]
    fn what_is_given_up_is_kept_no_more() {
        let mut kept = KeptGrants::new(64);
        assert_eq!(kept.add(at(4096), 100, grant(1)), Added::Free);
        kept.forget(grant(1));
        assert!(!kept.give_back(grant(1)));
        assert_eq!(kept.take(at(4096), 100), None);
    }
}
