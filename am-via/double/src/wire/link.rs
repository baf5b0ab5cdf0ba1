//! One direction of a connection: the sender's and the receiver's half of the protocol that makes a faulty wire reliable.
//!
//! Reliable frames carry sequence numbers. The receiver takes them in order, keeps early ones, drops duplicates, and acknowledges. The
//! sender keeps unacknowledged frames, and sends the oldest one again after a timeout. Frames of an unreliable VI have numbers, too, but
//! only to drop duplicates.
//!
//! The protocol has no clock except the number of polls that callers pass, and no side effects.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use am_via_nic::Endpoint;
use am_via_nic::{Entry, Payload};
use am_via_shm::{CheckedRange, PrivateBytes};

/// Number of polls after which an unacknowledged frame is sent again.
const RETRANSMIT_AFTER_POLLS: u64 = 100;

/// The bytes of a frame. The poster writes them before it posts the frame; then only the NIC that the frame arrives at accesses them.
#[derive(Debug)]
pub(super) struct Area(PrivateBytes);

// SAFETY: the NIC that has the bytes is used by one thread at a time, and the poster has passed them on under the network's lock. The
// frames that a link keeps for retransmission are not read.
unsafe impl Sync for Area {}

impl Area {
    pub(super) fn new(bytes: PrivateBytes) -> Self {
        Self(bytes)
    }

    /// The bytes, for the poster or the NIC that the frame has arrived at.
    pub(super) fn range(&self) -> CheckedRange<'_> {
        self.0.range()
    }
}

/// An entry with its payload.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) entry: Entry,
    pub(super) payload: Payload,
    /// The bytes of an area entry.
    pub(super) area: Option<Area>,
    /// Whether the frame belongs to an unreliable VI: such frames have separate numbers.
    pub(super) lossy: bool,
    pub(super) sequence: u64,
    /// The parts that have arrived, of a frame whose parts travel separately.
    pub(super) parts: AtomicU8,
}

/// A part of a frame that travels alone: its bit in [`Frame::parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Part {
    Line = 1,
    Area = 2,
}

impl Frame {
    /// Overwrites the bytes, whose slot is free from now on, so that a later access is detected.
    pub(super) fn overwrite(&self) {
        if let Some(area) = &self.area {
            area.range().copy_from_slice(&vec![0xDD; area.range().len()]);
        }
    }

    /// Notes the arrival of a part. Returns the parts that had arrived before, as bits.
    pub(super) fn part_came(&self, part: Part) -> u8 {
        // Relaxed: the network's lock orders the accesses.
        self.parts.fetch_or(part as u8, Ordering::Relaxed)
    }
}

/// What a received frame means to its receiver.
#[derive(Debug)]
pub(super) enum Taken {
    /// These frames are next in order: pass them on, and acknowledge them.
    Frames(Vec<Arc<Frame>>),
    /// The frame had already arrived.
    Duplicate,
    /// The ring is full: the frame is ignored.
    Overrun,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Link {
    /// The NIC whose receive ring the link fills.
    pub(super) to: Endpoint,
    /// The VI there.
    pub(super) to_vi: u32,
    pub(super) from: Endpoint,
    /// Whether posts are refused; earlier posts still arrive.
    pub(super) closed: bool,
    /// Whether later posts may be lost.
    pub(super) lossy: bool,
    /// Nothing arrives before this poll, because an earlier frame is late.
    pub(super) held_up_until: u64,
    ring_lines: u64,
    next: u64,
    next_lossy: u64,
    unacknowledged: VecDeque<Unacknowledged>,
    expected: u64,
    early: BTreeMap<u64, Arc<Frame>>,
    seen: SeenWindow,
    /// Number of lossy frames in the receiver's ring.
    lossy_held: u64,
    /// Number of reliable frames whose slots the receiver has returned.
    released: u64,
}

#[derive(Debug)]
struct Unacknowledged {
    frame: Arc<Frame>,
    sent_at: u64,
}

impl Link {
    pub(super) fn new(from: Endpoint, to: Endpoint, to_vi: u32, ring_lines: u32) -> Self {
        Self {
            to,
            to_vi,
            from,
            closed: false,
            lossy: false,
            held_up_until: 0,
            ring_lines: u64::from(ring_lines),
            next: 0,
            next_lossy: 0,
            unacknowledged: VecDeque::new(),
            expected: 0,
            early: BTreeMap::new(),
            seen: SeenWindow::default(),
            lossy_held: 0,
            released: 0,
        }
    }

