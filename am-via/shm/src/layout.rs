//! The layout of a task's control file. Each task has one; its owner and its peers map parts of it.
//!
//! ```text
//! 0              header: magic, version, the numbers the layout was computed from
//! 4 KiB          doorbells, one line per context
//! 8 KiB          hazards, one line per context: the foreign region that this task is copying from or to
//! 12 KiB         attention: the owner's VIs that have to be checked, a summary word and 64 words per context
//! 64 KiB         regions: the memory that peers may access, one line each
//! then           pairs: one word for each possible connection in which the owner is the lower-numbered end
//! then           VI slots: a header page, the ring of arriving lines with 64 bytes beside each, the receive area
//! ```
//!
//! The file is sparse: unused parts cost nothing.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the halves of packed words are cut out; this layout is for 64-bit machines"
)]

use crate::ring::{Line, line_index};
use crate::segment::SharedAtomics;
use am_via_os::atomics::{AtomicU32, AtomicU64, Ordering};
use am_via_os::memory::PAGE_BYTES;

/// A byte of 1, "AMCTL", and in the highest 16 bits the version of this layout.
pub(crate) const CONTROL_MAGIC: u64 = 0x0006_4c54_434d_4101;
/// Maximum number of contexts of a task (LAPI had 16 instances).
pub const CONTEXTS_MAX: u32 = 16;
/// Offset of the doorbells: context `c` has the line at `DOORBELL_OFFSET + 64 * c`.
pub const DOORBELL_OFFSET: usize = 4096;
/// Offset of the hazard lines.
pub const HAZARD_OFFSET: usize = 8192;
/// Offset of the attention words.
pub const ATTENTION_OFFSET: usize = 12288;
pub(crate) const REGION_OFFSET: usize = 65536;
/// Number of entries in the region table: [`REGIONS_PER_CONTEXT`] for each context.
pub(crate) const REGIONS_MAX: u32 = REGIONS_PER_CONTEXT * CONTEXTS_MAX;
/// Maximum number of registrations of a context.
pub const REGIONS_PER_CONTEXT: u32 = 1 << 18;
/// Number of lines in the ring of a VI. Under loom, few enough for a model to wrap around.
pub const RING_LINES: u32 = if cfg!(loom) { 4 } else { 128 };
/// Maximum number of VIs of a task, which 64 attention words can name.
pub const VIS_MAX: u32 = 4096;

const PAIR_OFFSET: usize = REGION_OFFSET + REGIONS_MAX as usize * size_of::<RegionEntry>();

/// The first page of a control file.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ControlHeader {
    /// `CONTROL_MAGIC`.
    pub magic: AtomicU64,
    /// Number of tasks that the job can have.
    pub num_tasks: AtomicU32,
    /// Bytes of the largest packet that the receive areas take.
    pub packet_bytes: AtomicU32,
    /// Number of VI slots allocated so far.
    pub vis_used: AtomicU32,
    /// One bit for each context that the task has closed. In the upper half are those that were connected, which cannot be opened again.
    /// Changed by the owner, which then raises its peers' attention.
    pub contexts_closed: AtomicU32,
    /// For each context, the number of regions that were ever used, from the first of its range on. Their last user may have been another
    /// program, or an earlier opening of the context; a region that is used again has a later generation.
    pub regions_used: [AtomicU32; CONTEXTS_MAX as usize],
    /// Bit `b` of word `w`: VI slot `64 * w + b` was used, and can be taken again.
    pub vis_free: VisFree,
}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for ControlHeader {}

/// The VI slots of a task that can be taken again. The owner gives a slot back when the peer's process has ended; any task takes one.
#[repr(C)]
#[derive(Debug)]
pub struct VisFree([AtomicU64; VIS_MAX as usize / 64]);

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for VisFree {}

impl Default for VisFree {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl VisFree {
    /// Takes a slot, if one is free.
    pub fn take(&self) -> Option<u32> {
        (0..).zip(&self.0).find_map(|(number, word)| {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                // Acquire ("slot given back"): pairs with the Release in `give_back`: the slot's bytes are zero.
                bits = word.fetch_and(!(1 << bit), Ordering::Acquire);
                if bits >> bit & 1 != 0 {
                    return Some(64 * number + bit);
                }
            }
            None
        })
    }

    /// Gives back a slot whose bytes are zero again.
    pub fn give_back(&self, vi: u32) {
        if let Some(word) = self.0.get(vi as usize / 64) {
            // Release: "slot given back".
            word.fetch_or(1 << (vi % 64), Ordering::Release);
        }
    }
}

