//! The engine of the send queues: carries out descriptors in order, each as far as the device accepts it now.
//!
//! An RDMA read is done before the next descriptor starts. At the level of reliable reception, this holds for every descriptor. So a queue
//! fence has no effect.

use crate::descriptor::{AddressSegment, Control, Descriptor, Status};
use crate::error::{AsyncCode, VipError};
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::entry::{
    HAS_IMMEDIATE, Kind, LAST_PIECE, PIECE_SHIFT, WANTS_ACKNOWLEDGEMENT, WRITTEN,
};
use crate::user_agent::memory::{Segments, bytes_count};
use crate::user_agent::work::{Phase, Sending, Vi, Work};
use crate::user_agent::work_queue::Queue;
use am_contract::transfer::Class;
use am_via_nic::Nic;
use am_via_nic::device::{
    Claim, ClaimFault, Device, DeviceError, Entry, INLINE_BYTES_MAX, MemHandle, Operation, Payload, Posted,
    Transfer,
};
use am_via_nic::{Carry, InArea, InEntry, Reliability, ViState};
use am_via_shm::CheckedRange;

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing can be done now: the queue has no pending descriptor, or its head waits for the peer or the device.
    Blocked,
    /// The head waits for a free line of the peer's ring or, for a transfer, for capacity of the device. The peer does not ring the
    /// doorbell when it frees lines, so sleeps are short (`held_up`).
    HeldUp,
    /// The next step can follow.
    Again,
    /// The queue's head is done, with these errors or with [`SUCCESS`].
    Ended(Status),
}

const SUCCESS: Status = Status(0);

impl Work {
    /// Handles the end of a transfer of the head.
    pub(crate) fn transfer_ended(&mut self, id: u64, result: Result<u64, ClaimFault>) {
        match &mut self.sending.phase {
            Phase::Transferring { id: current, end, .. } if *current == id => *end = Some(result.map(drop)),
            _ => {}
        }
    }

    fn last_flags(&self, descriptor: &Descriptor) -> u64 {
        let immediate = if descriptor.control.contains(Control::IMMEDIATE) { HAS_IMMEDIATE } else { 0 };
        let acknowledged = self.attributes.reliability == Reliability::ReliableReception;
        LAST_PIECE | immediate | if acknowledged { WANTS_ACKNOWLEDGEMENT } else { 0 }
    }
}

/// Sends an entry with its bytes to the peer's VI. Fills in the operation word.
pub(crate) fn send_inline<D: Device>(
    vi: &mut Vi,
    device: &mut D,
    entry: Entry,
    payload: &Payload,
) -> Result<Posted, DeviceError> {
    send(vi, device, Operation::Inline, entry, InEntry(payload))
}

