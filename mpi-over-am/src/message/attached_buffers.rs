//! Buffers that programs attach for buffered sends (MPI 5.0 section 3.6).
//!
//! A buffer is used as a ring: each message is stored after the previous one. The bytes of a message are free again when this message and
//! all earlier ones have been sent.

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;

use am_core::buffer::RawBuffer;

use crate::context_id;
use crate::data::buffer::{Keeps, KeptVec, LentMemory, keep_vec};
use crate::error::{Error, Result};
use crate::message::request_id::RequestId;

/// Maximum overhead of a message in the attached buffer, besides its data (`MPI_BSEND_OVERHEAD`).
pub const BSEND_OVERHEAD_BYTES: usize = 64;

/// Messages begin at cache lines.
const LINE_BYTES: usize = 64;

/// The owner of a buffer (MPI 5.0 section 3.6). Buffered sends on a communicator use the communicator's buffer; if there is none, the
/// buffer of its session; if there is none either, the buffer of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BufferOwner {
    /// All communicators of the process (`MPI_Buffer_attach`).
    Process,
    /// Communicators of a session, by the number that the program gave the session (`MPI_Session_attach_buffer`).
    Session(u64),
    /// One communicator, by its context id (`MPI_Comm_attach_buffer`).
    Communicator(u32),
}

/// Memory for buffered sends.
#[derive(Debug)]
pub enum SendBuffer {
    /// Owned by the library until the buffer is detached.
    Owned(Vec<u8>),
    /// Lent by the program, until the value that a detach returns has been dropped.
    Lent(LentMemory),
    /// Allocated by the library as needed (`MPI_BUFFER_AUTOMATIC`).
    Automatic,
}

impl SendBuffer {
    /// Size in bytes; 0 for an automatic buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(memory) => memory.len(),
            Self::Lent(LentMemory(memory)) => memory.len(),
            Self::Automatic => 0,
        }
    }

    /// Whether the size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<LentMemory> for SendBuffer {
    fn from(memory: LentMemory) -> Self {
        Self::Lent(memory)
    }
}

impl From<Vec<u8>> for SendBuffer {
    fn from(memory: Vec<u8>) -> Self {
        Self::Owned(memory)
    }
}

/// The buffers that are attached.
#[derive(Debug, Default)]
pub(crate) struct AttachedBuffers {
    by_owner: BTreeMap<BufferOwner, AttachedBuffer>,
    /// The sessions of communicators, by their first context id.
    sessions: BTreeMap<u32, u64>,
    /// Number of messages sent from all buffers so far.
    sent: u64,
}

// SAFETY: a message's piece is free only when its request is complete (`free_oldest`). An owned buffer is returned only if no message is in
// it, and is leaked otherwise (`into_memory`).
#[expect(unsafe_code, reason = "a promise about the buffers of operations (`buffer::Keeps`)")]
unsafe impl Keeps for AttachedBuffers {}

impl AttachedBuffers {
    /// Attaches memory.
    ///
    /// # Errors
    /// [`Error::BufferAttached`].
    pub(crate) fn attach(&mut self, owner: BufferOwner, memory: SendBuffer) -> Result<()> {
        if let Some(attached) = self.by_owner.get(&owner) {
            return Err(Error::BufferAttached { attached: attached.len() as u64 });
        }
        let attached = AttachedBuffer::new(self, memory);
        self.by_owner.insert(owner, attached);
        Ok(())
    }

    /// Detaches a buffer. `None` if no buffer is attached, or if messages are left in an owned buffer, whose memory is then leaked.
    pub(crate) fn detach(&mut self, owner: BufferOwner) -> Option<SendBuffer> {
        self.by_owner.remove(&owner).and_then(AttachedBuffer::into_memory)
    }

    /// Notes that the communicator whose first context id is `context_id` belongs to a session, or to none if `session` is 0.
    pub(crate) fn note_session(&mut self, context_id: u32, session: u64) {
        if session == 0 {
            self.sessions.remove(&context_id);
        } else {
            self.sessions.insert(context_id, session);
        }
    }

