//! Regions of peers that were found before, and that this task has mapped. Each use names the region in the hazard line and compares the
//! region's state with the cached state. If the owner has closed the region or changed its rights, the caller has to find the region again.

use std::sync::Arc;

use crate::copy::CheckedRange;
use crate::layout::{ControlLayout, Hazard, RegionEntry};
use crate::regions::{Claim, ClaimFault, Claimer, InUse, PeerMemory, hazard_name};
use crate::segment::{Mapping, Shared};
use crate::wait::SleepBarrier;
use am_via_os::atomics::Ordering;

/// Number of cached regions. A region can be in one slot only, chosen by its task and number ([`slot_of`]).
const SLOTS: usize = 256;
/// Distance between the slots of regions with the same number of two consecutive tasks: programs use few regions of many tasks.
const SLOTS_OF_TASK: u32 = 8;

/// A region of a peer that is open, with the rights that it had when it was found.
#[derive(Debug)]
#[repr(align(64))]
pub struct MappedRegion {
    /// The name of the region in a hazard line, which no other region of the job has.
    name: u64,
    /// Generation and rights when the region was found.
    state: u64,
    entry: Shared<RegionEntry>,
    /// The region's bytes, which are lent only while this value is borrowed, and the file that keeps them mapped. `None`: not mapped here.
    bytes: Option<(CheckedRange<'static>, Arc<Mapping>)>,
}

// SAFETY: the bytes are those of the mapping that the value keeps, which may be used from any thread (`Mapping`).
unsafe impl Send for MappedRegion {}

impl MappedRegion {
    /// Whether the region is still open with the same rights.
    #[inline(always)]
    fn is_open(&self, order: Ordering) -> bool {
        self.entry.generation_and_access.load(order) == self.state
    }
}

impl PeerMemory {
    /// The region of a claim, which must have the rights `need`.
    ///
    /// # Errors
    /// The claim is refused.
    pub fn mapped_region(
        &self,
        claimer: &Claimer<'_>,
        claim: Claim,
        need: u32,
    ) -> Result<MappedRegion, ClaimFault> {
        let name = hazard_name(self.task, claim.region);
        let _in_use = InUse::begin(claimer.hazard, name, claimer.barrier);
        let (entry, state) = self.open_entry(claim, need)?;
        #[expect(clippy::cast_possible_truncation, reason = "the rights are the low half")]
        let file = self.file_of(claimer, entry, state as u32);
        let (offset, len) = (entry.file_offset.load(Ordering::Relaxed), entry.len.load(Ordering::Relaxed));
        let range = usize::try_from(offset).ok().zip(usize::try_from(len).ok());
        let (offset, len) = range.ok_or(ClaimFault::Stale)?;
        let bytes = file.map(|file| {
            // The entry is a claim of its owner: the range must lie inside the file that is mapped here.
            // SAFETY: peers have granted these bytes for plain copies (`PeerMemory::new`).
            let bytes = unsafe { file.checked(offset, len) }.ok_or(ClaimFault::Stale)?;
            // SAFETY: only the lifetime changes. The value keeps the file, and lends the bytes only while it is borrowed itself (`lend`):
            // no caller has them when the file is unmapped.
            let bytes = unsafe { std::mem::transmute::<CheckedRange<'_>, CheckedRange<'static>>(bytes) };
            Ok((bytes, Arc::clone(file)))
        });
        let entry = self.head.atomics(ControlLayout::region_offset(claim.region)).ok_or(ClaimFault::Stale)?;
        Ok(MappedRegion { name, state, entry, bytes: bytes.transpose()? })
    }
}

/// A part of a mapped region, which may be accessed while this value lives.
#[derive(Debug)]
pub struct Lent<'a> {
    range: CheckedRange<'a>,
    _in_use: InUse<'a>,
}

impl Lent<'_> {
    /// The part.
    #[inline(always)]
    #[must_use]
    pub fn range(&self) -> CheckedRange<'_> {
        self.range
    }
}

/// A cache of regions: the last region found for each slot.
#[derive(Debug)]
pub struct MappedRegions(Box<[Option<MappedRegion>; SLOTS]>);

impl Default for MappedRegions {
    fn default() -> Self {
        Self(Box::new([const { None }; SLOTS]))
    }
}