    /// Whether the receiver's ring has a free line for a reliable frame. A lossy frame is never held back: it is lost instead.
    pub(super) fn has_free_line(&self) -> bool {
        self.lossy || self.next - self.released < self.ring_lines
    }

    /// Makes a frame with the next number. Keeps a reliable frame until it is acknowledged.
    pub(super) fn send(
        &mut self,
        entry: Entry,
        payload: Payload,
        area: Option<Area>,
        lossy: bool,
        now: u64,
    ) -> Arc<Frame> {
        let counter = if lossy { &mut self.next_lossy } else { &mut self.next };
        let sequence = *counter;
        *counter += 1;
        let frame = Arc::new(Frame { entry, payload, area, lossy, sequence, parts: AtomicU8::new(0) });
        if !lossy {
            self.unacknowledged.push_back(Unacknowledged { frame: Arc::clone(&frame), sent_at: now });
        }
        frame
    }

    /// Handles an arriving frame.
    pub(super) fn receive(&mut self, frame: &Arc<Frame>) -> Taken {
        if frame.lossy {
            return self.receive_lossy(frame);
        }
        if frame.sequence < self.expected || self.early.contains_key(&frame.sequence) {
            return Taken::Duplicate;
        }
        if frame.sequence != self.expected {
            self.early.insert(frame.sequence, Arc::clone(frame));
            return Taken::Frames(Vec::new());
        }
        self.expected += 1;
        let mut frames = vec![Arc::clone(frame)];
        while let Some(next) = self.early.remove(&self.expected) {
            self.expected += 1;
            frames.push(next);
        }
        Taken::Frames(frames)
    }

    fn receive_lossy(&mut self, frame: &Arc<Frame>) -> Taken {
        if self.lossy_held >= self.ring_lines {
            return Taken::Overrun;
        }
        if !self.seen.first_time(frame.sequence) {
            return Taken::Duplicate;
        }
        self.lossy_held += 1;
        Taken::Frames(vec![Arc::clone(frame)])
    }

    /// All numbers below this have arrived: the value of an acknowledgement.
    pub(super) fn received_up_to(&self) -> u64 {
        self.expected
    }

    /// Handles an acknowledgement.
    pub(super) fn acknowledged(&mut self, up_to: u64) {
        while self.unacknowledged.front().is_some_and(|oldest| oldest.frame.sequence < up_to) {
            self.unacknowledged.pop_front();
        }
    }

    /// Whether a frame waits for its acknowledgement.
    pub(super) fn is_waiting(&self) -> bool {
        !self.unacknowledged.is_empty()
    }

    /// The oldest frame, if it is due to be sent again.
    pub(super) fn due_again(&mut self, now: u64) -> Option<Arc<Frame>> {
        let oldest = self.unacknowledged.front_mut()?;
        if now < oldest.sent_at + RETRANSMIT_AFTER_POLLS {
            return None;
        }
        oldest.sent_at = now;
        Some(Arc::clone(&oldest.frame))
    }

    /// The poll at which [`due_again`](Self::due_again) will return a frame.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.unacknowledged.front().map(|oldest| oldest.sent_at + RETRANSMIT_AFTER_POLLS)
    }

    /// The receiver has returned the slot of a frame.
    pub(super) fn release(&mut self, lossy: bool) {
        if lossy {
            self.lossy_held = self.lossy_held.saturating_sub(1);
        } else {
            self.released += 1;
        }
    }

    /// Closes the link and drops its frames, because the peer is dead or the connection is cut: no acknowledgement will come.
    pub(super) fn give_up(&mut self) {
        self.closed = true;
        self.unacknowledged.clear();
        self.early.clear();
    }
}

/// Which of the last 64 numbers have arrived. Older ones count as arrived: dropping a late frame is allowed, a duplicate is not.
#[derive(Debug, Default)]
struct SeenWindow {
    /// The highest number that has arrived, plus 1.
    end: u64,
    /// Bit `i`: number `end - 1 - i` has arrived.
    seen: u64,
}

