//! Pipes: both tasks copy one message in private memory at the same time.
//!
//! A pipe is a ring of pieces in the sender's job memory. The sender copies the message into it piece by piece; the receiver copies the
//! pieces out, and neither writes the other's buffer. A message begins in the ring where the previous one ended, so that the sender writes
//! lines that have left the receiver's cache: taking a line from that cache takes three times as long. If the two share no cache, the
//! sender uses non-temporal stores, so that the receiver finds no line modified in a foreign cache. The sender decides for each message,
//! by the times that loads of the receiver's count take ([`Distance`]), and tells the receiver, whose best copy depends on it.
//!
//! Sender and receiver never wait for each other. If a piece is not staged in time, the receiver copies it itself, through the kernel, and
//! the sender continues with the pieces after it. If both copy a piece, one copy is wasted, but both copy the same bytes.
//!
//! The sender's count of staged pieces and the receiver's count of taken pieces are claims. Whatever their values, a sender writes only its
//! own ring, and a receiver only its own buffer.

#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of pieces of memory that is mapped, and offsets in one piece"
)]

use std::sync::Arc;

use crate::block::HeapBlock;
use crate::copy::{CheckedRange, Copied};
use crate::layout::Padded;
use crate::segment::{Mapping, Shared, SharedAtomics};
use crate::storing::{Distance, Storing, timed};
use am_via_os::atomics::{AtomicU64, Ordering, spin_loop};

/// Length of a piece in bytes.
pub const PIECE_BYTES: usize = if cfg!(loom) { 8 } else { 16 << 10 };
/// Number of pieces in the ring: together larger than a processor's own cache.
const PIECES: u64 = if cfg!(loom) { 1 } else { 128 };
/// Bytes that a task which also sends stages before it takes as many. Half the ring, so that the other task need not take pieces meanwhile.
const TURN_BYTES: usize = PIECE_BYTES * (if cfg!(loom) { 1 } else { PIECES as usize / 2 });
/// Bytes before the first piece, so that pieces begin in the middle of a page. A program's long buffer begins at or near the start of a
/// page, and a processor delays a load if the lower 12 bits of its address match those of a recent store: such a copy takes twice as long.
pub(crate) const HEADER_BYTES: usize = 2048 + 64;
/// Bytes of a pipe.
pub const PIPE_BYTES: usize = HEADER_BYTES + PIECES as usize * PIECE_BYTES;

/// The sender times one of this number of its loads of the receiver's count, since a timed load waits for the copy before it.
const LOADS_A_TIMED_LOAD: u64 = 8;
/// Number of looks at an empty pipe before the receiver lets the kernel copy: 2 to 4 us.
const PATIENCE: u32 = if cfg!(loom) { 1 } else { 128 };
/// Bytes of the first copy by the kernel if a pipe may still help. Each further copy is twice as long as the one before it.
const KERNEL_BYTES_MIN: usize = 4 * PIECE_BYTES;

/// In a region's entry: its owner may attach a pipe later.
pub(crate) const PIPE_MAY_COME: u64 = 2;
/// In a region's entry, added to the pipe's offset in the owner's heap file: a pipe is attached.
const PIPE_ATTACHED: u64 = 1;
/// In a region's entry, the lowest bit of the number of the slot that holds the message's first piece. The offset uses the bits below.
const FIRST_SHIFT: u32 = 56;
/// In a region's entry: the sender stores the message's pieces past the caches. The number of a slot uses the bits between.
const PAST_CACHES: u64 = 1 << 63;
const _: () = assert!(PIECES <= PAST_CACHES >> FIRST_SHIFT, "the number of a slot fits");

/// The start of a pipe.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct PipeHeader {
    /// Written by the sender: every piece before this number is staged, or not needed.
    staged: Padded<AtomicU64>,
    /// Written by the receiver, which needs no piece before this number.
    taken: Padded<AtomicU64>,
}

