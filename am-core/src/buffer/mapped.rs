//! Memory of all tasks that a context has mapped, from its collective birth to its collective end: typed parts of it, and accesses to them.
//!
//! A part is checked once, where it is made. An access then compares one number, which tells that the memory is still mapped in this
//! context, and loads the *state word* of the part's owner. There is no handshake with the owner, because the memory is never used for
//! anything else.
//!
//! The state word follows the part in memory. The owner sets it before it ends the memory, or when it closes its context. An access by
//! another task then takes the general path, which refuses it as it refuses each access to memory that is no longer exposed.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use am_core_engine::buffer::{SharedMemory, SharedPart};
use bytemuck::Pod;

use crate::transfer::{AtomicOp, Width};

/// Maximum number of sets at a time. The low 8 bits of a set's name are its place.
const SETS: usize = 256;
/// No set has this name.
const NOBODY: u64 = u64::MAX;
/// Names given so far in this process, so that no other context has a set of the same name.
static NAMES: AtomicU64 = AtomicU64::new(1);

/// Bytes of a cache line, which the state word has for itself.
const LINE_BYTES: usize = 64;
/// The state of a part that its owner has not ended.
const LIVE: u64 = 0;
const ENDED: u64 = 1;

/// The sets of parts that a context has mapped: one set for each memory of all tasks.
#[derive(Debug)]
pub(crate) struct MappedParts {
    names: Box<[u64; SETS]>,
    sets: Vec<Option<Set>>,
}

#[derive(Debug)]
struct Set {
    /// Keep the parts mapped.
    _kept: Vec<SharedPart>,
    /// The state word of this task's own part, which is kept, too.
    own_state: NonNull<AtomicU64>,
}

/// One or more elements in memory of a task, mapped by the context that has the set; aligned for `T`. Or none: [`NONE`](Self::NONE).
#[derive(Debug)]
pub(crate) struct MappedPart<T> {
    at: NonNull<T>,
    /// The state word of the part's owner.
    state: NonNull<AtomicU64>,
    /// Elements from `at` to the end of the part.
    count: u64,
    /// The name of the set; 0: no elements.
    set: u64,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for MappedPart<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for MappedPart<T> {}

// SAFETY: the state word is an atomic in memory that the set keeps mapped.
unsafe impl Send for Set {}
// SAFETY: as above.
unsafe impl Sync for Set {}
// SAFETY: addresses, which are used only through the `MappedParts` that keeps them mapped, by atomics.
unsafe impl<T> Send for MappedPart<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for MappedPart<T> {}

impl<T> MappedPart<T> {
    /// No elements.
    pub(crate) const NONE: Self =
        Self { at: NonNull::dangling(), state: NonNull::dangling(), count: 0, set: 0, kind: PhantomData };

    /// The name of the set.
    pub(crate) fn set(self) -> u64 {
        self.set
    }

    /// The elements from number `count` on; none if there are fewer.
    #[inline(always)]
    pub(crate) fn plus(self, count: u64) -> Self {
        if count >= self.count {
            return Self::NONE;
        }
        // SAFETY: less than the number of elements from here to the end of the part, which lies in one mapping.
        Self { at: unsafe { self.at.add(count as usize) }, count: self.count - count, ..self }
    }
}

impl MappedPart<u8> {
    /// `count` elements, `offset` bytes on; none if they do not lie in the part, are not aligned, or are too long for accesses in place.
    #[inline(always)]
    pub(crate) fn elements<T: Pod>(self, offset: u64, count: u64) -> MappedPart<T> {
        let Some(len) = count.checked_mul(size_of::<T>() as u64) else { return MappedPart::NONE };
        if !am_atomics::is_short::<T>() || count == 0 || offset > self.count || len > self.count - offset {
            return MappedPart::NONE;
        }
        // SAFETY: at most the number of bytes from here to the end of the part, which lies in one mapping.
        let at = unsafe { self.at.add(offset as usize) }.cast::<T>();
        if at.is_aligned() {
            MappedPart { at, state: self.state, count, set: self.set, kind: PhantomData }
        } else {
            MappedPart::NONE
        }
    }
}

impl Default for MappedParts {
    fn default() -> Self {
        Self { names: Box::new([NOBODY; SETS]), sets: Vec::new() }
    }
}

impl Set {
    /// Tells the other tasks that this one ends its part.
    fn end(&self) {
        // SAFETY: the word lies in memory that `_kept` keeps mapped, and is accessed by atomics only.
        let state = unsafe { self.own_state.as_ref() };
        // Release: a task that sees this has what this task did before. Other messages tell when the memory has ended.
        state.store(ENDED, Ordering::Release);
    }
}

impl MappedParts {
    /// The bytes that a part of `len` bytes and the owner's state word need together; `None` if the number is too large.
    pub(crate) fn bytes_with_state(len: usize) -> Option<usize> {
        len.checked_next_multiple_of(LINE_BYTES)?.checked_add(LINE_BYTES)
    }

