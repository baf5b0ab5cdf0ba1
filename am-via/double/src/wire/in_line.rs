//! Receiving in line: the next entry of one connection, taken without a poll.

use std::cell::OnceCell;
use std::sync::Arc;

use am_via_nic::Posted;
use am_via_nic::{Device, Entry, Link, Payload, Seen, ViNumber};
use am_via_shm::{CheckedRange, SingleLine};

use super::Wire;
use super::link::Frame;

/// Number of tries of a post for which a slot is reserved, since the wire may refuse it at random.
const POST_TRIES: u32 = 100;

/// A connection, borrowed to receive in line.
pub(super) struct WireLink<'a> {
    wire: &'a mut Wire,
    vi: ViNumber,
    on_network: u32,
    seen: OnceCell<(Arc<Frame>, SingleLine)>,
}

impl<'a> WireLink<'a> {
    pub(super) fn new(wire: &'a mut Wire, vi: ViNumber, on_network: u32) -> Self {
        Self { wire, vi, on_network, seen: OnceCell::new() }
    }
}

impl Link for WireLink<'_> {
    fn look(&self, _waits: bool) -> Option<Seen<'_>> {
        if self.seen.get().is_none() {
            let mut state = self.wire.network.lock();
            state.tick(self.wire.address);
            let frame = state.look_at_next(self.wire.address, self.on_network)?;
            let line = SingleLine::new(&frame.payload);
            self.seen.set((frame, line)).ok()?;
        }
        self.seen.get().map(|(frame, line)| line.seen(frame.entry))
    }

    unsafe fn area(&self, len: u32) -> CheckedRange<'_> {
        let range = self.seen.get().and_then(|(frame, _)| {
            let range = frame.area.as_ref()?.range();
            range.part(0, (len as usize).min(range.len()))
        });
        range.unwrap_or_else(CheckedRange::empty)
    }

    fn take(&mut self) {
        if let Some((frame, _)) = self.seen.take() {
            frame.overwrite();
            self.wire.network.lock().take_next(self.wire.address, self.on_network, frame.lossy);
        }
    }

    fn post_reserved(&mut self, entry: Entry) -> bool {
        let mut post = || self.wire.post(self.vi, entry, &Payload::default());
        (0..POST_TRIES).map(|_| post()).any(|posted| matches!(posted, Ok(Posted::Done)))
    }

    /// Does nothing: a NIC returns the entries of all its connections in one order.
    fn end_turn(&mut self) {}
}