// SAFETY: repr(C), atomics only (the rest of each line is padding).
unsafe impl SharedAtomics for PipeHeader {}

/// The sender's end.
#[derive(Debug)]
pub struct PipeWriter {
    header: Shared<PipeHeader>,
    heap: Arc<Mapping>,
    offset: usize,
    /// The slot of the message's first piece.
    first: u64,
    /// The next piece to stage.
    next: u64,
    /// The receiver's count when last seen.
    taken: u64,
    /// The receiver's count at the last [`has_moved`](Self::has_moved).
    moved_to: u64,
    distance: Distance,
    /// How the pieces of this message are stored.
    storing: Storing,
    /// The memory of the ring. `None` after [`leak`](Self::leak).
    block: Option<HeapBlock>,
}

impl PipeWriter {
    /// A pipe in `block`; `None` if the block does not lie in `heap`, or is shorter than [`PIPE_BYTES`].
    #[must_use]
    pub fn new(heap: &Arc<Mapping>, block: HeapBlock) -> Option<Self> {
        let offset = heap.offset_of(block.at(), PIPE_BYTES).filter(|_| block.len() >= PIPE_BYTES)?;
        Some(Self {
            header: heap.atomics(offset)?,
            heap: Arc::clone(heap),
            offset,
            first: 0,
            next: 0,
            taken: 0,
            moved_to: 0,
            distance: Distance::new(0),
            storing: Storing::ThroughCaches,
            block: Some(block),
        })
    }

    /// Empties the pipe for another message. Must not be called while a receiver may use the pipe. Returns the word that names it in a
    /// region's entry.
    pub(crate) fn restart(&mut self) -> u64 {
        self.first = (self.first + self.next) % PIECES;
        self.next = 0;
        self.taken = 0;
        self.moved_to = 0;
        // Relaxed: published by the store of the word ("pipe attached").
        self.header.staged.store(0, Ordering::Relaxed);
        self.header.taken.store(0, Ordering::Relaxed);
        self.storing = self.distance.storing(PIECE_BYTES);
        let past_caches = if self.storing == Storing::PastCaches { PAST_CACHES } else { 0 };
        past_caches | self.first << FIRST_SHIFT | self.offset as u64 | PIPE_ATTACHED
    }

    /// Handles the end of the message.
    pub fn end(&mut self) {
        self.look(true);
    }

    /// Loads the receiver's count. If it has changed, the time of the load tells how far the receiver is.
    fn look(&mut self, is_timed: bool) {
        // Acquire ("piece taken"): pairs with the Release in `PipeReader::tell`. The receiver has read the slots that will be overwritten.
        let load = || self.header.taken.load(Ordering::Acquire);
        let (taken, is_slow) = if is_timed { timed(load) } else { (load(), false) };
        if std::mem::replace(&mut self.taken, taken) != taken && is_timed {
            self.distance.note(is_slow);
        }
    }

    /// Stages the next piece of `message` that the receiver needs, if the ring has a free slot; returns whether a piece was staged.
    pub fn stage(&mut self, message: CheckedRange<'_>) -> bool {
        self.look(self.next.is_multiple_of(LOADS_A_TIMED_LOAD));
        self.next = self.next.max(self.taken.min(pieces_of(message.len())));
        // `taken` is a claim, and may be lower than before.
        if self.next.wrapping_sub(self.taken) >= PIECES {
            return false;
        }
        let at = self.next as usize * PIECE_BYTES;
        let len = PIECE_BYTES.min(message.len().saturating_sub(at));
        let piece = message.part(at, len).filter(|piece| !piece.is_empty());
        let (Some(piece), Some(slot)) = (piece, slot(&self.heap, self.offset, self.first + self.next)) else {
            return false;
        };
        let is_copied = match self.storing {
            Storing::ThroughCaches => slot.copy_from(piece),
            Storing::PastCaches => slot.copy_from_past_cache(piece),
        };
        if !is_copied {
            return false;
        }
        self.next += 1;
        // Release ("piece staged"): pairs with the Acquire in `PipeReader::take`.
        self.header.staged.store(self.next, Ordering::Release);
        true
    }