    /// Begins a set of the parts of all tasks, each of `len` bytes at the start of memory that is mapped here; that of this task is number
    /// `own`. Returns `None` if there are as many sets as there can be, or if a memory is too short.
    pub(crate) fn begin(
        &mut self,
        memories: &[&SharedMemory],
        len: usize,
        own: usize,
    ) -> Option<Vec<MappedPart<u8>>> {
        let place = self.names.iter().position(|&name| name == NOBODY)?;
        // Relaxed: the number only has to be unique.
        let set = NAMES.fetch_add(1, Ordering::Relaxed) << 8 | place as u64;
        let bytes = Self::bytes_with_state(len)?;
        let keep = |memory: &&SharedMemory| memory.part(0, bytes as u64).ok();
        let kept: Vec<SharedPart> = memories.iter().map(keep).collect::<Option<_>>()?;
        let of = |memory: &&SharedMemory| {
            let at = NonNull::new(memory.as_ptr())?;
            // SAFETY: the memory has as many bytes (`keep`).
            let state = unsafe { at.add(bytes - LINE_BYTES) }.cast::<AtomicU64>();
            // A mapping begins at a page.
            state.is_aligned().then_some(MappedPart { at, state, count: len as u64, set, kind: PhantomData })
        };
        let parts = memories.iter().map(of).collect::<Option<Vec<_>>>()?;
        let own_state = parts.get(own)?.state;
        if self.sets.len() <= place {
            self.sets.resize_with(place + 1, || None);
        }
        self.sets[place] = Some(Set { _kept: kept, own_state });
        self.names[place] = set;
        Some(parts)
    }

    /// Ends a set. This context does not access its parts any more, and the other tasks access this task's part by the general path.
    pub(crate) fn end(&mut self, set: u64) {
        let place = usize::from(set as u8);
        if self.names[place] == set {
            self.names[place] = NOBODY;
            self.sets[place].take().iter().for_each(Set::end);
        }
    }

    /// Where the first element is; `None`: there is none that this context has mapped, or its owner has ended it.
    #[inline(always)]
    fn at<T>(&self, part: &MappedPart<T>) -> Option<NonNull<T>> {
        if self.names[usize::from(part.set as u8)] != part.set {
            return None;
        }
        // SAFETY: mapped, since a set has its name as long as its parts are kept (`begin`, `end`), and only its `MappedParts` has that
        // name.
        let state = unsafe { part.state.as_ref() };
        // Relaxed: what the owner ends is ended by a fence, whose messages order the accesses before it.
        if state.load(Ordering::Relaxed) == LIVE { Some(part.at) } else { None }
    }

    /// Sets the first element; returns whether it is set.
    #[inline(always)]
    pub(crate) fn store<T: Pod>(&self, part: &MappedPart<T>, value: T) -> bool {
        let Some(at) = self.at(part) else { return false };
        // SAFETY: an aligned element of the part, which is mapped (`at`). Others access it by atomics and copies only
        // (`SharedMemory::new`).
        unsafe { am_atomics::store(at.as_ptr(), value) };
        true
    }

    /// The first element.
    #[inline(always)]
    pub(crate) fn load<T: Pod>(&self, part: &MappedPart<T>) -> Option<T> {
        let at = self.at(part)?;
        // SAFETY: as in `store`; any bytes are a value of the type.
        Some(unsafe { am_atomics::load(at.as_ptr()) })
    }

