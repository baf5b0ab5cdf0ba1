//! The region tables: the memory that a task registers for its peers, the check of a peer's claim, and the copies that follow.
//!
//! A claim is checked in one place, `PeerMemory::claim`; a mapped region is found once, and then cached (`mapped_regions`). Hazards make it
//! safe to end a registration while a peer copies: the copier names the region in its own control file, then checks the entry; the owner
//! clears the entry, then checks the hazards of all tasks. The two halves are a Dekker handshake like that of sleeping, with the same
//! barrier ("region hazard").

#![expect(clippy::cast_possible_truncation, reason = "halves of packed words are cut out")]

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::copy::{CheckedRange, Copied};
use crate::layout::{
    ACCESS_IN_HEAP, ACCESS_IN_SHARED_FILE, ACCESS_LIVE, ACCESS_READ, ACCESS_WRITE, CONTEXTS_MAX,
    ControlHeader, ControlLayout, Hazard, REGIONS_MAX, REGIONS_PER_CONTEXT, RegionEntry,
};
use crate::pipe::{self, PIPE_MAY_COME, PipeWriter};
use crate::segment::Mapping;
use crate::shared_files::SharedFiles;
use crate::wait::SleepBarrier;
use am_atomics::{AtomicOp, Width};
use am_via_os::atomics::Ordering;
use am_via_os::private_memory;

/// Why a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimFault {
    /// No such registration, or it has ended.
    #[error("the handle is not registered")]
    Stale,
    /// The range does not lie inside the registration.
    #[error("the range does not lie inside the registration, which has {len} bytes")]
    Bounds {
        /// The length of the region.
        len: u64,
    },
    /// The caller's buffer and the range that it claims have different lengths.
    #[error("the buffer does not have the length of the range")]
    Length,
    /// No write access for peers.
    #[error("the registration does not let peers write")]
    NotWritable,
    /// No read access for peers.
    #[error("the registration does not let peers read")]
    NotReadable,
    /// The protection tags of registration and VI differ.
    #[error("the protection tags of the registration and the VI differ")]
    Tag,
    /// The word of an atomic operation is not aligned, or does not have 1, 2, 4 or 8 bytes.
    #[error("the word is not aligned, or does not have 1, 2, 4 or 8 bytes")]
    Misaligned,
    /// The owner's process is gone.
    #[error("the peer is dead")]
    PeerDead,
}

/// The ways to access a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Whether to use plain copies, if the memory is in a heap file or a shared file.
    pub mapped: bool,
    /// Whether to use copies by the kernel.
    pub kernel: bool,
}

/// Properties of a registration.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// [`ACCESS_READ`] and [`ACCESS_WRITE`].
    pub access: u32,
    /// The protection tag.
    pub ptag: u32,
}

/// The part of this task's region table that belongs to one context.
#[derive(Debug)]
pub struct OwnRegions {
    head: Arc<Mapping>,
    heap: Arc<Mapping>,
    /// Number of the context's first region.
    first: u32,
    /// Private copies of the entries, on which the owner relies.
    slots: Vec<OwnSlot>,
    free: Vec<u32>,
    ways: Ways,
}

#[derive(Clone, Copy, Debug)]
struct OwnSlot {
    generation: u32,
    access: u32,
    ptag: u32,
    live: Option<(NonNull<u8>, usize)>,
    /// Whether the registration is closed to new claims, though its memory may still be copied.
    closing: bool,
}

// SAFETY: the pointers are to registered memory, which its owner keeps alive while it is registered (`insert`'s contract), whichever thread
// the table is on.
unsafe impl Send for OwnRegions {}

