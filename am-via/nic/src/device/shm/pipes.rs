//! The pipes of one NIC, and the messages in private memory that use them: see module `pipe` of `am_via_shm`.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::device::{DeviceError, HeapBlock, MemHandle};
use am_via_shm::regions::OwnRegions;
use am_via_shm::{Mapping, PIPE_BYTES, PipeWriter};

/// Maximum number of pipes. In a stream of messages, one pipe is filled while the receiver empties the other.
const PIPES_MAX: usize = 2;
/// Maximum number of messages that wait for a pipe. The kernel copies further messages.
const WAITING_MAX: usize = 256;
/// Number of pieces that a poll stages: 2 us between two looks at the rings, if the peer is near.
const PIECES_A_POLL: usize = 4;

/// The pipes of a NIC. Each is made when it is first needed.
#[derive(Debug)]
pub(super) struct Pipes {
    /// Minimum bytes of a message that gets a pipe.
    bytes_min: usize,
    made: usize,
    free: Vec<PipeWriter>,
    /// Messages with a pipe, oldest first.
    open: Vec<Open>,
    /// Messages that wait for a pipe, oldest first.
    waiting: VecDeque<MemHandle>,
    /// Whether an open message may have pieces left to stage.
    has_work: bool,
}

#[derive(Debug)]
struct Open {
    message: MemHandle,
    pipe: PipeWriter,
}

impl Pipes {
    /// Pipes for messages of at least `bytes_min` bytes.
    pub(super) fn new(bytes_min: usize) -> Self {
        Self {
            bytes_min,
            made: 0,
            free: Vec::with_capacity(PIPES_MAX),
            open: Vec::with_capacity(PIPES_MAX),
            waiting: VecDeque::with_capacity(if bytes_min < usize::MAX { WAITING_MAX } else { 0 }),
            has_work: false,
        }
    }

    /// Whether any message gets a pipe.
    pub(super) fn are_used(&self) -> bool {
        self.bytes_min < usize::MAX
    }

    /// A peer will read the registration `message` once, from front to back: gives the message a pipe, or puts it into the queue for one,
    /// unless it is too short or the queue is full. Nothing is staged yet, because the peer has to hear of the message first. `alloc` takes
    /// memory from `heap`.
    pub(super) fn begin(
        &mut self,
        message: MemHandle,
        regions: &mut OwnRegions,
        heap: &Arc<Mapping>,
        alloc: impl FnOnce(usize) -> Result<HeapBlock, DeviceError>,
    ) {
        let memory = regions.open_memory(message.region, message.generation);
        if memory.is_none_or(|memory| memory.len() < self.bytes_min) || self.waiting.len() == WAITING_MAX {
            return;
        }
        if self.free.is_empty() && self.made < PIPES_MAX {
            self.made += 1;
            // A full heap is not an error: there are then fewer pipes.
            self.free.extend(alloc(PIPE_BYTES).ok().and_then(|block| PipeWriter::new(heap, block)));
        }
        if self.free.is_empty() && self.open.is_empty() {
            return;
        }
        self.waiting.push_back(message);
        if self.free.is_empty() {
            regions.attach_pipe(message.region, None);
        } else {
            self.open_next(regions);
        }
    }

    /// Assigns a free pipe to the message that has waited longest.
    fn open_next(&mut self, regions: &mut OwnRegions) {
        let Some(mut pipe) = self.free.pop() else { return };
        match self.waiting.pop_front() {
            Some(message) => {
                regions.attach_pipe(message.region, Some(&mut pipe));
                self.open.push(Open { message, pipe });
                self.has_work = true;
            }
            None => self.free.push(pipe),
        }
    }

    /// Whether [`stage`](Self::stage) may have something to do.
    #[inline(always)]
    pub(super) fn has_work(&self) -> bool {
        self.has_work
    }

    /// Stages one piece of the oldest message that has a piece left and a free slot; returns whether there was one.
    #[cold]
    pub(super) fn stage(&mut self, regions: &OwnRegions) -> bool {
        self.has_work = false;
        for Open { message, pipe } in &mut self.open {
            // A withdrawn message has no memory.
            let Some(memory) = regions.open_memory(message.region, message.generation) else { continue };
            if pipe.stage(memory) {
                self.has_work = true;
                return true;
            }
            self.has_work |= !pipe.has_staged(memory);
        }
        false
    }

    /// Stages the pieces that one poll may stage.
    #[cold]
    pub(super) fn stage_some(&mut self, regions: &OwnRegions) {
        (0..PIECES_A_POLL).take_while(|_| self.stage(regions)).for_each(drop);
    }

    /// Whether a receiver has taken pieces of an open message since the last call.
    #[cold]
    pub(super) fn has_moved(&mut self) -> bool {
        self.open.iter_mut().fold(false, |moved, open| open.pipe.has_moved() | moved)
    }

