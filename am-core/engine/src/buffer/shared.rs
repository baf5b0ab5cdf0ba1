//! One block of memory that several tasks map.

use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;

use super::block::{BlockOwner, JobBuffer};
use super::raw::RawBuffer;
use crate::error::{Error, Result};

/// Names shared memory to the tasks that open it. The fabric of the task that made the memory makes the name. The name is a claim, which is
/// checked when a task opens the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedName(pub [u64; 4]);

/// Zeroed memory that several tasks have mapped, each at its own address. All of them may load and store there at any time, so the only
/// references to it are to atomics.
///
/// `Context::unshare` unmaps it. If the value is dropped instead, the memory stays mapped until the context ends.
#[derive(Debug)]
pub struct SharedMemory {
    at: NonNull<u8>,
    len: usize,
    name: SharedName,
    /// Keeps the memory mapped.
    mapping: Arc<dyn KeepsMapped>,
}

/// Keeps shared memory mapped until it is dropped.
pub trait KeepsMapped: Send + Sync + fmt::Debug {}

impl<T: Send + Sync + fmt::Debug> KeepsMapped for T {}

// SAFETY: the value is the address of memory that any thread may access by raw pointers and atomics; its `KeepsMapped` is Send.
unsafe impl Send for SharedMemory {}
// SAFETY: shared access is by raw pointers and atomics only, never by a reference to the bytes; its `KeepsMapped` is Sync.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// `len` bytes at `at`, which `mapping` keeps mapped. Peers open the memory by `name`.
    ///
    /// # Safety
    /// `at..at + len` must be initialised, readable and writable as long as `mapping` lives, and nothing may make a reference to it, except
    /// to an atomic.
    #[must_use]
    pub unsafe fn new(at: NonNull<u8>, len: usize, name: SharedName, mapping: Arc<dyn KeepsMapped>) -> Self {
        Self { at, len, name, mapping }
    }

    /// The name under which other tasks open the memory.
    #[must_use]
    pub fn name(&self) -> SharedName {
        self.name
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the memory has 0 bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address at which this task has mapped the memory, for layers with their own safety rules.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// The part `offset..offset + len`, which keeps the whole memory mapped.
    ///
    /// # Errors
    /// [`Error::LocalRange`]: the part does not lie inside the memory.
    pub fn part(&self, offset: u64, len: u64) -> Result<SharedPart> {
        let outside = Error::LocalRange { offset, len, region_len: self.len as u64 };
        let range = || Some((usize::try_from(offset).ok()?, usize::try_from(len).ok()?));
        // SAFETY: the memory is mapped, and `SharedPart` keeps it mapped; the range is accessed by copies and atomics only (`new`).
        let whole = unsafe { RawBuffer::new(self.at, self.len) };
        let memory = range().and_then(|(offset, len)| whole.part(offset, len)).ok_or(outside)?;
        Ok(SharedPart { memory, mapping: Arc::clone(&self.mapping) })
    }
}

/// A part of shared memory, to be exposed.
#[derive(Debug)]
pub struct SharedPart {
    memory: RawBuffer,
    mapping: Arc<dyn KeepsMapped>,
}

impl SharedPart {
    /// The part as memory to grant.
    ///
    /// # Safety
    /// An [`Exposed`](super::Exposed) must be made from the part, and must live until the grant is revoked.
    #[must_use]
    pub unsafe fn to_raw(&self) -> RawBuffer {
        self.memory
    }

    /// The part as a buffer for [`Exposed`](super::Exposed), which never returns it.
    pub(super) fn into_buffer(self) -> JobBuffer {
        #[derive(Debug)]
        struct Mapped {
            _mapping: Arc<dyn KeepsMapped>,
        }
        impl BlockOwner for Mapped {
            unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
        }
        // SAFETY: initialised, readable and writable as long as the owner lives (`SharedMemory::new`). Other tasks write there, so the
        // buffer stays inside an `Exposed`, which reaches it by raw pointers only.
        unsafe {
            JobBuffer::new(self.memory.at(), self.memory.len(), Arc::new(Mapped { _mapping: self.mapping }))
        }
    }
}
