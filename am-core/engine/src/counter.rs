//! Counters, from which a program reads how many of its messages have been sent, have arrived or have completed (LAPI section "counters").
//!
//! A counter belongs to a context. Completions add to it, and a wait for `val` subtracts `val`, so that completions can accumulate and be
//! consumed one by one (`LAPI_Waitcntr`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::error::{Error, Result};
use crate::task::TaskId;

/// A counter of this context. Copy it freely; it stays valid until [`Counters::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter(CounterName);

/// The name of a counter on the wire: what a peer puts into its messages. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterName(core::num::NonZeroU32);

const SLOT_BITS: u32 = 20;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

impl CounterName {
    /// The number on the wire.
    #[inline(always)]
    #[must_use]
    pub fn to_wire(name: Option<Self>) -> u32 {
        name.map_or(0, |name| name.0.get())
    }

    /// The name that a number from the wire claims. [`Counters`] checks it at each use.
    #[inline(always)]
    #[must_use]
    pub fn from_wire(number: u32) -> Option<Self> {
        core::num::NonZeroU32::new(number).map(Self)
    }

    #[inline(always)]
    fn slot(self) -> usize {
        // A claimed name whose slot part is 0 becomes an index that no table has.
        (self.0.get() & SLOT_MASK).wrapping_sub(1) as usize
    }
}

impl Counter {
    /// The counter's name, to be sent to other tasks (`LAPI_Address_init`). Tasks that make their counters in the same
    /// order get the same names, and need not exchange them.
    #[inline(always)]
    #[must_use]
    pub fn name(self) -> CounterName {
        self.0
    }
}

/// State of the messages to one destination of a counter (`LAPI_Setcntr_wstatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationStatus {
    /// Not acknowledged yet (`LAPI_MSG_INITIAL`).
    Initial,
    /// The destination has acknowledged a message (`LAPI_MSG_RECVD`).
    Received,
    /// Operations with the destination were purged, or it died, before it acknowledged a message (`LAPI_MSG_PURGED`).
    Purged,
    /// The destination was purged or died after it had acknowledged a message (`LAPI_MSG_PURGED_RCVD`).
    PurgedReceived,
}

#[derive(Debug)]
struct Slot {
    /// Name of the counter in this slot. In a free slot, the name of its next counter.
    name: CounterName,
    value: u64,
}

/// The counters of one context.
#[derive(Debug, Default)]
pub struct Counters {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// For counters with destinations, the state of each destination.
    watched: BTreeMap<CounterName, Vec<(TaskId, DestinationStatus)>>,
}

impl Counters {
    /// Maximum number of counters at a time, limited by the slot part of a name.
    pub const COUNT_MAX: usize = SLOT_MASK as usize - 1;

