//! One end of a connection: the ring and area that the peer fills, the ring and area of the peer that this end fills, and the words for
//! lines read, parked rings and closing.

use std::cell::Cell;
use std::sync::Arc;

use crate::copy::CheckedRange;
use crate::draft::Draft;
use crate::layout::{Attention, ControlLayout, RING_LINES, ViHeader};
use crate::ring::{BESIDE_BYTES, Entry, Lines, Payload, RingReader, RingWriter, Seen, line_index};
use crate::segment::{Mapping, Shared};
use crate::storing::{Distance, Storing, timed};
use crate::wait::{Doorbell, SleepBarrier};
use am_via_os::atomics::Ordering;

/// A writer that has filled more than [`WAIT_AHEAD_BYTES_MAX`] and at most this number of bytes of a slot prefetches as many bytes of the
/// next slot as it has filled, which makes streams faster. More lines at a time would delay the reader, and non-temporal stores need no
/// prefetch.
const WRITE_AHEAD_BYTES_MAX: usize = 1024;
/// Maximum bytes outside of a line that a waiting reader prefetches before the line has arrived. A writer of at most this number of bytes
/// does not prefetch, because reader and writer would take the lines from each other. For the same reason the reader's prefetch makes lines
/// slower that a writer prefetches.
const WAIT_AHEAD_BYTES_MAX: usize = 256;
/// Maximum bytes of a slot that its reader prefetches when it has read the line.
const READ_AHEAD_BYTES_MAX: usize = 1024;
/// Data of more bytes than this, if they fit into a half or a quarter of a slot, are put into the next half or quarter in each lap of the
/// ring. The ring then uses more memory than the reader's own cache holds, so the writer seldom has to take a line out of that cache (a
/// slow transfer).
const ROTATED_BYTES_MIN: usize = 1024;
/// Number of parts of a slot. Successive slots use parts in an order without a constant step, like the lines of a ring, and for the same
/// reason. Data of more than half a slot begin at the start of their slot.
const PARTS: usize = 4;

/// A VI slot, mapped.
#[derive(Debug)]
pub struct ViSlot {
    mapping: Arc<Mapping>,
    header: Shared<ViHeader>,
    slot_bytes: usize,
    part_bytes: usize,
    stride: usize,
    /// For a stand-in: the message of the network that has the areas of long lines.
    draft: Option<Arc<Draft>>,
}

impl ViSlot {
    /// The slot at the start of `mapping`; `None` if the mapping is too short.
    ///
    /// # Safety
    /// At most one [`Connection`] may read the slot, and one write it. Nothing but these may access its areas, or store its header's words
    /// that are theirs. Other processes that do so corrupt the bytes only.
    #[must_use]
    pub unsafe fn new(mapping: Arc<Mapping>, layout: ControlLayout) -> Option<Self> {
        let header = mapping.atomics(0)?;
        let (slot_bytes, stride) = (layout.packet_bytes as usize, layout.area_stride());
        let part_bytes = slot_bytes / PARTS / 64 * 64;
        (mapping.len() >= layout.vi_slot_bytes()).then_some(Self {
            mapping,
            header,
            slot_bytes,
            part_bytes,
            stride,
            draft: None,
        })
    }

    /// The same slot, as a stand-in for a peer's: while `draft` has a message, the areas of lines longer than half a slot are there.
    #[must_use]
    pub fn with_draft(self, draft: Arc<Draft>) -> Self {
        Self { draft: Some(draft), ..self }
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &ViHeader {
        &self.header
    }

    fn lines(&self) -> Option<Lines> {
        Lines::in_mapping(&self.mapping, ControlLayout::ring_offset(), RING_LINES)
    }

    /// The bytes beside the line with this index.
    #[inline(always)]
    fn beside(&self, index: usize) -> CheckedRange<'_> {
        self.checked(ControlLayout::beside_offset(index), BESIDE_BYTES)
    }

