//! The far end of one connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use am_via_ofi::{OfiError, PeerAddress, Reserved};
use am_via_shm::layout::RING_LINES;
use am_via_shm::{CheckedRange, Connection, Draft, TELL_AFTER, Written};

use super::StandIn;
use super::kind::Kind;
use super::line::{self, BEFORE_AREA_BYTES};
use super::reads::{KEY_MESSAGE_BYTES, KeyMessage, OFFERED_MAX};
use crate::device::{Completion, Endpoint, Entry, MemHandle, Payload, ViNumber};

/// Number of messages that posts to a peer send immediately between two calls of the task's progress. The lines of later posts are held and
/// sent together, since each message costs a pass through the network stack.
const SENT_AT_ONCE: u32 = 8;
/// After [`SENT_AT_ONCE`] messages, a post sends the held lines only if there are at least `HELD_LINES`, or they have more than
/// [`HELD_BYTES`].
const HELD_LINES: usize = 16;
const HELD_BYTES: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: Endpoint,
    pub(super) address: PeerAddress,
    end: Connection,
    /// The next lines to send, taken from the stand-in's ring, with the numbers of their slots.
    next: Vec<(Entry, Payload, u32)>,
    /// The message that has the areas of the expected posts, and its buffer, which is reserved while there is a message.
    draft: Arc<Draft>,
    reserved: Option<Reserved>,
    /// Number of bytes of the first line's area that have been sent.
    cut: usize,
    /// Keys that the next message with lines brings: the registration and the words of each.
    keys: Vec<(MemHandle, [u8; KEY_MESSAGE_BYTES])>,
    /// Number of lines that the program is about to post. They are sent together when the last of them is posted.
    pub(super) expected_posts: u32,
    /// Number of the next message to send, and of the next expected message.
    pub(super) sent: u32,
    pub(super) expected: u32,
    /// Messages that arrived out of order.
    pub(super) early: BTreeMap<u32, (Kind, Vec<u8>)>,
    /// The bytes of the next line's area that `Part` messages have brought.
    parts: Vec<u8>,
    /// Number of messages that posts have sent since the task's last progress.
    pub(super) sent_by_posts: u32,
    /// Number of this task's lines that the peer has returned.
    pub(super) acked: u32,
    /// Number of the peer's lines that were posted here.
    posted: u32,
    /// Number of the peer's lines whose return was reported to the peer.
    told: u32,
    pub(super) closing: Closing,
    pub(super) owes_closed: bool,
    /// Whether the peer's task has failed, or the network has lost it.
    pub(super) is_lost: bool,
    /// When the network lost the peer; `None` again once the failure of the peer's task is known.
    pub(super) lost_at: Option<Instant>,
    /// Whether the peer has closed; it then reads no more lines.
    pub(super) has_closed: bool,
    /// Whether the peer's close has yet to be reported.
    pub(super) closed_due: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    No,
    /// `Close` has to be sent.
    Due,
    /// `Close` was sent.
    Sent,
    /// The peer has received everything.
    Done,
}

impl Link {
    pub(super) fn new(peer: Endpoint, address: PeerAddress, stand_in: StandIn) -> Self {
        let StandIn { end, draft } = stand_in;
        Self {
            peer,
            address,
            end,
            // The stand-in's ring never has more lines.
            next: Vec::with_capacity(RING_LINES as usize),
            draft,
            reserved: None,
            cut: 0,
            keys: Vec::new(),
            expected_posts: 0,
            sent: 0,
            expected: 0,
            early: BTreeMap::new(),
            parts: Vec::new(),
            sent_by_posts: 0,
            acked: 0,
            posted: 0,
            told: 0,
            closing: Closing::No,
            owes_closed: false,
            is_lost: false,
            lost_at: None,
            has_closed: false,
            closed_due: false,
        }
    }

    /// Takes the next message in order.
    pub(super) fn take(&mut self, kind: Kind, bytes: &[u8], slot_bytes: usize) {
        self.expected = self.expected.wrapping_add(1);
        if kind == Kind::Close {
            // A `Close` that this end has sent also serves as the answer.
            self.owes_closed = self.closing != Closing::Sent;
            self.closing = Closing::Done;
            (self.has_closed, self.closed_due) = (true, true);
            return;
        }
        if kind == Kind::Part {
            let len = slot_bytes.saturating_sub(self.parts.len()).min(bytes.len() - 4);
            return self.parts.extend_from_slice(&bytes[4..][..len]);
        }
        let mut rest = Some(bytes);
        while let Some(bytes) = rest.filter(|bytes| !bytes.is_empty()) {
            rest = self.take_line(bytes, slot_bytes);
        }
    }

