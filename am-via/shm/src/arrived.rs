//! Messages of the network that have arrived: the areas of their long lines lie in the buffers of the messages, so that the bytes need not
//! be copied to the slots of the receive area.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::copy::CheckedRange;
use crate::private_region::HeldRange;

/// The slots of a connection whose areas lie in messages, in the order of the slots. The network end and the program's end of the connection
/// use it.
#[derive(Debug, Default)]
pub struct Arrived(Mutex<VecDeque<(u32, HeldRange)>>);

impl Arrived {
    fn areas(&self) -> MutexGuard<'_, VecDeque<(u32, HeldRange)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The area of a slot is `bytes`, which must stay alive until [`end_before`](Self::end_before). Slots are added in their order.
    pub(crate) fn place(&self, slot: u32, bytes: HeldRange) {
        self.areas().push_back((slot, bytes));
    }

    /// The slots before `slot` were released, so that their areas are used no more.
    pub fn end_before(&self, slot: u32) {
        let mut areas = self.areas();
        while areas.front().is_some_and(|&(first, _)| is_before(first, slot)) {
            areas.pop_front();
        }
    }

    /// The first `len` bytes of a slot's area, if it lies in a message and has as many.
    pub(crate) fn area(&self, slot: u32, len: usize) -> Option<CheckedRange<'_>> {
        let areas = self.areas();
        let (_, bytes) = areas.iter().find(|&&(of, _)| of == slot)?;
        bytes.range().part(0, len)
    }
}

/// Whether a count (of lines or slots, which wraps) is below another one.
#[must_use]
pub fn is_before(count: u32, other: u32) -> bool {
    count.wrapping_sub(other).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private_bytes::PrivateBytes;

    #[test]
    fn an_area_lies_in_its_message_until_its_slot_is_released() {
        let memory = PrivateBytes::new(1000).expect("memory");
        let bytes = |offset, len| HeldRange::hold(memory.range().part(offset, len).expect("it is inside"));
        let arrived = Arrived::default();
        arrived.place(u32::MAX - 1, bytes(0, 300));
        arrived.place(u32::MAX, bytes(300, 300));
        arrived.place(1, bytes(600, 300));
        let base = memory.range().at().addr().get();
        let area =
            |slot, len| arrived.area(slot, len).map(|area| (area.at().addr().get() - base, area.len()));
        assert_eq!(area(u32::MAX, 300), Some((300, 300)));
        assert_eq!(area(u32::MAX, 200), Some((300, 200)));
        assert_eq!([area(u32::MAX, 301), area(0, 1)], [None, None]);
        arrived.end_before(u32::MAX);
        assert_eq!([area(u32::MAX - 1, 300), area(u32::MAX, 300)], [None, Some((300, 300))]);
        arrived.end_before(1);
        assert_eq!([area(u32::MAX, 300), area(1, 300)], [None, Some((600, 300))]);
        arrived.end_before(2);
        assert_eq!(area(1, 300), None);
    }
}