impl SeenWindow {
    fn first_time(&mut self, number: u64) -> bool {
        if number >= self.end {
            let ahead = number + 1 - self.end;
            self.seen = if ahead >= 64 { 0 } else { self.seen << ahead };
            self.seen |= 1;
            self.end = number + 1;
            return true;
        }
        let back = self.end - 1 - number;
        if back >= 64 || self.seen & 1 << back != 0 {
            return false;
        }
        self.seen |= 1 << back;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use am_via_nic::{ContextNumber, TaskId};

    fn link() -> Link {
        let node = |task| Endpoint::new(TaskId(task), ContextNumber(0));
        Link::new(node(0), node(1), 3, 8)
    }

    fn send(link: &mut Link, immediate: u32, lossy: bool) -> Arc<Frame> {
        link.send(Entry { immediate, ..Entry::default() }, Payload::default(), None, lossy, 0)
    }

    fn numbers(taken: Taken) -> Option<Vec<u32>> {
        match taken {
            Taken::Frames(frames) => Some(frames.iter().map(|frame| frame.entry.immediate).collect()),
            _ => None,
        }
    }

    #[test]
    fn any_order_with_doubles_comes_out_in_order_and_once() {
        for seed in 0..200_u64 {
            let mut link = link();
            let frames: Vec<_> = (0..6).map(|number| send(&mut link, number, false)).collect();
            let mut order: Vec<usize> = (0..6).chain(0..6).collect();
            let mut state = seed;
            for at in (1..order.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                order.swap(at, (state >> 33) as usize % (at + 1));
            }
            let out: Vec<u32> =
                order.iter().filter_map(|&at| numbers(link.receive(&frames[at]))).flatten().collect();
            assert_eq!(out, [0, 1, 2, 3, 4, 5], "seed {seed}, order {order:?}");
            assert_eq!(link.received_up_to(), 6);
        }
    }

    #[test]
    fn the_oldest_unacknowledged_frame_is_sent_again_and_no_other() {
        let mut link = link();
        for number in 0..3 {
            send(&mut link, number, false);
        }
        assert!(link.due_again(RETRANSMIT_AFTER_POLLS - 1).is_none());
        let again = link.due_again(RETRANSMIT_AFTER_POLLS).unwrap();
        assert_eq!(again.entry.immediate, 0);
        link.acknowledged(2);
        assert_eq!(link.due_again(RETRANSMIT_AFTER_POLLS).unwrap().entry.immediate, 2);
        link.acknowledged(3);
        assert!(!link.is_waiting() && link.next_due().is_none());
    }

    #[test]
    fn the_ring_is_full_until_slots_come_back() {
        let mut link = link();
        for number in 0..8 {
            assert!(link.has_free_line());
            let frame = send(&mut link, number, false);
            assert!(numbers(link.receive(&frame)).is_some());
        }
        link.acknowledged(8);
        assert!(!link.has_free_line(), "an acknowledged frame keeps its line");
        link.release(false);
        assert!(link.has_free_line());
    }

    #[test]
    fn a_lossy_frame_comes_at_most_once_and_finds_a_full_ring() {
        let mut link = link();
        let frames: Vec<_> = (0..9).map(|number| send(&mut link, number, true)).collect();
        assert!(!link.is_waiting());
        assert_eq!(numbers(link.receive(&frames[2])), Some(vec![2]));
        assert!(matches!(link.receive(&frames[2]), Taken::Duplicate));
        for at in [0, 1, 3, 4, 5, 6, 7] {
            assert!(numbers(link.receive(&frames[at])).is_some());
        }
        assert!(matches!(link.receive(&frames[8]), Taken::Overrun));
        link.release(true);
        assert_eq!(numbers(link.receive(&frames[8])), Some(vec![8]));
    }

    #[test]
    fn the_window_forgets_only_by_calling_old_numbers_seen() {
        let mut window = SeenWindow::default();
        assert!(window.first_time(100) && window.first_time(99) && !window.first_time(99));
        assert!(!window.first_time(36), "older than the window");
        assert!(window.first_time(37) && window.first_time(1000) && !window.first_time(100));
    }
}