impl OwnRegions {
    /// The part of the table in the owner's control file that belongs to `context`; `heap` is the mapping of the owner's heap file.
    #[must_use]
    pub fn new(head: Arc<Mapping>, heap: Arc<Mapping>, context: u32, ways: Ways) -> Self {
        let first = context * REGIONS_PER_CONTEXT;
        let slots: Vec<_> = used(&head, context)
            .map(|region| {
                // Generations continue from the last opening of the context, so that claims from the time of that opening stay stale.
                let state = entry_of(&head, region)
                    .map_or(0, |entry| entry.generation_and_access.load(Ordering::Relaxed));
                OwnSlot { generation: (state >> 32) as u32, access: 0, ptag: 0, live: None, closing: false }
            })
            .collect();
        let free = (first..).take(slots.len()).collect();
        Self { head, heap, first, slots, free, ways }
    }

    /// Registers `memory`, which may be in one of the `shared` files. Returns the region and its generation, or `None` if the table is
    /// full.
    ///
    /// # Safety
    /// The memory must stay alive, and be left to the copies that claims allow, until the registration has been [removed](Self::remove) and
    /// no copy is under way, which [`is_quiet`] reports.
    pub unsafe fn insert(
        &mut self,
        memory: CheckedRange<'_>,
        registration: Registration,
        shared: &SharedFiles,
    ) -> Option<(u32, u32)> {
        let region = match self.free.pop() {
            Some(region) => region,
            None => {
                let used = u32::try_from(self.slots.len()).ok().filter(|&used| used < REGIONS_PER_CONTEXT)?;
                self.slots.push(OwnSlot { generation: 0, access: 0, ptag: 0, live: None, closing: false });
                let header: &ControlHeader = self.head.atomics_at(0)?;
                // Relaxed: no other process reads the count, except the program that this process becomes by `exec`.
                header.regions_used[context_of(self.first)].store(used + 1, Ordering::Relaxed);
                self.first + used
            }
        };
        let entry = entry_of(&self.head, region)?;
        let slot = self.slots.get_mut(region.wrapping_sub(self.first) as usize)?;
        slot.generation = slot.generation.wrapping_add(1);
        let generation = slot.generation;
        slot.live = Some((memory.at(), memory.len()));
        slot.access = registration.access;
        slot.ptag = registration.ptag;
        let mut access = registration.access | ACCESS_LIVE;
        entry.address.store(memory.at().addr().get() as u64, Ordering::Relaxed);
        entry.len.store(memory.len() as u64, Ordering::Relaxed);
        entry.ptag.store(registration.ptag, Ordering::Relaxed);
        if self.ways.mapped {
            if let Some(offset) = self.heap.offset_of(memory.at(), memory.len()) {
                entry.file_offset.store(offset as u64, Ordering::Relaxed);
                access |= ACCESS_IN_HEAP;
            } else if let Some((inode, offset)) = shared.place_of(memory.at(), memory.len()) {
                entry.shared_file.store(inode, Ordering::Relaxed);
                entry.file_offset.store(offset as u64, Ordering::Relaxed);
                access |= ACCESS_IN_SHARED_FILE;
            }
        }
        entry.pipe.store(0, Ordering::Relaxed);
        // Release ("region opened"): pairs with the Acquire in `open_entry`.
        entry.generation_and_access.store(u64::from(generation) << 32 | u64::from(access), Ordering::Release);
        Some((region, generation))
    }

    /// Closes a registration to new claims. Returns `false` if it was neither open nor closing.
    pub fn remove(&mut self, region: u32, generation: u32) -> bool {
        let Some(slot) = self.slot_mut(region).filter(|slot| slot.generation == generation) else {
            return false;
        };
        if slot.live.take().is_some() {
            slot.closing = true;
            if let Some(entry) = self.entry(region) {
                entry.generation_and_access.store(u64::from(generation) << 32, Ordering::Release);
            }
            return true;
        }
        slot.closing
    }

