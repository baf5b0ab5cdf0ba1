//! Records with numbers that can be sent. A number contains a slot and the slot's generation, so that an old number finds nothing.

use crate::error::{Error, Result};
use alloc::vec::Vec;

/// As many records as a program of millions of operations needs; the bits above are the generation.
const SLOT_BITS: u32 = 24;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// Records, each with a number other than 0.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Free slots; the last one is used next.
    free: Vec<u32>,
    what: &'static str,
}

#[derive(Debug)]
struct Slot<T> {
    key: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    /// Maximum number of records.
    pub(crate) const COUNT_MAX: usize = SLOT_MASK as usize - 1;

    /// An empty slab; `what` names the records in errors.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), what }
    }

    /// The number of the next [`insert`](Self::insert); 0 if the slab is full.
    #[inline(always)]
    pub(crate) fn next_key(&self) -> u32 {
        match self.free.last() {
            Some(&index) => self.slots[index as usize].key,
            None if self.slots.len() >= Self::COUNT_MAX => 0,
            None => self.slots.len() as u32 + 1,
        }
    }

    /// The number that the next [`insert`](Self::insert) returns.
    ///
    /// # Errors
    /// `Exhausted`: the slab is full.
    pub(crate) fn reserve(&self) -> Result<u32> {
        match self.next_key() {
            0 => Err(Error::Exhausted {
                resource: self.what,
                needed: Self::COUNT_MAX as u64 + 1,
                available: Self::COUNT_MAX as u64,
                remedy: "wait for some of them before starting more",
            }),
            key => Ok(key),
        }
    }

    /// Stores `value`; returns its number.
    ///
    /// # Errors
    /// `Exhausted`: the slab is full.
    pub(crate) fn insert(&mut self, value: T) -> Result<u32> {
        let key = self.reserve()?;
        match self.free.pop() {
            Some(index) => self.slots[index as usize].value = Some(value),
            None => self.slots.push(Slot { key, value: Some(value) }),
        }
        Ok(key)
    }

    /// The record that `key` claims.
    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.slots.get(index_of(key)).filter(|slot| slot.key == key)?.value.as_ref()
    }

    /// The record that `key` claims.
    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.slots.get_mut(index_of(key)).filter(|slot| slot.key == key)?.value.as_mut()
    }

    /// Removes the record that `key` claims; the number is invalid from now on.
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let index = index_of(key);
        let slot = self.slots.get_mut(index).filter(|slot| slot.key == key)?;
        let value = slot.value.take()?;
        // The slot number in the low bits stays, and the generation above it increases (and wraps).
        slot.key = key.wrapping_add(1 << SLOT_BITS);
        self.free.push(index as u32);
        Some(value)
    }

    /// Whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// All records with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref().map(|value| (slot.key, value)))
    }

    /// All records, mutable.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }
}

/// The index of the slot that `key` names. A claimed number whose slot is 0 becomes an index that no slab has.
fn index_of(key: u32) -> usize {
    (key & SLOT_MASK).wrapping_sub(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_is_known_before_and_an_old_number_finds_nothing() {
        let mut slab = Slab::new("tests");
        let next = slab.next_key();
        let key = slab.insert('a').unwrap();
        assert_eq!(key, next);
        assert_eq!(slab.remove(key), Some('a'));
        assert_eq!(slab.remove(key), None);
        let next = slab.next_key();
        let again = slab.insert('b').unwrap();
        assert_eq!(again, next);
        assert_ne!(again, key);
        assert_eq!((slab.get(key), slab.get(again)), (None, Some(&'b')));
        assert_eq!(slab.get(0), None);
        assert_eq!(slab.get(u32::MAX), None);
    }
}
