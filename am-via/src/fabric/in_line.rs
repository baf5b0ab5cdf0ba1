//! Packets of a VI, taken in line.

use am_core::fabric::{InLine, NextPacket};
use am_via_nic::{Entry, Link, Operation};

use super::memory;

/// The packets of a VI, taken in line.
pub(super) struct ViInLine<'a, L>(pub(super) am_via_nic::InLine<'a, L>);

impl<L: Link> InLine for ViInLine<'_, L> {
    #[inline(always)]
    fn look(&mut self, label: u16) -> Option<NextPacket<'_>> {
        let (seen, link) = self.0.look(label)?;
        let Entry { length, operation, extra: in_entry, .. } = seen.entry;
        let buffered = if operation == Operation::Inline as u32 {
            None
        } else if operation == Operation::Area as u32 {
            Some(memory::arrived_in_line(link, length))
        } else {
            return None;
        };
        Some(NextPacket { front: seen.front(), in_entry, entry: memory::arrived(seen.payload()), buffered })
    }

    #[inline(always)]
    fn take(&mut self) {
        self.0.take();
    }

    #[cold]
    fn end_turn(&mut self) {
        self.0.end_turn();
    }
}
