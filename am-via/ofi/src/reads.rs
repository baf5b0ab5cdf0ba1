//! Reads of peers' memory over the network, into buffers of the endpoint.
//!
//! The network stores the bytes of a read in the endpoint's own memory, from which the caller copies them. So a read from a peer that is
//! lost can be abandoned: the network may still write to the read's buffer, and to nothing else.

use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::ptr::NonNull;

use crate::buffers::Buffers;
use crate::library::Library;
use crate::objects::{Objects, PeerAddress, bind_memory, close, descriptor, register};
use crate::sys::{Domain, Ep, FI_MR_ENDPOINT, FI_READ, Mr};
use crate::{OfiError, READ_BYTES_MAX};

/// Maximum number of reads in flight. Together, they read several times the bytes that a link of 100 Gbit/s carries in a round trip.
pub(crate) const READS_MAX: usize = 8;

/// What a peer needs to read lent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteKey {
    /// The network's key.
    pub key: u64,
    /// The network's address of the first byte.
    pub base: u64,
}

/// Memory that was lent ([`Endpoint::lend`](crate::Endpoint::lend)).
#[derive(Debug)]
pub struct LentMemory {
    pub(crate) mr: NonNull<Mr>,
    /// The key that peers need to read the memory.
    pub remote: RemoteKey,
}

// SAFETY: names a registration of an endpoint, which is used through that endpoint only.
unsafe impl Send for LentMemory {}

/// A read in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadId(pub(crate) usize);

#[derive(Debug)]
pub(crate) enum Use {
    Free,
    /// A read from this peer, of this number of bytes.
    Reading(PeerAddress, usize),
    /// The caller has abandoned the read.
    Abandoned,
}

/// A buffer for one read.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) memory: Buffers,
    pub(crate) descriptor: *mut c_void,
    pub(crate) usage: Use,
}

/// The reads of an endpoint.
#[derive(Debug)]
pub(crate) struct Reads {
    library: Library,
    domain: NonNull<Domain>,
    pub(crate) ep: NonNull<Ep>,
    pub(crate) mr_mode: i32,
    pub(crate) stages: Vec<Stage>,
    /// The reads that have ended, and whether each has succeeded.
    pub(crate) ended: Vec<(usize, bool)>,
    keys: Keys,
}

/// The keys for registrations, if the provider does not choose them itself: random numbers, so that no stranger can read lent memory.
/// If the provider's keys are too short to be random and different: numbers in turn.
#[derive(Debug)]
struct Keys {
    next: u64,
    last: u64,
    random: RandomState,
}

impl Keys {
    /// Smaller keys are those of the endpoint's own buffers.
    const FIRST: u64 = 1 << 12;

    fn new(key_bytes: usize) -> Self {
        Self {
            next: Self::FIRST,
            last: u64::MAX >> (64 - 8 * key_bytes.clamp(2, 8)),
            random: RandomState::new(),
        }
    }

    fn take(&mut self) -> u64 {
        let key = self.next;
        self.next = if key == self.last { Self::FIRST } else { key + 1 };
        if self.last == u64::MAX { self.random.hash_one(key).max(Self::FIRST) } else { key }
    }
}

impl Reads {
    /// The reads of an endpoint that can read; `mr_mode` is what its provider requires of registrations, and `key_bytes` the length of its
    /// keys.
    pub(crate) fn new(
        library: Library,
        domain: NonNull<Domain>,
        ep: NonNull<Ep>,
        mr_mode: i32,
        key_bytes: usize,
    ) -> Self {
        let keys = Keys::new(key_bytes);
        Self { library, domain, ep, mr_mode, stages: Vec::new(), ended: Vec::new(), keys }
    }

    pub(crate) fn register(
        &mut self,
        at: *const c_void,
        len: usize,
        access: u64,
    ) -> Result<NonNull<Mr>, OfiError> {
        let mr = register(self.library, self.domain, (at, len), access, self.keys.take())?;
        if self.mr_mode & FI_MR_ENDPOINT != 0 {
            bind_memory(self.library, mr, self.ep).inspect_err(|_| close(mr.cast()))?;
        }
        Ok(mr)
    }

    /// The index of a free buffer, which is made if necessary. `None`: [`READS_MAX`] reads are in flight. Buffers of abandoned reads do not
    /// count, since these reads may never end.
    pub(crate) fn free_stage(&mut self, objects: &mut Objects) -> Result<Option<usize>, OfiError> {
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

    /// Notes the end of an operation. Returns whether it was a read.
    pub(crate) fn note_end(&mut self, context: *mut c_void, is_good: bool) -> bool {
        let is_it = |stage: &Stage| stage.memory.index_of(context).is_some();
        let Some(index) = self.stages.iter().position(is_it) else { return false };
        match self.stages[index].usage {
            Use::Reading(..) => self.ended.push((index, is_good)),
            Use::Free | Use::Abandoned => self.stages[index].usage = Use::Free,
        }
        true
    }

    /// The peer from which the operation of this context reads; `None` if the operation is no read.
    pub(crate) fn peer_of(&self, context: *mut c_void) -> Option<PeerAddress> {
        let stage = self.stages.iter().find(|stage| stage.memory.index_of(context).is_some())?;
        if let Use::Reading(peer, _) = stage.usage { Some(peer) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{FI_RECV, FI_SEND};

    #[test]
    fn keys_fit_into_the_providers_length_and_are_not_those_of_the_endpoints_buffers() {
        for (key_bytes, last) in [(2, 0xffff), (4, 0xffff_ffff)] {
            let mut keys = Keys::new(key_bytes);
            assert_eq!([keys.take(), keys.take()], [Keys::FIRST, Keys::FIRST + 1]);
            keys.next = last;
            assert_eq!([keys.take(), keys.take()], [last, Keys::FIRST]);
        }
        const { assert!(FI_RECV < Keys::FIRST && FI_SEND < Keys::FIRST) };
    }

    #[test]
    fn long_keys_cannot_be_guessed() {
        for key_bytes in [8, 64] {
            let (mut keys, mut others) = (Keys::new(key_bytes), Keys::new(key_bytes));
            let mut taken: Vec<u64> = (0..1000).flat_map(|_| [keys.take(), others.take()]).collect();
            assert!(taken.iter().filter(|&&key| key < 1 << 32).count() < 10, "numbers in turn");
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), 2000);
        }
    }
}