    /// Handles the end of `message`, whose registration no peer reads any more. The pipe of the message, if it has one, goes to the next
    /// message.
    #[inline]
    pub(super) fn end(&mut self, message: MemHandle, regions: &mut OwnRegions) {
        if self.open.is_empty() {
            return;
        }
        if let Some(at) = self.open.iter().position(|open| open.message == message) {
            let mut pipe = self.open.remove(at).pipe;
            pipe.end();
            self.free.push(pipe);
            self.open_next(regions);
        } else {
            self.waiting.retain(|waiting| *waiting != message);
        }
    }
}

impl Drop for Pipes {
    /// Leaks the pipes of messages that have not ended, because a peer may still use them.
    fn drop(&mut self) {
        self.open.drain(..).for_each(|open| open.pipe.leak());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::process;

    use am_via_shm::layout::{ACCESS_READ, HAZARD_OFFSET, Hazard};
    use am_via_shm::regions::{Claim, Claimer, PeerMemory, Registration, Ways};
    use am_via_shm::{Copied, HeapOwner, PIECE_BYTES, Shared, SharedFiles, SleepBarrier};
    use std::ptr::NonNull;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const WAYS: Ways = Ways { mapped: true, kernel: true };
    const PIECES: usize = PIPE_BYTES / PIECE_BYTES;
    /// Twice the capacity of a pipe.
    const LEN: usize = 2 * PIECES * PIECE_BYTES;

    /// Counts returned blocks.
    #[derive(Debug, Default)]
    struct Owner(AtomicUsize);

    impl HeapOwner for Owner {
        unsafe fn take_back(&self, _at: NonNull<u8>, _len: usize) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A sender and a receiver in one process, which copies from itself through the kernel.
    struct Pair {
        heap: Arc<Mapping>,
        regions: OwnRegions,
        pipes: Pipes,
        peer: PeerMemory,
        hazard: Shared<Hazard>,
        allocated: Cell<usize>,
        owner: Arc<Owner>,
    }

    impl Pair {
        fn new(bytes_min: usize) -> Self {
            let (_file, head) = Mapping::anonymous(1 << 20).expect("memory");
            let (_file, heap) = Mapping::anonymous(PIPES_MAX * PIPE_BYTES).expect("memory");
            let pid = i32::try_from(process::id()).expect("a process number");
            Self {
                regions: OwnRegions::new(Arc::clone(&head), Arc::clone(&heap), 0, WAYS),
                pipes: Pipes::new(bytes_min),
                hazard: head.atomics(HAZARD_OFFSET).expect("inside"),
                // SAFETY: the files are those of `regions`, in this process; its claimers use one hazard line, in one thread at a time.
                peer: unsafe { PeerMemory::new(0, pid, head, Arc::clone(&heap)) },
                heap,
                allocated: Cell::new(0),
                owner: Arc::default(),
            }
        }

        /// Announces `message`.
        fn begin(&mut self, message: &HeapBlock) -> MemHandle {
            let registration = Registration { access: ACCESS_READ, ptag: 0 };
            // SAFETY: the tests keep their messages until the end, and do not write them while they are read.
            let opened =
                unsafe { self.regions.insert(message.range(), registration, &SharedFiles::default()) };
            let (region, generation) = opened.expect("the table is empty");
            let handle = MemHandle { region, generation };
            let Self { pipes, regions, heap, allocated, owner, .. } = self;
            pipes.begin(handle, regions, heap, |len| {
                let at = allocated.replace(allocated.get() + len);
                // SAFETY: each range is handed out once, is zero in a new file, and is mapped as long as the pair lives.
                unsafe {
                    let range = heap.checked(at, len).expect("no more than PIPES_MAX");
                    Ok(HeapBlock::new(range, Arc::clone(owner) as Arc<dyn HeapOwner>))
                }
            });
            handle
        }

        /// Reads a message whole, as another task.
        fn read(&self, message: MemHandle) -> Vec<u8> {
            self.read_as(1, message)
        }

        fn read_as(&self, task: u32, MemHandle { region, generation }: MemHandle) -> Vec<u8> {
            let shared = SharedFiles::default();
            let barrier = SleepBarrier::SenderFence;
            let claimer = Claimer { task, hazard: &self.hazard, barrier, ways: WAYS, shared: &shared };
            let to = HeapBlock::private(LEN).expect("memory");
            let claim = Claim { region, generation, offset: 0, len: LEN as u64, ptag: 0 };
            assert_eq!(self.peer.read(&claimer, claim, to.range(), || false), Ok(Copied::Done));
            let mut bytes = vec![0; LEN];
            to.range().copy_to_slice(&mut bytes);
            bytes
        }

        fn end(&mut self, handle: MemHandle) {
            assert!(self.regions.remove(handle.region, handle.generation));
            self.pipes.end(handle, &mut self.regions);
            self.regions.recycle(handle.region);
        }

        /// Stages as many pieces as possible; returns their number.
        fn stage(&mut self) -> usize {
            let mut pieces = 0;
            while self.pipes.has_work() && self.pipes.stage(&self.regions) {
                pieces += 1;
            }
            pieces
        }
    }

    fn message(value: u8) -> HeapBlock {
        let block = HeapBlock::private(LEN).expect("memory");
        block.range().copy_from_slice(&vec![value; LEN]);
        block
    }

    /// For a message that was all `old` when announced and is all `new` now, returns the number of bytes that came through the pipe.
    /// Programs must not change a message meanwhile; here the change shows which path its bytes took.
    fn by_pipe(bytes: &[u8], old: u8, new: u8) -> usize {
        let by_pipe = bytes.iter().take_while(|&&byte| byte == old).count();
        assert!(bytes[by_pipe..].iter().all(|&byte| byte == new), "neither of the two");
        by_pipe
    }

    #[test]
    fn a_message_comes_from_the_pipe_as_far_as_it_was_staged_and_by_the_kernel_after_that() {
        let mut pair = Pair::new(0);
        let memory = message(1);
        let handle = pair.begin(&memory);
        assert_eq!(pair.stage(), PIECES, "the ring is full");
        memory.range().copy_from_slice(&vec![2; LEN]);
        assert_eq!(by_pipe(&pair.read(handle), 1, 2), PIECES * PIECE_BYTES);
        assert_eq!(pair.stage(), 0, "the receiver has all");
        pair.end(handle);
    }

    #[test]
    fn messages_beyond_the_pipes_wait_for_one_in_order_or_go_without() {
        let mut pair = Pair::new(0);
        let memory: Vec<_> = (0..PIPES_MAX + 3).map(|_| message(1)).collect();
        let handles: Vec<_> = memory.iter().map(|memory| pair.begin(memory)).collect();
        assert_eq!((pair.stage(), pair.allocated.get()), (PIECES * PIPES_MAX, PIPES_MAX * PIPE_BYTES));
        // A waiting message is withdrawn, and one with a pipe ends: the next in line gets the pipe.
        pair.end(handles[PIPES_MAX]);
        pair.end(handles[PIPES_MAX - 1]);
        assert_eq!(pair.stage(), PIECES);
        memory.iter().for_each(|memory| memory.range().copy_from_slice(&vec![2; LEN]));
        for (number, &handle) in handles.iter().enumerate() {
            let staged = match number {
                number if number == PIPES_MAX || number + 1 == PIPES_MAX => continue,
                number if number == PIPES_MAX + 2 => 0,
                _ => PIECES * PIECE_BYTES,
            };
            assert_eq!(by_pipe(&pair.read(handle), 1, 2), staged, "message {number}");
        }
        assert_eq!(pair.stage(), 0, "the receivers have all");
        for (number, &handle) in handles.iter().enumerate() {
            if number + 1 != PIPES_MAX && number != PIPES_MAX {
                pair.end(handle);
            }
        }
        assert!(pair.pipes.open.is_empty() && pair.pipes.waiting.is_empty());
        assert_eq!(pair.pipes.free.len(), PIPES_MAX);
    }

    #[test]
    fn a_transfer_moves_while_its_receiver_takes_pieces() {
        let mut pair = Pair::new(0);
        let memory = message(1);
        let handle = pair.begin(&memory);
        pair.stage();
        assert!(!pair.pipes.has_moved(), "nobody has read");
        pair.read(handle);
        assert!(pair.pipes.has_moved() && !pair.pipes.has_moved(), "once");
        pair.end(handle);
        assert!(!pair.pipes.has_moved(), "there is no transfer");
    }

    #[test]
    fn a_task_that_reads_its_own_message_does_not_wait_for_itself() {
        let mut pair = Pair::new(0);
        let memory = message(1);
        let handle = pair.begin(&memory);
        memory.range().copy_from_slice(&vec![2; LEN]);
        assert_eq!(by_pipe(&pair.read_as(0, handle), 1, 2), 0);
        pair.end(handle);
    }

    static NEVER_GIVEN_BACK: OnceLock<Arc<Owner>> = OnceLock::new();

    #[test]
    fn a_message_that_is_given_up_is_staged_no_more() {
        let mut pair = Pair::new(0);
        let memory = message(1);
        let handle = pair.begin(&memory);
        assert!(pair.regions.remove(handle.region, handle.generation), "a peer may still be copying");
        assert_eq!(pair.stage(), 0);
        let memory = message(1);
        let ended = pair.begin(&memory);
        pair.end(ended);
        let owner = Arc::clone(&pair.owner);
        drop(pair);
        assert_eq!(owner.0.load(Ordering::Relaxed), 1, "a peer may still use the other pipe");
        // The memory of that pipe is never returned; the static keeps its owner reachable for leak checkers.
        NEVER_GIVEN_BACK.set(owner).expect("one test sets it");
    }

    #[test]
    fn short_messages_and_those_for_which_there_is_no_memory_have_no_pipe() {
        let mut pair = Pair::new(LEN + 1);
        let memory = message(1);
        let handle = pair.begin(&memory);
        assert!(pair.stage() == 0 && pair.pipes.made == 0);
        pair.end(handle);
        let mut pair = Pair::new(0);
        pair.pipes.made = PIPES_MAX;
        let handle = pair.begin(&memory);
        assert!(pair.stage() == 0 && pair.pipes.waiting.is_empty(), "nothing will ever be free");
        assert!(pair.read(handle).iter().all(|&byte| byte == 1));
        pair.end(handle);
    }
}
