//! Limits the program's private memory that is registered at a time, if a setting asks for this. Registrations of buffers are kept after
//! their operation for the next operation, and ended when other buffers need their bytes.
//!
//! A NIC translates and pins registered pages, so their number is limited, and registering is slow: programs keep registrations for later.
//! The emulated NIC pins nothing, so this is only an account of the pages that count as registered, their users, and their last uses. Its
//! rules are those that a real NIC would enforce, and an entry that outlives its memory does no harm, since it grants nothing: a peer needs
//! the grant of one operation or an exposed region, with its generation.
//!
//! No operation waits for a peer here. If the limit leaves no bytes for a range, the range is not registered, and its operation sends
//! pieces through the NIC's own buffers. Waiting could deadlock: in an all-to-all exchange, each task may have used its whole limit for
//! sends that complete only when the other tasks can register their receives. For the same reason a quarter of the limit is reserved for
//! the local ends of transfers. These end without a peer's help, so a local end that fits into the quarter may be retried.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// The unit of registrations: whole pages.
const PAGE: u64 = 4096;
/// Minimum limit: a quarter of it is more than the two pages that a short range can touch.
const LIMIT_MIN: u64 = 16 * PAGE;

/// Statistics of registrations so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistrationStatistics {
    /// Bytes registered now, in use or kept for later.
    pub registered_bytes: u64,
    /// Maximum of `registered_bytes` so far.
    pub registered_bytes_peak: u64,
    /// Number of ranges that were still registered as a whole.
    pub hits: u64,
    /// Number of ranges that had to be registered, in part or as a whole.
    pub misses: u64,
    /// Number of kept ranges that were ended because other ranges needed their bytes of the limit.
    pub evictions: u64,
    /// Number of ranges beyond the limit: their operations sent pieces.
    pub refusals: u64,
}

/// A range of registered pages. Its start is its key in the tree.
#[derive(Clone, Copy, Debug)]
struct Registered {
    end: u64,
    users: u32,
    /// Time of the last use.
    stamp: u64,
}

/// The purpose of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Memory at the local end of a transfer, until the transfer completes.
    LocalEnd,
    /// Memory that peers access, until a peer or the program ends the access.
    Peers,
}

/// The account of one NIC.
#[derive(Debug)]
pub(super) struct RegistrationCache {
    limit: u64,
    /// Disjoint ranges, by their start.
    ranges: BTreeMap<u64, Registered>,
    /// The unused ranges, oldest first: stamp and start.
    unused: BTreeSet<(u64, u64)>,
    /// Number of bytes in use.
    used: u64,
    /// The pages registered for each grant, by its region.
    grants: HashMap<u32, Range<u64>>,
    /// The pages registered for the local end of each accepted transfer, by the transfer's number.
    transfers: HashMap<u64, Range<u64>>,
    clock: u64,
    statistics: RegistrationStatistics,
}