/// Like [`send_inline`], with at most `len` bytes, which `fill` writes into the peer's receive area.
pub(crate) fn send_area<D: Device>(
    vi: &mut Vi,
    device: &mut D,
    entry: Entry,
    len: usize,
    mut fill: impl FnMut(CheckedRange<'_>) -> usize,
) -> Result<Posted, DeviceError> {
    let fill = |area: CheckedRange<'_>, _| Some(fill(area));
    send(vi, device, Operation::Area, entry, InArea(&Payload::default(), len, fill))
}

fn send<D: Device>(
    vi: &mut Vi,
    device: &mut D,
    operation: Operation,
    entry: Entry,
    mut bytes: impl Carry<D>,
) -> Result<Posted, DeviceError> {
    let entry = Entry { operation: vi.work.operation(operation), ..entry };
    if vi.post(device, Class::OneWay, entry, &mut bytes) {
        return Ok(Posted::Done);
    }
    vi.post_slowly(device, Class::OneWay, entry, &mut bytes)
}

impl<D: Device> UserAgent<D> {
    /// Carries out the send queue of a VI as far as possible now.
    pub(crate) fn carry_on(&mut self, vi: ViHandle) {
        self.serve(vi);
        loop {
            match self.step(vi) {
                Step::Blocked => return,
                Step::HeldUp => {
                    self.held_up = true;
                    return;
                }
                Step::Again => {}
                Step::Ended(errors) => self.end_send(vi, errors),
            }
        }
    }

    /// Sends an immediate word and up to 40 bytes without a descriptor; word and bytes are sent when the call returns [`Posted::Done`].
    /// Earlier posts come first: [`Posted::Retry`] while the send queue is not idle, queued answers wait, or the peer's ring is full.
    ///
    /// # Errors
    /// No such VI, too many bytes, not connected, or the connection is gone.
    pub fn post_inline(
        &mut self,
        vi: ViHandle,
        immediate: Option<u32>,
        bytes: &[u8],
    ) -> Result<Posted, VipError> {
        self.carry_on(vi);
        let found = self.vi(vi)?;
        if bytes.len() > INLINE_BYTES_MAX {
            return Err(VipError::InvalidParameter {
                what: "the number of bytes of an inline post",
                given: bytes.len() as u64,
                least: 0,
                most: INLINE_BYTES_MAX as u64,
            });
        }
        let Some(number) = found.linked().filter(|_| found.is_open()) else {
            let (call, needed) = ("post_inline", "connected");
            return Err(VipError::InvalidState { call, needed, state: found.state() });
        };
        let is_free = found.work.sends.is_idle();
        if !is_free || !self.pay(number) {
            return Ok(Posted::Retry);
        }
        let entry = Entry {
            immediate: immediate.unwrap_or(0),
            length: bytes_count(bytes.len()),
            operation: 0,
            extra: LAST_PIECE | if immediate.is_some() { HAS_IMMEDIATE } else { 0 },
        };
        let mut padded = [0; INLINE_BYTES_MAX];
        padded[..bytes.len()].copy_from_slice(bytes);
        let Self { nic: Nic { device, vis, .. }, .. } = self;
        let found = vis.get_mut(vi.0).ok_or(VipError::UnknownHandle { what: "VI" })?;
        Ok(send_inline(found, device, entry, &words(&padded))?)
    }

    fn step(&mut self, vi: ViHandle) -> Step {
        let Some(found) = self.nic.vis.get(vi.0).filter(|found| found.is_open()) else {
            return Step::Blocked;
        };
        let (Some(number), Some(head)) = (found.linked(), found.work.sends.head()) else {
            return Step::Blocked;
        };
        if let Some(flaw) = head.flaw {
            return Step::Ended(flaw);
        }
        let operation = head.descriptor.control.operation();
        let phase = found.work.sending.phase;
        // Queued answers are sent first: an acceptance precedes the first data.
        if !self.pay(number) {
            return Step::HeldUp;
        }
        match phase {
            Phase::Staged | Phase::AwaitingAcknowledgement | Phase::Reading => Step::Blocked,
            Phase::Transferring { len, end, .. } => self.after_transfer(vi, len, end),
            Phase::Staging => self.stage_write(vi),
            Phase::Announcing => self.announce(vi),
            Phase::Moving if operation == Control::SEND_RECEIVE => self.send_piece(vi),
            Phase::Moving => self.transfer(vi, operation),
        }
    }

    /// Sends the next piece of a send.
    fn send_piece(&mut self, vi: ViHandle) -> Step {
        let Self { nic: Nic { device, vis, .. }, kernel, .. } = self;
        let Some(found) = vis.get_mut(vi.0) else { return Step::Blocked };
        let Some(head) = found.work.sends.head() else { return Step::Blocked };
        let descriptor = &head.descriptor;
        let Ok(segments) =
            Segments::translate(&kernel.registrations, &descriptor.segments, found.work.attributes.ptag)
        else {
            return Step::Ended(Status::PROTECTION_ERROR);
        };
        let moved = found.work.sending.moved;
        let (is_short, left) = (descriptor.length as usize <= INLINE_BYTES_MAX, descriptor.length - moved);
        let piece = left.min(kernel.limits().native_mtu_bytes);
        let last = piece == left;
        let flags = if last { found.work.last_flags(descriptor) } else { 0 };
        let entry = Entry {
            immediate: descriptor.immediate,
            length: piece,
            operation: 0,
            extra: flags | u64::from(found.work.sending.pieces) << PIECE_SHIFT,
        };
        let posted = if is_short {
            let mut bytes = [0; INLINE_BYTES_MAX];
            segments.gather_slice(&mut bytes[..piece as usize]);
            send_inline(found, device, entry, &words(&bytes))
        } else {
            send_area(found, device, entry, piece as usize, |area| segments.gather(moved, area))
        };
        drop(segments);
        let wants_acknowledgement = flags & WANTS_ACKNOWLEDGEMENT != 0;
        self.after_post(vi, posted, |sending| {
            sending.moved += piece;
            sending.pieces += 1;
            sending.after_last(last, wants_acknowledgement)
        })
    }

    fn after_post(
        &mut self,
        vi: ViHandle,
        posted: Result<Posted, DeviceError>,
        done: impl FnOnce(&mut Sending) -> Step,
    ) -> Step {
        match posted {
            Ok(Posted::Done) => {
                self.nic.vis.get_mut(vi.0).map_or(Step::Blocked, |found| done(&mut found.work.sending))
            }
            Ok(Posted::Retry) => Step::HeldUp,
            Err(_) => Step::Ended(Status::TRANSPORT_ERROR),
        }
    }

    /// Transfers the next contiguous part of an RDMA write or read.
    fn transfer(&mut self, vi: ViHandle, operation: Control) -> Step {
        let Self { nic: Nic { device, vis, .. }, kernel, transfers, next_transfer, .. } = self;
        let Some(found) = vis.get_mut(vi.0) else { return Step::Blocked };
        let peer = found.peer;
        let (Some(head), Some(theirs)) = (found.work.sends.head(), found.work.theirs) else {
            return Step::Blocked;
        };
        let is_write = operation == Control::RDMA_WRITE;
        let allowed = if is_write { theirs.rdma_write } else { theirs.rdma_read && found.is_reliable() };
        if !allowed {
            return Step::Ended(Status::RDMA_PROT_ERROR);
        }
        let descriptor = &head.descriptor;
        let Ok(segments) =
            Segments::translate(&kernel.registrations, &descriptor.segments, found.work.attributes.ptag)
        else {
            return Step::Ended(Status::PROTECTION_ERROR);
        };
        let Some((segment, run)) = segments.run(found.work.sending.moved) else {
            return found.work.sending.after_data(is_write, descriptor);
        };
        let Some(at) = remote(descriptor.address, found.work.sending.moved) else {
            return Step::Ended(Status::RDMA_PROT_ERROR);
        };
        let MemHandle { region, generation } = at.handle;
        let claim = Claim { region, generation, offset: at.offset, len: run.len() as u64, ptag: theirs.ptag };
        let at = (peer.task, claim);
        let (id, len) = (*next_transfer, bytes_count(run.len()));
        let local = descriptor.segments[segment].handle;
        // SAFETY: the registration `local` keeps the memory, and does not end before the transfer (`begin_transfer`). The program accesses
        // it
        // by copies only (`Memory`).
        let outcome =
            unsafe { if is_write { device.rdma_write(at, run, id) } else { device.rdma_read(at, run, id) } };
        drop(segments);
        match outcome {
            Ok(Transfer::Done(())) => {
                found.work.sending.moved += len;
                Step::Again
            }
            Ok(Transfer::Posted) => {
                *next_transfer += 1;
                found.work.sending.phase = Phase::Transferring { id, len, end: None };
                transfers.insert(id, (vi, local));
                kernel.registrations.begin_transfer(local);
                Step::Blocked
            }
            Ok(Transfer::Retry) => Step::HeldUp,
            Ok(Transfer::Unreachable) if is_write => {
                found.work.sending.phase = Phase::Staging;
                Step::Again
            }
            Ok(Transfer::Unreachable) => self.request_read(vi),
            Err(DeviceError::Refused(fault)) => Step::Ended(refusal(fault)),
            Err(_) => Step::Ended(Status::TRANSPORT_ERROR),
        }
    }

    fn after_transfer(&mut self, vi: ViHandle, len: u32, end: Option<Result<(), ClaimFault>>) -> Step {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return Step::Blocked };
        match end {
            None => Step::Blocked,
            Some(Err(fault)) => Step::Ended(refusal(fault)),
            Some(Ok(())) => {
                found.work.sending.moved += len;
                found.work.sending.phase = Phase::Moving;
                Step::Again
            }
        }
    }

    /// Sends the immediate data of an RDMA write, after its bytes.
    fn announce(&mut self, vi: ViHandle) -> Step {
        let Self { nic: Nic { device, vis, .. }, .. } = self;
        let Some(found) = vis.get_mut(vi.0) else { return Step::Blocked };
        let Some(head) = found.work.sends.head() else { return Step::Blocked };
        let flags = found.work.last_flags(&head.descriptor) | WRITTEN;
        let (immediate, length) = (head.descriptor.immediate, head.descriptor.length);
        let entry = Entry { immediate, length, operation: 0, extra: flags };
        let posted = send_inline(found, device, entry, &Payload::default());
        self.after_post(vi, posted, |sending| sending.after_last(true, flags & WANTS_ACKNOWLEDGEMENT != 0))
    }

    /// Handles an acknowledgement: the peer has stored a staged write, or all of a message.
    pub(crate) fn handle_acknowledge(&mut self, vi: ViHandle) {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        match found.work.sending.phase {
            Phase::AwaitingAcknowledgement => self.end_send(vi, SUCCESS),
            Phase::Staged => {
                let announces = found
                    .work
                    .sends
                    .head()
                    .is_some_and(|head| head.descriptor.control.contains(Control::IMMEDIATE));
                if announces {
                    found.work.sending.phase = Phase::Announcing;
                } else {
                    self.end_send(vi, SUCCESS);
                }
            }
            // The head expects no acknowledgement: the peer breaks the protocol.
            _ => self.break_connection(vi, SUCCESS),
        }
    }

    /// Ends a read whose bytes have all arrived.
    pub(crate) fn end_read(&mut self, vi: ViHandle) {
        self.end_send(vi, SUCCESS);
    }

    /// Handles an error of the peer's VI. If the head waits for the peer, the head gets the error. Otherwise the error may be a refused
    /// access of the peer to memory of this NIC.
    pub(crate) fn handle_broken(&mut self, vi: ViHandle, why: Status) {
        let Some(found) = self.nic.vis.get(vi.0).filter(|found| found.state() == ViState::Connected) else {
            self.lose(vi);
            return;
        };
        if found.work.sending.phase.awaits_peer() {
            let errors = if why.errors() == SUCCESS { Status::TRANSPORT_ERROR } else { why.errors() };
            self.complete_send(vi, errors);
        } else {
            self.handle_refused(vi, why);
        }
        self.lose(vi);
    }

    /// Handles an access of the peer to memory of this NIC that was refused.
    pub(crate) fn handle_refused(&mut self, vi: ViHandle, why: Status) {
        if why.contains(Status::RDMA_PROT_ERROR) {
            let is_read = why.operation() == Status::OP_RDMA_READ;
            let code = if is_read { AsyncCode::RdmaReadProtection } else { AsyncCode::RdmaWriteProtection };
            self.note_error(vi, code);
        }
    }

    fn end_send(&mut self, vi: ViHandle, errors: Status) {
        let Some(found) = self.nic.vis.get(vi.0) else { return };
        let is_reliable = found.is_reliable();
        let operation = found.work.sends.head().map_or(SUCCESS, |head| head.descriptor.send_operation());
        self.complete_send(vi, errors);
        let for_peer = Status(errors.0 & Status::RDMA_PROT_ERROR.0) | operation;
        if errors.contains(Status::TRANSPORT_ERROR) || errors != SUCCESS && is_reliable {
            self.break_connection(vi, for_peer);
        } else if errors.contains(Status::RDMA_PROT_ERROR) {
            self.owe_peer(vi, Kind::Refused, for_peer.0);
        }
    }

    fn complete_send(&mut self, vi: ViHandle, errors: Status) {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        let moved = std::mem::take(&mut found.work.sending).moved;
        self.complete(vi, Queue::Send, |descriptor| {
            let partial = if errors != SUCCESS && moved > 0 { Status::PARTIAL_ERROR } else { SUCCESS };
            descriptor.status = descriptor.send_operation() | errors | partial;
            if errors != SUCCESS {
                descriptor.length = moved;
            }
        });
    }
}

