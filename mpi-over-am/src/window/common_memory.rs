//! How the tasks of a window set up shared memory for all its parts, which every task maps.
//!
//! Each task sends the size of its part. The first rank makes one memory file for all parts, and sends the file's name; the other ranks
//! open the file. The memory is used if all of them could open it. Every task then accesses every part like its own memory, without the
//! owner's help.

use am_core::buffer::{SharedMemory, SharedName};
use am_core::fabric::Fabric;

use crate::communicator::Communicator;
use crate::communicator::info::Info;
use crate::error::{Error, Result};
use crate::policy::LockPolicy;

/// Alignment of parts that need not be adjacent, so that no two parts share a page.
const PAGE_BYTES: u64 = 4096;

/// The memory of all parts, mapped in this task.
#[derive(Debug)]
pub(crate) struct CommonMemory {
    pub(super) memory: SharedMemory,
    pub(super) parts: Vec<Part>,
}

/// A task's part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// A step that a task carries out by itself.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Make(usize),
    Open(SharedName),
    AllHaveOpened(&'a SharedMemory),
    End(SharedMemory),
}

impl Step<'_> {
    pub(crate) fn carry_out<F: Fabric, L: LockPolicy>(
        self,
        communicator: &Communicator<F, L>,
    ) -> Result<Option<SharedMemory>> {
        if matches!(self, Self::Make(_)) && !communicator.is_on_one_host() {
            return Ok(None);
        }
        let context = &mut communicator.state()?.context;
        match self {
            Self::Make(len) => return Ok(context.share(len)?),
            Self::Open(name) => return Ok(Some(context.open_shared(name)?)),
            Self::AllHaveOpened(memory) => context.all_have_opened(memory),
            Self::End(memory) => context.unshare(memory),
        }
        Ok(None)
    }
}

// What the first rank sends about the memory.
const NONE: u64 = 0;
const MADE: u64 = 1;
const FAILED: u64 = 2;

impl CommonMemory {
    /// Makes the memory of all parts; this task's part has `bytes` bytes. Collective: `gather` returns each task's words by rank, and
    /// `take` carries out a step. `None` if the fabric does not support such memory, or the tasks run on several hosts.
    ///
    /// # Errors
    /// The parts are too large, or a task cannot make or map the memory: then all tasks get an error.
    pub(crate) fn agree(
        (bytes, rank, info): (usize, u32, &Info),
        gather: impl Fn(&[u64]) -> Result<Vec<Vec<u64>>>,
        take: impl Fn(Step<'_>) -> Result<Option<SharedMemory>>,
    ) -> Result<Option<Self>> {
        let apart = info.get("alloc_shared_noncontig")? == Some("true");
        let sizes = gather(&[bytes as u64])?;
        let (parts, len) =
            parts(sizes.iter().map(|words| words[0]), apart).ok_or_else(|| too_large(bytes))?;
        let made = if rank == 0 { take(Step::Make(len)) } else { Ok(None) };
        let own = match &made {
            Ok(None) => [NONE, 0, 0, 0, 0],
            Ok(Some(memory)) => {
                let SharedName([first, second, third, fourth]) = memory.name();
                [MADE, first, second, third, fourth]
            }
            Err(_) => [FAILED, 0, 0, 0, 0],
        };
        let told = gather(&own)?;
        let mapped = match told[0][..] {
            [MADE, first, second, third, fourth] if rank > 0 => {
                take(Step::Open(SharedName([first, second, third, fourth])))
            }
            [FAILED, ..] if rank > 0 => Err(unshareable("the first task cannot make it")),
            _ => made,
        };
        let failures = gather(&[u64::from(mapped.is_err())])?;
        let Some(memory) = mapped.map_err(|error| unshareable(&error.to_string()))? else { return Ok(None) };
        if failures.iter().any(|words| words[0] != 0) {
            take(Step::End(memory))?;
            return Err(unshareable("another task cannot map it"));
        }
        if rank == 0 {
            take(Step::AllHaveOpened(&memory))?;
        }
        Ok(Some(Self { memory, parts }))
    }
}

impl CommonMemory {
    /// The address at which this task has mapped a part; null for a part of 0 bytes.
    pub(super) fn base_of(&self, part: Part) -> *mut u8 {
        if part.size == 0 {
            return std::ptr::null_mut();
        }
        self.memory.as_ptr().wrapping_add(usize::try_from(part.offset).expect("a part lies inside"))
    }
}

/// The parts in order, and their total length, at least 1.
fn parts(sizes: impl Iterator<Item = u64>, apart: bool) -> Option<(Vec<Part>, usize)> {
    let (mut parts, mut end) = (Vec::new(), 0u64);
    for size in sizes {
        parts.push(Part { offset: end, size });
        let step = if apart { size.checked_next_multiple_of(PAGE_BYTES)? } else { size };
        end = end.checked_add(step)?;
    }
    Some((parts, usize::try_from(end.max(1)).ok()?))
}

fn too_large(bytes: usize) -> Error {
    unshareable(&format!("the parts together are too large; this task's part has {bytes} bytes"))
}

fn unshareable(why: &str) -> Error {
    Error::Unshareable { why: why.to_owned() }
}
