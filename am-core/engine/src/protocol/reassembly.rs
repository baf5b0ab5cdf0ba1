//! Arriving messages: fetched from the origin's memory, or sent by the origin in pieces.
//!
//! Pieces of a message may arrive in any order, but each byte only once. A message that waits for its destination has a ticket.

use alloc::boxed::Box;
use smallvec::SmallVec;

use crate::buffer::{Access, Arrived, ExposedRange, Grant, JobBuffer, RawBuffer};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Peer};
use crate::handler::{Completion, Destination};

use super::granted;
use super::packet::MessageHead;
use crate::transfer::Class;
use crate::user_code::{self, UserCode};

/// The received bytes of a range, as sorted disjoint intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    list: SmallVec<[(u64, u64); 2]>,
    covered: u64,
}

impl Ranges {
    /// Maximum number of gaps: more than the packets in flight of any fabric can leave.
    const GAPS_MAX: usize = 4096;

    /// Adds `start..start + len`. Returns false, and changes nothing, if a part of the range was added before, or if there would be too
    /// many gaps.
    #[must_use]
    pub(crate) fn insert(&mut self, start: u64, len: u64) -> bool {
        let Some(end) = start.checked_add(len) else { return false };
        if len == 0 {
            return true;
        }
        let at = self.list.partition_point(|&(from, _)| from < start);
        let before_touches = match at.checked_sub(1).map(|i| self.list[i].1) {
            Some(previous_end) if previous_end > start => return false,
            previous_end => previous_end == Some(start),
        };
        let after_touches = match self.list.get(at) {
            Some(&(from, _)) if from < end => return false,
            next => next.is_some_and(|&(from, _)| from == end),
        };
        match (before_touches, after_touches) {
            (true, true) => {
                self.list[at - 1].1 = self.list[at].1;
                self.list.remove(at);
            }
            (true, false) => self.list[at - 1].1 = end,
            (false, true) => self.list[at].0 = start,
            (false, false) if self.list.len() >= Self::GAPS_MAX => return false,
            (false, false) => self.list.insert(at, (start, end)),
        }
        self.covered += len;
        true
    }

    /// Number of bytes received.
    #[must_use]
    pub(crate) fn covered(&self) -> u64 {
        self.covered
    }
}

/// The state of an incoming message.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Waiting for its ticket to be accepted, with the data if they arrived with the message.
    Waiting { kept: Option<Box<[u8]>> },
    /// Being fetched: bytes requested so far, and reads in flight.
    Fetching { issued: u64, in_flight: u32 },
    /// Arriving in pieces.
    Pieces { received: Box<Ranges> },
}

/// A message that is incomplete, or has no destination yet.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) source: Peer,
    /// Bytes of user data at the origin.
    pub(crate) len: u64,
    /// Bytes of user data that fit into the destination.
    pub(crate) capacity: u64,
    pub(crate) destination: Destination,
    pub(crate) completion: Completion,
    pub(crate) stage: Stage,
    /// The origin's memory, if this task may read it directly.
    pub(crate) grant: Option<Grant>,
    /// The bounce buffer between a direct read and a sink or a scattered destination.
    pub(crate) bounce: Option<Box<JobBuffer>>,
    pub(crate) tail: Tail,
    /// Why the message will not be completed.
    pub(crate) failed: Option<Box<Error>>,
}

/// A program may announce millions of messages that wait for their receives, and each has a record at both ends.
const _: () = assert!(size_of::<Incoming>() <= 176);

/// What remains to be done when a message ends: counters to bump, and the answer to its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// Counter to bump here.
    pub(crate) target_counter: u32,
    /// Counter to bump at the origin.
    pub(crate) completion_counter: u32,
    /// The origin's operation that the answer ends; 0: none.
    pub(crate) op: u32,
    /// Whether completions may answer.
    pub(crate) answerable: bool,
    /// Whether the origin has reserved a slot for an answer.
    pub(crate) reserved: bool,
}

impl Tail {
    /// What is owed for a message that arrived whole.
    pub(crate) fn of_whole(class: Class, head: MessageHead) -> Self {
        let answerable = class == Class::Request;
        Self {
            target_counter: head.target_counter,
            completion_counter: head.completion_counter,
            op: 0,
            answerable,
            reserved: answerable,
        }
    }

    /// Nothing is owed.
    pub(crate) const NOTHING: Self =
        Self { target_counter: 0, completion_counter: 0, op: 0, answerable: false, reserved: false };
}