    /// The `len` bytes of a line (cut to the slot's size): beside the line if they fit there, otherwise in its area slot.
    #[inline(always)]
    fn area(&self, slot: u32, len: usize) -> CheckedRange<'_> {
        let len = len.min(self.slot_bytes);
        let offset = if len <= BESIDE_BYTES {
            // Slots are numbered from 0, lines from 1.
            ControlLayout::beside_offset(line_index(slot.wrapping_add(1), RING_LINES - 1))
        } else {
            let is_short = len <= ROTATED_BYTES_MIN;
            let lap = if is_short { 0 } else { (slot / RING_LINES) as usize };
            let turn = lap + line_index(slot, RING_LINES - 1);
            let part = if len > 2 * self.part_bytes {
                if !is_short && let Some(area) = self.area_in_draft(slot, len) {
                    return area;
                }
                0
            } else if len > self.part_bytes {
                turn % 2 * 2
            } else {
                turn % PARTS
            };
            ControlLayout::area_offset() + self.stride * (slot % RING_LINES) as usize + part * self.part_bytes
        };
        self.checked(offset, len)
    }

    #[inline(always)]
    fn area_in_draft(&self, slot: u32, len: usize) -> Option<CheckedRange<'_>> {
        self.draft.as_ref()?.area(slot, len)
    }

    #[inline(always)]
    fn checked(&self, offset: usize, len: usize) -> CheckedRange<'_> {
        // SAFETY: the writer writes an area before it publishes its line, and the reader reads it until it returns the line's slot; no
        // other
        // accesses the area (`new`'s contract).
        let range = unsafe { self.mapping.checked(offset, len) };
        range.expect("the mapping holds the whole slot, checked when it was made")
    }
}

/// The doorbell on which a peer's context sleeps, and the words that report parked rings to it.
#[derive(Clone, Debug)]
pub struct Bell {
    /// The context's doorbell.
    pub doorbell: Shared<Doorbell>,
    /// The context's attention words.
    pub attention: Shared<Attention>,
    /// Sends posts to a peer on another host; `None` for a peer on this host.
    pub outlet: Option<Arc<dyn Outlet>>,
}

/// Sends the lines of a connection to another host. The peer's slot here is a stand-in and stays parked, so that each post calls
/// [`carry`](Self::carry).
pub trait Outlet: Send + Sync + std::fmt::Debug {
    /// Sends the lines that were posted.
    fn carry(&self);
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    writer: RingWriter,
    reader: RingReader,
    own: ViSlot,
    theirs: ViSlot,
    their_vi: u32,
    bell: Bell,
    barrier: SleepBarrier,
    distance: Distance,
    /// The peer's count of lines read, when last seen.
    their_consumed: u32,
    /// Number of the peer's lines whose slots were returned.
    released: u32,
    /// `released`, as last stored for the peer.
    released_told: u32,
    /// Length of the data in the area of the last entry that had any, as the peer claims. Used only to prefetch.
    last_len: Cell<u32>,
}

/// The next line of a connection, which is free.
#[derive(Debug)]
pub struct FreeLine<'a>(&'a mut Connection);

impl FreeLine<'_> {
    /// Posts an entry like [`Connection::post`].
    #[inline(always)]
    pub fn post(self, entry: Entry, payload: &Payload) {
        self.0.write(entry, payload);
    }

    /// Posts an entry with `bytes` outside of its line: beside the line if they fit there, otherwise in its area slot. The entry's length
    /// must be their number. Panics if the slot is too short.
    #[inline(always)]
    pub fn post_outside(self, entry: Entry, payload: &Payload, bytes: &[u8]) {
        let Self(connection) = self;
        if bytes.len() <= BESIDE_BYTES {
            connection.theirs.beside(connection.writer.index()).copy_from_slice(bytes);
            connection.write(entry, payload);
        } else {
            // The fields are passed one by one, so that the caller can keep them in registers.
            let Entry { immediate, operation, extra, .. } = entry;
            connection.post_in_area((immediate, operation, extra), *payload, bytes);
        }
    }
}

/// Bytes that the peer may be about to write.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedArea<'a>(CheckedRange<'a>);

impl ExpectedArea<'_> {
    /// No bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self(CheckedRange::empty())
    }

    /// Prefetches the bytes for reading.
    #[inline(always)]
    pub fn prefetch_to_read(&self) {
        self.0.prefetch_to_read();
    }
}

