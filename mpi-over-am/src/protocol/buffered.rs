//! Buffered mode: the message is copied into the attached buffer and sent from there (seed paper, figure 8).
//!
//! The buffer is used as a ring: a message lies behind the one before, and its room is free again when it and all before it
//! have gone (the model that MPI 4.1 section 3.6 describes).

use std::collections::{BTreeMap, VecDeque};

use am_core::buffer::RawBuffer;
use am_core::fabric::Fabric;

use super::{Mode, Route, start_send};
use crate::buffer::{KeptVec, LentMemory, OwnedMemory, SendData, bytes_to_keep};
use crate::context_id;
use crate::error::{Error, Result};
use crate::policy::LockPolicy;
use crate::request::RequestId;
use crate::state::State;
use crate::turn::Turn;

/// What a message takes in the attached buffer beside its data, at most (`MPI_BSEND_OVERHEAD`).
pub const BSEND_OVERHEAD_BYTES: usize = 64;

/// Messages begin at cache lines.
const LINE_BYTES: usize = 64;

/// Whose buffered sends a buffer is for (MPI 5.0 section 3.6): a communicator's are kept in its own buffer if it has one, else in
/// its session's, else in the process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BufferOwner {
    /// All communicators of the process (`MPI_Buffer_attach`).
    Process,
    /// Communicators of a session, by a number that the program gave it (`MPI_Session_attach_buffer`).
    Session(u64),
    /// One communicator, by its context id (`MPI_Comm_attach_buffer`).
    Communicator(u32),
}

/// Memory for buffered sends.
#[derive(Debug)]
pub enum SendBuffer {
    /// Given away; it comes back when it is detached.
    Owned(Vec<u8>),
    /// Lent: whoever made the range has promised to leave it alone until it is detached.
    Lent(RawBuffer),
    /// As much as is needed, from the library (`MPI_BUFFER_AUTOMATIC`).
    Automatic,
}

impl SendBuffer {
    /// Bytes of it; 0 where the library sees to it.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(memory) => memory.len(),
            Self::Lent(memory) => memory.len(),
            Self::Automatic => 0,
        }
    }

    /// Whether it has no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<LentMemory> for SendBuffer {
    fn from(LentMemory(memory): LentMemory) -> Self {
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
pub(crate) struct Buffers {
    by_owner: BTreeMap<BufferOwner, AttachedBuffer>,
    /// The sessions of communicators, by their first context id.
    sessions: BTreeMap<u32, u64>,
}

impl Buffers {
    /// Attaches memory.
    ///
    /// # Errors
    /// [`Error::BufferAttached`].
    pub(crate) fn attach(&mut self, owner: BufferOwner, memory: SendBuffer) -> Result<()> {
        if let Some(attached) = self.by_owner.get(&owner) {
            return Err(Error::BufferAttached { attached: attached.len() as u64 });
        }
        self.by_owner.insert(owner, AttachedBuffer::new(memory));
        Ok(())
    }

    /// The communicator that begins with this context id belongs to a session; 0: to none.
    pub(crate) fn note_session(&mut self, context_id: u32, session: u64) {
        if session == 0 {
            self.sessions.remove(&context_id);
        } else {
            self.sessions.insert(context_id, session);
        }
    }

    /// Those who have a buffer.
    pub(crate) fn owners(&self) -> Vec<BufferOwner> {
        self.by_owner.keys().copied().collect()
    }

    /// Where a communicator's messages are kept.
    fn owner_for(&self, context_id: u32) -> Option<BufferOwner> {
        let first = context_id - context_id % context_id::SPACES;
        let session = self.sessions.get(&first).copied().map(BufferOwner::Session);
        [Some(BufferOwner::Communicator(context_id)), session, Some(BufferOwner::Process)]
            .into_iter()
            .flatten()
            .find(|owner| self.by_owner.contains_key(owner))
    }
}

/// An attached buffer.
#[derive(Debug)]
struct AttachedBuffer {
    /// `None`: each message has memory of its own.
    memory: Option<OwnedMemory>,
    in_use: VecDeque<Segment>,
}

/// The room of one message.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: usize,
    end: usize,
    request: RequestId,
}