    /// Changes the rights and the protection tag of a registration; returns whether the registration is open.
    pub fn set_registration(&mut self, region: u32, generation: u32, registration: Registration) -> bool {
        let Some(slot) = self.slot_mut(region) else { return false };
        if slot.generation != generation || slot.live.is_none() {
            return false;
        }
        slot.access = registration.access;
        slot.ptag = registration.ptag;
        let Some(entry) = self.entry(region) else { return false };
        entry.ptag.store(registration.ptag, Ordering::Relaxed);
        let state = entry.generation_and_access.load(Ordering::Relaxed);
        let kept = state & u64::from(ACCESS_IN_HEAP | ACCESS_IN_SHARED_FILE | ACCESS_LIVE);
        // Release ("region opened"): pairs with the Acquire in `open_entry`.
        let now = u64::from(generation) << 32 | kept | u64::from(registration.access);
        entry.generation_and_access.store(now, Ordering::Release);
        true
    }

    /// The memory of an open registration of this context.
    #[must_use]
    pub fn open_memory(&self, region: u32, generation: u32) -> Option<CheckedRange<'_>> {
        let slot = self.slots.get(region.wrapping_sub(self.first) as usize)?;
        let (at, len) = slot.live.filter(|_| slot.generation == generation)?;
        // SAFETY: as in `memory`: registered, and so live, while the table is borrowed.
        Some(unsafe { CheckedRange::new(at, len) })
    }

    /// Empties a pipe, and attaches it to a registration of this context. `None`: announces that a pipe may come. A peer that reads the
    /// registration once, from front to back, takes pieces from the pipe after [`PipeWriter::stage`].
    pub fn attach_pipe(&mut self, region: u32, pipe: Option<&mut PipeWriter>) {
        if let Some(entry) = self.entry(region) {
            // Release ("pipe attached"): pairs with the Acquire in `pipe::read`.
            entry.pipe.store(pipe.map_or(PIPE_MAY_COME, PipeWriter::restart), Ordering::Release);
        }
    }

    /// Lets the slot of a removed registration be reused. Must be called only when no copy is under way any more.
    pub fn recycle(&mut self, region: u32) {
        if let Some(slot) = self.slot_mut(region)
            && std::mem::take(&mut slot.closing)
        {
            self.free.push(region);
        }
    }

    /// The memory of a registration of this context, if the registration has the claim's protection tag and gives peers all rights in
    /// `need`.
    ///
    /// # Errors
    /// The registration is not open, has another tag, does not give the rights, or the range does not lie inside.
    #[inline]
    pub fn memory(&self, own: Claim, need: u32) -> Result<CheckedRange<'_>, ClaimFault> {
        let index = own.region.wrapping_sub(self.first) as usize;
        let slot = self.slots.get(index).filter(|slot| slot.generation == own.generation);
        let slot = slot.ok_or(ClaimFault::Stale)?;
        let (at, region_len) = slot.live.ok_or(ClaimFault::Stale)?;
        if slot.ptag != own.ptag {
            return Err(ClaimFault::Tag);
        }
        let access = slot.access;
        if access & need != need {
            return Err(missing(access, need));
        }
        let bounds = ClaimFault::Bounds { len: region_len as u64 };
        let (Ok(offset), Ok(len)) = (usize::try_from(own.offset), usize::try_from(own.len)) else {
            return Err(bounds);
        };
        // SAFETY: the owner of the memory keeps it alive while it is registered (`insert`'s contract), and the table is borrowed for the
        // lifetime of the range, so that it stays registered.
        unsafe { CheckedRange::new(at, region_len) }.part(offset, len).ok_or(bounds)
    }

    fn slot_mut(&mut self, region: u32) -> Option<&mut OwnSlot> {
        self.slots.get_mut(region.wrapping_sub(self.first) as usize)
    }

    fn entry(&self, region: u32) -> Option<&RegionEntry> {
        entry_of(&self.head, region)
    }
}

impl Drop for OwnRegions {
    /// Memory still exposed when its context ends becomes inaccessible.
    fn drop(&mut self) {
        for (region, slot) in (self.first..).zip(&self.slots) {
            if slot.live.is_some()
                && let Some(entry) = self.entry(region)
            {
                close(entry);
            }
        }
    }
}