impl Incoming {
    /// Copies arrived bytes to their destination.
    ///
    /// # Errors
    /// `RemoteRange`: the destination is no longer exposed. The error of a sink or of a scattered destination.
    pub(crate) fn put<F: Fabric>(
        &mut self,
        user: impl UserCode,
        fabric: &F,
        offset: u64,
        bytes: Arrived<'_>,
    ) -> Result<()> {
        let capacity = self.capacity.saturating_sub(offset);
        let bytes = bytes.take(usize::try_from(capacity).unwrap_or(usize::MAX));
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.destination {
            Destination::Nowhere | Destination::Later => {}
            Destination::Raw(to) => {
                if let Some(part) = to.part(offset as usize, bytes.len()) {
                    bytes.copy_to_buffer(part);
                }
            }
            Destination::Owned(to) => {
                if let Some(part) = to.get_mut(offset as usize..) {
                    bytes.copy_to(part);
                }
            }
            Destination::Exposed(ExposedRange { grant, offset: start, .. }) => {
                let at = start.wrapping_add(offset);
                let to = granted(fabric, *grant, at, bytes.len() as u64, Access::OWNER)?;
                bytes.copy_to_buffer(to);
            }
            Destination::Scatter(scatter) => {
                let owned = |grant, offset, len| granted(fabric, grant, offset, len, Access::OWNER);
                scatter.put(owned, offset, bytes)?;
            }
            Destination::Sink(sink) => {
                user_code::run(user, self.source.endpoint, "sink", || sink.take(offset, bytes))?
            }
        }
        Ok(())
    }

    /// The memory for a direct read of `len` bytes from `offset` on; for a sink or a scattered destination, the bounce buffer. `None`: the
    /// destination has no such part.
    ///
    /// # Errors
    /// `RemoteRange`: the destination is no longer exposed.
    pub(crate) fn part<F: Fabric>(&self, fabric: &F, offset: u64, len: u64) -> Result<Option<RawBuffer>> {
        Ok(match &self.destination {
            Destination::Nowhere | Destination::Later => None,
            Destination::Raw(to) => to.part(offset as usize, len as usize),
            Destination::Owned(to) => to.raw().part(offset as usize, len as usize),
            Destination::Exposed(ExposedRange { grant, offset: start, .. }) => {
                Some(granted(fabric, *grant, start.wrapping_add(offset), len, Access::OWNER)?)
            }
            Destination::Sink(_) | Destination::Scatter(_) => {
                self.bounce.as_ref().and_then(|bounce| bounce.raw().part(0, len as usize))
            }
        })
    }

    /// Leaks memory that a read in flight writes to.
    pub(crate) fn leak_if_read_into(&mut self) {
        if let Stage::Fetching { in_flight: 1.., .. } = self.stage {
            core::mem::forget(core::mem::replace(&mut self.destination, Destination::Nowhere));
            core::mem::forget(self.bounce.take());
        }
    }

    /// Whether the message's destination is in the memory of this grant.
    pub(crate) fn is_into(&self, own: Grant) -> bool {
        match &self.destination {
            Destination::Exposed(range) => range.grant == own,
            Destination::Scatter(scatter) => scatter.is_into(own),
            _ => false,
        }
    }
}

/// Number of bytes of a message of `len` bytes that fit into the destination.
pub(crate) fn capacity_of(destination: &Destination, len: u64) -> u64 {
    match destination {
        Destination::Nowhere => 0,
        Destination::Raw(to) => len.min(to.len() as u64),
        Destination::Owned(to) => len.min(to.len() as u64),
        Destination::Exposed(range) => len.min(range.len),
        Destination::Scatter(scatter) => len.min(scatter.len()),
        Destination::Sink(_) | Destination::Later => len,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_come_once() {
        let mut ranges = Ranges::default();
        assert!(ranges.insert(10, 10));
        assert!(!ranges.insert(19, 1));
        assert!(!ranges.insert(5, 6));
        assert!(!ranges.insert(0, 100));
        assert!(!ranges.insert(u64::MAX, 2));
        assert!(ranges.insert(20, 5) && ranges.insert(5, 5) && ranges.insert(7, 0));
        assert_eq!((ranges.covered(), ranges.list.len()), (20, 1));
    }

    proptest! {
        #[test]
        fn ranges_agree_with_a_flag_for_each_byte(pieces in prop::collection::vec((0u64..60, 0u64..12), 0..40)) {
            let mut ranges = Ranges::default();
            let mut flags = [false; 80];
            for (start, len) in pieces {
                let span = &mut flags[start as usize..(start + len) as usize];
                let fresh = span.iter().all(|set| !set);
                prop_assert_eq!(ranges.insert(start, len), fresh);
                if fresh {
                    span.fill(true);
                }
                prop_assert_eq!(ranges.covered(), flags.iter().filter(|&&set| set).count() as u64);
                let runs = flags.windows(2).filter(|pair| !pair[0] && pair[1]).count() + usize::from(flags[0]);
                prop_assert_eq!(ranges.list.len(), runs);
            }
        }
    }
}