impl Sending {
    fn after_last(&mut self, last: bool, wants_acknowledgement: bool) -> Step {
        match (last, wants_acknowledgement) {
            (false, _) => Step::Again,
            (true, false) => Step::Ended(SUCCESS),
            (true, true) => {
                self.phase = Phase::AwaitingAcknowledgement;
                Step::Blocked
            }
        }
    }

    fn after_data(&mut self, is_write: bool, descriptor: &Descriptor) -> Step {
        if is_write && descriptor.control.contains(Control::IMMEDIATE) {
            self.phase = Phase::Announcing;
            Step::Again
        } else {
            Step::Ended(SUCCESS)
        }
    }
}

/// The address segment advanced by `moved` bytes; `None` if the offset overflows.
pub(crate) fn remote(address: Option<AddressSegment>, moved: u32) -> Option<AddressSegment> {
    let AddressSegment { handle, offset } = address?;
    Some(AddressSegment { handle, offset: offset.checked_add(u64::from(moved))? })
}

fn refusal(fault: ClaimFault) -> Status {
    match fault {
        ClaimFault::PeerDead => Status::TRANSPORT_ERROR,
        _ => Status::RDMA_PROT_ERROR,
    }
}

fn words(bytes: &[u8; INLINE_BYTES_MAX]) -> Payload {
    let mut words = Payload::default();
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("a chunk of exactly eight bytes"));
    }
    words
}