#[inline]
fn entry_of(head: &Mapping, region: u32) -> Option<&RegionEntry> {
    head.atomics_at(ControlLayout::region_offset(region))
}

fn context_of(region: u32) -> usize {
    (region / REGIONS_PER_CONTEXT) as usize % CONTEXTS_MAX as usize
}

/// The regions that a context has ever used, according to the control file of the context's owner. The number there is a claim, so it is
/// limited to [`REGIONS_PER_CONTEXT`].
fn used(head: &Mapping, context: u32) -> std::ops::Range<u32> {
    let header: Option<&ControlHeader> = head.atomics_at(0);
    let first = context * REGIONS_PER_CONTEXT;
    let used = header.map_or(0, |header| header.regions_used[context_of(first)].load(Ordering::Relaxed));
    first..first + used.min(REGIONS_PER_CONTEXT)
}

/// Closes a region to new claims; its generation stays. Returns whether it was open.
fn close(entry: &RegionEntry) -> bool {
    let state = entry.generation_and_access.load(Ordering::Relaxed);
    // Release, like the store in `remove`.
    entry.generation_and_access.store(state >> 32 << 32, Ordering::Release);
    state as u32 & ACCESS_LIVE != 0
}

/// Closes all regions of a control file's owner; returns whether one was open. Must be called while none of the owner's contexts is open.
pub fn close_all(head: &Mapping) -> bool {
    let regions = (0..CONTEXTS_MAX).flat_map(|context| used(head, context));
    regions.filter_map(|region| entry_of(head, region)).filter(|entry| close(entry)).count() > 0
}

/// Whether none of the given contexts is copying from or to this region. Must be called after the entry was cleared, and after
/// [`SleepBarrier::before_look`].
#[must_use]
pub fn is_quiet<'a>(hazards: impl Iterator<Item = &'a Hazard>, task: u32, region: u32) -> bool {
    let name = hazard_name(task, region);
    // Acquire ("region hazard"): pairs with the Release in the drop of `InUse`. A task that sees the end of a copy sees the copy's stores.
    hazards.into_iter().all(|hazard| hazard.copying.load(Ordering::Acquire) != name)
}

/// Whether a context is copying from or to memory of this task. The requirements are those of [`is_quiet`].
#[must_use]
pub fn names_memory_of(hazard: &Hazard, task: u32) -> bool {
    // Acquire ("region hazard"): as in `is_quiet`.
    hazard.copying.load(Ordering::Acquire) >> 32 == u64::from(task) + 1
}

/// Clears the hazard line of a process that has ended, and so copies no more.
pub fn clear(hazard: &Hazard) {
    // Release ("region hazard"), like the copier's own store of 0: the owner of a region that the line named before may see no other store
    // to the line.
    hazard.copying.store(0, Ordering::Release);
}

#[inline(always)]
pub(crate) fn hazard_name(task: u32, region: u32) -> u64 {
    (u64::from(task) + 1) << 32 | (u64::from(region) + 1)
}

/// How this task reaches a peer's registered memory.
#[derive(Debug)]
pub struct PeerMemory {
    pub(crate) task: u32,
    /// The peer's process, for copies by the kernel; 0 before the process has started.
    pid: i32,
    /// The head of the peer's control file.
    pub(crate) head: Arc<Mapping>,
    heap: Arc<Mapping>,
    /// Whether the kernel is known to be able to copy from the peer's private memory.
    is_copied_by_kernel: Cell<bool>,
}

/// The task that makes a claim, and what it uses for the access.
#[derive(Debug)]
pub struct Claimer<'a> {
    /// The claiming task.
    pub task: u32,
    /// The task's hazard line.
    pub hazard: &'a Hazard,
    /// The barrier of the handshake.
    pub barrier: SleepBarrier,
    /// The ways that the task uses to reach memory of peers.
    pub ways: Ways,
    /// The shared files that the task has mapped.
    pub shared: &'a SharedFiles,
}