    /// Takes the first line in `bytes`, and returns the bytes after it.
    fn take_line<'a>(&mut self, bytes: &'a [u8], slot_bytes: usize) -> Option<&'a [u8]> {
        let (entry, payload, behind) = line::read(bytes)?;
        let len = if keeps_slot(entry) { (entry.length as usize).min(slot_bytes) } else { 0 };
        let (area, behind) = behind.split_at_checked(len.saturating_sub(self.parts.len()))?;
        let written = if keeps_slot(entry) {
            let parts = &self.parts;
            let fill = |buffer: CheckedRange<'_>, _| {
                for (offset, bytes) in [(0, &parts[..]), (parts.len(), area)] {
                    let len = bytes.len().min(buffer.len().saturating_sub(offset));
                    if let Some(buffer) = buffer.part(offset, len) {
                        buffer.copy_from_slice(&bytes[..len]);
                    }
                }
                Some(len)
            };
            let finish = |filled| Entry { length: filled as u32, ..entry };
            let written = self.end.post_area(&payload, len, fill, finish);
            self.parts.clear();
            written
        } else {
            self.end.post(entry, &payload)
        };
        match written {
            Written::Done => self.posted = self.posted.wrapping_add(1),
            Written::Full | Written::Closed | Written::Nothing => {
                tracing::warn!(peer = ?self.peer, "a peer of another host has sent more lines than the ring has");
            }
        }
        Some(behind)
    }

    /// Handles the peer's count of returned lines, which is not trusted.
    pub(super) fn acknowledge(&mut self, count: u32) {
        let taken = self.end.consumed().wrapping_sub(self.next.len() as u32);
        let new = count.wrapping_sub(self.acked);
        if new > taken.wrapping_sub(self.acked) {
            tracing::warn!(peer = ?self.peer, "a peer of another host has returned lines that were never sent to it");
            return;
        }
        self.acked = count;
        (0..new).for_each(|_| self.end.release());
    }

    /// Expects that the program posts this number of lines. If no lines wait, the bytes of long ones are stored directly in the message
    /// that will carry the lines.
    pub(super) fn expect(&mut self, endpoint: &mut am_via_ofi::Endpoint, lines: u32) {
        self.expected_posts = lines;
        let is_alone = self.next.is_empty() && !self.end.is_ready() && self.keys.is_empty();
        if lines > 1
            && is_alone
            && self.reserved.is_none()
            && !self.is_lost
            && !self.has_closed
            && let Some((reserved, memory)) = endpoint.reserve()
        {
            // SAFETY: a buffer of the endpoint, which outlives the links, and is left to the draft until it is sent or given back; both
            // close
            // the draft first, between two posts.
            unsafe { self.draft.open(memory, BEFORE_AREA_BYTES, self.end.consumed()) };
            self.reserved = Some(reserved);
        }
    }

    /// No further posts are expected.
    pub(super) fn end_expected(&mut self) {
        self.expected_posts = 0;
        if self.reserved.is_some() {
            self.draft.complete();
        }
    }

    /// Gives the buffer of the draft back if no line uses it. No post may be under way.
    fn end_draft(&mut self, endpoint: &mut am_via_ofi::Endpoint) {
        if self.reserved.is_some() && self.expected_posts == 0 && self.next.is_empty() && !self.end.is_ready()
        {
            self.draft.close();
            endpoint.give_back(&mut self.reserved);
        }
    }

    /// Sends the lines that were posted, or holds them until there are more of them or the task makes progress. `may_hold`: the network
    /// thread can send lines that are held.
    pub(super) fn send_posted(&mut self, endpoint: &mut am_via_ofi::Endpoint, own: Endpoint, may_hold: bool) {
        if may_hold && self.sent_by_posts >= SENT_AT_ONCE && !self.is_lost && !self.has_closed {
            let (lines, _) = self.gather(HELD_BYTES);
            // If not all lines that were taken fit, more than `HELD_BYTES` wait.
            if lines == self.next.len() && lines < HELD_LINES {
                return;
            }
        }
        self.sent_by_posts = self.sent_by_posts.saturating_add(1);
        self.send(endpoint, own);
    }

    /// Whether one more key can go with the next lines.
    pub(super) fn takes_key(&self) -> bool {
        self.keys.len() < OFFERED_MAX && !self.is_lost && !self.has_closed
    }

    /// Lets the next message with lines bring a key.
    pub(super) fn bring(&mut self, handle: MemHandle, key: [u8; KEY_MESSAGE_BYTES]) {
        self.keys.push((handle, key));
    }

    /// Drops the keys of a registration that has ended.
    pub(super) fn drop_keys(&mut self, handle: MemHandle) {
        self.keys.retain(|&(of, _)| of != handle);
    }

    /// Sends waiting messages, as far as the network accepts them.
    pub(super) fn send(&mut self, endpoint: &mut am_via_ofi::Endpoint, own: Endpoint) {
        if self.owes_closed && self.send_number(endpoint, Kind::Closed, own, 0) {
            self.owes_closed = false;
        }
        if self.is_lost || self.has_closed {
            self.drop_lines();
            return self.end_draft(endpoint);
        }
        while self.send_lines(endpoint, own) {}
        self.end_draft(endpoint);
        let given_back = self.end.released_by_peer();
        if given_back.wrapping_sub(self.told) >= TELL_AFTER
            && given_back.wrapping_sub(self.told) <= self.posted.wrapping_sub(self.told)
            && self.send_number(endpoint, Kind::Ack, own, given_back)
        {
            self.told = given_back;
        }
        if self.closing == Closing::Due
            && self.next.is_empty()
            && self.send_number(endpoint, Kind::Close, own, self.sent)
        {
            self.sent = self.sent.wrapping_add(1);
            self.closing = Closing::Sent;
        }
    }

    /// Sends one message: as many of the next lines as fit, or a part of the first line's area. Returns whether the network accepted the
    /// message. Keys that do not fit with a line wait for the next message.
    fn send_lines(&mut self, endpoint: &mut am_via_ofi::Endpoint, own: Endpoint) -> bool {
        let max = endpoint.message_bytes_max();
        let mut before = match self.keys.len() {
            0 => 0,
            keys => 4 + keys * KEY_MESSAGE_BYTES,
        };
        let (mut lines, mut len) = self.gather(max - before);
        if lines == 0 && before > 0 {
            before = 0;
            (lines, len) = self.gather(max);
        }
        if lines == 0 {
            return self.send_part(endpoint, own);
        }
        if before == 0
            && let Some(len) = self.len_in_draft()
        {
            return self.send_draft(endpoint, own, len);
        }
        let kind = if before == 0 { Kind::Line } else { Kind::Keyed };
        let keys = if before == 0 { &[][..] } else { &self.keys };
        let (number, cut) = (self.sent, self.cut);
        let (end, next) = (&self.end, &self.next[..lines]);
        let sent = endpoint.send(self.address, kind.word(own), before + len, |buffer| {
            let (before, mut rest) = buffer.split_at_mut(before);
            if let Some((number, before)) = before.split_at_mut_checked(4) {
                number.copy_from_slice(&(keys.len() as u32).to_le_bytes());
                for (bytes, (_, key)) in before.chunks_exact_mut(KEY_MESSAGE_BYTES).zip(keys) {
                    bytes.copy_from_slice(key);
                }
            }
            for (at, (entry, payload, slot)) in next.iter().enumerate() {
                let area = area_from(end, *entry, *slot, if at == 0 { cut } else { 0 });
                let (line, behind) = rest.split_at_mut(BEFORE_AREA_BYTES + area.len());
                line::write(line, number, entry, payload, area);
                rest = behind;
            }
        });
        if self.was_sent(sent) {
            self.sent = self.sent.wrapping_add(1);
            self.next.drain(..lines);
            self.cut = 0;
            if before > 0 {
                self.keys.clear();
            }
            return true;
        }
        false
    }

    /// The length of the message if the areas of all next lines are in the draft, one behind the other.
    fn len_in_draft(&self) -> Option<usize> {
        self.reserved.as_ref()?;
        self.next.iter().try_fold(0, |at, &(entry, _, slot)| {
            let (offset, area) = (at + BEFORE_AREA_BYTES, area_from(&self.end, entry, slot, 0));
            let is_whole = keeps_slot(entry) && area.len() == entry.length as usize;
            (is_whole && self.draft.is_at(offset, area)).then(|| offset + area.len())
        })
    }

    /// Sends the draft, in which the areas of all next lines are. Returns whether the network accepted the message.
    fn send_draft(&mut self, endpoint: &mut am_via_ofi::Endpoint, own: Endpoint, len: usize) -> bool {
        let (number, next) = (self.sent, &self.next);
        let word = Kind::Line.word(own);
        let sent = endpoint.send_reserved(self.address, word, len, &mut self.reserved, |mut rest| {
            for (entry, payload, _) in next {
                let (line, behind) = rest.split_at_mut(BEFORE_AREA_BYTES + entry.length as usize);
                line::write_before_area(&mut line[..BEFORE_AREA_BYTES], number, entry, payload);
                rest = behind;
            }
        });
        if self.reserved.is_none() {
            self.draft.close();
        }
        let was_sent = self.was_sent(sent);
        if was_sent {
            self.sent = self.sent.wrapping_add(1);
            self.next.clear();
        }
        was_sent
    }

    /// Takes lines from the stand-in's ring until they exceed `max` bytes or the ring is empty. Returns the number of lines that fit into
    /// `max` bytes, and their length in bytes.
    fn gather(&mut self, max: usize) -> (usize, usize) {
        let (mut lines, mut len) = (0, 0);
        loop {
            if lines == self.next.len() {
                let mut payload = Payload::default();
                let Some((entry, slot)) = self.end.poll(&mut payload) else { return (lines, len) };
                self.next.push((entry, payload, slot));
            }
            let (entry, _, slot) = self.next[lines];
            let cut = if lines == 0 { self.cut } else { 0 };
            let line = BEFORE_AREA_BYTES + area_from(&self.end, entry, slot, cut).len();
            if len + line > max {
                return (lines, len);
            }
            (lines, len) = (lines + 1, len + line);
        }
    }

    /// Sends a part of the area of the next line, if there is one.
    fn send_part(&mut self, endpoint: &mut am_via_ofi::Endpoint, own: Endpoint) -> bool {
        let Some(&(entry, _, slot)) = self.next.first() else { return false };
        let area = area_from(&self.end, entry, slot, self.cut);
        let len = area.len().min(part_bytes(endpoint.message_bytes_max()));
        let Some(part) = area.part(0, len) else { return false };
        let number = self.sent;
        let sent = endpoint.send(self.address, Kind::Part.word(own), 4 + len, |buffer| {
            buffer[..4].copy_from_slice(&number.to_le_bytes());
            part.copy_to_slice(&mut buffer[4..]);
        });
        let was_sent = self.was_sent(sent);
        if was_sent {
            self.sent = self.sent.wrapping_add(1);
            self.cut += len;
        }
        was_sent
    }

    fn send_number(
        &mut self,
        endpoint: &mut am_via_ofi::Endpoint,
        kind: Kind,
        own: Endpoint,
        number: u32,
    ) -> bool {
        let fill = |buffer: &mut [u8]| buffer.copy_from_slice(&number.to_le_bytes());
        let (address, word) = (self.address, kind.word(own));
        let sent = match kind {
            // The last messages of a context must leave before its endpoint closes.
            Kind::Close | Kind::Closed => endpoint.send_to_the_end(address, word, 4, fill),
            _ => endpoint.send(address, word, 4, fill),
        };
        self.was_sent(sent)
    }

    /// Sends a message about reads. Returns whether the message was sent, or need not be sent because the peer is lost or has closed.
    pub(super) fn send_key_message(
        &mut self,
        endpoint: &mut am_via_ofi::Endpoint,
        own: Endpoint,
        message: KeyMessage,
        bytes: &[u8; KEY_MESSAGE_BYTES],
    ) -> bool {
        if self.is_lost || self.has_closed {
            return true;
        }
        let word = Kind::of_key_message(message).word(own);
        let sent = endpoint.send(self.address, word, bytes.len(), |buffer| buffer.copy_from_slice(bytes));
        self.was_sent(sent)
    }

    fn was_sent(&mut self, sent: Result<bool, OfiError>) -> bool {
        sent.unwrap_or_else(|error| {
            tracing::warn!(peer = ?self.peer, %error, "a peer of another host is lost");
            self.lose();
            false
        })
    }

    /// Marks the peer as lost, and drops its lines from now on. Unless the peer has closed, notes the time: the failure of its task must
    /// be reported soon after.
    pub(super) fn lose(&mut self) {
        if !self.is_lost && !self.has_closed {
            self.lost_at = Some(Instant::now());
        }
        self.is_lost = true;
        self.drop_lines();
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.is_lost && (!self.next.is_empty() || self.owes_closed || self.closing == Closing::Due)
    }

    fn drop_lines(&mut self) {
        let mut payload = Payload::default();
        self.next.clear();
        self.keys.clear();
        self.cut = 0;
        while self.end.poll(&mut payload).is_some() {}
    }
}

/// The bytes of a line's area from `cut` on.
fn area_from(end: &Connection, entry: Entry, slot: u32, cut: usize) -> CheckedRange<'_> {
    let area = if keeps_slot(entry) {
        // SAFETY: the entry is in the ring of the stand-in, or was polled from it, and is released after it was acknowledged.
        unsafe { end.area(slot, entry.length) }
    } else {
        CheckedRange::empty()
    };
    area.part(cut, area.len().saturating_sub(cut)).unwrap_or_else(CheckedRange::empty)
}

/// Maximum number of bytes of an area that a `Part` carries: all of a message except its number (4 bytes).
pub(super) fn part_bytes(message_bytes_max: usize) -> usize {
    message_bytes_max - 4
}

/// Whether the bytes of an entry are in the receive area.
fn keeps_slot(entry: Entry) -> bool {
    Completion { vi: ViNumber(0), slot: 0, entry }.keeps_slot()
}

#[cfg(test)]
impl Link {
    /// Whether a line's area is in the draft.
    pub(super) fn is_drafted(&self) -> bool {
        self.draft.offset(self.end.consumed()).is_some()
    }
}
