//! Mappings of memory files, and typed views of them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapRaw;

use crate::copy::CheckedRange;
use am_via_os::fork::{self, Keeps};
use am_via_os::memory;

/// A shared mapping of part of a memory file. Its address is fixed until the last owner drops it.
#[derive(Debug)]
pub struct Mapping {
    map: MmapRaw,
    #[cfg(loom)]
    model: model::Objects,
}

/// Under loom, the objects that represent the bytes of a mapping. Loom's atomics cannot be in zeroed memory, so each structure of atomics
/// is a separate object, found by offset and type, and made when it is first used. A range has a [`Plain`], through which a model sees the
/// accesses to the range. A model must use all structures and ranges once before it starts its threads.
#[cfg(loom)]
mod model {
    use std::any::{Any, TypeId};
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    use am_via_os::atomics::Plain;

    #[derive(Debug, Default)]
    pub(super) struct Objects(Mutex<HashMap<(usize, TypeId), Arc<dyn Any + Send + Sync>>>);

    impl Objects {
        pub(super) fn get<T: Any + Send + Sync>(&self, offset: usize, make: impl FnOnce() -> T) -> Arc<T> {
            let mut objects = self.0.lock().expect("nothing panics with the lock");
            let object = objects.entry((offset, TypeId::of::<T>())).or_insert_with(|| Arc::new(make()));
            Arc::clone(object).downcast().expect("its type is in its key")
        }
    }

    #[derive(Debug, Default)]
    pub(super) struct Bytes(pub(super) Plain);

    // SAFETY: the type has no contents, and loom checks the accesses to it.
    unsafe impl Send for Bytes {}
    // SAFETY: as for Send.
    unsafe impl Sync for Bytes {}
}