/// The region that a context is copying from or to, so that the region's owner can wait for the copy.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Hazard {
    /// 0, or task + 1 in the high half and region + 1 in the low half.
    pub copying: AtomicU64,
}

// SAFETY: repr(C), atomics only (the rest of the line is padding).
unsafe impl SharedAtomics for Hazard {}

/// The VIs of a context that have to be checked although they are not in its poll set.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Attention {
    /// Bit `w`: word `w` of `vis` has changed. Bit 0 is also set with `rung`.
    pub summary: AtomicU64,
    /// 1 from [`raise_ring`](Self::raise_ring) until the owner takes it.
    rung: AtomicU64,
    pad: [AtomicU64; 6],
    /// Bit `b` of word `w`: VI `64 * w + b`.
    pub vis: [AtomicU64; 64],
}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for Attention {}

impl Default for Attention {
    fn default() -> Self {
        let zero = |_| AtomicU64::new(0);
        Self {
            summary: zero(0),
            rung: zero(0),
            pad: std::array::from_fn(zero),
            vis: std::array::from_fn(zero),
        }
    }
}

impl Attention {
    /// Asks the owner to check `vi`. Called by any task.
    pub fn raise(&self, vi: u32) {
        let word = (vi / 64) as usize % 64;
        self.vis[word].fetch_or(1 << (vi % 64), Ordering::Release);
        // Release: "attention raised", pairs with the swap in `take`.
        self.summary.fetch_or(1 << word, Ordering::Release);
    }

    /// Withdraws all requests to check `vi`, whose peer has ended. Only for the owner.
    pub fn withdraw(&self, vi: u32) {
        self.vis[(vi / 64) as usize % 64].fetch_and(!(1 << (vi % 64)), Ordering::AcqRel);
    }

    /// Asks the owner to check again what it waits for, without naming a VI. Called by any task.
    pub fn raise_ring(&self) {
        self.rung.store(1, Ordering::Release);
        // Release: "attention raised", as in `raise`: a task that takes the summary also finds the ring.
        self.summary.fetch_or(1, Ordering::Release);
    }

    /// Whether any request was made since the last [`take`](Self::take). Costs one load of a line that changes only with a request.
    #[inline(always)]
    pub fn is_raised(&self) -> bool {
        self.summary.load(Ordering::Relaxed) != 0
    }

    /// Whether a task has called [`raise_ring`](Self::raise_ring) since the last call of this function. Must be called by the owner after
    /// [`take`](Self::take): a request made between the two calls is found here, or has raised the summary again.
    pub fn take_ring(&self) -> bool {
        self.rung.load(Ordering::Relaxed) != 0 && self.rung.swap(0, Ordering::AcqRel) != 0
    }

