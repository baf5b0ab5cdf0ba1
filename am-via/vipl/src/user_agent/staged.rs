//! RDMA if the device cannot access the memory: the bytes are sent through the receive areas, and the VI at the other end stores or sends
//! them. Only this RDMA needs progress of the target.
//!
//! A piece of a write begins with its destination:
//!
//! ```text
//! 0   region        8   offset in the registration, in bytes
//! 4   generation    16  the bytes
//! ```

use crate::descriptor::{AddressSegment, Status};
use crate::error::AsyncCode;
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::entry::{Kind, LAST_PIECE, WANTS_ACKNOWLEDGEMENT, low_word};
use crate::user_agent::memory::{Segments, bytes_count};
use crate::user_agent::sending::{Step, remote, send_area, send_inline};
use crate::user_agent::work::{Phase, Serving, Vi, Work};
use am_via_nic::Nic;
use am_via_nic::ViState;
use am_via_nic::device::{Device, Entry, MemAttributes, MemHandle, Payload, Posted, ViNumber};
use am_via_shm::CheckedRange;

const HEAD_BYTES: usize = 16;

impl<D: Device> UserAgent<D> {
    /// Sends the next piece of a staged write.
    pub(crate) fn stage_write(&mut self, vi: ViHandle) -> Step {
        let Self { nic: Nic { device, vis, .. }, kernel, .. } = self;
        let Some(found) = vis.get_mut(vi.0) else { return Step::Blocked };
        let reliable = found.is_reliable();
        let Some(head) = found.work.sends.head() else { return Step::Blocked };
        let descriptor = &head.descriptor;
        let Ok(segments) =
            Segments::translate(&kernel.registrations, &descriptor.segments, found.work.attributes.ptag)
        else {
            return Step::Ended(Status::PROTECTION_ERROR);
        };
        let moved = found.work.sending.moved;
        let Some(at) = remote(descriptor.address, moved) else {
            return Step::Ended(Status::RDMA_PROT_ERROR);
        };
        let left = descriptor.length - moved;
        let piece = left.min(kernel.limits().native_mtu_bytes.saturating_sub(bytes_count(HEAD_BYTES)));
        let last = piece == left;
        let flags = if last { LAST_PIECE | WANTS_ACKNOWLEDGEMENT } else { 0 };
        let entry = Entry { extra: flags | Kind::StagedWrite.bits(), ..Entry::default() };
        let posted = send_area(found, device, entry, HEAD_BYTES + piece as usize, |area| {
            write_head(area, at).map_or(0, |area| HEAD_BYTES + segments.gather(moved, area))
        });
        drop(segments);
        match posted {
            Ok(Posted::Retry) => Step::HeldUp,
            Err(_) => Step::Ended(Status::TRANSPORT_ERROR),
            Ok(Posted::Done) => {
                found.work.sending.moved += piece;
                // An unreliable VI gets no acknowledgement: sent means done.
                found.work.sending.phase = match (last, reliable) {
                    (false, _) => Phase::Staging,
                    (true, true) => Phase::Staged,
                    (true, false) => Phase::Moving,
                };
                Step::Again
            }
        }
    }

    /// Handles a piece of a peer's staged write.
    pub(crate) fn handle_staged_write(&mut self, vi: ViHandle, number: ViNumber, slot: u32, entry: &Entry) {
        let Self { nic: Nic { device, vis, .. }, kernel, .. } = self;
        let Some(found) = vis.get_mut(vi.0).filter(|found| found.state() == ViState::Connected) else {
            return;
        };
        // SAFETY: the slot of the entry that is being handled, which is released afterwards.
        let bytes = unsafe { device.area(number, slot, entry.length) };
        let Some((at, data)) = read_head(bytes) else {
            self.break_connection(vi, Status::TRANSPORT_ERROR);
            return;
        };
        let need =
            MemAttributes { ptag: found.work.attributes.ptag.number(), rdma_write: true, rdma_read: false };
        let to = kernel.registrations.translate(at.handle, at.offset, data.len() as u64, need);
        let placed = found.work.attributes.rdma_write && to.is_ok_and(|to| to.copy_from(data));
        if !placed {
            self.refuse_access(vi, AsyncCode::RdmaWriteProtection);
        } else if entry.extra & LAST_PIECE != 0 && found.is_reliable() {
            self.owe_peer(vi, Kind::Acknowledge, 0);
        }
    }

    /// Asks the peer to send the rest of a read.
    pub(crate) fn request_read(&mut self, vi: ViHandle) -> Step {
        let Self { nic: Nic { device, vis, .. }, .. } = self;
        let Some(found) = vis.get_mut(vi.0) else { return Step::Blocked };
        let Some(head) = found.work.sends.head() else { return Step::Blocked };
        let Some(at) = remote(head.descriptor.address, found.work.sending.moved) else {
            return Step::Ended(Status::RDMA_PROT_ERROR);
        };
        let left = u64::from(head.descriptor.length - found.work.sending.moved);
        let entry = Entry { extra: Kind::ReadRequest.bits(), ..Entry::default() };
        let handle = u64::from(at.handle.region) | u64::from(at.handle.generation) << 32;
        match send_inline(found, device, entry, &[handle, at.offset, left, 0, 0]) {
            Ok(Posted::Retry) => Step::HeldUp,
            Err(_) => Step::Ended(Status::TRANSPORT_ERROR),
            Ok(Posted::Done) => {
                found.work.sending.phase = Phase::Reading;
                Step::Blocked
            }
        }
    }

