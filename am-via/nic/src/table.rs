//! Objects that programs name by handles. A handle of a destroyed object never matches a new object, and a handle of another NIC never
//! matches.

/// The name of an object: its NIC, its slot, and the slot's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    nic: u32,
    index: u32,
    generation: u32,
}

impl Slot {
    /// The index of the object in its table.
    pub fn place(self) -> u32 {
        self.index
    }
}

/// A table of objects.
#[derive(Debug)]
pub struct Table<T> {
    nic: u32,
    slots: Vec<(u32, Option<T>)>,
    live: u32,
}

impl<T> Table<T> {
    /// An empty table; `nic` is the NIC's number, unique in this process.
    pub fn new(nic: u32) -> Self {
        Self { nic, slots: Vec::new(), live: 0 }
    }

    /// Number of objects.
    pub fn count(&self) -> u32 {
        self.live
    }

    /// Adds an object, in the first free slot.
    pub fn insert(&mut self, object: T) -> Slot {
        self.live += 1;
        if let Some(at) = self.slots.iter().position(|(_, object)| object.is_none()) {
            let (generation, slot) = &mut self.slots[at];
            *slot = Some(object);
            return Slot { nic: self.nic, index: index(at), generation: *generation };
        }
        self.slots.push((0, Some(object)));
        Slot { nic: self.nic, index: index(self.slots.len() - 1), generation: 0 }
    }

    /// Removes an object.
    pub fn remove(&mut self, slot: Slot) -> Option<T> {
        let (generation, object) = self.slots.get_mut(slot.index as usize)?;
        if *generation != slot.generation || slot.nic != self.nic {
            return None;
        }
        let removed = object.take()?;
        *generation = generation.wrapping_add(1);
        self.live -= 1;
        Some(removed)
    }

    /// The object of this name.
    pub fn get(&self, slot: Slot) -> Option<&T> {
        let (generation, object) = self.slots.get(slot.index as usize)?;
        object.as_ref().filter(|_| *generation == slot.generation && slot.nic == self.nic)
    }

    /// The object of this name, mutable.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let (generation, object) = self.slots.get_mut(slot.index as usize)?;
        object.as_mut().filter(|_| *generation == slot.generation && slot.nic == self.nic)
    }

    /// Number of slots.
    pub fn places(&self) -> usize {
        self.slots.len()
    }

    /// The object at an index.
    #[inline(always)]
    pub fn at(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)?.1.as_ref()
    }

    /// The object at an index, mutable.
    #[inline(always)]
    pub fn at_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.1.as_mut()
    }

    /// All objects, mutable.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, object)| object.as_mut())
    }

    /// The handle of the object at an index, if there is one.
    pub fn handle(&self, place: usize) -> Option<Slot> {
        let (generation, object) = self.slots.get(place)?;
        object.as_ref().map(|_| Slot { nic: self.nic, index: index(place), generation: *generation })
    }

    /// The handles of all objects.
    pub fn all(&self) -> Vec<Slot> {
        (0..self.places()).filter_map(|place| self.handle(place)).collect()
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("the NIC's limits keep tables far below 2^32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_names_one_object_for_ever() {
        let mut table = Table::new(1);
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_eq!((table.remove(first), table.get(first), table.get(second)), (None, None, Some(&"second")));
        assert_eq!((table.all(), table.count()), (vec![second], 1));
        let mut other = Table::new(2);
        assert!(
            other.insert("foreign") != first && other.get(second).is_none() && other.remove(second).is_none()
        );
    }
}
