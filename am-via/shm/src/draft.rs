//! A message of the network that is being written: long lines of a stand-in have their areas there instead of in its slots, so that the
//! network need not copy them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::copy::CheckedRange;
use crate::private_region::HeldRange;

/// Maximum number of areas in one message.
const AREAS_MAX: usize = 8;

/// The message of a stand-in, if one is being written. Both ends of the connection use it.
#[derive(Debug, Default)]
pub struct Draft(Mutex<Option<Message>>);

#[derive(Debug)]
struct Message {
    memory: HeldRange,
    /// Number of bytes before each area.
    before: usize,
    /// The slot of the first area. The next areas belong to the next slots.
    first: u32,
    /// Offsets of the areas.
    offsets: [usize; AREAS_MAX],
    num_areas: usize,
    /// Offset of the end of the last area.
    end: usize,
    takes_more: bool,
}

impl Draft {
    fn message(&self) -> MutexGuard<'_, Option<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a message in `memory`. The long lines that are posted from now on have their areas there, if their slots follow each other
    /// from `first` on. `before` bytes before each area are left free.
    ///
    /// # Safety
    /// Until [`close`](Self::close), the memory must stay alive and be left to the areas; and `close` must not be called while a range of
    /// an
    /// area is in use.
    pub unsafe fn open(&self, memory: HeldRange, before: usize, first: u32) {
        let offsets = [0; AREAS_MAX];
        let message = Message { memory, before, first, offsets, num_areas: 0, end: 0, takes_more: true };
        *self.message() = Some(message);
    }

    /// Adds no further areas to the message.
    pub fn complete(&self) {
        if let Some(message) = &mut *self.message() {
            message.takes_more = false;
        }
    }

    /// Ends the message. Its areas must not be used any more.
    pub fn close(&self) {
        *self.message() = None;
    }

    /// The offset of a slot's area in the message, if the area is there.
    #[must_use]
    pub fn offset(&self, slot: u32) -> Option<usize> {
        self.message().as_ref()?.offset(slot)
    }

    /// Takes the area of a slot out of the message: nothing was posted with it. The next area takes its place.
    pub(crate) fn forget(&self, slot: u32) {
        if let Some(message) = &mut *self.message()
            && let Some(offset) = message.offset(slot)
        {
            message.num_areas = slot.wrapping_sub(message.first) as usize;
            message.end = offset - message.before;
        }
    }

    /// Whether `bytes` are where the area of a slot is in the message, with `offset` bytes before them.
    #[must_use]
    pub fn is_at(&self, offset: usize, bytes: CheckedRange<'_>) -> bool {
        let message = self.message();
        let there = message.as_ref().and_then(|message| message.part(offset, bytes.len()));
        there.is_some_and(|there| there.at() == bytes.at())
    }

    /// The area of a slot, if it is in the message or is added to it.
    pub(crate) fn area(&self, slot: u32, len: usize) -> Option<CheckedRange<'_>> {
        let mut message = self.message();
        let message = message.as_mut()?;
        if let Some(offset) = message.offset(slot) {
            return message.part(offset, len);
        }
        let offset = message.end + message.before;
        let is_next = message.takes_more
            && message.num_areas < AREAS_MAX
            && slot.wrapping_sub(message.first) as usize == message.num_areas;
        let area = message.part(offset, len).filter(|_| is_next)?;
        message.offsets[message.num_areas] = offset;
        message.num_areas += 1;
        message.end = offset + len;
        Some(area)
    }
}

impl Message {
    /// Bytes of the message's memory, valid until the message is closed.
    fn part<'a>(&self, offset: usize, len: usize) -> Option<CheckedRange<'a>> {
        // SAFETY: the message is open, so its memory is alive and left to its areas, and no range is used after the end (`Draft::open`).
        unsafe { self.memory.range() }.part(offset, len)
    }

    fn offset(&self, slot: u32) -> Option<usize> {
        self.offsets[..self.num_areas].get(slot.wrapping_sub(self.first) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private_bytes::PrivateBytes;

    #[test]
    fn areas_of_slots_in_a_row_lie_behind_each_other_and_others_are_elsewhere() {
        let memory = PrivateBytes::new(1000).expect("memory");
        let draft = Draft::default();
        assert!(draft.area(5, 1).is_none(), "no message");
        let first = u32::MAX;
        // SAFETY: `memory` lives to the end of the test, which accesses no bytes.
        unsafe { draft.open(HeldRange::hold(memory.range()), 10, first) };
        assert!(draft.area(0, 100).is_none(), "not the first slot");
        assert!(draft.area(first, 991).is_none(), "it does not fit");
        let area = |slot, len| draft.area(slot, len).map(|area| (area.at().addr().get(), area.len()));
        let base = memory.range().at().addr().get();
        assert_eq!(area(first, 300), Some((base + 10, 300)));
        assert_eq!(area(0, 200), Some((base + 320, 200)));
        // The reader asks again.
        assert_eq!(area(first, 299), Some((base + 10, 299)));
        assert_eq!([draft.offset(first), draft.offset(0), draft.offset(1)], [Some(10), Some(320), None]);
        assert_eq!(area(2, 10), None, "a slot was left out");
        assert_eq!(area(1, 471), None, "it does not fit");
        assert!(draft.is_at(320, memory.range().part(320, 200).expect("inside")));
        assert!(!draft.is_at(320, PrivateBytes::new(200).expect("memory").range()));
        // Nothing was posted with the last area, so the next one takes its place.
        draft.forget(0);
        assert_eq!([draft.offset(first), draft.offset(0)], [Some(10), None]);
        assert_eq!(area(0, 680), Some((base + 320, 680)));
        draft.forget(0);
        draft.forget(5);
        assert_eq!(area(0, 200), Some((base + 320, 200)));
        draft.complete();
        assert_eq!(area(1, 10), None);
        assert_eq!(area(0, 200), Some((base + 320, 200)));
        draft.close();
        assert_eq!(area(0, 200), None);
    }
}