    /// Calls `look` for each VI that was named since the last `take`. Only for the owner.
    pub fn take(&self, mut look: impl FnMut(u32)) {
        // Acquire ("attention raised"): pairs with the Release in `raise` and `raise_ring`.
        let mut words = self.summary.swap(0, Ordering::AcqRel);
        while words != 0 {
            let word = words.trailing_zeros();
            words &= words - 1;
            let mut bits = self.vis[word as usize].swap(0, Ordering::AcqRel);
            while bits != 0 {
                look(word * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// An entry of the region table: a range of the owner's memory that peers may access.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct RegionEntry {
    /// Generation in the high half, access bits in the low half (0: unused).
    pub generation_and_access: AtomicU64,
    /// Address in the owner's address space, for copies by the kernel.
    pub address: AtomicU64,
    /// Offset in the owner's heap file, if `ACCESS_IN_HEAP` is set, or in the file `shared_file`, if `ACCESS_IN_SHARED_FILE` is.
    pub file_offset: AtomicU64,
    /// Length in bytes.
    pub len: AtomicU64,
    /// Protection tag of the registration.
    pub ptag: AtomicU32,
    /// The inode of the file of the range, if `ACCESS_IN_SHARED_FILE` is set.
    pub shared_file: AtomicU64,
    /// The pipe through which a peer reads the range (`pipe`); 0 if there will be none.
    pub pipe: AtomicU64,
}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for RegionEntry {}

/// Access bit: RDMA writes of peers.
pub const ACCESS_WRITE: u32 = 1;
/// Access bit: RDMA reads of peers.
pub const ACCESS_READ: u32 = 2;
/// Access bit: the range is in the owner's heap file.
pub(crate) const ACCESS_IN_HEAP: u32 = 4;
/// Access bit: the range is in a shared file, made while the job ran. If neither this bit nor `ACCESS_IN_HEAP` is set, the range is in
/// private memory.
pub(crate) const ACCESS_IN_SHARED_FILE: u32 = 16;
/// Access bit: the entry is in use.
pub(crate) const ACCESS_LIVE: u32 = 8;

/// The word of a pair of contexts: whether they are connected, and by which VIs.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct PairWord(AtomicU64);

// SAFETY: one atomic.
unsafe impl SharedAtomics for PairWord {}

impl PairWord {
    /// One of the two contexts is making the connection.
    const CLAIMED: u64 = 1;

    /// Decides which side makes the connection. If this side does, `make` takes a VI at each end, first at the lower-numbered end, and
    /// writes their identities. Returns both VIs, which are claims, or `None` while the other side makes the connection.
    ///
    /// # Errors
    /// The error of `make`; each side may then try again.
    pub fn agree<E>(&self, make: impl FnOnce() -> Result<(u32, u32), E>) -> Result<Option<(u32, u32)>, E> {
        // Acquire ("pair published"): pairs with the Release store below, if the other side makes the connection.
        match self.0.compare_exchange(0, Self::CLAIMED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                let made = make();
                let word = made.as_ref().map_or(0, |&(low_vi, high_vi)| Self::word(low_vi, high_vi));
                // Release: "pair published": a task that sees the word sees the identities that `make` wrote.
                self.0.store(word, Ordering::Release);
                made.map(Some)
            }
            Err(Self::CLAIMED) => Ok(None),
            Err(word) => Ok(Some((((word >> 32) as u32).wrapping_sub(1), (word as u32).wrapping_sub(1)))),
        }
    }

    /// The word of a made connection: neither half is 0.
    fn word(low_vi: u32, high_vi: u32) -> u64 {
        (u64::from(low_vi) + 1) << 32 | (u64::from(high_vi) + 1)
    }

    /// Forgets the connection, or the attempt to make one. One of the two tasks must have ended.
    pub fn forget(&self) {
        // Release: pairs with the Acquire in `agree`: what belonged to the connection is gone.
        self.0.store(0, Ordering::Release);
    }

    /// Whether the two contexts are connected, or one of them is making the connection.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }
}

/// The header page of a VI slot, in the memory of the VI's owner.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ViHeader {
    /// Written once by the side that makes the connection, before the pair is published.
    pub identity: Padded<ViIdentity>,
    /// Written by the owner: 1 while the ring is not in the poll set, so that senders must raise attention.
    pub parked: Padded<AtomicU32>,
    /// Written by the peer: number of lines from the owner that the peer has read (wraps).
    pub consumed_by_peer: Padded<AtomicU32>,
    /// Written by either end: 1 when the connection is closed.
    pub closed: Padded<AtomicU32>,
}

// SAFETY: repr(C), atomics only.
unsafe impl SharedAtomics for ViHeader {}

/// The two ends of a connection, as recorded in the VI slot of one of them.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ViIdentity {
    /// The context of the owner that uses this VI.
    pub own_context: AtomicU32,
    /// The peer's task.
    pub peer_task: AtomicU32,
    /// The peer's context.
    pub peer_context: AtomicU32,
    /// The peer's VI.
    pub peer_vi: AtomicU32,
}

impl ViIdentity {
    /// Writes the owner's context, and the peer's task, context and VI. Must be called before the pair is published or attention is raised.
    pub fn write(&self, identity: [u32; 4]) {
        for (cell, number) in self.cells().into_iter().zip(identity) {
            // Relaxed: published by "pair published" and "attention raised".
            cell.store(number, Ordering::Relaxed);
        }
    }

    /// The values of [`write`](Self::write), in the same order. They are claims.
    #[must_use]
    pub fn read(&self) -> [u32; 4] {
        // Relaxed: see `write`.
        self.cells().map(|cell| cell.load(Ordering::Relaxed))
    }

    fn cells(&self) -> [&AtomicU32; 4] {
        [&self.own_context, &self.peer_task, &self.peer_context, &self.peer_vi]
    }
}

/// A value in a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The numbers that determine all offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLayout {
    /// Number of tasks that the job can have: the numbers of its tasks are lower.
    pub num_tasks: u32,
    /// Bytes of the largest packet.
    pub packet_bytes: u32,
    /// Number of VI slots, at most [`VIS_MAX`]; unused slots cost nothing.
    pub vis: u32,
}

impl ControlLayout {
    /// Writes the header of a fresh control file.
    pub fn write(&self, header: &ControlHeader) {
        header.num_tasks.store(self.num_tasks, Ordering::Relaxed);
        header.packet_bytes.store(self.packet_bytes, Ordering::Relaxed);
        // Release: a task that sees the magic word sees the numbers.
        header.magic.store(CONTROL_MAGIC, Ordering::Release);
    }