    /// Whether all of `message` was staged, or not needed.
    #[must_use]
    pub fn has_staged(&self, message: CheckedRange<'_>) -> bool {
        self.next >= pieces_of(message.len())
    }

    /// Whether the receiver has taken pieces since the last call.
    pub fn has_moved(&mut self) -> bool {
        self.look(false);
        std::mem::replace(&mut self.moved_to, self.taken) != self.taken
    }

    /// Leaks the pipe's memory: a receiver may still use it.
    pub fn leak(mut self) {
        std::mem::forget(self.block.take());
    }
}

fn pieces_of(len: usize) -> u64 {
    len.div_ceil(PIECE_BYTES) as u64
}

/// A slot of the pipe at `offset` of `heap`.
fn slot(heap: &Mapping, offset: usize, number: u64) -> Option<CheckedRange<'_>> {
    let at = offset.checked_add(HEADER_BYTES + (number % PIECES) as usize * PIECE_BYTES)?;
    // SAFETY: the sender writes a slot that the receiver has returned, and the receiver reads one that the sender has staged, by the pipe's
    // counts ("piece staged", "piece taken"). Of the memory of a pipe only these two know, since it is a block of the sender's.
    unsafe { heap.checked(at, PIECE_BYTES) }
}

/// The receiver's end.
struct PipeReader<'a> {
    header: Shared<PipeHeader>,
    heap: &'a Arc<Mapping>,
    offset: usize,
    /// The slot of the message's first piece.
    first: u64,
    /// Whether pieces are copied with the widest registers. This is faster for bytes in the sender's cache, and slower for bytes that were
    /// stored past the caches.
    is_wide: bool,
}

impl<'a> PipeReader<'a> {
    /// Opens the pipe that `word` names, which is a claim.
    fn open(heap: &'a Arc<Mapping>, word: u64) -> Option<Self> {
        let first = (word & !PAST_CACHES) >> FIRST_SHIFT;
        let offset = usize::try_from(word & !(u64::MAX << FIRST_SHIFT) & !PIPE_ATTACHED).ok()?;
        heap.range(offset, PIPE_BYTES)?;
        Some(Self { header: heap.atomics(offset)?, heap, offset, first, is_wide: word & PAST_CACHES == 0 })
    }

    /// Copies bytes of the message from `at` on, up to the end of their piece, to `to`, if the piece is staged; returns the number of
    /// bytes.
    fn take(&self, at: u64, to: CheckedRange<'_>) -> Option<usize> {
        let piece = at / PIECE_BYTES as u64;
        // Acquire ("piece staged"): pairs with the Release in `PipeWriter::stage`.
        if self.header.staged.load(Ordering::Acquire) <= piece {
            return None;
        }
        let within = (at % PIECE_BYTES as u64) as usize;
        let len = to.len().min(PIECE_BYTES - within);
        let slot = slot(self.heap, self.offset, self.first.wrapping_add(piece))?.part(within, len)?;
        let to = to.part(0, len)?;
        let is_copied = if self.is_wide { to.copy_from_wide(slot) } else { to.copy_from(slot) };
        is_copied.then_some(len)
    }

    /// Tells the sender that everything before `at` was taken.
    fn tell(&self, at: u64) {
        // Release ("piece taken"): pairs with the Acquire in `PipeWriter::stage`, which overwrites only slots that were read.
        self.header.taken.store(at / PIECE_BYTES as u64, Ordering::Release);
    }
}

