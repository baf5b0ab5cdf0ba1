//! Reads of peers' memory by the network, into buffers of the endpoint.
//!
//! A read ends in the endpoint's own memory, from which its caller copies. So a read from a peer that is lost can be abandoned: the
//! network may still write to its buffer, and to nothing else.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use am_via_shm::HeldRange;

use crate::buffers::Buffers;
use crate::endpoint::{Endpoint, Objects, PeerAddress, bind_memory, close, descriptor, positive};
use crate::library::Library;
use crate::sys::{AGAIN, Domain, Ep, FI_MR_ENDPOINT, FI_MR_VIRT_ADDR, FI_READ, FI_REMOTE_READ, Mr};
use crate::{OfiError, READ_BYTES_MAX};

/// Reads under way at once: with their length, several times what a link of 100 Gbit/s carries in a round trip.
pub(crate) const READS_MAX: usize = 8;

/// What a peer reads lent memory by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteKey {
    /// The network's key.
    pub key: u64,
    /// The network's address of the first byte.
    pub base: u64,
}

/// Memory that was lent ([`Endpoint::lend`]).
#[derive(Debug)]
pub struct LentMemory {
    mr: NonNull<Mr>,
    /// Where peers find it.
    pub remote: RemoteKey,
}

// SAFETY: names a registration of an endpoint, which is used through that endpoint only.
unsafe impl Send for LentMemory {}

/// A read under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadId(usize);

#[derive(Debug)]
enum Use {
    Free,
    /// Of so many bytes of this peer's.
    Reading(PeerAddress, usize),
    /// The caller does not want the bytes any more.
    Abandoned,
}

/// A buffer for one read.
#[derive(Debug)]
struct Stage {
    memory: Buffers,
    descriptor: *mut c_void,
    usage: Use,
}

/// The reads of an endpoint.
#[derive(Debug)]
pub(crate) struct Reads {
    library: Library,
    domain: NonNull<Domain>,
    ep: NonNull<Ep>,
    mr_mode: i32,
    stages: Vec<Stage>,
    /// Those that have ended, with whether all is well.
    ended: Vec<(usize, bool)>,
    next_key: u64,
}

impl Reads {
    /// For an endpoint that can read; `mr_mode` says what its provider asks of registrations.
    pub(crate) fn new(library: Library, domain: NonNull<Domain>, ep: NonNull<Ep>, mr_mode: i32) -> Self {
        // The keys of the endpoint's own buffers are below.
        Self { library, domain, ep, mr_mode, stages: Vec::new(), ended: Vec::new(), next_key: 1 << 32 }
    }

    fn register(&mut self, at: *const c_void, len: usize, access: u64) -> Result<NonNull<Mr>, OfiError> {
        let key = self.next_key;
        self.next_key += 1;
        let mr = register(self.library, self.domain, (at, len), access, key)?;
        if self.mr_mode & FI_MR_ENDPOINT != 0 {
            bind_memory(self.library, mr, self.ep)?;
        }
        Ok(mr)
    }

    /// A free buffer. Abandoned ones do not count, since their reads may never end.
    fn free_stage(&mut self, objects: &mut Objects) -> Result<Option<usize>, OfiError> {
        if let Some(free) = self.stages.iter().position(|stage| matches!(stage.usage, Use::Free)) {
            return Ok(Some(free));
        }
        let in_use = self.stages.iter().filter(|stage| !matches!(stage.usage, Use::Abandoned)).count();
        if in_use >= READS_MAX {
            return Ok(None);
        }
        let memory = Buffers::new(1, READ_BYTES_MAX)?;
        let (at, len) = memory.whole();
        let mr = self.register(at, len, FI_READ)?;
        objects.keep(mr.as_ptr());
        self.stages.push(Stage { memory, descriptor: descriptor(mr), usage: Use::Free });
        Ok(Some(self.stages.len() - 1))
    }

    /// Takes note of the end of an operation; whether it was a read.
    pub(crate) fn note_end(&mut self, context: *mut c_void, is_good: bool) -> bool {
        let is_it = |stage: &Stage| stage.memory.index_of(context).is_some();
        let Some(index) = self.stages.iter().position(is_it) else { return false };
        match self.stages[index].usage {
            Use::Reading(..) => self.ended.push((index, is_good)),
            Use::Free | Use::Abandoned => self.stages[index].usage = Use::Free,
        }
        true
    }

    /// Where the read of this context goes.
    pub(crate) fn peer_of(&self, context: *mut c_void) -> Option<PeerAddress> {
        let stage = self.stages.iter().find(|stage| stage.memory.index_of(context).is_some())?;
        if let Use::Reading(peer, _) = stage.usage { Some(peer) } else { None }
    }
}

impl Endpoint {
    /// Whether the provider reads memory of peers.
    #[must_use]
    pub fn can_read(&self) -> bool {
        self.reads.is_some()
    }