/// A range of a peer's registered memory, as somebody names it: checked at each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The region.
    pub region: u32,
    /// The region's generation.
    pub generation: u32,
    /// Bytes from the start of the region.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The protection tag of the VI.
    pub ptag: u32,
}

/// A claim that was checked, valid while this value lives.
struct Checked<'a> {
    way: Way<'a>,
    _in_use: InUse<'a>,
}

/// A hazard line that names a region while this value lives.
#[derive(Debug)]
pub(crate) struct InUse<'a>(&'a Hazard);

impl<'a> InUse<'a> {
    /// Names a region. The caller must then check whether the region is still open.
    #[inline(always)]
    pub(crate) fn begin(hazard: &'a Hazard, name: u64, barrier: SleepBarrier) -> Self {
        // Release ("region hazard"), like the store of 0 before it, which an owner may never see: an owner that sees another region's name
        // here also knows that the previous copy has ended.
        hazard.copying.store(name, Ordering::Release);
        barrier.after_store();
        Self(hazard)
    }
}

enum Way<'a> {
    Mapped(CheckedRange<'a>),
    Kernel { pid: i32, address: u64, entry: &'a RegionEntry },
    None,
}

impl Drop for InUse<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release ("region hazard"): pairs with the Acquire in `is_quiet`.
        self.0.copying.store(0, Ordering::Release);
    }
}

impl PeerMemory {
    /// The memory of `task`, whose process is `pid` (0: not started yet), with the head of its control file and its heap file.
    ///
    /// # Safety
    /// * The two mappings must be of that task's files, and `pid` its process: the kernel copies to and from the addresses that the region
    ///   table in `head` names there. Only the task's own [`OwnRegions`] may write the entries of that table. (A task that writes them by
    ///   other means is not contained.)
    /// * A [`Claimer`] that is passed to this value's functions must name the hazard line of the context that makes the access, which no
    ///   other access uses meanwhile, and a [`SleepBarrier`] that the owner uses, too.
    /// * Registered memory in the files may be copied by this process while other threads of it do: the owner, who registered it, has left
    ///   it to such copies.
    #[must_use]
    pub unsafe fn new(task: u32, pid: i32, head: Arc<Mapping>, heap: Arc<Mapping>) -> Self {
        Self { task, pid, head, heap, is_copied_by_kernel: Cell::new(false) }
    }

    /// Whether the peer's process was known when this value was made, or later.
    #[inline(always)]
    #[must_use]
    pub fn has_process(&self) -> bool {
        self.pid != 0
    }

    /// Notes the peer's process, which has started.
    ///
    /// # Safety
    /// That of [`new`](Self::new) about `pid`.
    pub unsafe fn set_process(&mut self, pid: i32) {
        self.pid = pid;
    }

    /// Copies `from` into the peer's memory.
    ///
    /// # Errors
    /// The claim is refused, its length is not that of `from`, or the peer is gone.
    #[inline]
    pub fn write(
        &self,
        claimer: &Claimer<'_>,
        claim: Claim,
        from: CheckedRange<'_>,
    ) -> Result<Copied, ClaimFault> {
        check_len(claim, from)?;
        let checked = self.claim(claimer, claim, ACCESS_WRITE)?;
        match &checked.way {
            Way::Mapped(to) => Ok(if to.copy_from(from) { Copied::Done } else { Copied::Unreachable }),
            Way::Kernel { pid, address, .. } => {
                // SAFETY: `from` is readable for its lifetime and not changed by its owner (`CheckedRange::new`); the owner of the remote
                // range, which is of the same length (`check_len`), has granted writes (`claim`) in that process (`new`'s contract).
                kernel_outcome(unsafe {
                    private_memory::write(*pid, *address, from.at().as_ptr(), from.len())
                })
            }
            Way::None => Ok(Copied::Unreachable),
        }
    }

