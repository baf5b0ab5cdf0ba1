//! The elements of partitioned operations of several threads: a part belongs to one thread at a time, or to the operation.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use am_core::buffer::{RawBuffer, RawBytes};
use bytemuck::{AnyBitPattern, NoUninit};

use super::Keeps;

/// A vector split into parts: nothing borrows it as a whole while parts are in use.
#[derive(Debug)]
struct Elements<T> {
    at: NonNull<T>,
    len: usize,
    capacity: usize,
}

// SAFETY: the type owns its elements, as a vector does, and the elements may be sent.
unsafe impl<T: Send> Send for Elements<T> {}
// SAFETY: elements are shared only through the two types below, which record which thread has a part.
unsafe impl<T: Send + Sync> Sync for Elements<T> {}

impl<T> Elements<T> {
    fn new(elements: Vec<T>) -> Self {
        let mut elements = ManuallyDrop::new(elements);
        let (len, capacity) = (elements.len(), elements.capacity());
        let at = NonNull::new(elements.as_mut_ptr()).expect("the pointer of a vector is not null");
        Self { at, len, capacity }
    }

    /// The address of a part.
    fn part(&self, part: usize, count: usize) -> NonNull<T> {
        let start = part.checked_mul(count).filter(|&start| self.len.checked_sub(start) >= Some(count));
        let start = start.expect("parts lie inside the vector");
        // SAFETY: the offset is inside the vector (just checked), or at its end for an empty part.
        unsafe { self.at.add(start) }
    }

    fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T> Drop for Elements<T> {
    fn drop(&mut self) {
        // SAFETY: pointer, length and capacity are those of the vector that `new` took apart, and nothing else frees them. No part is in
        // use: each borrows its owner, and the owner drops this value when the operation is over (see the types below).
        drop(unsafe { Vec::from_raw_parts(self.at.as_ptr(), self.len, self.capacity) });
    }
}

/// Elements to send in parts. The keeper of the operation drops this when the operation is over.
#[derive(Debug)]
pub(crate) struct PartsToSend<T> {
    elements: Elements<T>,
    /// Number of elements of a part.
    count: usize,
    states: Box<[AtomicU8]>,
}

/// Free: the next thread that asks for the part gets it.
const FREE: u8 = 0;
/// Taken by a thread.
const TAKEN: u8 = 1;
/// The operation is reading the part.
const LEAVING: u8 = 2;

/// Why a thread cannot take a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotFree {
    /// There is no such part.
    Unknown,
    /// Another thread has taken the part.
    Taken,
    /// The part was given to the operation.
    Leaving,
}

impl<T: NoUninit> PartsToSend<T> {
    /// `parts` parts of `count` elements each, which together are all elements.
    pub(crate) fn new(elements: Vec<T>, parts: usize, count: usize) -> Self {
        assert_eq!(Some(elements.len()), parts.checked_mul(count), "the parts together are all elements");
        let states = (0..parts).map(|_| AtomicU8::new(FREE)).collect();
        Self { elements: Elements::new(elements), count, states }
    }

    /// All elements, for an operation that reads each part from the time the part is [handed over](TakenPart::hand_over) until [all parts
    /// are freed](Self::free_all).
    pub(crate) fn bytes(&self, _keeper: &impl Keeps) -> RawBytes {
        // SAFETY: the elements stay on the heap until the value is dropped, when nothing reads them any more (`Keeps`), and are
        // initialised (`NoUninit`). No part is written while it is read: threads write only parts that they have taken.
        unsafe { RawBytes::new(self.elements.at.cast(), self.elements.bytes()) }
    }

    /// Number of parts.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    /// Takes a part for the calling thread.
    pub(crate) fn take(&self, part: usize) -> Result<TakenPart<'_, T>, NotFree> {
        let state = self.states.get(part).ok_or(NotFree::Unknown)?;
        // Acquire: pairs with the Release in `TakenPart::drop` and `free_all`, so that the last holder's accesses to the part are done.
        match state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(TakenPart { all: self, part }),
            Err(TAKEN) => Err(NotFree::Taken),
            Err(_) => Err(NotFree::Leaving),
        }
    }

    /// Frees the parts that were handed over to the keeper's operation, which must be over.
    pub(crate) fn free_all(&self, _keeper: &impl Keeps) {
        for state in &self.states {
            // Release: pairs with the Acquire in `take`. The operation has read the part. Parts taken by threads stay taken.
            let _ = state.compare_exchange(LEAVING, FREE, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// A part taken by a thread. Dropping it frees the part.
#[derive(Debug)]
pub(crate) struct TakenPart<'a, T: NoUninit> {
    all: &'a PartsToSend<T>,
    part: usize,
}

impl<T: NoUninit> TakenPart<'_, T> {
    /// The number of the part.
    pub(crate) fn number(&self) -> usize {
        self.part
    }

    /// Gives the part to the operation.
    pub(crate) fn hand_over(self) {
        // Relaxed: the operation reads the part in this turn, in this thread, or in a later turn; the lock behind the turns orders these
        // reads.
        self.all.states[self.part].store(LEAVING, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

impl<T: NoUninit> Drop for TakenPart<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `take`.
        self.all.states[self.part].store(FREE, Ordering::Release);
    }
}

impl<T: NoUninit> Deref for TakenPart<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `count` initialised elements of the vector, which the owner keeps while this value borrows the owner. Only this value
        // accesses them: it has taken the part, and the operation reads only parts that were handed over.
        unsafe {
            std::slice::from_raw_parts(
                self.all.elements.part(self.part, self.all.count).as_ptr(),
                self.all.count,
            )
        }
    }
}