/// Copies the bytes of a message from `offset` on to `to`: staged pieces from the pipe, and the rest by `kernel`, which gets an offset in
/// the message. `word` is from the region's entry, and `heap` belongs to the region's owner. A message must be read once, from front to
/// back. `idle` stages a piece of this task's own messages, if there is one, and returns whether there was. It is called while the pipe is
/// empty. Besides, in an exchange, this task first stages as many bytes as it will take: if both tasks staged and took pieces by turns,
/// each would take lines that the other has just written.
///
/// # Errors
/// The error of `kernel`.
pub(crate) fn read<E>(
    word: &AtomicU64,
    heap: &Arc<Mapping>,
    (offset, to): (u64, CheckedRange<'_>),
    kernel: impl Fn(u64, CheckedRange<'_>) -> Result<Copied, E>,
    mut idle: impl FnMut() -> bool,
) -> Result<Copied, E> {
    let mut pipe = None;
    let (mut done, mut told, mut looks, mut by_kernel) = (0, 0, 0, KERNEL_BYTES_MIN);
    let mut turn = 0;
    while let Some(rest) = to.part(done, to.len() - done).filter(|rest| !rest.is_empty()) {
        if pipe.is_none() {
            // Acquire ("pipe attached"): pairs with the Release in `OwnRegions::attach_pipe`.
            let name = word.load(Ordering::Acquire);
            pipe = if name & PIPE_ATTACHED == 0 { None } else { PipeReader::open(heap, name) };
            if let Some(pipe) = &pipe {
                // An earlier call that ended with NotYet has copied the pieces that it took. If the sender has changed this count, only its
                // own message is corrupted.
                let taken = pipe.header.taken.load(Ordering::Relaxed);
                let before = taken.saturating_mul(PIECE_BYTES as u64).saturating_sub(offset);
                done = done.max(usize::try_from(before).unwrap_or(usize::MAX).min(to.len()));
                continue;
            }
        }
        let at = offset + done as u64;
        if let Some(pipe) = &pipe {
            if told != at {
                pipe.tell(at);
                told = at;
            }
            if done >= turn {
                let bytes = TURN_BYTES.min(rest.len());
                (0..bytes.div_ceil(PIECE_BYTES)).take_while(|_| idle()).for_each(drop);
                turn = done + bytes;
            }
            if let Some(len) = pipe.take(at, rest) {
                (looks, by_kernel) = (0, KERNEL_BYTES_MIN);
                done += len;
                continue;
            }
            if idle() {
                continue;
            }
            looks += 1;
            if looks < PATIENCE {
                spin_loop();
                continue;
            }
        }
        let part = rest.part(0, by_kernel.min(rest.len())).unwrap_or(rest);
        match kernel(at, part)? {
            Copied::Done => done += part.len(),
            Copied::Unreachable if at > 0 => return Ok(Copied::NotYet),
            other => return Ok(other),
        }
        by_kernel = by_kernel.saturating_mul(2);
    }
    if let Some(pipe) = &pipe {
        pipe.tell(offset + done as u64);
    }
    Ok(Copied::Done)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::block::HeapOwner;
    use crate::private_bytes::PrivateBytes;
    use am_via_os::test_aids::Random;
    use std::ptr::NonNull;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Number of bytes of the heap before the pipe (so also its offset), and after it.
    const APART: usize = 4096;

    #[derive(Debug)]
    struct NoOwner;

    impl HeapOwner for NoOwner {
        unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {}
    }

    /// A message that two threads read.
    struct Source<'a>(CheckedRange<'a>);

    // SAFETY: the threads of a test only read the message.
    unsafe impl Sync for Source<'_> {}

    impl<'a> Source<'a> {
        fn range(&self) -> CheckedRange<'a> {
            self.0
        }
    }

    fn bytes_of(heap: &Mapping, at: usize, len: usize) -> CheckedRange<'_> {
        // SAFETY: the test copies these bytes in one thread.
        unsafe { heap.checked(at, len) }.expect("inside")
    }

    fn heap_and_pipe() -> (Arc<Mapping>, PipeWriter) {
        let (_file, heap) = Mapping::anonymous(2 * APART + PIPE_BYTES).expect("memory");
        // SAFETY: zeroed, as the file is new, used by nothing else, and mapped as long as the pipe lives, which keeps the mapping.
        let block = unsafe { HeapBlock::new(bytes_of(&heap, APART, PIPE_BYTES), Arc::new(NoOwner)) };
        let pipe = PipeWriter::new(&heap, block).expect("inside");
        (heap, pipe)
    }

    fn message(len: usize, seed: u64) -> (PrivateBytes, Vec<u8>) {
        let mut random = Random(seed);
        let bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let memory = PrivateBytes::new(len).expect("memory");
        memory.range().copy_from_slice(&bytes);
        (memory, bytes)
    }

    /// Reads a message in calls of `call_bytes`. `refuses`: whether the kernel refuses at this offset.
    fn read_all(
        (word, heap): (&AtomicU64, &Arc<Mapping>),
        from: &PrivateBytes,
        call_bytes: usize,
        refuses: impl Fn(u64) -> bool,
    ) -> Vec<u8> {
        let len = from.range().len();
        // The destination has an odd offset, and guard bytes around it that must not change.
        let to = PrivateBytes::new(len + 64).expect("memory");
        to.range().copy_from_slice(&vec![0xEE; len + 64]);
        let mut offset = 0;
        while offset < len {
            let call = call_bytes.min(len - offset);
            let kernel = |at: u64, part: CheckedRange<'_>| {
                if refuses(at) {
                    return Ok(Copied::Unreachable);
                }
                let from = from.range().part(at as usize, part.len()).expect("inside the message");
                assert!(part.copy_from(from));
                Ok::<_, ()>(Copied::Done)
            };
            let part = to.range().part(3 + offset, call).expect("inside");
            match read(word, heap, (offset as u64, part), kernel, || false).expect("nothing fails") {
                Copied::Done => offset += call,
                Copied::NotYet => thread::yield_now(),
                Copied::Unreachable => panic!("the kernel refuses only what comes later"),
            }
        }
        let mut bytes = vec![0; len + 64];
        to.range().copy_to_slice(&mut bytes);
        assert!(bytes[..3].iter().chain(&bytes[3 + len..]).all(|&byte| byte == 0xEE), "written outside");
        bytes[3..3 + len].to_vec()
    }

    #[test]
    fn every_length_arrives_whole_with_and_without_the_senders_help_and_the_kernels() {
        let lens = [
            1,
            63,
            64,
            PIECE_BYTES - 1,
            PIECE_BYTES,
            PIECE_BYTES + 1,
            5 * PIECE_BYTES + 7,
            PIPE_BYTES + PIECE_BYTES + 1,
        ];
        let (heap, mut pipe) = heap_and_pipe();
        for (number, len) in lens.into_iter().enumerate() {
            for call_bytes in [usize::MAX, 4 * PIECE_BYTES, 20_000] {
                for (helps, kernel_refuses) in [(true, true), (true, false), (false, false)] {
                    let (memory, bytes) = message(len, number as u64);
                    let word = AtomicU64::new(pipe.restart());
                    assert!(pipe.stage(memory.range()), "an empty pipe has a free slot");
                    let is_read = AtomicBool::new(false);
                    let source = Source(memory.range());
                    let read = thread::scope(|scope| {
                        scope.spawn(|| {
                            while helps && !is_read.load(Ordering::Relaxed) {
                                if !pipe.stage(source.range()) {
                                    thread::yield_now();
                                }
                            }
                        });
                        let refuses = |at: u64| kernel_refuses && at > 0;
                        let read = read_all((&word, &heap), &memory, call_bytes, refuses);
                        is_read.store(true, Ordering::Relaxed);
                        read
                    });
                    assert!(read == bytes, "{len} bytes in calls of {call_bytes}, {helps}, {kernel_refuses}");
                }
            }
        }
    }

    #[test]
    fn a_reader_takes_what_is_staged_and_the_sender_skips_what_the_kernel_has_copied() {
        let (heap, mut pipe) = heap_and_pipe();
        let (memory, bytes) = message(8 * PIECE_BYTES, 1);
        let word = AtomicU64::new(pipe.restart());
        assert!(pipe.stage(memory.range()));
        // A sender may not change its message; here the change shows which copy was read.
        memory.range().zero();
        let read = read_all((&word, &heap), &memory, 4 * PIECE_BYTES, |_| false);
        assert!(
            read[..PIECE_BYTES] == bytes[..PIECE_BYTES] && read[PIECE_BYTES..].iter().all(|&byte| byte == 0)
        );
        assert!(!pipe.stage(memory.range()) && pipe.has_staged(memory.range()), "nothing is left to stage");
        assert_eq!(pipe.restart() >> FIRST_SHIFT, 8, "the next message begins behind this one");
    }

    #[test]
    fn a_reader_that_finds_its_pipe_empty_does_other_work_and_takes_what_came_meanwhile() {
        let (heap, mut pipe) = heap_and_pipe();
        let (memory, bytes) = message(40 * PIECE_BYTES, 6);
        let word = AtomicU64::new(pipe.restart());
        let to = PrivateBytes::new(bytes.len()).expect("memory");
        let no_kernel = |at: u64, _: CheckedRange<'_>| -> Result<Copied, u64> { Err(at) };
        let done = read(&word, &heap, (0, to.range()), no_kernel, || pipe.stage(memory.range()));
        assert_eq!(done, Ok(Copied::Done), "the kernel has copied nothing");
        let mut seen = vec![0; bytes.len()];
        to.range().copy_to_slice(&mut seen);
        assert!(seen == bytes);
    }

    #[test]
    fn a_reader_that_also_sends_first_stages_as_many_bytes_as_it_takes() {
        let (heap, mut pipe) = heap_and_pipe();
        let turn = TURN_BYTES / PIECE_BYTES;
        let (memory, _) = message((turn + 2) * PIECE_BYTES + 1, 7);
        let word = AtomicU64::new(pipe.restart());
        while pipe.stage(memory.range()) {}
        let to = PrivateBytes::new(memory.range().len()).expect("memory");
        let taken = std::cell::RefCell::new(Vec::new());
        let no_kernel = |at: u64, _: CheckedRange<'_>| -> Result<Copied, u64> { Err(at) };
        let idle = || {
            taken.borrow_mut().push(pipe.header.taken.load(Ordering::Relaxed));
            true
        };
        assert_eq!(read(&word, &heap, (0, to.range()), no_kernel, idle), Ok(Copied::Done));
        let before_turns = [vec![0; turn], vec![turn as u64; 3]].concat();
        assert_eq!(taken.into_inner(), before_turns);
    }

    #[test]
    fn a_message_for_a_far_receiver_says_so_and_arrives_whole() {
        let (heap, mut pipe) = heap_and_pipe();
        let (memory, bytes) = message(9 * PIECE_BYTES + 5, 8);
        assert_eq!(pipe.restart() & PAST_CACHES, 0, "near, as long as nothing is known");
        (0..u8::MAX).for_each(|_| pipe.distance.note(true));
        let word = pipe.restart();
        let reader = PipeReader::open(&heap, word).expect("inside");
        assert!(word & PAST_CACHES != 0 && !reader.is_wide && reader.first == 0, "{word:x}");
        while pipe.stage(memory.range()) {}
        let read = read_all((&AtomicU64::new(word), &heap), &memory, usize::MAX, |at| {
            panic!("all is staged, and the kernel was to copy from {at} on")
        });
        assert!(read == bytes);
    }

    #[test]
    fn a_pipe_that_comes_late_is_used_from_then_on() {
        let (heap, mut pipe) = heap_and_pipe();
        let (memory, bytes) = message(64 * PIECE_BYTES, 2);
        let word = AtomicU64::new(PIPE_MAY_COME);
        let pipe = std::cell::RefCell::new(&mut pipe);
        let read = read_all((&word, &heap), &memory, usize::MAX, |at| {
            let mut pipe = pipe.borrow_mut();
            if at == 4 * PIECE_BYTES as u64 {
                word.store(pipe.restart(), Ordering::Release);
            }
            if at > 0 {
                while pipe.stage(memory.range()) {}
            }
            at > 12 * PIECE_BYTES as u64
        });
        assert!(read == bytes);
    }

    #[test]
    fn a_word_that_names_no_pipe_is_none() {
        let (heap, _pipe) = heap_and_pipe();
        let (memory, bytes) = message(3 * PIECE_BYTES, 3);
        for word in [u64::MAX, PIPE_ATTACHED | 8, (2 * APART) as u64 + 4097, (1 << 40) | 1, PIPE_MAY_COME, 4]
        {
            assert!(
                read_all((&AtomicU64::new(word), &heap), &memory, usize::MAX, |_| false) == bytes,
                "{word}"
            );
        }
    }

    #[test]
    fn whatever_the_counts_claim_each_side_writes_its_own_memory_only_and_both_end() {
        let (heap, mut pipe) = heap_and_pipe();
        bytes_of(&heap, 0, APART).copy_from_slice(&[0x77; APART]);
        bytes_of(&heap, APART + PIPE_BYTES, APART).copy_from_slice(&[0x77; APART]);
        let (memory, _) = message(40 * PIECE_BYTES + 5, 4);
        let header = heap.atomics::<PipeHeader>(APART).expect("inside");
        for seed in 0..60 {
            let mut random = Random(seed);
            let word = AtomicU64::new(pipe.restart() ^ random.below(256) << FIRST_SHIFT);
            let is_read = AtomicBool::new(false);
            let source = Source(memory.range());
            thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_read.load(Ordering::Relaxed) {
                        let value = match random.below(3) {
                            0 => random.below(60),
                            1 => u64::MAX - random.below(60),
                            _ => 1 << random.below(64),
                        };
                        let count = if random.below(2) == 0 { &header.taken } else { &header.staged };
                        count.store(value, Ordering::Relaxed);
                        thread::yield_now();
                    }
                });
                scope.spawn(|| {
                    while !is_read.load(Ordering::Relaxed) {
                        pipe.stage(source.range());
                    }
                });
                let refuses = |at: u64| seed % 2 == 1 && at % 3 == 1;
                read_all((&word, &heap), &memory, 9 * PIECE_BYTES, refuses);
                is_read.store(true, Ordering::Relaxed);
            });
        }
        for at in [0, APART + PIPE_BYTES] {
            let mut bytes = [0; APART];
            bytes_of(&heap, at, APART).copy_to_slice(&mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 0x77), "memory beside the pipe");
        }
    }

    #[test]
    fn a_copy_past_the_cache_copies_as_any_other() {
        let memory = PrivateBytes::new(1024).expect("memory");
        let (from, bytes) = message(600, 5);
        for (at, skipped, len) in
            [(64, 0, 600), (64, 1, 599), (65, 0, 513), (128, 7, 64), (192, 3, 63), (64, 0, 0)]
        {
            memory.range().copy_from_slice(&[0xEE; 1024]);
            let to = memory.range().part(at, len).expect("inside");
            assert!(to.copy_from_past_cache(from.range().part(skipped, len).expect("inside")));
            let mut seen = [0; 1024];
            memory.range().copy_to_slice(&mut seen);
            assert_eq!(seen[at..at + len], bytes[skipped..skipped + len]);
            assert!(seen[..at].iter().chain(&seen[at + len..]).all(|&byte| byte == 0xEE), "written outside");
        }
        assert!(!memory.range().part(0, 10).expect("inside").copy_from_past_cache(from.range()), "too long");
    }
}