    /// Copies a range of the peer's memory to `to`. `idle` stages a piece of this task's own messages (see
    /// [`pipe::read`]).
    ///
    /// # Errors
    /// The claim is refused, its length is not that of `to`, or the peer is gone.
    #[inline]
    pub fn read(
        &self,
        claimer: &Claimer<'_>,
        claim: Claim,
        to: CheckedRange<'_>,
        idle: impl FnMut() -> bool,
    ) -> Result<Copied, ClaimFault> {
        check_len(claim, to)?;
        let checked = self.claim(claimer, claim, ACCESS_READ)?;
        match &checked.way {
            Way::Mapped(from) => Ok(if to.copy_from(*from) { Copied::Done } else { Copied::Unreachable }),
            Way::Kernel { pid, address, entry } => {
                let kernel = |at: u64, to: CheckedRange<'_>| {
                    let from = address.wrapping_add(at - claim.offset);
                    // SAFETY: `to` is writable for its lifetime and not accessed by its owner (`CheckedRange::new`).
                    kernel_outcome(unsafe { private_memory::read(*pid, from, to.at().as_ptr(), to.len()) })
                };
                // Relaxed: the pipe's position is loaded again with Acquire (`pipe::read`). A task that sends to itself stages nothing
                // meanwhile.
                let has_pipe = entry.pipe.load(Ordering::Relaxed) != 0 && self.task != claimer.task;
                if claimer.ways.mapped && has_pipe && self.kernel_copies(*pid, *address) {
                    pipe::read(&entry.pipe, &self.heap, (claim.offset, to), kernel, idle)
                } else {
                    kernel(claim.offset, to)
                }
            }
            Way::None => Ok(Copied::Unreachable),
        }
    }

    /// Copies pieces of this task's memory into the peer's, each to its offset in the region of `claim`. `false`: not all were copied; the
    /// caller must copy each piece by itself.
    ///
    /// # Errors
    /// The claim to the range from the first piece to the last is refused, or the peer is gone.
    ///
    /// # Panics
    /// A clone of `pieces` has other pieces.
    pub fn write_pieces<'a>(
        &self,
        claimer: &Claimer<'_>,
        claim: Claim,
        pieces: impl Iterator<Item = (u64, CheckedRange<'a>)> + Clone,
    ) -> Result<bool, ClaimFault> {
        let Some(claim) = spanning(claim, pieces.clone()) else { return Ok(false) };
        let checked = self.claim(claimer, claim, ACCESS_WRITE)?;
        let (pid, address) = match checked.way {
            Way::Kernel { pid, address, .. } => (pid, address),
            Way::Mapped(all) => {
                let mut pieces = pieces;
                return Ok(pieces.all(|(offset, from)| {
                    part(all, claim, offset, from).is_some_and(|to| to.copy_from(from))
                }));
            }
            Way::None => return Ok(false),
        };
        let pieces = pieces.map(|(offset, from)| {
            (inside(claim, address, offset, from), from.at().as_ptr().cast_const(), from.len())
        });
        // SAFETY: the pieces are readable for their lifetime and not changed by their owner (`CheckedRange::new`); the owner of the remote
        // ranges has granted writes (`claim`, whose range contains them: `inside`) in that process (`new`'s contract).
        Ok(kernel_outcome(unsafe { private_memory::write_pieces(pid, pieces) })? == Copied::Done)
    }

    /// Like [`write_pieces`](Self::write_pieces), but copies from the peer's memory.
    ///
    /// # Errors
    /// Those of [`write_pieces`](Self::write_pieces).
    ///
    /// # Panics
    /// A clone of `pieces` has other pieces.
    pub fn read_pieces<'a>(
        &self,
        claimer: &Claimer<'_>,
        claim: Claim,
        pieces: impl Iterator<Item = (u64, CheckedRange<'a>)> + Clone,
    ) -> Result<bool, ClaimFault> {
        let Some(claim) = spanning(claim, pieces.clone()) else { return Ok(false) };
        let checked = self.claim(claimer, claim, ACCESS_READ)?;
        let (pid, address) = match checked.way {
            Way::Kernel { pid, address, .. } => (pid, address),
            Way::Mapped(all) => {
                let mut pieces = pieces;
                return Ok(pieces.all(|(offset, to)| {
                    part(all, claim, offset, to).is_some_and(|from| to.copy_from(from))
                }));
            }
            Way::None => return Ok(false),
        };
        let pieces =
            pieces.map(|(offset, to)| (inside(claim, address, offset, to), to.at().as_ptr(), to.len()));
        // SAFETY: the pieces are writable for their lifetime and not accessed by their owner (`CheckedRange::new`).
        Ok(kernel_outcome(unsafe { private_memory::read_pieces(pid, pieces) })? == Copied::Done)
    }

    /// Whether the kernel can copy from the peer's private memory: tried with the word at `address` until a try has succeeded. A pipe needs
    /// these copies, because the kernel copies what the pipe does not carry.
    fn kernel_copies(&self, pid: i32, address: u64) -> bool {
        let copies = self.is_copied_by_kernel.get() || private_memory::read_word(pid, address).is_ok();
        self.is_copied_by_kernel.set(copies);
        copies
    }

    /// The entry of a claim's region, and the entry's state, if the region is open with the claim's generation and protection tag, and
    /// gives the rights `need`. The caller must have named the region in its hazard line.
    #[inline(always)]
    pub(crate) fn open_entry(&self, claim: Claim, need: u32) -> Result<(&RegionEntry, u64), ClaimFault> {
        let entry = entry_of(&self.head, claim.region).filter(|_| claim.region < REGIONS_MAX);
        let entry = entry.ok_or(ClaimFault::Stale)?;
        // Acquire ("region opened"): pairs with the Release in `OwnRegions::insert` and `set_registration`.
        let state = entry.generation_and_access.load(Ordering::Acquire);
        let access = state as u32;
        if (state >> 32) as u32 != claim.generation || access & ACCESS_LIVE == 0 {
            return Err(ClaimFault::Stale);
        }
        if access & need != need {
            return Err(missing(access, need));
        }
        if entry.ptag.load(Ordering::Relaxed) != claim.ptag {
            return Err(ClaimFault::Tag);
        }
        Ok((entry, state))
    }

    /// The claimer's mapping of the file that holds a region: the peer's heap file or a shared file. `None` if the region is in private
    /// memory, if the claimer has not mapped the file, or if it does not use plain copies.
    #[inline(always)]
    pub(crate) fn file_of<'a>(
        &'a self,
        claimer: &Claimer<'a>,
        entry: &RegionEntry,
        access: u32,
    ) -> Option<&'a Arc<Mapping>> {
        let file = if access & ACCESS_IN_HEAP != 0 {
            Some(&self.heap)
        } else if access & ACCESS_IN_SHARED_FILE != 0 {
            claimer.shared.mapping(entry.shared_file.load(Ordering::Relaxed))
        } else {
            None
        };
        file.filter(|_| claimer.ways.mapped)
    }

    /// Checks a claim, and decides how to access its range.
    #[inline]
    fn claim<'a>(
        &'a self,
        claimer: &Claimer<'a>,
        claim: Claim,
        need: u32,
    ) -> Result<Checked<'a>, ClaimFault> {
        let name = hazard_name(self.task, claim.region);
        let mut checked =
            Checked { way: Way::None, _in_use: InUse::begin(claimer.hazard, name, claimer.barrier) };
        let (entry, state) = self.open_entry(claim, need)?;
        let len = entry.len.load(Ordering::Relaxed);
        if claim.offset > len || claim.len > len - claim.offset {
            return Err(ClaimFault::Bounds { len });
        }
        if let Some(file) = self.file_of(claimer, entry, state as u32) {
            let at = entry.file_offset.load(Ordering::Relaxed).checked_add(claim.offset);
            let range = at.and_then(|at| Some((usize::try_from(at).ok()?, usize::try_from(claim.len).ok()?)));
            // The entry is a claim of its owner: the range must lie inside the file mapped here.
            // SAFETY: the owner has granted the bytes for plain copies (`new`'s contract).
            let range = range.and_then(|(at, len)| unsafe { file.checked(at, len) });
            checked.way = Way::Mapped(range.ok_or(ClaimFault::Stale)?);
        } else if claimer.ways.kernel && self.pid != 0 {
            let address = entry.address.load(Ordering::Relaxed).wrapping_add(claim.offset);
            checked.way = Way::Kernel { pid: self.pid, address, entry };
        }
        Ok(checked)
    }
}

