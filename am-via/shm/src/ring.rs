//! A ring of 64-byte lines from one writer to one reader: a short message touches nothing else.
//!
//! A line carries a whole completion entry: 40 bytes of payload, a length, an operation word, one extra word, and last the word that makes
//! it valid: sequence number and immediate data. The reader spins on that word of the next line; the writer reads nothing. The sequence
//! number starts at 1 in a zeroed ring, so a fresh line is never valid. A line of the previous lap has a number that is lower by the ring's
//! length, so it is not valid either.
//!
//! Each line has 64 bytes beside it for data that do not fit: the two are an aligned pair, which processors fetch together. No valid word
//! is ever read from those bytes, so their contents are never mistaken for a line.
//!
//! The ring itself does not stop a writer that laps the reader. The layers above count credits, because a count sent with other messages is
//! free, and a load of the reader's index is a cache miss.
//!
//! Pairs: the Release store of the valid word in [`RingWriter::write`] with the Acquire loads in [`RingReader::look`] and
//! [`RingReader::is_ready`] ("line published").

#![expect(clippy::cast_possible_truncation, reason = "the halves of packed words are cut out")]

use std::ptr::NonNull;
use std::sync::Arc;

#[cfg(not(loom))]
use crate::copy::CheckedRange;
use crate::segment::Mapping;
use am_via_os::atomics::{AtomicU64, Ordering};

/// Bytes of payload in one line.
pub const LINE_PAYLOAD_BYTES: usize = 40;
pub(crate) const LINE_PAYLOAD_WORDS: usize = LINE_PAYLOAD_BYTES / 8;

/// Bytes beside a line.
pub(crate) const BESIDE_BYTES: usize = 64;

/// One cache line of a ring, and the bytes beside it, which are accessed by copies, like those of the receive area.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Line {
    payload: [AtomicU64; LINE_PAYLOAD_WORDS],
    /// Length in bytes (low half) and operation (high half).
    length_and_operation: AtomicU64,
    extra: AtomicU64,
    /// Sequence number (low half) and immediate data (high half).
    valid: AtomicU64,
    beside: [AtomicU64; BESIDE_BYTES / 8],
}

impl Line {
    /// Where the bytes beside a line begin.
    pub(crate) const BESIDE_OFFSET: usize = std::mem::offset_of!(Self, beside);
}

/// A reader that finds a line at its first look, and so is behind its writer, prefetches the line this number of lines ahead. It has
/// prefetched the lines between at its earlier looks. Streams of 8, 64 and 256 bytes took 0.81, 0.80 and 0.73 of the time without prefetch
/// if the number was 8; 0.97, 0.91 and 0.72 if it was 6; 0.87, 0.87 and 0.81 if it was 16; 1.4, 1.3 and 1.1 if it was 24.
#[cfg(not(loom))]
const AHEAD: u32 = 8;

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 128 && align_of::<Line>() == 128 && Line::BESIDE_OFFSET == 64);

/// The payload of one line.
pub type Payload = [u64; LINE_PAYLOAD_WORDS];

/// The fields of a line besides its payload, copied from shared memory once. They are separate from the payload, which is copied word by
/// word to where it is parsed: inside a struct, the payload would be copied in larger pieces than it was stored, and the processor would
/// wait for its store buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The 32-bit immediate data.
    pub immediate: u32,
    /// A length in bytes, of the payload or of data elsewhere, as the writer claims.
    pub length: u32,
    /// The kind of entry; the device defines its meaning.
    pub operation: u32,
    /// Another word; the device defines its meaning.
    pub extra: u64,
}

/// An entry that has arrived and is still in its line.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The fields besides the payload.
    pub entry: Entry,
    line: &'a Line,
}

impl<'a> Seen<'a> {
    /// The first words of the payload, copied from shared memory now.
    #[inline(always)]
    #[must_use]
    pub fn front<const WORDS: usize>(&self) -> [u64; WORDS] {
        std::array::from_fn(|index| self.line.payload[index].load(Ordering::Relaxed))
    }

    /// The payload, to be copied.
    #[cfg(not(loom))]
    #[inline(always)]
    #[must_use]
    pub fn payload(&self) -> CheckedRange<'a> {
        // SAFETY: the payload is a part of a line that stays mapped during `'a`. References to its bytes are only references to atomics.
        unsafe { CheckedRange::new(NonNull::from(&self.line.payload).cast(), LINE_PAYLOAD_BYTES) }
    }
}

