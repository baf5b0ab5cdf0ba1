//! Arrivals on a VI with explicit descriptors: each message takes the next receive descriptor.

use crate::descriptor::Status;
use crate::error::AsyncCode;
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::entry::{
    HAS_IMMEDIATE, Kind, LAST_PIECE, PIECE_SHIFT, WANTS_ACKNOWLEDGEMENT, WRITTEN, low_word,
};
use crate::user_agent::memory::{Segments, bytes_count};
use crate::user_agent::work::{Receiving, Vi, Work};
use crate::user_agent::work_queue::Queue;
use am_via_nic::Nic;
use am_via_nic::ViState;
use am_via_nic::device::{Device, Entry, INLINE_BYTES_MAX, Payload, ViNumber};

/// Result of a piece of a message.
enum Piece {
    /// The bytes of the piece are stored, and more pieces follow.
    Placed,
    /// The message is whole.
    Last,
    /// The piece belongs to a message that is dropped.
    Discarded,
    /// No receive is posted.
    NoDescriptor,
    /// The descriptor ends with this error.
    Failed(Status),
    /// No correct peer sends this.
    Malformed,
}

impl<D: Device> UserAgent<D> {
    /// Handles a send, a piece of a send, or the announcement of an RDMA write, with bytes in the entry or in the receive area.
    pub(crate) fn handle_message(
        &mut self,
        vi: ViHandle,
        number: ViNumber,
        slot: Option<u32>,
        entry: &Entry,
        payload: &Payload,
    ) {
        let Some(found) = self.nic.vis.get_mut(vi.0).filter(|found| found.state() == ViState::Connected)
        else {
            return;
        };
        let (reliable, is_write) = (found.is_reliable(), entry.extra & WRITTEN != 0);
        match self.take_piece(vi, number, slot, entry, payload) {
            Piece::Placed | Piece::Discarded => {}
            Piece::Last => self.end_message(vi, entry, is_write),
            Piece::NoDescriptor => {
                self.note_error(vi, AsyncCode::ReceiveQueueEmpty);
                self.spoil(vi, reliable);
            }
            Piece::Failed(error) => {
                self.fail_receive(vi, is_write, error);
                self.spoil(vi, reliable);
            }
            Piece::Malformed => self.break_connection(vi, Status::TRANSPORT_ERROR),
        }
    }

    fn take_piece(
        &mut self,
        vi: ViHandle,
        number: ViNumber,
        slot: Option<u32>,
        entry: &Entry,
        payload: &Payload,
    ) -> Piece {
        let Self { nic: Nic { device, vis, .. }, kernel, .. } = self;
        let Some(found) = vis.get_mut(vi.0) else { return Piece::Discarded };
        let reliable = found.is_reliable();
        let Vi { work, .. } = found;
        let Work { receives, receiving, .. } = work;
        let piece = low_word(entry.extra >> PIECE_SHIFT);
        if piece == 0 && !reliable {
            // If the end of the previous message was lost, its descriptor takes this message.
            *receiving = Receiving::default();
        }
        if piece != receiving.next_piece {
            receiving.discarding = true;
            return if reliable { Piece::Malformed } else { Piece::Discarded };
        }
        if receiving.discarding {
            return Piece::Discarded;
        }
        let Some(head) = receives.head() else { return Piece::NoDescriptor };
        if let Some(flaw) = head.flaw {
            return Piece::Failed(flaw);
        }
        let Ok(segments) =
            Segments::translate(&kernel.registrations, &head.descriptor.segments, work.attributes.ptag)
        else {
            return Piece::Failed(Status::PROTECTION_ERROR);
        };
        let (len, placed) = match slot {
            _ if entry.extra & WRITTEN != 0 => (0, 0),
            None => {
                let bytes = bytes(payload);
                let Some(bytes) = bytes.get(..entry.length as usize) else { return Piece::Malformed };
                (bytes.len(), segments.scatter_slice(receiving.placed, bytes))
            }
            Some(slot) => {
                // SAFETY: the slot of the entry that is being handled, which is released afterwards.
                let bytes = unsafe { device.area(number, slot, entry.length) };
                (bytes.len(), segments.scatter(receiving.placed, bytes))
            }
        };
        receiving.placed += bytes_count(placed);
        receiving.next_piece = piece.wrapping_add(1);
        match (placed < len, entry.extra & LAST_PIECE != 0) {
            (true, _) => Piece::Failed(Status::LENGTH_ERROR),
            (false, true) => Piece::Last,
            (false, false) => Piece::Placed,
        }
    }

    fn end_message(&mut self, vi: ViHandle, entry: &Entry, is_write: bool) {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        let placed = std::mem::take(&mut found.work.receiving).placed;
        if entry.extra & WANTS_ACKNOWLEDGEMENT != 0 {
            self.owe_peer(vi, Kind::Acknowledge, 0);
        }
        self.complete(vi, Queue::Receive, |descriptor| {
            let operation = if is_write { Status::OP_REMOTE_RDMA_WRITE } else { Status::OP_RECEIVE };
            descriptor.status = operation;
            descriptor.length = if is_write { entry.length } else { placed };
            if entry.extra & HAS_IMMEDIATE != 0 {
                descriptor.status = operation | Status::IMMEDIATE;
                descriptor.immediate = entry.immediate;
            }
        });
    }

    fn fail_receive(&mut self, vi: ViHandle, is_write: bool, error: Status) {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        let placed = found.work.receiving.placed;
        self.complete(vi, Queue::Receive, |descriptor| {
            let operation = if is_write { Status::OP_REMOTE_RDMA_WRITE } else { Status::OP_RECEIVE };
            let partial = if placed > 0 { Status::PARTIAL_ERROR } else { Status::default() };
            descriptor.status = operation | error | partial;
            descriptor.length = placed;
        });
    }

    /// Handles a message that could not be received: breaks a reliable connection; an unreliable one drops the message.
    fn spoil(&mut self, vi: ViHandle, reliable: bool) {
        if reliable {
            self.break_connection(vi, Status::REMOTE_DESC_ERROR);
        } else if let Some(found) = self.nic.vis.get_mut(vi.0) {
            found.work.receiving.discarding = true;
        }
    }
}

fn bytes(payload: &Payload) -> [u8; INLINE_BYTES_MAX] {
    let mut bytes = [0; INLINE_BYTES_MAX];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(payload) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