    /// Forgets the session and the buffer of a communicator that no longer exists. Returns the requests of the messages that are left in
    /// the buffer.
    pub(crate) fn end(&mut self, context_id: u32) -> Vec<RequestId> {
        self.sessions.remove(&context_id);
        let attached = self.by_owner.remove(&BufferOwner::Communicator(context_id));
        attached.map_or_else(Vec::new, |attached| {
            let left = attached.in_use.iter().map(|segment| segment.request).collect();
            // The memory is dropped, or leaked if messages are left.
            drop(attached.into_memory());
            left
        })
    }

    /// The owners of buffers.
    pub(crate) fn owners(&self) -> Vec<BufferOwner> {
        self.by_owner.keys().copied().collect()
    }

    /// The owner whose buffer a communicator's messages use.
    pub(crate) fn owner_for(&self, context_id: u32) -> Option<BufferOwner> {
        let first = context_id - context_id % context_id::SPACES;
        let session = self.sessions.get(&first).copied().map(BufferOwner::Session);
        [Some(BufferOwner::Communicator(context_id)), session, Some(BufferOwner::Process)]
            .into_iter()
            .flatten()
            .find(|owner| self.by_owner.contains_key(owner))
    }

    /// A free contiguous piece for a message of `len` bytes, with its offset in the buffer. `None` if no free piece is long enough, or if
    /// the owner has no memory attached.
    pub(crate) fn free_piece(&self, owner: BufferOwner, len: usize) -> Option<(usize, RawBuffer)> {
        let attached = self.by_owner.get(&owner)?;
        let start = attached.place(needed_bytes(len))?;
        Some((start, attached.memory.as_ref()?.bytes.part(start, len)?))
    }

    /// Whether each message of the buffer gets its own memory.
    pub(crate) fn is_automatic(&self, owner: BufferOwner) -> bool {
        self.by_owner.get(&owner).is_some_and(|attached| attached.memory.is_none())
    }

    /// Notes that the send of a message from the piece of `len` bytes at `start` has begun.
    pub(crate) fn sent(&mut self, owner: BufferOwner, (start, len): (usize, usize), request: RequestId) {
        self.sent += 1;
        if let Some(attached) = self.by_owner.get_mut(&owner) {
            attached.in_use.push_back(Segment { start, end: start + len, request, number: self.sent });
        }
    }

    /// The number of the last message that was sent from any buffer.
    pub(crate) fn last(&self) -> u64 {
        self.sent
    }

    /// The request of the oldest message in a buffer.
    pub(crate) fn oldest(&self, owner: BufferOwner) -> Option<RequestId> {
        self.by_owner.get(&owner).and_then(AttachedBuffer::oldest).map(|segment| segment.request)
    }

    /// Frees the memory of the oldest message of a buffer. The message must have been sent.
    pub(crate) fn free_oldest(&mut self, owner: BufferOwner) {
        if let Some(attached) = self.by_owner.get_mut(&owner) {
            attached.in_use.pop_front();
        }
    }

    /// Whether all messages of a buffer up to number `until` have been freed.
    pub(crate) fn is_free_of(&self, owner: BufferOwner, until: u64) -> bool {
        let oldest = self.by_owner.get(&owner).and_then(AttachedBuffer::oldest);
        oldest.is_none_or(|oldest| oldest.number > until)
    }

    /// The error for a message of `len` bytes: the buffer has no free piece for the message, or no buffer is attached.
    pub(crate) fn exhausted(&self, owner: BufferOwner, len: usize) -> Error {
        let (needed, attached) = (needed_bytes(len) as u64, self.by_owner.get(&owner));
        match attached {
            Some(attached) => Error::BufferExhausted {
                len: len as u64,
                needed,
                free: attached.free_bytes() as u64,
                attached: attached.len() as u64,
            },
            None => Error::NoBuffer { len: len as u64, needed },
        }
    }
}

/// An attached buffer.
#[derive(Debug)]
struct AttachedBuffer {
    /// `None`: each message has its own memory.
    memory: Option<Memory>,
    in_use: VecDeque<Segment>,
}