/// Checks that a copy has the length that was claimed, and so checked against the registration.
#[inline(always)]
fn check_len(claim: Claim, memory: CheckedRange<'_>) -> Result<(), ClaimFault> {
    if claim.len == memory.len() as u64 { Ok(()) } else { Err(ClaimFault::Length) }
}

/// The error for the missing right.
#[cold]
pub(crate) fn missing(access: u32, need: u32) -> ClaimFault {
    if need & !access & ACCESS_WRITE != 0 { ClaimFault::NotWritable } else { ClaimFault::NotReadable }
}

/// The part of a claim's range that belongs to a piece.
fn part<'a>(
    all: CheckedRange<'a>,
    claim: Claim,
    offset: u64,
    piece: CheckedRange<'_>,
) -> Option<CheckedRange<'a>> {
    all.part(usize::try_from(offset.checked_sub(claim.offset)?).ok()?, piece.len())
}

/// The peer's address of a piece that lies inside a claim to the range at `address`. An iterator of the caller has named the pieces before,
/// when the claim was made, and could name others now.
fn inside(claim: Claim, address: u64, offset: u64, piece: CheckedRange<'_>) -> u64 {
    let at = offset.checked_sub(claim.offset);
    let at = at.filter(|&at| at.checked_add(piece.len() as u64).is_some_and(|end| end <= claim.len));
    address.wrapping_add(at.expect("an iterator and its clone have the same pieces"))
}

