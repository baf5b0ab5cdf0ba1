//! Receiving in line: a connection is borrowed, and its entries are taken without a poll.

use std::sync::Arc;

use crate::device::{Entry, Link, Payload, Seen};
use am_via_job::Job;
use am_via_shm::layout::Attention;
use am_via_shm::{CheckedRange, Connection, ExpectedArea, Written};

use super::MOVES_ON;

/// Maximum number of looks at a ring in [`Link::look`], if each task has a core: about 2 us.
const LOOKS_MAX: u32 = 512;

/// A connection, borrowed to receive in line, and what a wait for its next entry looks at.
pub(super) struct ShmLink<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) attention: &'a Attention,
    pub(super) job: &'a Arc<Job>,
    pub(super) failure_epoch: &'a u32,
    pub(super) eager_polls: &'a u32,
    pub(super) next_polled: &'a mut usize,
}

impl Link for ShmLink<'_> {
    #[inline(always)]
    fn look(&self, waits: bool) -> Option<Seen<'_>> {
        let (mut looks, mut expected) = (0, ExpectedArea::empty());
        loop {
            if let Some(seen) = self.connection.look() {
                if looks == 0 {
                    self.connection.prefetch_ahead();
                }
                return Some(seen);
            }
            // Attention, failures and network events are found by a poll only.
            let is_over = !waits
                || self.connection.has_outlet()
                || looks >= (*self.eager_polls).min(LOOKS_MAX)
                || self.attention.is_raised()
                || self.job.failure_epoch() != *self.failure_epoch;
            if is_over {
                return None;
            }
            if looks == 0 {
                expected = self.connection.expected_area();
            }
            expected.prefetch_to_read();
            looks += 1;
        }
    }

    #[inline(always)]
    unsafe fn area(&self, len: u32) -> CheckedRange<'_> {
        // SAFETY: the entry at this number was looked at, and is not yet taken (the caller's contract).
        unsafe { self.connection.prefetch_area(self.connection.consumed(), len) }
    }

    #[inline(always)]
    fn take(&mut self) {
        self.connection.take();
    }

    #[inline(always)]
    fn post_reserved(&mut self, entry: Entry) -> bool {
        post_reserved(self.connection, entry)
    }

    /// The next poll begins after the ring that was polled last. Each turn of a busy connection moves on by one ring, so that no ring waits
    /// for more turns than there are rings before it.
    #[cold]
    fn end_turn(&mut self) {
        *self.next_polled |= MOVES_ON;
    }
}

/// Posts an entry for which a slot is reserved. Not inlined, and given only the connection, so that the link stays in registers.
#[cold]
#[inline(never)]
fn post_reserved(connection: &mut Connection, entry: Entry) -> bool {
    connection.post(entry, &Payload::default()) == Written::Done
}