    /// Checks that a header has this layout.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, header: &ControlHeader) -> Result<(), &'static str> {
        if header.magic.load(Ordering::Acquire) != CONTROL_MAGIC {
            return Err("it is not a control file of this version");
        }
        if header.num_tasks.load(Ordering::Relaxed) != self.num_tasks {
            return Err("it was made for another number of tasks");
        }
        if header.packet_bytes.load(Ordering::Relaxed) != self.packet_bytes {
            return Err("it was made for another packet_bytes setting");
        }
        Ok(())
    }

    /// Distance between two slots of a receive area: a packet and one more line, so that the first lines of the slots do not all use the
    /// same set of the first-level cache.
    #[must_use]
    pub(crate) fn area_stride(&self) -> usize {
        (self.packet_bytes as usize).next_multiple_of(64) + 64
    }

    fn pair_bytes(&self) -> usize {
        let cells = (CONTEXTS_MAX * CONTEXTS_MAX) as usize * self.num_tasks as usize;
        (cells * size_of::<AtomicU64>()).next_multiple_of(page())
    }

    /// Bytes that a peer maps once: everything before the VI slots.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        PAIR_OFFSET.next_multiple_of(page()) + self.pair_bytes()
    }

    /// Offset of the pair word for the connection between the owner's `own_context` and `context` of `task`. `task` must not be lower than
    /// the owner's number.
    #[must_use]
    pub fn pair_offset(&self, own_context: u32, task: u32, context: u32) -> usize {
        let contexts = CONTEXTS_MAX as usize;
        let cell = (task as usize * contexts + own_context as usize % contexts) * contexts
            + context as usize % contexts;
        PAIR_OFFSET.next_multiple_of(page()) + cell * size_of::<AtomicU64>()
    }

    /// Offset of region `index` in the head.
    #[must_use]
    pub(crate) fn region_offset(index: u32) -> usize {
        REGION_OFFSET + (index % REGIONS_MAX) as usize * size_of::<RegionEntry>()
    }

    /// Bytes of a control file up to the end of its region table.
    #[must_use]
    pub fn regions_end() -> usize {
        PAIR_OFFSET
    }

    /// Offset of the ring inside a VI slot.
    #[must_use]
    pub fn ring_offset() -> usize {
        page()
    }

    /// Offset of the line with this number inside a VI slot.
    #[inline(always)]
    #[must_use]
    pub fn line_offset(sequence: u32) -> usize {
        Self::ring_offset() + size_of::<Line>() * line_index(sequence, RING_LINES - 1)
    }

    /// Offset of the bytes beside the line with this index.
    #[inline(always)]
    pub(crate) fn beside_offset(index: usize) -> usize {
        Self::ring_offset() + size_of::<Line>() * index + Line::BESIDE_OFFSET
    }

    /// Offset of the receive area inside a VI slot.
    #[must_use]
    pub fn area_offset() -> usize {
        page() + RING_LINES as usize * size_of::<Line>()
    }

    /// Bytes of the receive area.
    #[must_use]
    pub(crate) fn area_bytes(&self) -> usize {
        self.area_stride() * RING_LINES as usize
    }

    /// Bytes of one VI slot.
    #[must_use]
    pub fn vi_slot_bytes(&self) -> usize {
        (Self::area_offset() + self.area_bytes()).next_multiple_of(page())
    }

    /// Offset of VI slot `vi` in the file.
    #[must_use]
    pub fn vi_slot_offset(&self, vi: u32) -> u64 {
        self.head_bytes() as u64 + u64::from(vi) * self.vi_slot_bytes() as u64
    }

    /// Bytes of the whole control file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.vi_slot_offset(self.vis)
    }
}

const fn page() -> usize {
    PAGE_BYTES as usize
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<ControlHeader>() <= DOORBELL_OFFSET);
    assert!(DOORBELL_OFFSET + 64 * CONTEXTS_MAX as usize <= HAZARD_OFFSET);
    assert!(HAZARD_OFFSET + size_of::<Hazard>() * CONTEXTS_MAX as usize <= ATTENTION_OFFSET);
    assert!(size_of::<Attention>() == 576);
    assert!(ATTENTION_OFFSET + size_of::<Attention>() * CONTEXTS_MAX as usize <= REGION_OFFSET);
    assert!(size_of::<RegionEntry>() == 64);
    assert!(size_of::<ViHeader>() == 256);
};