impl AttachedBuffer {
    /// Attaches memory.
    fn new(memory: SendBuffer) -> Self {
        let memory = match memory {
            SendBuffer::Owned(memory) => Some(OwnedMemory::new(memory)),
            SendBuffer::Lent(memory) => Some(OwnedMemory::lent(memory)),
            SendBuffer::Automatic => None,
        };
        Self { memory, in_use: VecDeque::new() }
    }

    /// Bytes in all.
    fn len(&self) -> usize {
        self.memory.as_ref().map_or(0, OwnedMemory::len)
    }

    /// The memory, if no message is left in it; otherwise it is leaked.
    fn into_memory(self) -> Option<SendBuffer> {
        let Some(memory) = self.memory else { return Some(SendBuffer::Automatic) };
        match memory.into_vec(&self.in_use) {
            Ok(memory) => memory.map(SendBuffer::Owned),
            Err(lent) => Some(SendBuffer::Lent(lent)),
        }
    }

    /// The oldest message in it.
    fn oldest(&self) -> Option<RequestId> {
        self.in_use.front().map(|segment| segment.request)
    }

    /// Forgets the oldest message: it has gone.
    fn free_oldest(&mut self) {
        self.in_use.pop_front();
    }

    /// Where `needed` bytes are free in one piece, behind the newest message.
    fn place(&self, needed: usize) -> Option<usize> {
        let len = self.len();
        let (Some(oldest), Some(newest)) = (self.in_use.front(), self.in_use.back()) else {
            return (needed <= len).then_some(0);
        };
        let (head, tail) = (oldest.start, newest.end);
        if newest.start >= head {
            // Not wrapped around: behind the newest, or at the front before the oldest.
            if needed <= len - tail { Some(tail) } else { (needed <= head).then_some(0) }
        } else {
            (needed <= head - tail).then_some(tail)
        }
    }

    fn free_bytes(&self) -> usize {
        self.len() - self.in_use.iter().map(|segment| segment.end - segment.start).sum::<usize>()
    }
}

/// Sends a message from the attached buffer. Completes whatever the receiver does.
///
/// # Errors
/// [`Error::NoBuffer`], [`Error::BufferExhausted`], what am-core reports.
pub(crate) fn send_buffered<F: Fabric>(state: &mut State<F>, route: &Route, bytes: &[u8]) -> Result<()> {
    send_filled(state, route, bytes.len(), |room| room.copy_from_slice(bytes))
}

/// As [`send_buffered`], for elements of a datatype.
///
/// # Errors
/// As for [`send_buffered`].
pub(crate) fn send_buffered_data<F: Fabric>(
    state: &mut State<F>,
    route: &Route,
    data: &SendData,
) -> Result<()> {
    let len = usize::try_from(data.packed_len()).map_err(|_| Error::TooLarge { call: "a buffered send" })?;
    send_filled(state, route, len, |room| {
        data.pack(0, room);
    })
}