/// A line outside of any ring, for a device that keeps entries elsewhere and shows them as [`Seen`].
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct SingleLine(Line);

#[cfg(not(loom))]
impl SingleLine {
    /// A line with this payload.
    #[must_use]
    pub fn new(payload: &Payload) -> Self {
        Self(Line { payload: payload.map(AtomicU64::new), ..Line::default() })
    }

    /// The line as the place of `entry`.
    #[must_use]
    pub fn seen(&self, entry: Entry) -> Seen<'_> {
        Seen { entry, line: &self.0 }
    }
}

/// The index in its ring of the line with this number; `mask` is the ring's number of lines, a power of two, less one.
///
/// The indices are the triangular numbers: in a lap each index comes once, and each step has another length. If the lines were used one
/// after the other, the reader's processor would recognise the step and fetch the following lines, before they are written, and the writer
/// would have to take each of them back.
#[inline(always)]
pub(crate) fn line_index(sequence: u32, mask: u32) -> usize {
    let in_lap = sequence & mask;
    ((in_lap.wrapping_mul(in_lap.wrapping_add(1)) / 2) & mask) as usize
}

#[derive(Clone, Debug)]
enum LineMemory {
    Mapped { _mapping: Arc<Mapping> },
    Private { _lines: Arc<[Line]> },
}

/// The lines of one ring. Their number is a power of two.
#[derive(Clone, Debug)]
pub struct Lines {
    first: NonNull<Line>,
    mask: u32,
    _memory: LineMemory,
}

// SAFETY: a Line is atomics only, and `_memory` (itself Send and Sync) keeps the lines alive wherever the value goes.
unsafe impl Send for Lines {}
// SAFETY: shared access to lines is by atomics only.
unsafe impl Sync for Lines {}

impl Lines {
    /// A ring of `count` lines at `offset` of a mapping.
    #[cfg(loom)]
    #[must_use]
    pub fn in_mapping(mapping: &Arc<Mapping>, offset: usize, count: u32) -> Option<Self> {
        Self::clone(mapping.stands_for(offset, || Self::private(count)).as_ref().as_ref()?).into()
    }

    /// A ring of `count` lines at `offset` in a mapping; `None` unless `count` is a power of two, and the range is aligned and lies inside
    /// the mapping.
    #[cfg(not(loom))]
    #[must_use]
    pub fn in_mapping(mapping: &Arc<Mapping>, offset: usize, count: u32) -> Option<Self> {
        let bytes = usize::try_from(count).ok()?.checked_mul(size_of::<Line>())?;
        let first = mapping.range(offset, bytes)?.cast::<Line>();
        if !count.is_power_of_two() || !first.is_aligned() {
            return None;
        }
        Some(Self { first, mask: count - 1, _memory: LineMemory::Mapped { _mapping: Arc::clone(mapping) } })
    }

    /// A ring of `count` lines (a power of two) in private memory.
    #[must_use]
    pub fn private(count: u32) -> Option<Self> {
        if !count.is_power_of_two() {
            return None;
        }
        let lines: Arc<[Line]> = (0..count).map(|_| Line::default()).collect();
        let first = NonNull::from(&lines[0]);
        Some(Self { first, mask: count - 1, _memory: LineMemory::Private { _lines: lines } })
    }

    /// Number of lines.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.mask + 1
    }

    #[inline(always)]
    fn line(&self, index: usize) -> &Line {
        debug_assert!(index <= self.mask as usize, "an index is masked");
        // SAFETY: `index` is at most `mask`, since it was returned by `index` or masked by the caller, `first` is the first of `mask + 1`
        // lines (both constructors), kept alive by `_memory` as long as `self`. A Line is atomics only, so a reference to it may be shared
        // with other processes.
        unsafe { self.first.add(index).as_ref() }
    }

    /// The position of the line with this number.
    #[inline(always)]
    fn index(&self, sequence: u32) -> usize {
        line_index(sequence, self.mask)
    }
}

/// The writing end. A ring must have one writer.
#[derive(Debug)]
pub struct RingWriter {
    lines: Lines,
    /// Number of the next line.
    next: u32,
    /// Index of the next line, computed when the last line was written.
    index: usize,
}

impl RingWriter {
    /// A writer at the start of a zeroed ring.
    #[must_use]
    pub fn new(lines: Lines) -> Self {
        Self { index: lines.index(1), lines, next: 1 }
    }