#[derive(Debug)]
struct Memory {
    bytes: RawBuffer,
    /// The vector that owns the bytes; `None` for lent memory. Not dropped with this value: a message may still be in the vector.
    vector: Option<ManuallyDrop<KeptVec>>,
}

/// The piece of one message.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: usize,
    end: usize,
    request: RequestId,
    /// Increases from message to message, across all buffers.
    number: u64,
}

impl AttachedBuffer {
    /// Attaches memory.
    fn new(keeper: &impl Keeps, memory: SendBuffer) -> Self {
        let memory = match memory {
            SendBuffer::Owned(vector) => {
                let (vector, bytes) = keep_vec(keeper, vector);
                Some(Memory { bytes, vector: Some(ManuallyDrop::new(vector)) })
            }
            SendBuffer::Lent(LentMemory(bytes)) => Some(Memory { bytes, vector: None }),
            SendBuffer::Automatic => None,
        };
        Self { memory, in_use: VecDeque::new() }
    }

    /// Total bytes.
    fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.bytes.len())
    }

    /// The memory. `None` if messages are left in an owned buffer, whose memory is then leaked.
    fn into_memory(self) -> Option<SendBuffer> {
        match self.memory {
            None => Some(SendBuffer::Automatic),
            Some(Memory { bytes, vector: None }) => Some(SendBuffer::Lent(LentMemory(bytes))),
            Some(Memory { vector: Some(vector), .. }) if self.in_use.is_empty() => {
                ManuallyDrop::into_inner(vector).into_vec().map(SendBuffer::Owned)
            }
            Some(_) => None,
        }
    }

    /// The oldest message in the buffer.
    fn oldest(&self) -> Option<Segment> {
        self.in_use.front().copied()
    }

    /// The offset of `needed` free contiguous bytes: after the newest message, or at the front of the buffer.
    fn place(&self, needed: usize) -> Option<usize> {
        let len = self.len();
        let (Some(oldest), Some(newest)) = (self.in_use.front(), self.in_use.back()) else {
            return (needed <= len).then_some(0);
        };
        let (head, tail) = (oldest.start, newest.end);
        if newest.start >= head {
            // The messages do not wrap around: there are free bytes after the newest message, and at the front before the oldest.
            if needed <= len - tail { Some(tail) } else { (needed <= head).then_some(0) }
        } else {
            (needed <= head - tail).then_some(tail)
        }
    }

    fn free_bytes(&self) -> usize {
        self.len() - self.in_use.iter().map(|segment| segment.end - segment.start).sum::<usize>()
    }
}

/// The bytes that a message of `len` bytes uses: whole lines.
pub(crate) fn needed_bytes(len: usize) -> usize {
    len.max(1).next_multiple_of(LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: usize, end: usize) -> Segment {
        Segment { start, end, request: RequestId::BLOCKING_RECEIVE, number: 0 }
    }

    #[test]
    fn free_bytes_are_found_behind_the_newest_message_or_before_the_oldest() {
        let mut attached = AttachedBuffer::new(&AttachedBuffers::default(), vec![0; 640].into());
        assert_eq!(attached.place(640), Some(0));
        assert_eq!(attached.place(641), None);
        attached.in_use.push_back(segment(0, 256));
        assert_eq!(attached.place(384), Some(256));
        attached.in_use.push_back(segment(256, 576));
        assert_eq!(attached.place(128), None);
        attached.in_use.pop_front();
        assert_eq!(attached.place(128), Some(0));
        attached.in_use.push_back(segment(0, 128));
        assert_eq!(attached.place(128), Some(128));
        assert_eq!(attached.place(129), None);
        assert_eq!(attached.free_bytes(), 640 - 320 - 128);
        attached.in_use.pop_front();
        attached.in_use.pop_front();
        assert_eq!(attached.into_memory().unwrap().len(), 640);
    }

    #[test]
    fn the_overhead_that_is_promised_covers_the_rounding() {
        for len in 0..300 {
            assert!(needed_bytes(len) <= len + BSEND_OVERHEAD_BYTES);
        }
    }
}