#[inline(always)]
fn slot_of(task: u32, region: u32) -> usize {
    task.wrapping_mul(SLOTS_OF_TASK).wrapping_add(region) as usize % SLOTS
}

impl MappedRegions {
    #[inline(always)]
    fn found(&self, task: u32, claim: &Claim, need: u32) -> Option<&MappedRegion> {
        let found = self.0[slot_of(task, claim.region)].as_ref()?;
        // Not `filter`: the compiler would not inline its closure.
        #[expect(clippy::cast_possible_truncation, reason = "the rights are the low half")]
        let is_it = found.name == hazard_name(task, claim.region)
            && (found.state >> 32) as u32 == claim.generation
            && found.state as u32 & need == need;
        if is_it { Some(found) } else { None }
    }

    /// Whether the region of a claim to memory of `task` is cached with the rights `need`, and unchanged.
    #[inline(always)]
    #[must_use]
    pub fn has(&self, task: u32, claim: &Claim, need: u32) -> bool {
        // Relaxed: `lend` checks again.
        self.found(task, claim, need).is_some_and(|found| found.is_open(Ordering::Relaxed))
    }

    /// Caches a region of `task`, in place of the one in its slot.
    pub fn keep(&mut self, task: u32, region: u32, found: MappedRegion) {
        self.0[slot_of(task, region)] = Some(found);
    }

    /// Empties the cache.
    pub fn clear(&mut self) {
        self.0.fill_with(|| None);
    }

    /// Lends the part of `task`'s region that `claim` names, for accesses that need the rights `need`; `None` if the region is not mapped.
    /// `hazard` must be the own hazard line of the context that makes the access: the line tells the region's owner of the access.
    ///
    /// # Errors
    /// The region is not cached with these rights, or is no longer open; its protection tag differs; or the part does not lie inside the
    /// region.
    #[inline(always)]
    pub fn lend<'a>(
        &'a self,
        (hazard, barrier): (&'a Hazard, SleepBarrier),
        task: u32,
        claim: Claim,
        need: u32,
    ) -> Result<Option<Lent<'a>>, ClaimFault> {
        let Some(found) = self.found(task, &claim, need) else { return Err(ClaimFault::Stale) };
        let Some((bytes, _)) = &found.bytes else { return Ok(None) };
        let in_use = InUse::begin(hazard, found.name, barrier);
        // Acquire ("region opened"): pairs with the Release in `OwnRegions::insert` and `set_registration`.
        if !found.is_open(Ordering::Acquire) {
            return Err(ClaimFault::Stale);
        }
        if found.entry.ptag.load(Ordering::Relaxed) != claim.ptag {
            return Err(ClaimFault::Tag);
        }
        #[expect(clippy::cast_possible_truncation, reason = "memory has 64 bits here")]
        match bytes.part(claim.offset as usize, claim.len as usize) {
            Some(range) => Ok(Some(Lent { range, _in_use: in_use })),
            None => Err(ClaimFault::Bounds { len: bytes.len() as u64 }),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::copy::Copied;
    use crate::layout::{ACCESS_READ, ACCESS_WRITE, HAZARD_OFFSET, REGION_OFFSET};
    use crate::private_bytes::PrivateBytes;
    use crate::regions::{OwnRegions, Registration, Ways};
    use crate::shared_files::SharedFiles;

    const BARRIER: SleepBarrier = SleepBarrier::SenderFence;
    const BOTH: u32 = ACCESS_READ | ACCESS_WRITE;

    struct Peers {
        own: OwnRegions,
        heap: Arc<Mapping>,
        peer: PeerMemory,
        hazard: Shared<Hazard>,
        known: MappedRegions,
    }

    fn bytes(heap: &Mapping, offset: usize, len: usize) -> CheckedRange<'_> {
        // SAFETY: the test has one thread.
        unsafe { heap.checked(offset, len) }.expect("it lies inside")
    }

    impl Peers {
        fn new(ways: Ways) -> Self {
            let (_file, head) = Mapping::anonymous(REGION_OFFSET + 4096).expect("memory");
            let (_file, heap) = Mapping::anonymous(1 << 16).expect("memory");
            let hazard = head.atomics(HAZARD_OFFSET).expect("it lies inside");
            let own = OwnRegions::new(Arc::clone(&head), Arc::clone(&heap), 0, ways);
            // SAFETY: the files are those of `own`; the test has one thread, and its claimers use one hazard line, their own.
            let peer = unsafe { PeerMemory::new(0, 0, head, Arc::clone(&heap)) };
            Self { own, heap, peer, hazard, known: MappedRegions::default() }
        }