    /// A new counter, at 0.
    ///
    /// # Errors
    /// [`Error::Exhausted`] beyond [`COUNT_MAX`](Self::COUNT_MAX) live counters.
    pub fn insert(&mut self) -> Result<Counter> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index];
            slot.value = 0;
            return Ok(Counter(slot.name));
        }
        let number = self.slots.len() + 1;
        if number > Self::COUNT_MAX {
            return Err(Error::Exhausted {
                resource: "counters",
                needed: number as u64,
                available: Self::COUNT_MAX as u64,
                remedy: "remove counters that are not used any more",
            });
        }
        let name =
            u32::try_from(number).ok().and_then(CounterName::from_wire).expect("number is 1 to COUNT_MAX");
        self.slots.push(Slot { name, value: 0 });
        Ok(Counter(name))
    }

    /// Removes a counter. A message that still names the counter does not find it.
    pub fn remove(&mut self, counter: Counter) {
        if let Some(slot) = self.slot_mut(counter.0) {
            // The next generation: a late message for the old counter finds nothing.
            let next = slot.name.0.get().wrapping_add(1 << SLOT_BITS);
            slot.name = CounterName::from_wire(next).expect("the slot part of a name is never 0");
            self.watched.remove(&counter.0);
            self.free.push(counter.0.slot());
        }
    }

    #[inline(always)]
    fn slot_mut(&mut self, name: CounterName) -> Option<&mut Slot> {
        self.slots.get_mut(name.slot()).filter(|slot| slot.name == name)
    }

    /// Adds 1 to the counter that `name` claims; returns whether the counter exists.
    #[inline(always)]
    #[must_use]
    pub fn bump(&mut self, name: CounterName) -> bool {
        match self.slot_mut(name) {
            Some(slot) => {
                slot.value += 1;
                true
            }
            None => false,
        }
    }

    /// The value now (`LAPI_Getcntr`); `None` for a removed counter.
    #[inline(always)]
    #[must_use]
    pub fn value(&self, counter: Counter) -> Option<u64> {
        self.slots.get(counter.0.slot()).filter(|slot| slot.name == counter.0).map(|slot| slot.value)
    }

    /// Sets the value (`LAPI_Setcntr`).
    ///
    /// # Errors
    /// [`Error::UnknownCounter`] for a removed counter.
    pub fn set(&mut self, counter: Counter, value: u64) -> Result<()> {
        self.slot_mut(counter.0).map(|slot| slot.value = value).ok_or_else(|| unknown(counter))
    }

    /// Sets the counter to 0 and tracks the state of messages to `destinations` (`LAPI_Setcntr_wstatus`).
    ///
    /// # Errors
    /// [`Error::UnknownCounter`] for a removed counter.
    pub fn watch(&mut self, counter: Counter, destinations: &[TaskId]) -> Result<()> {
        self.set(counter, 0)?;
        let all = destinations.iter().map(|&task| (task, DestinationStatus::Initial)).collect();
        self.watched.insert(counter.0, all);
        Ok(())
    }

    /// The state of each destination, in the order in which they were given; `None` for a counter that is not watched.
    #[must_use]
    pub fn destinations(&self, counter: Counter) -> Option<&[(TaskId, DestinationStatus)]> {
        self.watched.get(&counter.0).map(Vec::as_slice)
    }

    /// Notes that a bump of the counter `name` came from `task`.
    #[inline]
    pub(crate) fn note_received(&mut self, name: Option<CounterName>, task: TaskId) {
        if !self.watched.is_empty() {
            self.note(name, task, |status| match status {
                DestinationStatus::Initial => DestinationStatus::Received,
                other => other,
            });
        }
    }

    /// Marks `task` as purged in all watched counters.
    pub(crate) fn note_purged(&mut self, task: TaskId) {
        for name in self.watched.keys().copied().collect::<Vec<_>>() {
            self.note(Some(name), task, |status| match status {
                DestinationStatus::Initial => DestinationStatus::Purged,
                DestinationStatus::Received => DestinationStatus::PurgedReceived,
                other => other,
            });
        }
    }

    #[cold]
    fn note(
        &mut self,
        name: Option<CounterName>,
        task: TaskId,
        change: fn(DestinationStatus) -> DestinationStatus,
    ) {
        let Some(all) = name.and_then(|name| self.watched.get_mut(&name)) else { return };
        for (destination, status) in all {
            if *destination == task {
                *status = change(*status);
            }
        }
    }

    /// Subtracts `val` from the counter if its value is at least `val` (the last step of `LAPI_Waitcntr`); returns whether `val` was
    /// subtracted.
    ///
    /// # Errors
    /// [`Error::UnknownCounter`] for a removed counter.
    #[inline(always)]
    pub fn try_take(&mut self, counter: Counter, val: u64) -> Result<bool> {
        match self.slot_mut(counter.0) {
            Some(slot) if slot.value >= val => {
                slot.value -= val;
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Err(unknown(counter)),
        }
    }
}

#[cold]
fn unknown(counter: Counter) -> Error {
    Error::UnknownCounter { counter: counter.0.0.get() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_wait_subtracts_what_it_waited_for() {
        let mut counters = Counters::default();
        let counter = counters.insert().unwrap();
        for _ in 0..5 {
            assert!(counters.bump(counter.name()));
        }
        assert!(counters.try_take(counter, 2).unwrap());
        assert_eq!(counters.value(counter), Some(3));
        assert!(!counters.try_take(counter, 4).unwrap());
        assert_eq!(counters.value(counter), Some(3));
    }

    #[test]
    fn a_watched_counter_tells_its_destinations_apart() {
        use DestinationStatus::{Initial, Purged, PurgedReceived, Received};
        let mut counters = Counters::default();
        let counter = counters.insert().unwrap();
        let states = |counters: &Counters| {
            counters
                .destinations(counter)
                .map(|all| all.iter().map(|&(_, status)| status).collect::<Vec<_>>())
        };
        assert_eq!(states(&counters), None);
        counters.watch(counter, &[TaskId(4), TaskId(2), TaskId(3)]).unwrap();
        assert_eq!(states(&counters), Some(vec![Initial; 3]));
        counters.note_received(Some(counter.name()), TaskId(2));
        counters.note_received(Some(counter.name()), TaskId(9));
        assert_eq!(states(&counters), Some(vec![Initial, Received, Initial]));
        counters.note_purged(TaskId(2));
        counters.note_purged(TaskId(3));
        counters.note_received(Some(counter.name()), TaskId(3));
        assert_eq!(states(&counters), Some(vec![Initial, PurgedReceived, Purged]));
        counters.remove(counter);
        assert_eq!(states(&counters), None);
    }

    #[test]
    fn a_removed_counter_is_not_found_under_its_old_name() {
        let mut counters = Counters::default();
        let old = counters.insert().unwrap();
        counters.remove(old);
        let new = counters.insert().unwrap();
        assert_ne!(old, new);
        assert!(!counters.bump(old.name()));
        assert_eq!(counters.value(new), Some(0));
        assert!(counters.set(old, 1).is_err());
    }
}
