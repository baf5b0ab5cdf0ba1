//! The calls of a task ([`call`](crate::call)) under way, and results that were not taken yet.

use crate::error::{Error, Result};
use crate::handler::Reply;
use crate::task::Endpoint;

/// The number of a call, sent with the arguments and returned with the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    slot: u32,
    generation: u32,
}

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The function returned the result that follows.
    Done = 0,
    /// The function panicked.
    Panicked = 1,
    /// The target could not read the arguments, or could not write the result.
    Unreadable = 2,
}

impl Number {
    const BYTES: usize = 8;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        (u64::from(self.slot) | u64::from(self.generation) << 32).to_le_bytes()
    }

    /// The number in the user header of a call; `None` for a call that returns no result.
    pub(crate) fn of(uhdr: &[u8]) -> Option<Self> {
        let word = u64::from_le_bytes(*uhdr.first_chunk()?);
        Some(Self { slot: word as u32, generation: (word >> 32) as u32 })
    }

    /// The user header of a result, including the result itself if it is short enough.
    pub(crate) fn with(self, status: Status, result: &[u8]) -> Header {
        let mut header = Header::new();
        header.extend_from_slice(&self.to_bytes());
        header.push(status as u8);
        header.extend_from_slice(result);
        header
    }

    /// Decodes what [`with`](Self::with) encoded.
    pub(crate) fn with_status(uhdr: &[u8]) -> Option<(Self, Status, &[u8])> {
        let (&status, result) = uhdr.get(Self::BYTES..)?.split_first()?;
        let status = [Status::Done, Status::Panicked, Status::Unreadable]
            .into_iter()
            .find(|it| *it as u8 == status)?;
        Some((Self::of(uhdr)?, status, result))
    }
}

/// The user header of a result: on the stack, if it fits into a reply.
pub(crate) type Header = smallvec::SmallVec<[u8; Reply::BYTES_MAX]>;

#[derive(Debug)]
enum Slot {
    Free,
    /// No result has arrived yet from this target.
    Waiting(Endpoint),
    Ended(Status, Vec<u8>),
}

/// All calls of a context.
#[derive(Debug, Default)]
pub(crate) struct Results {
    slots: Vec<(u32, Slot)>,
    free: Vec<u32>,
}

impl Results {
    /// Allocates the number of a new call at `target`.
    ///
    /// # Errors
    /// `Exhausted`: 2^32 calls are under way.
    pub(crate) fn insert(&mut self, target: Endpoint) -> Result<Number> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).map_err(|_| Error::Exhausted {
                    resource: "numbers of calls",
                    needed: 1 << 32,
                    available: u64::from(u32::MAX),
                    remedy: "wait for some of the calls under way",
                })?;
                self.slots.push((0, Slot::Free));
                slot
            }
        };
        let (generation, state) = &mut self.slots[slot as usize];
        *generation = generation.wrapping_add(1);
        *state = Slot::Waiting(target);
        Ok(Number { slot, generation: *generation })
    }

    fn slot(&mut self, number: Number) -> Option<&mut Slot> {
        let (generation, slot) = self.slots.get_mut(number.slot as usize)?;
        (*generation == number.generation).then_some(slot)
    }

    /// Stores a result from `from`. The number is a claim: only the target of a call can end the call, and only once.
    pub(crate) fn fill(&mut self, number: Number, from: Endpoint, status: Status, result: Vec<u8>) {
        if let Some(slot) = self.slot(number)
            && matches!(slot, Slot::Waiting(target) if *target == from)
        {
            *slot = Slot::Ended(status, result);
        }
    }

    /// Takes the result, if it has arrived. The number is invalid from then on.
    pub(crate) fn take(&mut self, number: Number) -> Option<(Status, Vec<u8>)> {
        match std::mem::replace(self.slot(number)?, Slot::Free) {
            Slot::Ended(status, result) => {
                self.free(number);
                Some((status, result))
            }
            other => {
                *self.slot(number)? = other;
                None
            }
        }
    }

    /// Forgets a call whose result no caller will take. Its slot may be reused at once: a result that still arrives has the old generation,
    /// and is dropped.
    pub(crate) fn forget(&mut self, number: Number) {
        if self.slot(number).is_some_and(|slot| !matches!(slot, Slot::Free)) {
            self.free(number);
        }
    }

    fn free(&mut self, number: Number) {
        if let Some(slot) = self.slot(number) {
            *slot = Slot::Free;
            self.free.push(number.slot);
        }
    }
}