/// Outcome of writing an entry.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The entry was written.
    Done,
    /// The peer's ring is full of unread lines.
    Full,
    /// The peer's ring is full, and the connection is closed.
    Closed,
    /// There was nothing to write.
    Nothing,
}

/// Number of lines after which the reader stores, for the peer, its count of lines read. A writer learns of returned lines only in such
/// steps, so up to `TELL_AFTER - 1` free lines are not known to be free.
pub const TELL_AFTER: u32 = RING_LINES / 4;

impl Connection {
    /// The end that reads `own` and writes `theirs`, slot `their_vi` of the peer. Fills of at least `cache_bypass_bytes_min` bytes bypass
    /// the caches if that is faster. `None` if a slot's ring does not lie inside its mapping.
    #[must_use]
    pub fn new(
        own: ViSlot,
        theirs: ViSlot,
        their_vi: u32,
        bell: Bell,
        barrier: SleepBarrier,
        cache_bypass_bytes_min: usize,
    ) -> Option<Self> {
        let writer = RingWriter::new(theirs.lines()?);
        let reader = RingReader::new(own.lines()?);
        Some(Self {
            writer,
            reader,
            own,
            theirs,
            their_vi,
            bell,
            barrier,
            distance: Distance::new(cache_bypass_bytes_min),
            their_consumed: 0,
            released: 0,
            released_told: 0,
            last_len: Cell::new(0),
        })
    }

    /// Writes an entry, and notifies the peer if the peer sleeps or has parked the ring. Looks for free lines before the known ones are
    /// used up: a stream calls this function when its credits are used up, and then need not call it once more for want of known lines.
    #[inline(always)]
    pub fn post(&mut self, entry: Entry, payload: &Payload) -> Written {
        if self.lines_not_freed() >= RING_LINES / 2 && !self.look_for_free_line() {
            return self.full_or_closed();
        }
        self.write(entry, payload);
        Written::Done
    }

