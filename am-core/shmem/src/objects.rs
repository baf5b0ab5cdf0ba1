//! What the calls keep: handles, teams, contexts, and the counts of tokens.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// `shmem_ctx_t`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ctx(pub(crate) *mut ContextObject);

impl Ctx {
    /// `SHMEM_CTX_DEFAULT`.
    pub(crate) const DEFAULT: Self = Self(std::ptr::null_mut());
    /// `SHMEM_CTX_INVALID`.
    pub(crate) const INVALID: Self = Self(std::ptr::without_provenance_mut(usize::MAX));
}

/// `shmem_team_t`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Team(pub(crate) *mut TeamObject);

impl Team {
    /// `SHMEM_TEAM_INVALID`.
    pub(crate) const INVALID: Self = Self(std::ptr::null_mut());
    /// `SHMEM_TEAM_WORLD`.
    pub(crate) const WORLD: Self = Self(std::ptr::without_provenance_mut(1));
    /// `SHMEM_TEAM_SHARED`.
    pub(crate) const SHARED: Self = Self(std::ptr::without_provenance_mut(2));
}

/// `shmem_team_config_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct TeamConfig {
    pub(crate) num_contexts: std::ffi::c_int,
}

/// A context that the program has created.
pub(crate) struct ContextObject {
    pub(crate) team: Team,
}

/// PEs that act together.
pub(crate) struct Members {
    /// The slot of their tokens.
    pub(crate) slot: u32,
    /// Their numbers in the job.
    pub(crate) list: Vec<u32>,
    /// The number of this PE among them.
    pub(crate) me: usize,
}

/// A team.
pub(crate) struct TeamObject {
    pub(crate) members: Members,
    pub(crate) config: TeamConfig,
    /// Whether the program has destroyed it. The object stays, so that the use of its handle is an error.
    pub(crate) is_over: AtomicBool,
}

/// The teams of every job, and the slots that are free.
pub(crate) struct Teams {
    pub(crate) world: TeamObject,
    pub(crate) shared: TeamObject,
    /// One bit for each slot.
    pub(crate) free: AtomicU64,
}

impl Teams {
    pub(crate) fn new(me: u32, pes: u32, is_here: impl Fn(u32) -> bool) -> Self {
        let object = |slot, list: Vec<u32>| {
            let me = list.iter().position(|&pe| pe == me).unwrap_or(0);
            let members = Members { slot, list, me };
            TeamObject { members, config: TeamConfig::default(), is_over: AtomicBool::new(false) }
        };
        Self {
            world: object(0, (0..pes).collect()),
            shared: object(2, (0..pes).filter(|&pe| is_here(pe)).collect()),
            free: AtomicU64::new(!0b111),
        }
    }
}

/// Number of slots.
pub(crate) const SLOTS: u32 = 64;
/// What this PE has counted.
pub(crate) struct Tokens {
    pairs: Box<[Pair]>,
    pes: u32,
}

/// What this PE and another have sent each other in a slot.
#[derive(Default)]
pub(crate) struct Pair {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) letters: AtomicU64,
}

impl Tokens {
    pub(crate) fn new(pes: u32) -> Self {
        let pairs = (0..SLOTS * pes).map(|_| Pair::default()).collect();
        Self { pairs, pes }
    }

    pub(crate) fn pair(&self, slot: u32, pe: u32) -> &Pair {
        &self.pairs[(slot * self.pes + pe) as usize]
    }
}