    /// Handles a peer's read of memory of this NIC. A correct VI has one read in flight at a time.
    pub(crate) fn handle_read_request(&mut self, vi: ViHandle, payload: &Payload) {
        let Some(found) = self.nic.vis.get_mut(vi.0).filter(|found| found.state() == ViState::Connected)
        else {
            return;
        };
        if found.work.serving.is_some() {
            self.break_connection(vi, Status::TRANSPORT_ERROR);
            return;
        }
        let [handle, offset, left, ..] = *payload;
        let handle = MemHandle { region: low_word(handle), generation: (handle >> 32) as u32 };
        found.work.serving = Some(Serving { handle, offset, left });
        self.serve(vi);
    }

    /// Sends the next pieces of the read that this side serves, until the ring is full.
    pub(crate) fn serve(&mut self, vi: ViHandle) {
        while self.serve_piece(vi) {}
    }

    fn serve_piece(&mut self, vi: ViHandle) -> bool {
        let Some(found) = self.nic.vis.get(vi.0).filter(|found| found.state() == ViState::Connected) else {
            return false;
        };
        let (Some(Serving { handle, offset, left }), Some(number)) = (found.work.serving, found.linked())
        else {
            return false;
        };
        if !self.pay(number) {
            return false;
        }
        let Self { nic: Nic { device, vis, .. }, kernel, .. } = self;
        let Some(found) = vis.get_mut(vi.0) else { return false };
        let need =
            MemAttributes { ptag: found.work.attributes.ptag.number(), rdma_write: false, rdma_read: true };
        // Checked for each piece, since the registration may end between two pieces.
        let from = kernel.registrations.translate(handle, offset, left, need);
        let Some(from) = from.ok().filter(|_| found.work.attributes.rdma_read) else {
            self.refuse_access(vi, AsyncCode::RdmaReadProtection);
            return false;
        };
        let piece = from.len().min(device.attributes().slot_bytes);
        let last = piece == from.len();
        let last_flag = if last { LAST_PIECE } else { 0 };
        let entry = Entry { extra: Kind::ReadPiece.bits() | last_flag, ..Entry::default() };
        let posted = send_area(found, device, entry, piece, |area| {
            let part = from.part(0, piece.min(area.len())).unwrap_or_else(CheckedRange::empty);
            if area.copy_from(part) { part.len() } else { 0 }
        });
        match posted {
            Ok(Posted::Retry) => {
                self.held_up = true;
                false
            }
            Err(_) => {
                self.lose(vi);
                false
            }
            Ok(Posted::Done) => {
                let (offset, left) = (offset + piece as u64, left - piece as u64);
                found.work.serving = (!last).then_some(Serving { handle, offset, left });
                !last
            }
        }
    }

    /// Handles a piece of a read of this VI.
    pub(crate) fn handle_read_piece(&mut self, vi: ViHandle, number: ViNumber, slot: u32, entry: &Entry) {
        if self.nic.vis.get(vi.0).is_none_or(|found| found.state() != ViState::Connected) {
            return;
        }
        let last = entry.extra & LAST_PIECE != 0;
        match self.place_read_piece(vi, number, slot, entry.length) {
            // No read is under way, more data arrived than were requested, or the program has deregistered the memory meanwhile.
            None => self.break_connection(vi, Status::TRANSPORT_ERROR),
            Some(left) if last && left > 0 => self.break_connection(vi, Status::TRANSPORT_ERROR),
            Some(_) if last => self.end_read(vi),
            Some(_) => {}
        }
    }

    /// Stores a piece of a read; returns the number of bytes that are still missing, or `None` if the piece cannot be stored.
    fn place_read_piece(&mut self, vi: ViHandle, number: ViNumber, slot: u32, length: u32) -> Option<u32> {
        let Self { nic: Nic { device, vis, .. }, kernel, .. } = self;
        let Vi { work, .. } = vis.get_mut(vi.0)?;
        let Work { sends, sending, .. } = work;
        let head = sends.head().filter(|_| sending.phase == Phase::Reading)?;
        let descriptor = &head.descriptor;
        let segments =
            Segments::translate(&kernel.registrations, &descriptor.segments, work.attributes.ptag).ok()?;
        // SAFETY: the slot of the entry that is being handled, which is released afterwards.
        let bytes = unsafe { device.area(number, slot, length) };
        let placed = segments.scatter(sending.moved, bytes);
        sending.moved += bytes_count(placed);
        (placed == bytes.len()).then(|| descriptor.length - sending.moved)
    }

    fn refuse_access(&mut self, vi: ViHandle, code: AsyncCode) {
        self.note_error(vi, code);
        let reliable = self.nic.vis.get(vi.0).is_some_and(Vi::is_reliable);
        if reliable {
            self.break_connection(vi, Status::RDMA_PROT_ERROR);
        }
    }
}

/// Writes the destination of a piece; returns the range for its bytes.
fn write_head(area: CheckedRange<'_>, at: AddressSegment) -> Option<CheckedRange<'_>> {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&at.handle.region.to_le_bytes());
    head[4..8].copy_from_slice(&at.handle.generation.to_le_bytes());
    head[8..].copy_from_slice(&at.offset.to_le_bytes());
    area.part(0, HEAD_BYTES)?.copy_from_slice(&head);
    area.part(HEAD_BYTES, area.len() - HEAD_BYTES)
}

fn read_head(bytes: CheckedRange<'_>) -> Option<(AddressSegment, CheckedRange<'_>)> {
    let mut head = [0; HEAD_BYTES];
    bytes.part(0, HEAD_BYTES)?.copy_to_slice(&mut head);
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes of the head"));
    let handle = MemHandle { region: word(0), generation: word(4) };
    let offset = u64::from(word(8)) | u64::from(word(12)) << 32;
    Some((AddressSegment { handle, offset }, bytes.part(HEAD_BYTES, bytes.len() - HEAD_BYTES)?))
}