    /// Lets peers read memory, until [`end_lend`](Self::end_lend).
    ///
    /// # Errors
    /// The provider has no such reads, or does not take the memory.
    pub fn lend(&mut self, memory: HeldRange) -> Result<LentMemory, OfiError> {
        let range = memory.range();
        let (at, len) = (range.at().as_ptr(), range.len());
        let reads = self.reads.as_mut().ok_or_else(|| self.library.failed("lending memory", libc::ENOSYS))?;
        let mr = reads.register(at.cast_const().cast(), len, FI_REMOTE_READ)?;
        self.lent.push(mr);
        let base = if reads.mr_mode & FI_MR_VIRT_ADDR == 0 { 0 } else { at.addr() as u64 };
        // SAFETY: a live registration.
        let key = unsafe { mr.as_ref() }.key;
        Ok(LentMemory { mr, remote: RemoteKey { key, base } })
    }

    /// Ends what [`lend`](Self::lend) began: peers that read now break their connection.
    pub fn end_lend(&mut self, lent: &LentMemory) {
        if let Some(at) = self.lent.iter().position(|&mr| mr == lent.mr) {
            close(self.lent.swap_remove(at).cast());
        }
    }

    /// Begins to read `len` bytes, at most [`READ_BYTES_MAX`], that a peer has lent, `offset` bytes from their first. `None`: there is no room
    /// now, poll and try again.
    ///
    /// # Errors
    /// The network refuses for another reason.
    pub fn read(
        &mut self,
        from: PeerAddress,
        key: RemoteKey,
        offset: u64,
        len: usize,
    ) -> Result<Option<ReadId>, OfiError> {
        let Some(reads) = &mut self.reads else { return Err(self.library.failed("reading", libc::ENOSYS)) };
        let Some(index) = reads.free_stage(&mut self.objects)? else { return Ok(None) };
        let stage = &mut reads.stages[index];
        let (at, context, ep) = (stage.memory.at(0), stage.memory.context(0), reads.ep.as_ptr());
        let len = len.min(READ_BYTES_MAX);
        // SAFETY: the endpoint is enabled, and was opened for reads, so that its table has the function; the buffer has `len` bytes, is
        // registered by this descriptor, and is left to the network until the completion that names its context.
        let code = unsafe {
            let read = (*(*ep).rma).read;
            read(
                ep,
                at.cast(),
                len,
                stage.descriptor,
                from.0,
                key.base.wrapping_add(offset),
                key.key,
                context,
            )
        };
        match code {
            0 => stage.usage = Use::Reading(from, len),
            AGAIN => return Ok(None),
            code => return Err(self.library.failed("reading", positive(code))),
        }
        Ok(Some(ReadId(index)))
    }

    /// Hands the bytes of a read that has ended to `take`, `None` if it has failed; which one, if there is one.
    pub fn ended_read(&mut self, take: impl FnOnce(ReadId, Option<&[u8]>)) -> bool {
        let Some(reads) = &mut self.reads else { return false };
        let Some((index, is_good)) = reads.ended.pop() else { return false };
        let stage = &mut reads.stages[index];
        let len = if let Use::Reading(_, len) = stage.usage { len } else { 0 };
        // SAFETY: the read has ended, so that the buffer is the endpoint's alone until the next one, which cannot begin before `take`
        // returns; `len` is at most its length.
        let bytes = unsafe { std::slice::from_raw_parts(stage.memory.at(0), len) };
        take(ReadId(index), is_good.then_some(bytes));
        stage.usage = Use::Free;
        true
    }

    /// Wants nothing of the reads from this peer any more.
    pub fn abandon_reads(&mut self, from: PeerAddress) {
        let Some(reads) = &mut self.reads else { return };
        let has_ended = |index| reads.ended.iter().any(|&(ended, _)| ended == index);
        let is_it = |stage: &Stage| matches!(stage.usage, Use::Reading(peer, _) if peer == from);
        let abandoned: Vec<(usize, bool)> = (0..)
            .zip(&reads.stages)
            .filter(|(_, stage)| is_it(stage))
            .map(|(index, _)| (index, has_ended(index)))
            .collect();
        for (index, has_ended) in abandoned {
            reads.stages[index].usage = if has_ended { Use::Free } else { Use::Abandoned };
            reads.ended.retain(|&(ended, _)| ended != index);
        }
    }
}

/// Registers memory for `access` with a key, which a provider that chooses keys does not look at.
pub(crate) fn register(
    library: Library,
    domain: NonNull<Domain>,
    (at, len): (*const c_void, usize),
    access: u64,
    key: u64,
) -> Result<NonNull<Mr>, OfiError> {
    let mut mr: *mut Mr = ptr::null_mut();
    // SAFETY: a live domain; memory that outlives the registration: buffers are freed after the endpoint's objects are closed, and what is
    // lent is kept alive by its owner (`HeldRange`'s contract) until `end_lend`.
    let code = unsafe {
        let reg = (*domain.as_ref().mr).reg;
        reg(domain.as_ptr().cast(), at, len, access, 0, key, 0, &mut mr, ptr::null_mut())
    };
    library.check("registering memory", code)?;
    NonNull::new(mr).ok_or_else(|| library.failed("registering memory", libc::EINVAL))
}
