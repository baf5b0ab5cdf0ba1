//! Mappings of memory files and the typed views into them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapRaw;

use crate::shm::copy::CheckedRange;
use crate::shm::os::fork::{self, Keeps};
use crate::shm::os::memory;

/// A shared mapping of a part of a memory file. It stays where it is until the last owner drops it.
#[derive(Debug)]
pub struct Mapping {
    map: MmapRaw,
}

impl Mapping {
    /// Maps `bytes` at `offset` of `file`.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Arc<Self>> {
        let mapping = Self { map: memory::map(file, offset, bytes)? };
        mapping.note(Keeps::Nothing);
        Ok(Arc::new(mapping))
    }

    /// A forked copy of this process finds here what this one had, as its own. Otherwise it finds zeroes.
    pub fn keep_in_copies(&self) {
        self.note(Keeps::Contents);
    }

    /// The same, for a large mapping that starts with its file.
    pub fn keep_in_copies_from(&self, file: File) {
        self.note(Keeps::File(file));
    }

    fn note(&self, keeps: Keeps) {
        fork::note(self.base(), self.len(), keeps);
    }

    /// A private memory file of `bytes` and its mapping: for tests and for in-process devices.
    ///
    /// # Errors
    /// The system's error.
    pub fn anonymous(bytes: usize) -> io::Result<(File, Arc<Self>)> {
        let file = memory::create("am-anonymous", bytes as u64)?;
        let mapping = Self::new(file.as_fd(), 0, bytes)?;
        Ok((file, mapping))
    }

    /// Bytes mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether nothing is mapped. Never so: the system refuses an empty mapping.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// The address at which the mapping starts.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        NonNull::new(self.map.as_mut_ptr()).expect("a mapping never starts at address zero")
    }

    /// The checked range `offset..offset + len`; `None` if it does not lie inside. This is the one place where an offset
    /// becomes an address.
    #[inline]
    #[must_use]
    pub fn range(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset <= self.map.len() && len <= self.map.len() - offset {
            // SAFETY: `offset` is within the mapping (just checked), so the sum stays inside one allocation.
            Some(unsafe { self.base().add(offset) })
        } else {
            None
        }
    }

    /// The range `offset..offset + len` for copies; `None` if it does not lie inside.
    #[inline]
    #[must_use]
    pub fn checked(&self, offset: usize, len: usize) -> Option<CheckedRange<'_>> {
        // SAFETY: inside the mapping (`range`), which `self` keeps alive as long as the range lives.
        self.range(offset, len).map(|at| unsafe { CheckedRange::new(at, len) })
    }

    /// A reference to a `T` made of atomics at `offset`; `None` if it does not lie inside, aligned.
    #[must_use]
    pub fn atomics<T: SharedAtomics>(self: &Arc<Self>, offset: usize) -> Option<Shared<T>> {
        let at = self.range(offset, size_of::<T>())?.cast::<T>();
        at.is_aligned().then(|| Shared { at, _mapping: Arc::clone(self) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        fork::forget(self.base());
    }
}

/// Types that consist of atomics only (and padding that nobody reads), valid for every bit pattern, laid out `repr(C)`.
///
/// # Safety
/// The implementor keeps exactly that: then a shared reference to memory that other processes change is sound.
pub unsafe trait SharedAtomics {}

/// A `T` in a mapping, which it keeps alive.
#[derive(Debug)]
pub struct Shared<T: SharedAtomics> {
    at: NonNull<T>,
    _mapping: Arc<Mapping>,
}

impl<T: SharedAtomics> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { at: self.at, _mapping: Arc::clone(&self._mapping) }
    }
}

impl<T: SharedAtomics> std::ops::Deref for Shared<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `at` lies inside the mapping, aligned (checked in `Mapping::atomics`), which `_mapping` keeps alive; T is
        // atomics only, valid for every bit pattern (SharedAtomics), so sharing it with other processes is sound.
        unsafe { self.at.as_ref() }
    }
}

// SAFETY: all access through a Shared is to atomics, and the mapping may be dropped on any thread.
unsafe impl<T: SharedAtomics> Send for Shared<T> {}
// SAFETY: as for Send.
unsafe impl<T: SharedAtomics> Sync for Shared<T> {}
