//! Buffered mode: the message is copied into the attached buffer and sent from there (seed paper, figure 8).
//!
//! The buffer is used as a ring: a message lies behind the one before, and its room is free again when it and all before it
//! have gone (the model that MPI 4.1 section 3.6 describes).

use std::collections::VecDeque;

use am_core::fabric::Fabric;

use super::{Mode, Route, start_send};
use crate::buffer::{OwnedMemory, SendData};
use crate::error::{Error, Result};
use crate::request::RequestId;
use crate::state::State;

/// What a message takes in the attached buffer beside its data, at most (`MPI_BSEND_OVERHEAD`).
pub const BSEND_OVERHEAD_BYTES: usize = 64;

/// Messages begin at cache lines.
const LINE_BYTES: usize = 64;

/// The attached buffer.
#[derive(Debug)]
pub(crate) struct AttachedBuffer {
    memory: OwnedMemory,
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
    pub(crate) fn new(memory: Vec<u8>) -> Self {
        Self { memory: OwnedMemory::new(memory), in_use: VecDeque::new() }
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// The memory, if no message is left in it; otherwise it is leaked.
    pub(crate) fn into_memory(self) -> Option<Vec<u8>> {
        self.memory.into_vec(&self.in_use)
    }

    /// The oldest message in it.
    pub(crate) fn oldest(&self) -> Option<RequestId> {
        self.in_use.front().map(|segment| segment.request)
    }

    /// Forgets the oldest message: it has gone.
    pub(crate) fn free_oldest(&mut self) {
        self.in_use.pop_front();
    }

    /// Where `needed` bytes are free in one piece, behind the newest message.
    fn place(&self, needed: usize) -> Option<usize> {
        let len = self.memory.len();
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
        self.memory.len() - self.in_use.iter().map(|segment| segment.end - segment.start).sum::<usize>()
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
    let Some(mut attached) = state.attached.take() else {
        return Err(Error::NoBuffer { len: len as u64, needed: needed as u64 });
    };
    let sent = send_from(state, &mut attached, route, (len, fill), needed);
    state.attached = Some(attached);
    sent
}

fn send_from<F: Fabric>(
    state: &mut State<F>,
    attached: &mut AttachedBuffer,
    route: &Route,
    (len, fill): (usize, impl FnOnce(&mut [u8])),
    needed: usize,
) -> Result<()> {
    free_what_has_gone(state, attached);
    if attached.place(needed).is_none() {
        // Messages may have gone of which this task has not heard yet.
        while state.context.probe()? {}
        free_what_has_gone(state, attached);
    }
    let Some((start, raw)) =
        attached.place(needed).and_then(|start| Some((start, attached.memory.fill(start, len, fill)?)))
    else {
        return Err(Error::BufferExhausted {
            len: len as u64,
            needed: needed as u64,
            free: attached.free_bytes() as u64,
            attached: attached.len() as u64,
        });
    };
    let request = start_send(state, Mode::Buffered, route, raw, 0)?;
    attached.in_use.push_back(Segment { start, end: start + needed, request });
    Ok(())
}

/// Waits until all messages have gone from the attached buffer.
///
/// # Errors
/// What progress reports, and the first error of the messages.
pub(crate) fn flush<F: Fabric>(state: &mut State<F>) -> Result<()> {
    let mut result = Ok(());
    while let Some(request) = state.attached.as_ref().and_then(AttachedBuffer::oldest) {
        state.wait_over(request)?;
        result = result.and(state.handlers().requests.take(request).map(|_| ()));
        if let Some(attached) = &mut state.attached {
            attached.free_oldest();
        }
    }
    result
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
        let mut attached = AttachedBuffer::new(vec![0; 640]);
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