fn send_filled<F: Fabric>(
    state: &mut State<F>,
    route: &Route,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<()> {
    let needed = needed_bytes(len);
    let owner = state.buffers.owner_for(route.envelope.context_id().0);
    let Some((owner, mut attached)) =
        owner.and_then(|owner| state.buffers.by_owner.remove(&owner).map(|attached| (owner, attached)))
    else {
        return Err(Error::NoBuffer { len: len as u64, needed: needed as u64 });
    };
    free_what_has_gone(state, &mut attached);
    let sent = if attached.memory.is_some() {
        send_from(state, &mut attached, route, (len, fill), needed)
    } else {
        send_alone(state, &mut attached, route, (len, fill))
    };
    state.buffers.by_owner.insert(owner, attached);
    sent
}

/// Sends a message from memory of its own.
fn send_alone<F: Fabric>(
    state: &mut State<F>,
    attached: &mut AttachedBuffer,
    route: &Route,
    (len, fill): (usize, impl FnOnce(&mut [u8])),
) -> Result<()> {
    let mut message = vec![0; len];
    fill(&mut message);
    let bytes = bytes_to_keep(&message);
    let request = start_send(state, Mode::Buffered, route, bytes)?;
    state.handlers().requests.keep(request, KeptVec::new(message));
    attached.in_use.push_back(Segment { start: 0, end: 0, request });
    Ok(())
}

fn send_from<F: Fabric>(
    state: &mut State<F>,
    attached: &mut AttachedBuffer,
    route: &Route,
    (len, fill): (usize, impl FnOnce(&mut [u8])),
    needed: usize,
) -> Result<()> {
    if attached.place(needed).is_none() {
        // Messages may have gone of which this task has not heard yet.
        state.take_in()?;
        free_what_has_gone(state, attached);
    }
    let start = attached.place(needed);
    let filled = start
        .zip(attached.memory.as_mut())
        .and_then(|(start, memory)| Some((start, memory.fill(start, len, fill)?)));
    let Some((start, raw)) = filled else {
        return Err(Error::BufferExhausted {
            len: len as u64,
            needed: needed as u64,
            free: attached.free_bytes() as u64,
            attached: attached.len() as u64,
        });
    };
    let request = start_send(state, Mode::Buffered, route, raw)?;
    attached.in_use.push_back(Segment { start, end: start + needed, request });
    Ok(())
}

/// Waits until all messages have gone from a buffer.
///
/// # Errors
/// What progress reports, and the first error of the messages.
pub(crate) fn flush<F: Fabric, L: LockPolicy>(state: &mut Turn<'_, F, L>, owner: BufferOwner) -> Result<()> {
    let mut result = Ok(());
    while let Some(request) = state.buffers.by_owner.get(&owner).and_then(AttachedBuffer::oldest) {
        state.wait_over(request)?;
        let State { context, buffers, .. } = &mut **state;
        // Another thread may have freed its room meanwhile.
        if let Some(attached) =
            buffers.by_owner.get_mut(&owner).filter(|other| other.oldest() == Some(request))
        {
            result = result.and(context.handlers_mut().requests.take(request).map(|_| ()));
            attached.free_oldest();
        }
    }
    result
}

/// The messages that are in a buffer now.
pub(crate) fn messages_in<F: Fabric>(state: &State<F>, owner: BufferOwner) -> Vec<RequestId> {
    let attached = state.buffers.by_owner.get(&owner);
    attached.map_or(Vec::new(), |attached| attached.in_use.iter().map(|segment| segment.request).collect())
}

/// Waits until all messages have gone from a buffer, and gives its memory back; `None` if there is none.
///
/// # Errors
/// As for [`flush`]; the buffer then stays attached.
pub(crate) fn detach<F: Fabric, L: LockPolicy>(
    state: &mut Turn<'_, F, L>,
    owner: BufferOwner,
) -> Result<Option<SendBuffer>> {
    flush(state, owner)?;
    Ok(state.buffers.by_owner.remove(&owner).and_then(AttachedBuffer::into_memory))
}

/// Frees the room of messages that have gone. Their errors have no call to be reported by but the next one.
fn free_what_has_gone<F: Fabric>(state: &mut State<F>, attached: &mut AttachedBuffer) {
    let handlers = state.handlers();
    while let Some(request) = attached.oldest().filter(|&request| handlers.requests.is_over(request)) {
        if let Err(error) = handlers.requests.take(request) {
            handlers.defer(error);
        }
        attached.free_oldest();
    }
}

/// Whole lines.
fn needed_bytes(len: usize) -> usize {
    len.max(1).next_multiple_of(LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: usize, end: usize) -> Segment {
        Segment { start, end, request: RequestId::BLOCKING_RECEIVE }
    }

    #[test]
    fn room_is_found_behind_the_newest_message_or_before_the_oldest() {
        let mut attached = AttachedBuffer::new(vec![0; 640].into());
        assert_eq!(attached.place(640), Some(0));
        assert_eq!(attached.place(641), None);
        attached.in_use.push_back(segment(0, 256));
        assert_eq!(attached.place(384), Some(256));
        attached.in_use.push_back(segment(256, 576));
        assert_eq!(attached.place(128), None);
        attached.free_oldest();
        assert_eq!(attached.place(128), Some(0));
        attached.in_use.push_back(segment(0, 128));
        assert_eq!(attached.place(128), Some(128));
        assert_eq!(attached.place(129), None);
        assert_eq!(attached.free_bytes(), 640 - 320 - 128);
        attached.free_oldest();
        attached.free_oldest();
        assert_eq!(attached.into_memory().unwrap().len(), 640);
    }

    #[test]
    fn the_overhead_that_is_promised_covers_the_rounding() {
        for len in 0..300 {
            assert!(needed_bytes(len) <= len + BSEND_OVERHEAD_BYTES);
        }
    }
}