/// The claim to the range that contains all pieces; `None` if there are none, or if a piece ends beyond 2^64.
fn spanning<'a>(claim: Claim, mut pieces: impl Iterator<Item = (u64, CheckedRange<'a>)>) -> Option<Claim> {
    let end_of = |(offset, piece): (u64, CheckedRange<'_>)| offset.checked_add(piece.len() as u64);
    let first = pieces.next()?;
    let (from, to) = pieces.try_fold((first.0, end_of(first)?), |(from, to), piece| {
        Some((from.min(piece.0), to.max(end_of(piece)?)))
    })?;
    Some(Claim { offset: from, len: to - from, ..claim })
}

fn kernel_outcome(result: std::io::Result<()>) -> Result<Copied, ClaimFault> {
    match result {
        Ok(()) => Ok(Copied::Done),
        Err(error) if private_memory::is_of_an_ended_process(&error) => Err(ClaimFault::PeerDead),
        // Refused by policy (EPERM), not supported (ENOSYS), or not plain memory (EFAULT): use another way.
        Err(_) => Ok(Copied::Unreachable),
    }
}

/// Operates atomically on a word of the caller's or a peer's memory; returns the old value.
///
/// # Errors
/// The word is not aligned, or not 1, 2, 4 or 8 bytes long.
#[inline(always)]
pub fn update_word(word: CheckedRange<'_>, operation: AtomicOp) -> Result<u64, ClaimFault> {
    let width = Width::of_bytes(word.len()).ok_or(ClaimFault::Misaligned)?;
    // SAFETY: the range has the live bytes of the width (`CheckedRange::new`); words of exposed memory are accessed by atomics and copies.
    unsafe { am_atomics::update(word.at().as_ptr(), width, operation) }.ok_or(ClaimFault::Misaligned)
}
