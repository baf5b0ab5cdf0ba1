//! Objects that a program knows by handles. A handle of an object that is gone is never taken for another one.

/// The name of an object: its slot, and how often the slot was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot {
    index: u32,
    generation: u32,
}

/// The objects.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<(u32, Option<T>)>,
    live: u32,
}

impl<T> Table<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), live: 0 }
    }

    /// How many objects there are.
    pub(super) fn count(&self) -> u32 {
        self.live
    }

    pub(super) fn insert(&mut self, object: T) -> Slot {
        self.live += 1;
        if let Some(at) = self.slots.iter().position(|(_, object)| object.is_none()) {
            let (generation, slot) = &mut self.slots[at];
            *slot = Some(object);
            return Slot { index: index(at), generation: *generation };
        }
        self.slots.push((0, Some(object)));
        Slot { index: index(self.slots.len() - 1), generation: 0 }
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<T> {
        let (generation, object) = self.slots.get_mut(slot.index as usize)?;
        if *generation != slot.generation {
            return None;
        }
        let removed = object.take()?;
        *generation = generation.wrapping_add(1);
        self.live -= 1;
        Some(removed)
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&T> {
        let (generation, object) = self.slots.get(slot.index as usize)?;
        object.as_ref().filter(|_| *generation == slot.generation)
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        let (generation, object) = self.slots.get_mut(slot.index as usize)?;
        object.as_mut().filter(|_| *generation == slot.generation)
    }

    /// The handles of all objects.
    pub(super) fn all(&self) -> Vec<Slot> {
        let live = self.slots.iter().enumerate().filter(|(_, (_, object))| object.is_some());
        live.map(|(at, (generation, _))| Slot { index: index(at), generation: *generation }).collect()
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
        let mut table = Table::new();
        let first = table.insert("first");
        assert_eq!(table.remove(first), Some("first"));
        let second = table.insert("second");
        assert_eq!((table.remove(first), table.get(first), table.get(second)), (None, None, Some(&"second")));
        assert_eq!((table.all(), table.count()), (vec![second], 1));
    }
}