        fn open(&mut self, offset: usize) -> Claim {
            let memory = bytes(&self.heap, offset, 64);
            let registration = Registration { access: BOTH, ptag: 7 };
            // SAFETY: the mapping lives as long as the table, and the test accesses it by copies in one thread.
            let opened = unsafe { self.own.insert(memory, registration, &SharedFiles::default()) };
            let (region, generation) = opened.expect("the table is empty");
            Claim { region, generation, offset: 0, len: 8, ptag: 7 }
        }

        fn find(&mut self, claim: Claim, ways: Ways) -> Result<(), ClaimFault> {
            self.find_for(claim, ways, BOTH)
        }

        fn find_for(&mut self, claim: Claim, ways: Ways, need: u32) -> Result<(), ClaimFault> {
            let shared = SharedFiles::default();
            let claimer = Claimer { task: 1, hazard: &self.hazard, barrier: BARRIER, ways, shared: &shared };
            let found = self.peer.mapped_region(&claimer, claim, need)?;
            self.known.keep(0, claim.region, found);
            Ok(())
        }

        /// Lends 8 bytes and sets them to `byte`; `None` if they are not mapped.
        fn fill(&self, claim: Claim, byte: u8) -> Result<Option<()>, ClaimFault> {
            self.fill_by(claim, byte, BOTH)
        }

        fn fill_by(&self, claim: Claim, byte: u8, need: u32) -> Result<Option<()>, ClaimFault> {
            let lent = self.known.lend((&self.hazard, BARRIER), 0, claim, need)?;
            assert_eq!(lent.is_some(), self.hazard.copying.load(Ordering::Relaxed) != 0, "named while lent");
            Ok(lent.map(|lent| lent.range().copy_from_slice(&[byte; 8])))
        }
    }

    const MAPPED: Ways = Ways { mapped: true, kernel: false };

    #[test]
    fn a_found_region_is_lent_within_its_bounds_until_it_is_closed_or_changed() {
        let mut peers = Peers::new(MAPPED);
        let claim = peers.open(4096);
        assert!(!peers.known.has(0, &claim, BOTH));
        assert_eq!(peers.fill(claim, 1), Err(ClaimFault::Stale), "not found yet");
        peers.find(claim, MAPPED).unwrap();
        assert!(peers.known.has(0, &claim, BOTH) && !peers.known.has(1, &claim, BOTH));
        peers.fill(Claim { offset: 56, ..claim }, 9).unwrap().unwrap();
        let mut there = [0; 8];
        bytes(&peers.heap, 4096 + 56, 8).copy_to_slice(&mut there);
        assert_eq!((there, peers.hazard.copying.load(Ordering::Relaxed)), ([9; 8], 0));
        for (offset, len) in [(57, 8), (65, 0), (u64::MAX, 8), (8, u64::MAX)] {
            let outside = peers.fill(Claim { offset, len, ..claim }, 1);
            assert_eq!(outside, Err(ClaimFault::Bounds { len: 64 }));
        }
        assert_eq!(peers.fill(Claim { ptag: 8, ..claim }, 1), Err(ClaimFault::Tag));
        let read_only = Registration { access: ACCESS_READ, ptag: 7 };
        assert!(peers.own.set_registration(claim.region, claim.generation, read_only));
        assert!(!peers.known.has(0, &claim, BOTH));
        assert_eq!(peers.fill(claim, 1), Err(ClaimFault::Stale));
        assert_eq!(peers.find(claim, MAPPED), Err(ClaimFault::NotWritable));
        assert!(peers.own.remove(claim.region, claim.generation));
        peers.own.recycle(claim.region);
        let next = peers.open(8192);
        assert_eq!(next.region, claim.region, "the same slot");
        peers.find(next, MAPPED).unwrap();
        assert_eq!(peers.fill(claim, 1), Err(ClaimFault::Stale));
        peers.fill(next, 5).unwrap().unwrap();
        bytes(&peers.heap, 8192, 8).copy_to_slice(&mut there);
        assert_eq!(there, [5; 8]);
        peers.known.clear();
        assert!(!peers.known.has(0, &next, BOTH));
    }