impl RegistrationCache {
    /// An empty cache. The limit is `limit` bytes, at least 64 KiB, so that something fits.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit: limit.max(LIMIT_MIN),
            ranges: BTreeMap::new(),
            unused: BTreeSet::new(),
            used: 0,
            grants: HashMap::new(),
            transfers: HashMap::new(),
            clock: 0,
            statistics: RegistrationStatistics::default(),
        }
    }

    pub(super) fn statistics(&self) -> RegistrationStatistics {
        self.statistics
    }

    /// Maximum length of a local end that fits once the transfers in flight have ended.
    pub(super) fn local_end_bytes_max(&self) -> u64 {
        (self.limit / 4).saturating_sub(2 * PAGE)
    }

    /// Bytes that could be registered for peers now.
    pub(super) fn available_for_peers(&self) -> u64 {
        self.limit_for(Purpose::Peers).saturating_sub(self.used)
    }

    fn limit_for(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::LocalEnd => self.limit,
            Purpose::Peers => self.limit - self.limit / 4,
        }
    }

    /// Registers those pages of the `len` bytes at address `at` that are not registered yet, and adds one user to all of them. Returns the
    /// pages; `None` if the limit does not allow it.
    pub(super) fn hold(&mut self, at: u64, len: u64, purpose: Purpose) -> Option<Range<u64>> {
        let pages = pages(at, len);
        self.clock += 1;
        self.split(pages.start);
        self.split(pages.end);
        let (mut there, mut idle) = (0, 0);
        for (&start, range) in self.ranges.range(pages.clone()) {
            there += range.end - start;
            idle += if range.users == 0 { range.end - start } else { 0 };
        }
        let missing = pages.end - pages.start - there;
        if self.used + idle + missing > self.limit_for(purpose) {
            self.statistics.refusals += 1;
            return None;
        }
        *if missing == 0 { &mut self.statistics.hits } else { &mut self.statistics.misses } += 1;
        self.use_all(&pages);
        self.evict_for(missing);
        self.register_gaps(&pages);
        Some(pages)
    }

    /// Adds one user to the registered parts of `pages`.
    fn use_all(&mut self, pages: &Range<u64>) {
        for (&start, range) in self.ranges.range_mut(pages.clone()) {
            if range.users == 0 {
                self.unused.remove(&(range.stamp, start));
                self.used += range.end - start;
            }
            range.users += 1;
            range.stamp = self.clock;
        }
    }

    /// Ends unused registrations, the oldest first, until `bytes` more bytes fit.
    fn evict_for(&mut self, bytes: u64) {
        while self.statistics.registered_bytes + bytes > self.limit {
            let oldest = self.unused.pop_first();
            let (_, start) = oldest.expect("what is used and what is wanted fit, so the rest is unused");
            let range = self.ranges.remove(&start).expect("each unused range is in the tree");
            self.statistics.registered_bytes -= range.end - start;
            self.statistics.evictions += 1;
        }
    }

    /// Registers the gaps in `pages`, for one user.
    fn register_gaps(&mut self, pages: &Range<u64>) {
        let mut from = pages.start;
        let mut gaps = Vec::new();
        for (&start, range) in self.ranges.range(pages.clone()) {
            gaps.push(from..start);
            from = range.end;
        }
        gaps.push(from..pages.end);
        for gap in gaps.into_iter().filter(|gap| !gap.is_empty()) {
            let bytes = gap.end - gap.start;
            self.ranges.insert(gap.start, Registered { end: gap.end, users: 1, stamp: self.clock });
            self.used += bytes;
            self.statistics.registered_bytes += bytes;
        }
        let Self { statistics, .. } = self;
        statistics.registered_bytes_peak = statistics.registered_bytes_peak.max(statistics.registered_bytes);
    }

    /// Removes one user of the pages that [`hold`](Self::hold) returned. They stay registered.
    pub(super) fn let_go(&mut self, pages: &Range<u64>) {
        self.clock += 1;
        for (&start, range) in self.ranges.range_mut(pages.clone()) {
            range.users -= 1;
            range.stamp = self.clock;
            if range.users == 0 {
                self.used -= range.end - start;
                self.unused.insert((range.stamp, start));
            }
        }
        self.merge(pages);
    }

    /// Joins adjacent ranges that became unused together: a buffer used in parts becomes one range again.
    fn merge(&mut self, pages: &Range<u64>) {
        let starts: Vec<u64> = self.ranges.range(pages.clone()).map(|(&start, _)| start).collect();
        for pair in starts.windows(2).rev() {
            let (first, second) = (self.ranges[&pair[0]], self.ranges[&pair[1]]);
            // Ranges in use are not merged: each user knows the bounds of its own range.
            let alike = first.users + second.users == 0 && first.stamp == second.stamp;
            if first.end == pair[1] && alike {
                self.ranges.remove(&pair[1]);
                self.unused.remove(&(second.stamp, pair[1]));
                if let Some(range) = self.ranges.get_mut(&pair[0]) {
                    range.end = second.end;
                }
            }
        }
    }

    /// Makes `at` a boundary between ranges, if it lies inside one.
    fn split(&mut self, at: u64) {
        let Some((&start, range)) = self.ranges.range_mut(..at).next_back() else { return };
        if range.end <= at {
            return;
        }
        let second = *range;
        range.end = at;
        self.ranges.insert(at, second);
        if second.users == 0 {
            debug_assert!(self.unused.contains(&(second.stamp, start)), "an unused range is known as such");
            self.unused.insert((second.stamp, at));
        }
    }

    /// Records the pages of a grant, by its region.
    pub(super) fn keep_for_grant(&mut self, region: u32, pages: Range<u64>) {
        self.grants.insert(region, pages);
    }

    /// Ends the grant of `region`, if it has pages here.
    pub(super) fn end_grant(&mut self, region: u32) {
        if let Some(pages) = self.grants.remove(&region) {
            self.let_go(&pages);
        }
    }

    /// Records the pages of a transfer that the device has accepted.
    pub(super) fn keep_for_transfer(&mut self, id: u64, pages: Range<u64>) {
        self.transfers.insert(id, pages);
    }

    /// Ends transfer `id`, if it has pages here.
    pub(super) fn end_transfer(&mut self, id: u64) {
        if let Some(pages) = self.transfers.remove(&id) {
            self.let_go(&pages);
        }
    }
}