    /// Writes the next line and publishes it.
    ///
    /// The caller must have made sure, by counting, that the reader has consumed the line of the previous lap. Otherwise a message is lost,
    /// which is harmless for memory safety.
    #[inline(always)]
    pub fn write(&mut self, entry: Entry, payload: &Payload) {
        let line = self.lines.line(self.index);
        for (cell, word) in line.payload.iter().zip(payload) {
            cell.store(*word, Ordering::Relaxed);
        }
        let length_and_operation = u64::from(entry.length) | u64::from(entry.operation) << 32;
        line.length_and_operation.store(length_and_operation, Ordering::Relaxed);
        line.extra.store(entry.extra, Ordering::Relaxed);
        // Release: "line published"; a reader that sees this word sees all stores above, and all earlier data.
        line.valid.store(u64::from(self.next) | u64::from(entry.immediate) << 32, Ordering::Release);
        self.next = self.next.wrapping_add(1);
        self.index = self.lines.index(self.next);
    }

    /// Index of the next line.
    #[inline(always)]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Number of lines written so far (wraps).
    #[inline(always)]
    #[must_use]
    pub fn written(&self) -> u32 {
        self.next.wrapping_sub(1)
    }
}

/// The reading end. A ring must have one reader.
#[derive(Debug)]
pub struct RingReader {
    lines: Lines,
    /// Number of the next line.
    next: u32,
    /// Index of the next line, computed when the last line was consumed.
    index: usize,
}

impl RingReader {
    /// A reader at the start of a zeroed ring.
    #[must_use]
    pub fn new(lines: Lines) -> Self {
        Self { index: lines.index(1), lines, next: 1 }
    }

    /// The next entry, if it has arrived; its payload is copied to `payload`. Never blocks.
    #[inline(always)]
    pub fn poll(&mut self, payload: &mut Payload) -> Option<Entry> {
        let Seen { entry, line } = self.look()?;
        for (word, cell) in payload.iter_mut().zip(&line.payload) {
            *word = cell.load(Ordering::Relaxed);
        }
        self.advance();
        Some(entry)
    }