impl Mapping {
    /// Maps `bytes` bytes of the memory file `file`, from `offset` on.
    ///
    /// # Errors
    /// The file is shorter than the range, or could become so; the system's error.
    pub fn new(file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<Arc<Self>> {
        let mapping = Self {
            map: memory::map(file, offset, bytes)?,
            #[cfg(loom)]
            model: model::Objects::default(),
        };
        mapping.note(Keeps::Nothing);
        Ok(Arc::new(mapping))
    }

    /// Maps all of the memory file `file`.
    ///
    /// # Errors
    /// The file could become shorter; the system's error.
    pub fn whole(file: BorrowedFd<'_>) -> io::Result<Arc<Self>> {
        let bytes = memory::len(file)?;
        Self::new(file, 0, usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Gives each forked copy of this process a copy of the contents. By default, a forked copy finds zeros.
    pub fn keep_in_copies(&self) {
        self.note(Keeps::Contents);
    }

    /// Like [`keep_in_copies`](Self::keep_in_copies), for a large mapping that starts at the start of `file`.
    pub fn keep_in_copies_from(&self, file: File) {
        self.note(Keeps::File(file));
    }

    /// Shares the mapping with a forked copy of this process, like an ordinary mapping of a file.
    pub(crate) fn leave_to_copies(&self) {
        // SAFETY: the mapping's own entry; its bytes are accessed by atomics and copies only, which may be shared with a copy of the
        // process.
        unsafe { fork::forget(self.base()) };
    }

    fn note(&self, keeps: Keeps) {
        // SAFETY: one whole shared mapping, which `drop` forgets before it is unmapped. No reference to its bytes exists but to atomics,
        // except for blocks of the allocator, which keeps the contents of the heap file (`hold_contents`).
        unsafe { fork::note(self.base(), self.len(), keeps) };
    }

    /// Makes a memory file of `bytes`, and maps it, for this process alone.
    ///
    /// # Errors
    /// The system's error.
    pub fn anonymous(bytes: usize) -> io::Result<(File, Arc<Self>)> {
        let file = memory::create("am-anonymous", bytes as u64)?;
        let mapping = Self::new(file.as_fd(), 0, bytes)?;
        Ok((file, mapping))
    }

    /// Number of bytes mapped.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the mapping has 0 bytes. Always false: the system refuses an empty mapping.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// The address at which the mapping starts.
    #[inline(always)]
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        NonNull::new(self.map.as_mut_ptr()).expect("a mapping never starts at address zero")
    }

    /// The address of byte `offset`; `None` if the range `offset..offset + len` does not lie inside the mapping. Only this function turns
    /// an offset into an address.
    #[inline(always)]
    #[must_use]
    pub fn range(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset <= self.map.len() && len <= self.map.len() - offset {
            // SAFETY: `offset` is at most the mapping's length (just checked), and the mapping is one allocation.
            Some(unsafe { self.base().add(offset) })
        } else {
            None
        }
    }

    /// The offset in the mapping of the `len` bytes at `at`; `None` if the bytes do not lie inside.
    #[must_use]
    pub(crate) fn offset_of(&self, at: NonNull<u8>, len: usize) -> Option<usize> {
        let offset = at.addr().get().checked_sub(self.base().addr().get())?;
        self.range(offset, len).map(|_| offset)
    }

    /// The range `offset..offset + len` for plain copies; `None` if the range does not lie inside the mapping.
    ///
    /// # Safety
    /// While the range is in use, no other thread of this process may write the bytes, or read them if the range is written: the mapping is
    /// shared between threads, and the copies are plain ones. Another process that does so corrupts the bytes only.
    #[inline(always)]
    #[must_use]
    pub unsafe fn checked(&self, offset: usize, len: usize) -> Option<CheckedRange<'_>> {
        // SAFETY: inside the mapping (`range`), which `self` keeps alive for the lifetime of the range; other accesses: the caller's
        // contract.
        let range = self.range(offset, len).map(|at| unsafe { CheckedRange::new(at, len) });
        #[cfg(loom)]
        let range = range.map(|range| {
            let bytes = self.model.get(offset, model::Bytes::default);
            // SAFETY: `model` keeps the object while `self` lives.
            range.seen_as(unsafe { &(*Arc::as_ptr(&bytes)).0 })
        });
        range
    }

    /// Under loom, the object for `offset`, made by `make` at its first use.
    #[cfg(loom)]
    pub fn stands_for<T: std::any::Any + Send + Sync>(
        &self,
        offset: usize,
        make: impl FnOnce() -> T,
    ) -> Arc<T> {
        self.model.get(offset, make)
    }

    /// A reference to a `T` made of atomics at `offset`; `None` if it would not lie inside the mapping, or would not be aligned.
    #[inline]
    #[must_use]
    pub fn atomics_at<T: SharedAtomics>(&self, offset: usize) -> Option<&T> {
        #[cfg(loom)]
        // `model` keeps the object while the mapping lives.
        let at = self.range(offset, 0).map(|_| NonNull::from(&*self.stands_for(offset, T::default)))?;
        #[cfg(not(loom))]
        let at = self.range(offset, size_of::<T>())?.cast::<T>();
        if !at.is_aligned() {
            return None;
        }
        // SAFETY: `at` is aligned and lies inside the mapping (just checked; or it is loom's object), which `self` keeps alive. T is
        // atomics only, valid for every bit pattern (SharedAtomics), so sharing it with other processes is sound.
        Some(unsafe { at.as_ref() })
    }

    /// Like [`atomics_at`](Self::atomics_at), but returns a handle that keeps the mapping alive.
    #[must_use]
    pub fn atomics<T: SharedAtomics>(self: &Arc<Self>, offset: usize) -> Option<Shared<T>> {
        let at = NonNull::from(self.atomics_at::<T>(offset)?);
        Some(Shared { at, _mapping: Arc::clone(self) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping ends now.
        unsafe { fork::forget(self.base()) };
    }
}

/// Types made of atomics only (and unused padding), valid for every bit pattern, with layout `repr(C)`.
///
/// # Safety
/// The type must be exactly that: a shared reference to memory that other processes change is then sound.
#[cfg(not(loom))]
pub unsafe trait SharedAtomics {}

/// Like the trait of this name without loom, for objects of a model.
#[cfg(loom)]
pub unsafe trait SharedAtomics: Default + Send + Sync + 'static {}

/// A `T` in a mapping, with a handle that keeps the mapping alive.
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
        // SAFETY: `at` is aligned and lies inside the mapping (checked in `Mapping::atomics_at`), which `_mapping` keeps alive. T is
        // atomics only, valid for every bit pattern (SharedAtomics), so sharing it with other processes is sound.
        unsafe { self.at.as_ref() }
    }
}

// SAFETY: all access through a Shared is to atomics, and the mapping may be dropped on any thread.
unsafe impl<T: SharedAtomics> Send for Shared<T> {}
// SAFETY: all access through a Shared is to atomics.
unsafe impl<T: SharedAtomics> Sync for Shared<T> {}