fn pages(at: u64, len: u64) -> Range<u64> {
    let end = at.saturating_add(len);
    at / PAGE * PAGE..end.div_ceil(PAGE).saturating_mul(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_via_os::test_aids::Random;

    fn cache(pages: u64) -> RegistrationCache {
        RegistrationCache { limit: pages * PAGE, ..RegistrationCache::new(0) }
    }

    /// Checks the account by counting again.
    fn check(cache: &RegistrationCache) {
        let (mut registered, mut used, mut unused, mut end) = (0, 0, 0, 0);
        for (&start, range) in &cache.ranges {
            assert!(start >= end && range.end > start, "ranges overlap, or are empty");
            end = range.end;
            registered += range.end - start;
            used += if range.users > 0 { range.end - start } else { 0 };
            unused += usize::from(range.users == 0);
            assert_eq!(cache.unused.contains(&(range.stamp, start)), range.users == 0);
        }
        assert_eq!((registered, used), (cache.statistics.registered_bytes, cache.used));
        assert_eq!(unused, cache.unused.len());
        assert!(registered <= cache.limit);
    }

    #[test]
    fn a_range_is_kept_for_the_next_use_and_the_oldest_goes_first() {
        let mut cache = cache(4);
        let held: Vec<_> = [0, 1, 2]
            .map(|page| cache.hold(page * PAGE, 10, Purpose::Peers).expect("the limit allows it"))
            .into();
        held.iter().for_each(|pages| cache.let_go(pages));
        assert_eq!((cache.statistics.hits, cache.statistics.registered_bytes), (0, 3 * PAGE));
        let again = cache.hold(5, 20, Purpose::Peers).expect("it is there");
        assert_eq!((cache.statistics.hits, &again), (1, &(0..PAGE)));
        // Two more pages: one is free, and page 1 is the oldest unused one.
        let more = cache.hold(10 * PAGE, 2 * PAGE, Purpose::Peers).expect("the limit allows it");
        assert_eq!(cache.statistics.evictions, 1);
        assert!(!cache.ranges.contains_key(&PAGE) && cache.ranges.contains_key(&(2 * PAGE)));
        check(&cache);
        cache.let_go(&again);
        cache.let_go(&more);
        check(&cache);
    }

    #[test]
    fn what_is_in_use_is_never_ended_and_local_ends_have_room_of_their_own() {
        let mut cache = cache(16);
        let _held = cache.hold(0, 12 * PAGE, Purpose::Peers).expect("three quarters");
        assert_eq!(cache.available_for_peers(), 0);
        assert_eq!(cache.hold(100 * PAGE, 1, Purpose::Peers), None);
        assert_eq!(cache.statistics.refusals, 1);
        // A part of a range in use takes no bytes of the limit.
        assert!(cache.hold(3 * PAGE, PAGE, Purpose::Peers).is_some());
        let local =
            cache.hold(100 * PAGE, cache.local_end_bytes_max(), Purpose::LocalEnd).expect("a quarter");
        assert_eq!(cache.hold(200 * PAGE, 3 * PAGE, Purpose::LocalEnd), None);
        cache.let_go(&local);
        assert!(cache.hold(200 * PAGE, 3 * PAGE, Purpose::LocalEnd).is_some());
        check(&cache);
    }

    #[test]
    fn a_range_longer_than_the_limit_and_one_at_the_end_of_memory_are_refused_or_kept() {
        let mut cache = cache(8);
        assert_eq!(cache.hold(0, 9 * PAGE, Purpose::LocalEnd), None);
        assert_eq!(cache.hold(0, u64::MAX, Purpose::LocalEnd), None);
        check(&cache);
        let last = cache.hold(u64::MAX - 2 * PAGE, PAGE, Purpose::LocalEnd).expect("the limit allows it");
        cache.let_go(&last);
        check(&cache);
    }

    #[test]
    fn a_buffer_used_in_parts_becomes_one_range_again() {
        let mut cache = cache(64);
        for part in 0..16 {
            let pages = cache.hold(part * PAGE, PAGE, Purpose::Peers).expect("the limit allows it");
            cache.let_go(&pages);
        }
        let whole = cache.hold(0, 16 * PAGE, Purpose::Peers).expect("the limit allows it");
        cache.let_go(&whole);
        assert_eq!((cache.ranges.len(), cache.statistics.misses), (1, 16));
        check(&cache);
    }

    #[test]
    fn random_use_keeps_the_account_and_the_limit() {
        for seed in 0..50 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let mut cache = cache(1 + random.below(40));
            let mut held = Vec::new();
            for step in 0..300_u32 {
                if random.below(2) == 0 && !held.is_empty() {
                    match held.swap_remove(random.below(held.len() as u64) as usize) {
                        (0, id, _) => cache.end_grant(id),
                        (_, id, _) => cache.end_transfer(u64::from(id)),
                    }
                } else {
                    let (at, len) = (random.below(80 * PAGE), 1 + random.below(12 * PAGE));
                    let purpose = if random.below(2) == 0 { Purpose::Peers } else { Purpose::LocalEnd };
                    if let Some(pages) = cache.hold(at, len, purpose) {
                        assert!(pages.start <= at && pages.end >= at + len);
                        if purpose == Purpose::Peers {
                            cache.keep_for_grant(step, pages.clone());
                        } else {
                            cache.keep_for_transfer(u64::from(step), pages.clone());
                        }
                        held.push((u32::from(purpose == Purpose::LocalEnd), step, pages));
                    } else {
                        let wanted = pages(at, len);
                        let used = cache.used + (wanted.end - wanted.start);
                        assert!(used > cache.limit_for(purpose), "refused although it fits");
                    }
                }
                check(&cache);
                for (_, _, pages) in &held {
                    let covered: u64 = cache
                        .ranges
                        .range(pages.clone())
                        .map(|(start, range)| if range.users > 0 { range.end - start } else { 0 })
                        .sum();
                    assert_eq!(covered, pages.end - pages.start, "a range in use was ended");
                }
            }
        }
    }
}