    #[test]
    fn a_region_is_lent_for_the_rights_that_it_has() {
        let mut peers = Peers::new(MAPPED);
        let claim = peers.open(4096);
        let write_only = Registration { access: ACCESS_WRITE, ptag: 7 };
        assert!(peers.own.set_registration(claim.region, claim.generation, write_only));
        assert_eq!(peers.find(claim, MAPPED), Err(ClaimFault::NotReadable));
        assert_eq!(peers.find_for(claim, MAPPED, ACCESS_READ), Err(ClaimFault::NotReadable));
        peers.find_for(claim, MAPPED, ACCESS_WRITE).unwrap();
        peers.fill_by(claim, 3, ACCESS_WRITE).unwrap().unwrap();
        let mut there = [0; 8];
        bytes(&peers.heap, 4096, 8).copy_to_slice(&mut there);
        assert_eq!(there, [3; 8]);
        for need in [ACCESS_READ, BOTH] {
            assert!(!peers.known.has(0, &claim, need));
            assert_eq!(peers.fill_by(claim, 1, need), Err(ClaimFault::Stale));
        }
    }

    #[test]
    fn a_region_that_is_not_mapped_is_known_as_such() {
        let ways = Ways { mapped: false, kernel: true };
        let mut peers = Peers::new(ways);
        let claim = peers.open(0);
        peers.find(claim, ways).unwrap();
        assert!(peers.known.has(0, &claim, BOTH));
        assert_eq!(peers.fill(claim, 1), Ok(None));
    }

    /// The claim's length is what is checked, and the buffer's what is copied.
    #[test]
    fn a_copy_whose_length_is_not_the_claimed_one_is_refused() {
        let pid = std::process::id().cast_signed();
        for ways in [MAPPED, Ways { mapped: false, kernel: true }] {
            let mut peers = Peers::new(ways);
            // SAFETY: this process has the memory that the table names.
            unsafe { peers.peer.set_process(pid) };
            let claim = peers.open(0);
            let shared = SharedFiles::default();
            let claimer = Claimer { task: 1, hazard: &peers.hazard, barrier: BARRIER, ways, shared: &shared };
            let other = PrivateBytes::new(16).expect("memory");
            let of = |len| other.range().part(0, len).expect("it lies inside");
            for len in [7, 9, 16] {
                assert_eq!(peers.peer.write(&claimer, claim, of(len)), Err(ClaimFault::Length), "{ways:?}");
                let read = peers.peer.read(&claimer, claim, of(len), || false);
                assert_eq!(read, Err(ClaimFault::Length), "{ways:?}");
            }
            assert_eq!(peers.peer.write(&claimer, claim, of(8)), Ok(Copied::Done), "{ways:?}");
            assert_eq!(peers.peer.read(&claimer, claim, of(8), || false), Ok(Copied::Done), "{ways:?}");
        }
    }

    /// An iterator whose clone names other pieces than itself: the range that is checked is that of the clone.
    #[test]
    fn pieces_that_were_not_checked_are_not_copied() {
        struct Changing(u64);

        impl Clone for Changing {
            fn clone(&self) -> Self {
                Self(0)
            }
        }

        impl Iterator for Changing {
            type Item = (u64, CheckedRange<'static>);

            fn next(&mut self) -> Option<Self::Item> {
                let offset = std::mem::replace(&mut self.0, u64::MAX);
                (offset != u64::MAX).then(|| (offset, CheckedRange::empty()))
            }
        }

        let ways = Ways { mapped: false, kernel: true };
        let mut peers = Peers::new(ways);
        // SAFETY: this process has the memory that the table names.
        unsafe { peers.peer.set_process(std::process::id().cast_signed()) };
        let claim = peers.open(0);
        let shared = SharedFiles::default();
        let claimer = Claimer { task: 1, hazard: &peers.hazard, barrier: BARRIER, ways, shared: &shared };
        assert_eq!(peers.peer.write_pieces(&claimer, claim, Changing(0)), Ok(true));
        let peer = &peers.peer;
        let write = || peer.write_pieces(&claimer, claim, Changing(1));
        let read = || peer.read_pieces(&claimer, claim, Changing(1));
        let panics = |copy: &dyn Fn() -> Result<bool, ClaimFault>| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(copy)).is_err()
        };
        assert!(panics(&write) && panics(&read), "a piece beyond the checked range");
    }
}