    /// Operates atomically on the first element, a word of `width`; returns its old value.
    #[inline(always)]
    pub(crate) fn update<T: Pod>(
        &self,
        part: &MappedPart<T>,
        width: Width,
        operation: AtomicOp,
    ) -> Option<u64> {
        if size_of::<T>() as u64 != width.bytes() {
            return None;
        }
        let at = self.at(part)?;
        // SAFETY: as in `store`; the word has the element's size, and is aligned for it.
        unsafe {
            std::hint::assert_unchecked(at.addr().get().is_multiple_of(align_of::<T>()));
            am_atomics::update(at.as_ptr().cast(), width, operation)
        }
    }
}

impl Drop for MappedParts {
    fn drop(&mut self) {
        self.sets.iter().flatten().for_each(Set::end);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::buffer::SharedName;

    /// Zeroed words of the test, as memory of a task.
    fn memory(words: usize) -> SharedMemory {
        let bytes = MappedParts::bytes_with_state(words * 8).expect("it is short");
        let words: Arc<Vec<AtomicU64>> = Arc::new((0..bytes / 8).map(|_| AtomicU64::new(0)).collect());
        let at = NonNull::from(words.as_slice()).cast();
        // SAFETY: the memory keeps the words, which are accessed through it only.
        unsafe { SharedMemory::new(at, bytes, SharedName([0; 4]), words) }
    }

    #[test]
    fn a_part_is_accessed_while_its_set_lives_and_within_its_count() {
        let (own, theirs) = (memory(4), memory(4));
        let mut mapped = MappedParts::default();
        let parts = mapped.begin(&[&own, &theirs], 32, 0).unwrap();
        let words = parts[1].elements::<u64>(8, 3);
        assert!(mapped.store(&words.plus(2), 7) && mapped.load(&words.plus(2)) == Some(7));
        assert_eq!(mapped.update(&words.plus(2), Width::Bits64, AtomicOp::FetchAdd(5)), Some(7));
        assert_eq!(mapped.load(&words.plus(2)), Some(12));
        assert_eq!(mapped.load(&parts[0].elements::<u64>(24, 1)), Some(0), "the other task's part");
        assert_eq!(mapped.update(&words, Width::Bits32, AtomicOp::FetchAdd(5)), None, "another width");
        for outside in [
            words.plus(3),
            words.plus(4),
            parts[1].elements(8, 4),
            parts[1].elements(40, 0),
            MappedPart::NONE,
        ] {
            assert!(mapped.load(&outside).is_none() && !mapped.store(&outside, 1), "{outside:?}");
        }
        assert_eq!(mapped.load(&parts[1].elements::<u64>(4, 1)), None, "not aligned");
        assert_eq!(mapped.load(&parts[1].elements::<u64>(0, u64::MAX / 4)), None);

        assert_eq!(mapped.load(&parts[1].elements::<u64>(32, 1)), None, "the state word is not of the part");
        assert!(mapped.load(&parts[1].elements::<[u8; 9]>(0, 1)).is_none(), "too long");
        assert!(mapped.begin(&[&own, &theirs], 65, 0).is_none(), "the memory is shorter");

        let mut other = MappedParts::default();
        let others = other.begin(&[&own], 32, 0).unwrap();
        assert_eq!(other.load(&words), None, "the set of another context");
        assert_eq!(mapped.load(&others[0].elements::<u64>(0, 1)), None);

        mapped.end(words.set());
        assert!(mapped.load(&words).is_none() && !mapped.store(&words, 1), "the set has ended");
        let again = mapped.begin(&[&theirs], 32, 0).unwrap();
        assert_eq!(mapped.load(&words), None, "a new set in the same place");
        assert_eq!(mapped.load(&again[0].elements::<u64>(24, 1)), Some(12));
        mapped.end(words.set());
        assert_eq!(mapped.load(&again[0].elements::<u64>(24, 1)), Some(12), "the end of the old set");
    }

    #[test]
    fn a_part_that_its_owner_has_ended_is_not_accessed_by_others() {
        let (first, second) = (memory(4), memory(4));
        let (mut owner, mut other) = (MappedParts::default(), MappedParts::default());
        let own = owner.begin(&[&first, &second], 32, 0).unwrap();
        let parts = other.begin(&[&first, &second], 32, 1).unwrap();
        let [ended, lives] = [0, 1].map(|task| parts[task].elements::<u64>(0, 4));
        assert!(other.store(&ended, 1) && other.store(&lives, 2));
        owner.end(own[0].set());
        assert!(!other.store(&ended, 3) && other.load(&ended).is_none());
        assert_eq!(other.update(&ended, Width::Bits64, AtomicOp::FetchAdd(5)), None);
        assert_eq!(other.load(&lives), Some(2), "its owner has not ended it");

        let (third, fourth) = (memory(4), memory(4));
        let mut owner = MappedParts::default();
        owner.begin(&[&third, &fourth], 32, 0).unwrap();
        let word = other.begin(&[&third, &fourth], 32, 1).unwrap()[0].elements::<u64>(8, 1);
        assert!(other.store(&word, 1));
        drop(owner);
        assert!(!other.store(&word, 2), "the owner has closed its context");
    }

    #[test]
    fn there_are_as_many_sets_as_names_have_places() {
        let mut mapped = MappedParts::default();
        let sets: Vec<_> = (0..SETS).map(|_| mapped.begin(&[&memory(1)], 8, 0).unwrap()[0]).collect();
        assert!(mapped.begin(&[&memory(1)], 8, 0).is_none());
        mapped.end(sets[9].set());
        let again = mapped.begin(&[&memory(1)], 8, 0).unwrap()[0].elements::<u64>(0, 1);
        let [ended, lives] = [9, 255].map(|set| sets[set].elements::<u64>(0, 1));
        assert_eq!((mapped.load(&ended), mapped.load(&again), mapped.load(&lives)), (None, Some(0), Some(0)));
    }
}