    /// Like [`poll`](Self::poll), without consuming the entry.
    #[inline(always)]
    #[must_use]
    pub fn look(&self) -> Option<Seen<'_>> {
        let line = self.lines.line(self.index);
        // Acquire ("line published"): pairs with the Release in `RingWriter::write`.
        let valid = line.valid.load(Ordering::Acquire);
        if valid as u32 != self.next {
            return None;
        }
        let length_and_operation = line.length_and_operation.load(Ordering::Relaxed);
        let entry = Entry {
            immediate: (valid >> 32) as u32,
            length: length_and_operation as u32,
            operation: (length_and_operation >> 32) as u32,
            extra: line.extra.load(Ordering::Relaxed),
        };
        Some(Seen { entry, line })
    }

    /// Prefetches the line that is [`AHEAD`] lines ahead, with the bytes beside it. To be called when an entry was found at once.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn prefetch_ahead(&self) {
        // A triangular number from an earlier one: fewer instructions than `index`. If a lap ends before that line, the sum is the
        // index of another line: the prefetch is then of no use.
        const SUM: u32 = AHEAD * (AHEAD + 1) / 2;
        let index = (self.index as u32).wrapping_add(self.next.wrapping_mul(AHEAD)).wrapping_add(SUM);
        let line = self.lines.line((index & self.lines.mask) as usize);
        // SAFETY: the line stays mapped while `self.lines` is borrowed, and the bytes beside it are a part of it. References to its bytes
        // are only references to atomics.
        let range: CheckedRange<'_> =
            unsafe { CheckedRange::new(NonNull::from(line).cast(), size_of::<Line>()) };
        range.prefetch_to_read();
    }

    /// Consumes the next entry, which the caller has looked at.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
        self.index = self.lines.index(self.next);
    }

    /// Whether an entry has arrived; does not consume it.
    #[inline(always)]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lines.line(self.index).valid.load(Ordering::Acquire) as u32 == self.next
    }

    /// Number of lines read so far (wraps).
    #[inline(always)]
    #[must_use]
    pub fn consumed(&self) -> u32 {
        self.next.wrapping_sub(1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Write(Entry, Payload),
        Poll,
        /// A look; `true`: the entry is then consumed.
        Look(bool),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let entry = any::<(u32, u32, u32, u64)>().prop_map(|(immediate, length, operation, extra)| Entry {
            immediate,
            length,
            operation,
            extra,
        });
        let write = (entry, any::<Payload>()).prop_map(|(entry, payload)| Operation::Write(entry, payload));
        let look = any::<bool>().prop_map(Operation::Look);
        prop_oneof![3 => write, 1 => Just(Operation::Poll), 2 => look]
    }

    /// Both ends of a ring. Its next line has number `next`. If that is not 1, the previous lap has been written: where the numbers wrap, a
    /// zeroed line could be valid.
    fn ring(lines: u32, next: u32) -> (RingWriter, RingReader) {
        let ring = Lines::private(lines).expect("a power of two");
        let (mut writer, mut reader) = (RingWriter::new(ring.clone()), RingReader::new(ring));
        if next != 1 {
            (writer.next, reader.next) = (next.wrapping_sub(lines), next.wrapping_sub(lines));
            (writer.index, reader.index) = (writer.lines.index(writer.next), reader.lines.index(reader.next));
            for _ in 0..lines {
                writer.write(Entry::default(), &Payload::default());
                assert!(reader.poll(&mut Payload::default()).is_some());
            }
        }
        (writer, reader)
    }

    proptest! {
        /// Compares a ring of 1 to 16 lines with a queue, from the first line on, and where the line numbers wrap.
        #[test]
        fn a_ring_is_a_queue(
            operations in proptest::collection::vec(operation(), 1..200),
            lines_log2 in 0_u32..5,
            before_wrap in prop_oneof![Just(None), (1_u32..100).prop_map(Some)],
        ) {
            let lines = 1 << lines_log2;
            let (mut writer, mut reader) = ring(lines, before_wrap.map_or(1, |before| 0_u32.wrapping_sub(before)));
            let mut oracle = VecDeque::new();
            let mut payload = Payload::default();
            for operation in operations {
                match operation {
                    Operation::Write(entry, payload) if oracle.len() < lines as usize => {
                        writer.write(entry, &payload);
                        oracle.push_back((entry, payload));
                    }
                    Operation::Write(..) => {}
                    Operation::Poll => {
                        prop_assert_eq!(reader.is_ready(), !oracle.is_empty());
                        let polled = reader.poll(&mut payload).map(|entry| (entry, payload));
                        prop_assert_eq!(polled, oracle.pop_front());
                    }
                    Operation::Look(is_taken) => {
                        let seen = reader.look().map(|seen| (seen.entry, seen.front()));
                        prop_assert_eq!(seen, oracle.front().copied());
                        if seen.is_some() && is_taken {
                            reader.advance();
                            oracle.pop_front();
                        }
                    }
                }
                let waiting = writer.written().wrapping_sub(reader.consumed());
                prop_assert_eq!(waiting as usize, oracle.len());
            }
        }
    }

    /// Each lap uses each line once, in the same order, and no step is as long as the one before it.
    #[test]
    fn the_order_of_lines_has_no_constant_step() {
        for lines in [1_u32, 2, 4, 128, 4096] {
            let lap: Vec<_> = (0..lines).map(|number| line_index(number, lines - 1)).collect();
            let next_lap: Vec<_> = (lines..2 * lines).map(|number| line_index(number, lines - 1)).collect();
            assert_eq!(lap, next_lap);
            assert!(
                lap.windows(3).all(|at| at[1].wrapping_sub(at[0]) != at[2].wrapping_sub(at[1])),
                "{lap:?}"
            );
            let used: std::collections::BTreeSet<_> = lap.into_iter().collect();
            assert_eq!(used.into_iter().collect::<Vec<_>>(), (0..lines as usize).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_ring_has_a_power_of_two_lines_inside_its_mapping() {
        assert!(Lines::private(3).is_none() && Lines::private(0).is_none());
        let (_file, mapping) = Mapping::anonymous(8192).unwrap();
        assert!(Lines::in_mapping(&mapping, 0, 64).is_some());
        assert!(Lines::in_mapping(&mapping, 128, 32).is_some());
        for (offset, lines) in [(128, 64), (0, 128), (64, 32), (8192, 1), (usize::MAX, 1), (0, 3)] {
            assert!(Lines::in_mapping(&mapping, offset, lines).is_none(), "{lines} lines at {offset}");
        }
    }
}