impl<T: NoUninit> DerefMut for TakenPart<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let at = self.all.elements.part(self.part, self.all.count).as_ptr();
        // SAFETY: the elements of `deref`, and this value is exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(at, self.all.count) }
    }
}

/// Elements to receive in parts. The keeper of the operation drops this when the operation is over.
#[derive(Debug)]
pub(crate) struct PartsToReceive<T> {
    elements: Elements<T>,
    /// Number of elements of a part.
    count: usize,
    /// Number of parts borrowed by threads.
    seen: AtomicUsize,
}

impl<T: AnyBitPattern> PartsToReceive<T> {
    /// Parts of `count` elements each, which together are all elements.
    pub(crate) fn new(elements: Vec<T>, count: usize) -> Self {
        Self { elements: Elements::new(elements), count, seen: AtomicUsize::new(0) }
    }

    /// All elements, for an operation that receives in rounds. In a round the operation must not write to a part that has arrived:
    /// [`see`](Self::see) relies on this. The keeper must not start a round while a thread borrows a part ([`is_seen`](Self::is_seen)).
    pub(crate) fn buffer(&self, _keeper: &impl Keeps) -> RawBuffer {
        // SAFETY: the elements stay on the heap until the value is dropped, when nothing writes to them any more (`Keeps`).
        // No part is read while it is written (`Keeps`), and any received bytes are valid elements (`AnyBitPattern`).
        unsafe { RawBuffer::new(self.elements.at.cast(), self.elements.bytes()) }
    }

    /// Whether a thread borrows a part.
    pub(crate) fn is_seen(&self) -> bool {
        // Acquire: pairs with the Release in `SeenPart::drop`, so that the borrowing thread's reads are done before the next round writes.
        self.seen.load(Ordering::Acquire) > 0
    }

    /// Borrows a part that must exist and have arrived: the keeper's operation does not write to it before the next round.
    pub(crate) fn see(&self, _keeper: &impl Keeps, part: usize) -> SeenPart<'_, T> {
        let at = self.elements.part(part, self.count);
        // Relaxed: the turn in which a part is borrowed comes before the next round. The count cannot overflow: 2^64 values would have to
        // be forgotten one by one.
        self.seen.fetch_add(1, Ordering::Relaxed);
        SeenPart { all: self, at }
    }

    /// All elements, while no round is under way.
    pub(crate) fn all(&mut self, _keeper: &impl Keeps) -> &mut [T] {
        // SAFETY: the initialised elements of the vector; no operation writes to them (`Keeps`), and no thread borrows a part, since this
        // borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.elements.at.as_ptr(), self.elements.len) }
    }
}

/// A part that has arrived. While this value exists, no other round begins.
#[derive(Debug)]
pub(crate) struct SeenPart<'a, T> {
    all: &'a PartsToReceive<T>,
    at: NonNull<T>,
}

// SAFETY: a shared borrow of elements that may be shared.
unsafe impl<T: Send + Sync> Send for SeenPart<'_, T> {}
// SAFETY: a shared borrow of elements that may be shared.
unsafe impl<T: Send + Sync> Sync for SeenPart<'_, T> {}

impl<T> Deref for SeenPart<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `count` initialised elements of the vector, which the owner keeps while this value borrows the owner; nothing writes to
        // them before the next round (`see`, by `Keeps`), and no round begins while this value exists.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.all.count) }
    }
}

impl<T> Drop for SeenPart<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_seen`.
        self.all.seen.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Test;
    // SAFETY: no operation gets the memory.
    unsafe impl Keeps for Test {}

    #[test]
    fn a_part_belongs_to_one_thread_at_a_time() {
        let all = PartsToSend::new(vec![0u32; 12], 4, 3);
        assert_eq!(all.len(), 4);
        assert_eq!(all.take(4).unwrap_err(), NotFree::Unknown);
        std::thread::scope(|threads| {
            for part in 0..4 {
                let all = &all;
                threads.spawn(move || {
                    let mut mine = all.take(part).unwrap();
                    assert_eq!(all.take(part).unwrap_err(), NotFree::Taken);
                    mine.fill(u32::try_from(part).unwrap());
                    assert_eq!(mine.number(), part);
                    if part % 2 == 0 {
                        mine.hand_over();
                        assert_eq!(all.take(part).unwrap_err(), NotFree::Leaving);
                    }
                });
            }
        });
        let held = all.take(1).unwrap();
        all.free_all(&Test);
        assert_eq!(all.take(1).unwrap_err(), NotFree::Taken);
        assert_eq!(held[..], [1; 3]);
        assert_eq!(all.take(0).unwrap()[..], [0; 3]);
        assert_eq!(all.bytes(&Test).len(), 48);
    }

    #[test]
    fn parts_that_are_seen_are_counted() {
        let mut all = PartsToReceive::new(vec![1u8, 2, 3, 4], 2);
        assert_eq!(all.buffer(&Test).len(), 4);
        let (first, second) = (all.see(&Test, 0), all.see(&Test, 1));
        assert_eq!((&first[..], &second[..]), (&[1, 2][..], &[3, 4][..]));
        drop(first);
        assert!(all.is_seen());
        drop(second);
        assert!(!all.is_seen());
        all.all(&Test)[0] = 9;
        assert_eq!(all.see(&Test, 0)[..], [9, 2]);
        let nothing = PartsToReceive::new(Vec::<u64>::new(), 0);
        assert!(nothing.see(&Test, 3).is_empty());
    }
}