    /// The next line, if this end knows that the line is free.
    #[inline(always)]
    pub fn free_line(&mut self) -> Option<FreeLine<'_>> {
        if self.knows_free_line() { Some(FreeLine(self)) } else { None }
    }

    /// Writes an entry with bytes in its area slot. Panics if they fit beside the line, or not into the slot.
    #[expect(clippy::cast_possible_truncation, reason = "a slot has far less than 4 GiB")]
    #[inline(never)]
    fn post_in_area(
        &mut self,
        (immediate, operation, extra): (u32, u32, u64),
        payload: Payload,
        bytes: &[u8],
    ) {
        let len = bytes.len();
        assert!(len > BESIDE_BYTES && len <= self.theirs.slot_bytes, "{len} bytes are no bytes for a slot");
        let area = self.theirs.area(self.writer.written(), len);
        area.store(bytes, self.distance.storing(len));
        self.write(Entry { immediate, length: len as u32, operation, extra }, &payload);
        self.prefetch_next(len);
    }

    /// Prefetches as many bytes of the next slot as the last entry has filled of its slot: see [`post_area`](Self::post_area).
    #[inline(always)]
    fn prefetch_next(&self, filled: usize) {
        if filled > WAIT_AHEAD_BYTES_MAX
            && filled <= WRITE_AHEAD_BYTES_MAX
            && self.distance.storing(filled) == Storing::ThroughCaches
        {
            self.theirs.area(self.writer.written(), filled).prefetch_to_write();
        }
    }

    /// Lets `fill` write up to `len` bytes beside the next line, or into its area slot, then writes the entry that `finish` makes from the
    /// number of bytes. A reader that sees the entry sees the bytes ("line published"). If `fill` returns `None`, no entry is written, and
    /// the next entry uses the slot.
    ///
    /// The peer's cache still holds the lines of the next slot, from the last message in that slot. After a message of some hundred bytes,
    /// this call prefetches as many of these lines as its message used; otherwise the stores of the next message would wait for each line.
    #[inline(always)]
    pub fn post_area(
        &mut self,
        payload: &Payload,
        len: usize,
        fill: impl FnOnce(CheckedRange<'_>, Storing) -> Option<usize>,
        finish: impl FnOnce(usize) -> Entry,
    ) -> Written {
        if !self.has_free_line() {
            return self.full_or_closed();
        }
        let slot = self.writer.written();
        let area = self.theirs.area(slot, len);
        let Some(filled) = fill(area, self.distance.storing(len)) else {
            return self.nothing_written(slot);
        };
        if filled != area.len() {
            self.move_to_its_slot(slot, area, filled);
        }
        self.write(finish(filled), payload);
        self.prefetch_next(filled);
        Written::Done
    }

    #[cold]
    #[inline(never)]
    fn nothing_written(&self, slot: u32) -> Written {
        if let Some(draft) = &self.theirs.draft {
            draft.forget(slot);
        }
        Written::Nothing
    }

    /// Fewer bytes were written than announced: moves them to where the reader expects a message of `filled` bytes.
    #[cold]
    #[inline(never)]
    fn move_to_its_slot(&self, slot: u32, area: CheckedRange<'_>, filled: usize) {
        let fits = area.part(0, filled).is_some_and(|bytes| self.theirs.area(slot, filled).copy_from(bytes));
        debug_assert!(fits, "no more was written than fits");
    }

    /// Whether the peer has freed the next line. Reads this task's own memory only.
    #[inline(always)]
    fn has_free_line(&mut self) -> bool {
        self.knows_free_line() || self.look_for_free_line()
    }

    /// Whether the next line was free when the peer's count was last seen.
    #[inline(always)]
    fn knows_free_line(&self) -> bool {
        self.lines_not_freed() < RING_LINES
    }

    /// Number of lines that were not free when the peer's count was last seen.
    #[inline(always)]
    fn lines_not_freed(&self) -> u32 {
        self.writer.written().wrapping_sub(self.their_consumed)
    }

    #[cold]
    #[inline(never)]
    fn look_for_free_line(&mut self) -> bool {
        // Acquire ("slots released"): pairs with the Release in `release`. The peer has finished with the area slots that are about to be
        // written.
        let (consumed, is_slow) = timed(|| self.own.header().consumed_by_peer.load(Ordering::Acquire));
        if consumed != self.their_consumed {
            self.distance.note(is_slow);
        }
        // A claim: ignored if it leaves more than a whole ring unread, or exceeds the lines written.
        if self.writer.written().wrapping_sub(consumed) <= RING_LINES {
            self.their_consumed = consumed;
        }
        self.knows_free_line()
    }

    #[cold]
    fn full_or_closed(&self) -> Written {
        if self.is_closed() { Written::Closed } else { Written::Full }
    }

    #[inline(always)]
    fn write(&mut self, entry: Entry, payload: &Payload) {
        self.writer.write(entry, payload);
        // The sender's half of "sleep handshake", and of the similar handshake for parked rings.
        self.barrier.after_store();
        if self.bell.doorbell.is_sleeping() || self.theirs.header().parked.load(Ordering::Relaxed) != 0 {
            self.tell();
        }
    }

    #[cold]
    #[inline(never)]
    fn tell(&self) {
        if let Some(outlet) = &self.bell.outlet {
            outlet.carry();
        } else if self.theirs.header().parked.load(Ordering::Relaxed) != 0 {
            self.raise_attention();
        } else {
            self.bell.doorbell.ring();
        }
    }

    /// Asks the peer to check its VI, even if the peer polls nothing: the connection is new or has closed, or a parked ring has a line.
    pub fn raise_attention(&self) {
        self.bell.attention.raise(self.their_vi);
        // "sleep handshake": the peer may check its attention, find nothing, and go to sleep.
        self.barrier.after_store();
        self.bell.doorbell.ring();
    }

    /// Returns the next entry and the number of its area slot; its payload is copied to `payload`. The slot is not touched: a reader that
    /// fetched the slot's lines while waiting would take them from the writer several times per message.
    #[inline(always)]
    pub fn poll(&mut self, payload: &mut Payload) -> Option<(Entry, u32)> {
        let slot = self.reader.consumed();
        self.reader.poll(payload).map(|entry| (entry, slot))
    }

    /// Like [`poll`](Self::poll), without consuming the entry.
    #[inline(always)]
    #[must_use]
    pub fn look(&self) -> Option<Seen<'_>> {
        self.reader.look()
    }

    /// Prefetches a line that follows later, for a caller that has found an entry at its first look: the peer may have written more. The
    /// processor does not prefetch the lines itself, since the distance between lines is never the same.
    #[inline(always)]
    pub fn prefetch_ahead(&self) {
        #[cfg(not(loom))]
        self.reader.prefetch_ahead();
    }

    /// Consumes the next entry, which was looked at, and returns its slot.
    #[inline(always)]
    pub fn take(&mut self) {
        self.reader.advance();
        self.release();
    }

    /// The bytes of an area entry, prefetched, so that they arrive while the entry is handled; `len` is a claim.
    ///
    /// # Safety
    /// That of [`area`](Self::area).
    #[inline(always)]
    pub unsafe fn prefetch_area(&self, slot: u32, len: u32) -> CheckedRange<'_> {
        self.last_len.set(len);
        let area = self.own.area(slot, len as usize);
        area.front(READ_AHEAD_BYTES_MAX).prefetch_to_read();
        area
    }

    /// The area bytes of the next entry, if it has as many as the last entry that had any. A reader that waits prefetches these bytes at
    /// each look: otherwise it would wait twice, first for the line and then for the bytes. Empty if the last entry had more than
    /// `WAIT_AHEAD_BYTES_MAX`. They can only be prefetched.
    #[inline(always)]
    #[must_use]
    pub fn expected_area(&self) -> ExpectedArea<'_> {
        let len = self.last_len.get() as usize;
        ExpectedArea(self.own.area(self.reader.consumed(), if len <= WAIT_AHEAD_BYTES_MAX { len } else { 0 }))
    }

    /// Sends posts through `outlet` from now on.
    pub fn set_outlet(&mut self, outlet: Arc<dyn Outlet>) {
        self.bell.outlet = Some(outlet);
    }

    /// Whether the connection has an outlet: entries then arrive by progress of a network.
    #[inline(always)]
    #[must_use]
    pub fn has_outlet(&self) -> bool {
        self.bell.outlet.is_some()
    }

    /// Whether the two tasks share a cache, by the last timed loads. Before the ring's first lap this is not known, and the answer is
    /// `true`. `false` for a peer on another host.
    #[must_use]
    pub fn shares_cache(&self) -> bool {
        !self.has_outlet() && self.distance.storing(usize::MAX) == Storing::ThroughCaches
    }

    /// Number of lines written by this end that the peer claims to have returned (wraps).
    #[must_use]
    pub fn released_by_peer(&self) -> u32 {
        // Acquire ("slots released"): pairs with the Release in `release`.
        self.own.header().consumed_by_peer.load(Ordering::Acquire)
    }

    /// Whether an entry has arrived.
    #[inline(always)]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.reader.is_ready()
    }

    /// Lines read so far (wraps).
    #[must_use]
    pub fn consumed(&self) -> u32 {
        self.reader.consumed()
    }

    /// The bytes of a received area entry; `len` is a claim, and limited to the slot.
    ///
    /// # Safety
    /// `slot` must be that of an entry that has arrived ([`poll`](Self::poll), [`look`](Self::look)) and that was not released: the peer,
    /// which may be a thread of this process, writes the other slots.
    #[inline(always)]
    #[must_use]
    pub unsafe fn area(&self, slot: u32, len: u32) -> CheckedRange<'_> {
        self.own.area(slot, len as usize)
    }

    /// Frees the oldest slot that is not free yet, so that the peer can reuse it. The peer learns of freed slots in groups of
    /// [`TELL_AFTER`].
    #[inline(always)]
    pub fn release(&mut self) {
        self.released = self.released.wrapping_add(1);
        if self.released.wrapping_sub(self.released_told) >= TELL_AFTER {
            self.released_told = self.released;
            // Release ("slots released"): pairs with the Acquire in `look_for_free_line`.
            self.theirs.header().consumed_by_peer.store(self.released, Ordering::Release);
        }
    }

    /// Marks the ring as parked (not in the poll set), or as polled again. Writers raise attention while it is parked. After parking and
    /// [`SleepBarrier::before_look`], the owner must look once more.
    pub fn set_parked(&self, parked: bool) {
        self.own.header().parked.store(u32::from(parked), Ordering::Relaxed);
    }

    /// Marks both ends as closed. From now on, a post that finds the peer's ring full returns [`Written::Closed`].
    pub fn close(&self) {
        self.own.header().closed.store(1, Ordering::Release);
        self.theirs.header().closed.store(1, Ordering::Release);
    }

    /// Whether either end has closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.own.header().closed.load(Ordering::Acquire) != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::{ATTENTION_OFFSET, DOORBELL_OFFSET, REGION_OFFSET};

    const LAYOUT: ControlLayout = ControlLayout { num_tasks: 2, packet_bytes: 256, vis: 64 };

    /// Both ends of a connection: the one that the test writes to, and the one that reads.
    fn ends() -> (Connection, Connection) {
        ends_of(LAYOUT)
    }

    fn ends_of(layout: ControlLayout) -> (Connection, Connection) {
        let (_file, head) = Mapping::anonymous(REGION_OFFSET).expect("memory");
        let bell = || Bell {
            doorbell: head.atomics(DOORBELL_OFFSET).expect("it lies inside"),
            attention: head.atomics(ATTENTION_OFFSET).expect("it lies inside"),
            outlet: None,
        };
        let slots = [0, 1].map(|_| Mapping::anonymous(layout.vi_slot_bytes()).expect("memory").1);
        let slot = |side: usize| {
            // SAFETY: each slot gets one connection that reads it, and one that writes it.
            unsafe { ViSlot::new(Arc::clone(&slots[side]), layout) }.expect("it is long enough")
        };
        let end = |side| {
            Connection::new(slot(side), slot(1 - side), 0, bell(), SleepBarrier::Membarrier, usize::MAX)
                .expect("both are whole")
        };
        (end(0), end(1))
    }

    /// Sends `bytes` by a post that asks for `asked` bytes. If `asked` is the number of bytes, every other message takes the fast path,
    /// where a line is known to be free.
    fn send(writer: &mut Connection, bytes: &[u8], asked: usize) {
        let takes_fast_path = asked == bytes.len() && writer.writer.written() % 2 == 1;
        if takes_fast_path && let Some(line) = writer.free_line() {
            let entry = Entry { length: u32::try_from(asked).expect("a short length"), ..Entry::default() };
            line.post_outside(entry, &Payload::default(), bytes);
            return;
        }
        let fill = |slot: CheckedRange<'_>, _| {
            slot.copy_from_slice(bytes);
            Some(bytes.len())
        };
        let finish =
            |filled| Entry { length: u32::try_from(filled).expect("a short length"), ..Entry::default() };
        assert_eq!(writer.post_area(&Payload::default(), asked, fill, finish), Written::Done);
    }

    fn receive(reader: &mut Connection) -> Option<Vec<u8>> {
        let (entry, slot) = reader.poll(&mut Payload::default())?;
        let mut bytes = vec![0; entry.length as usize];
        // SAFETY: the entry was just polled.
        unsafe { reader.area(slot, entry.length) }.copy_to_slice(&mut bytes);
        reader.release();
        Some(bytes)
    }

    /// Every word sent has the value that would make the line at its position valid one lap later.
    #[test]
    fn bytes_of_a_message_are_never_taken_for_a_line() {
        let (mut writer, mut reader) = ends();
        for sequence in 1..4 * RING_LINES {
            let forged = u64::from(sequence + RING_LINES).to_le_bytes().repeat(32);
            let bytes = &forged[..sequence as usize * 8 % 257];
            send(&mut writer, bytes, bytes.len());
            assert_eq!(receive(&mut reader).as_deref(), Some(bytes), "message {sequence}");
            assert_eq!(receive(&mut reader), None, "nothing was sent behind message {sequence}");
        }
    }

    /// In each lap of the ring a message of up to a quarter of a slot lies in another quarter, and a message of up to a half in the other
    /// half. The reader finds the message, even if the post had asked for another length.
    #[test]
    fn short_messages_use_the_parts_of_a_slot_in_rotation() {
        const QUARTER: usize = 2048;
        let (mut writer, mut reader) = ends_of(ControlLayout { packet_bytes: 8192, ..LAYOUT });
        for (len, places) in [
            (1024, 1),
            (1025, 4),
            (QUARTER, 4),
            (QUARTER + 1, 2),
            (2 * QUARTER, 2),
            (2 * QUARTER + 1, 1),
            (4 * QUARTER, 1),
        ] {
            let mut seen = std::collections::BTreeSet::new();
            for lap in 0..8 {
                for line in 0..RING_LINES {
                    let bytes = vec![lap; len];
                    let asked = if line % 16 == 1 { 4 * QUARTER } else { len };
                    send(&mut writer, &bytes, asked);
                    let (entry, slot) = reader.poll(&mut Payload::default()).expect("it was sent");
                    // SAFETY: the entry was just polled.
                    let area = unsafe { reader.area(slot, entry.length) };
                    if slot % RING_LINES == 5 {
                        seen.insert(area.at());
                    }
                    let mut received = vec![0; len];
                    area.copy_to_slice(&mut received);
                    assert!(received == bytes, "{len} bytes, lap {lap}");
                    reader.release();
                }
            }
            assert_eq!(seen.len(), places, "{len} bytes");
        }
    }

    /// If the data of successive messages were the same number of bytes apart, the reader's processor would fetch them before they are
    /// written.
    #[test]
    fn short_messages_lie_at_no_constant_distance() {
        let (writer, _reader) = ends_of(ControlLayout { packet_bytes: 8192, ..LAYOUT });
        for len in [BESIDE_BYTES, BESIDE_BYTES + 1, 1024, 2048, 4096] {
            let at = |slot| writer.own.area(slot, len).at().as_ptr() as usize;
            let steps: Vec<_> = (0..RING_LINES).map(|slot| at(slot + 1).wrapping_sub(at(slot))).collect();
            assert!(steps.windows(2).all(|step| step[0] != step[1]), "{len} bytes: {steps:?}");
        }
    }

    /// A waiting reader prefetches the bytes that the next message will have if it is as long as the last one, and none if the last one was
    /// long.
    #[test]
    fn a_reader_expects_as_many_bytes_as_the_last_message_had() {
        let (mut writer, mut reader) = ends_of(ControlLayout { packet_bytes: 8192, ..LAYOUT });
        assert!(reader.expected_area().0.is_empty(), "there was no message");
        for len in [1, BESIDE_BYTES, BESIDE_BYTES + 1, WAIT_AHEAD_BYTES_MAX, WAIT_AHEAD_BYTES_MAX + 1, 8192] {
            for _ in 0..2 {
                send(&mut writer, &vec![7; len], len);
                let (entry, slot) = reader.poll(&mut Payload::default()).expect("it was sent");
                // SAFETY: the entry was just polled.
                unsafe { reader.prefetch_area(slot, entry.length) };
                reader.release();
                // SAFETY: only the addresses are compared.
                let next = unsafe { reader.area(slot.wrapping_add(1), entry.length) };
                let ExpectedArea(expected) = reader.expected_area();
                if len <= WAIT_AHEAD_BYTES_MAX {
                    assert_eq!((expected.at(), expected.len()), (next.at(), len));
                } else {
                    assert!(
                        expected.is_empty(),
                        "{len} bytes are prefetched by their writer, or when their line has arrived"
                    );
                }
            }
        }
    }

    #[test]
    #[should_panic = "257 bytes are no bytes for a slot"]
    fn more_bytes_than_a_slot_has_are_not_posted() {
        let (mut writer, _reader) = ends();
        let line = writer.free_line().expect("the ring is empty");
        line.post_outside(Entry { length: 257, ..Entry::default() }, &Payload::default(), &[0; 257]);
    }

    #[test]
    fn a_post_may_write_fewer_bytes_than_it_asked_for() {
        let (mut writer, mut reader) = ends();
        for asked in 0..=256 {
            for filled in [0, 1, BESIDE_BYTES, BESIDE_BYTES + 1, 200].into_iter().filter(|&len| len <= asked)
            {
                let bytes = vec![u8::try_from(asked % 251).unwrap(); filled];
                send(&mut writer, &bytes, asked);
                assert_eq!(receive(&mut reader), Some(bytes), "{filled} bytes of {asked}");
            }
        }
    }
}
