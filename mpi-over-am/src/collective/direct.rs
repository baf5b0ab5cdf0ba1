//! Carries out an algorithm immediately.
//!
//! Both sides of a message know its length. So a message above the eager limit needs no announcement: it is sent as several eager messages,
//! and the receiver copies one out of the receive area while the sender copies the next one in.

use std::sync::Arc;

use am_core::fabric::Fabric;
use smallvec::SmallVec;

use super::chunks::pieces;
use super::{Plan, as_bytes};
use crate::blocking;
use crate::buffer::{RecvData, Scratch, SendData, with_slice};
use crate::communicator::Communicator;
use crate::context_id::Space;
use crate::error::Result;
use crate::hosts::Hosts;
use crate::message::Mode;
use crate::op::Combine;
use crate::policy::LockPolicy;
use crate::progress::{check_len, end};
use crate::protocol;
use crate::request_id::RequestId;
use crate::settings::Selection;
use mpi_datatype::{Datatype, Predefined};

/// Maximum bytes of scratch memory kept for the next reduction: new memory costs more than the reduction itself.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Maximum bytes of a message that is sent in pieces. Compared with an announced message, two tasks exchanged 1 MiB in 0.8 of the time,
/// but 4 MiB in 1.5.
const IN_PIECES_BYTES_MAX: u64 = 1 << 20;
/// Minimum eager limit, in bytes, with which messages are sent in pieces.
const PIECE_BYTES_MIN: u64 = 1024;
/// Number of pieces that a task sends before it receives the first one of the other task.
const PIECES_AHEAD: usize = 16;

/// The tag of all messages of blocking collectives. Messages between two tasks do not overtake each other, all tasks call these collectives
/// in the same order, and a caller starts the next one only after this one.
pub(super) const TAG: i32 = 0;

/// A collective that is carried out while its caller waits. When it has been dropped, nothing uses the caller's memory.
pub(super) struct Direct<'a, F: Fabric, L: LockPolicy> {
    communicator: &'a Communicator<F, L>,
    op: Option<&'a dyn Combine>,
    selection: Selection,
    /// Bytes of a piece of a long message.
    piece_bytes: u64,
    pending: SmallVec<[(RequestId, Option<u64>); 8]>,
    /// Packed bytes to receive, and the elements to unpack them into when they are complete.
    packed: SmallVec<[(SendData, RecvData); 1]>,
    scratch: SmallVec<[Scratch; 2]>,
}

impl<'a, F: Fabric, L: LockPolicy> Direct<'a, F, L> {
    pub(super) fn new(communicator: &'a Communicator<F, L>, op: Option<&'a dyn Combine>) -> Result<Self> {
        let state = communicator.state()?;
        let (selection, piece_bytes) = (state.selection, state.eager_limits.bytes as u64);
        drop(state);
        let (pending, packed, scratch) = (SmallVec::new(), SmallVec::new(), SmallVec::new());
        Ok(Self { communicator, op, selection, piece_bytes, pending, packed, scratch })
    }

    /// Whether a message of `len` bytes is sent in pieces.
    #[inline(always)]
    fn is_in_pieces(&self, len: u64) -> bool {
        len > self.piece_bytes && len <= IN_PIECES_BYTES_MAX && self.piece_bytes >= PIECE_BYTES_MIN
    }

    /// The pieces of a message of `len` bytes, or all of it.
    fn pieces(&self, len: u64) -> impl Iterator<Item = (i64, u64)> + use<F, L> {
        pieces(len, if self.is_in_pieces(len) { self.piece_bytes } else { len })
    }

    /// The bytes of a message, packed if they are not contiguous: the two sides may use different datatypes.
    #[inline(never)]
    fn bytes_to_send(&mut self, data: &SendData) -> Result<SendData> {
        if let Some(bytes) = data.as_bytes() {
            return Ok(SendData::from_bytes(bytes));
        }
        let packed = self.scratch(data.packed_len(), &Datatype::predefined(Predefined::Byte))?;
        data.copy_to(&packed);
        Ok(packed.as_send())
    }

    /// Memory for the bytes of a message. If its elements are not contiguous, the next wait unpacks them.
    #[inline(never)]
    fn bytes_to_receive(&mut self, data: &RecvData) -> Result<RecvData> {
        if let Some(bytes) = as_bytes(data) {
            return Ok(bytes);
        }
        let packed = self.scratch(data.packed_len(), &Datatype::predefined(Predefined::Byte))?;
        self.packed.push((packed.as_send(), data.clone()));
        Ok(packed)
    }

    fn send_one(&mut self, data: &SendData, to: u32) -> Result<()> {
        let route = self.communicator.route(Space::Collective, to, TAG)?;
        let mut state = self.communicator.state()?;
        let request = protocol::send_or_start(&mut state, Mode::Standard, &route, data)?;
        if request != RequestId::ENDED_SEND {
            self.pending.push((request, None));
        }
        Ok(())
    }

    fn receive_one(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let pattern = self.communicator.pattern(Space::Collective, from.into(), TAG.into())?;
        let mut state = self.communicator.state()?;
        let request = protocol::start_receive_data(&mut state, pattern, data);
        self.pending.push((request, Some(data.packed_len())));
        Ok(())
    }

    #[inline(always)]
    fn push_one(&mut self, data: &SendData, to: u32) -> Result<()> {
        let route = self.communicator.route(Space::Collective, to, TAG)?;
        blocking::send_data(&mut self.communicator.state()?, Mode::Standard, &route, data)
    }

    #[inline(always)]
    fn pull_one(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let pattern = self.communicator.pattern(Space::Collective, from.into(), TAG.into())?;
        let source = self.communicator.task_now(from);
        let status = blocking::receive_data(&mut self.communicator.state()?, source, pattern, data)?;
        check_len(status, Some(data.packed_len()))
    }

    /// Sends and receives in pieces, and waits. Some pieces are sent ahead, so that neither task waits for the other at each piece.
    #[inline(never)]
    fn across_in_pieces(
        &mut self,
        (out, to): (&SendData, u32),
        (data, from): (&RecvData, u32),
    ) -> Result<()> {
        let (out, into) = (self.bytes_to_send(out)?, self.bytes_to_receive(data)?);
        let (mut outgoing, incoming) = (self.pieces(out.count()), self.pieces(into.count()));
        for (at, len) in outgoing.by_ref().take(PIECES_AHEAD) {
            self.send_one(&out.part(at, len), to)?;
        }
        for (at, len) in incoming {
            self.pull_one(&into.part(at, len), from)?;
            if let Some((at, len)) = outgoing.next() {
                self.send_one(&out.part(at, len), to)?;
            }
        }
        outgoing.try_for_each(|(at, len)| self.send_one(&out.part(at, len), to))?;
        self.wait()
    }

    /// Waits for one of the pending operations.
    fn wait_for(&mut self, at: usize) -> Result<()> {
        let (request, expected) = self.pending[at];
        let mut state = self.communicator.state()?;
        state.wait_over(request)?;
        self.pending.remove(at);
        let status = state.handlers().requests.take(request)?;
        check_len(status, expected)
    }

    /// Ends the operations that are under way after a failure.
    #[cold]
    #[inline(never)]
    fn abandon(&mut self) {
        // If this fails, the program must end: otherwise operations would use memory that is no longer borrowed.
        let mut state = self
            .communicator
            .state_to_end()
            .expect("no call of this environment is under way when a collective ends");
        for (request, _) in self.pending.drain(..) {
            end(&mut state, request);
            // The caller gets the first error.
            let _ = state.handlers().requests.take(request);
        }
    }
}

impl<F: Fabric, L: LockPolicy> Drop for Direct<'_, F, L> {
    fn drop(&mut self) {
        if !self.pending.is_empty() {
            self.abandon();
        }
        if let Some(scratch) = self.scratch.pop()
            && scratch.len() <= SPARE_BYTES_MAX
            && let Some(mut state) = self.communicator.state_to_end()
        {
            state.spare = Some(scratch);
        }
    }
}

impl<F: Fabric, L: LockPolicy> Plan for Direct<'_, F, L> {
    #[inline]
    fn rank(&self) -> u32 {
        self.communicator.rank()
    }

    #[inline]
    fn size(&self) -> u32 {
        self.communicator.size()
    }

    #[inline]
    fn peers(&self) -> u32 {
        self.communicator.remote_size().unwrap_or(self.communicator.size())
    }

    #[inline]
    fn is_inter(&self) -> bool {
        self.communicator.is_inter()
    }

    #[inline]
    fn hosts(&self) -> Option<Arc<Hosts>> {
        self.communicator.hosts().cloned()
    }

    #[inline]
    fn is_commutative(&self) -> bool {
        self.op.is_none_or(|op| op.is_commutative())
    }

    #[inline]
    fn selection(&self) -> Selection {
        self.selection
    }

    fn send(&mut self, data: &SendData, to: u32) -> Result<()> {
        if !self.is_in_pieces(data.packed_len()) {
            return self.send_one(data, to);
        }
        let bytes = self.bytes_to_send(data)?;
        self.pieces(bytes.count()).try_for_each(|(at, len)| self.send_one(&bytes.part(at, len), to))
    }

    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()> {
        if !self.is_in_pieces(data.packed_len()) {
            return self.receive_one(data, from);
        }
        let bytes = self.bytes_to_receive(data)?;
        self.pieces(bytes.count()).try_for_each(|(at, len)| self.receive_one(&bytes.part(at, len), from))
    }

    fn wait(&mut self) -> Result<()> {
        self.wait_for_receives()?;
        while let Some(last) = self.pending.len().checked_sub(1) {
            self.wait_for(last)?;
        }
        Ok(())
    }

    fn wait_for_receives(&mut self) -> Result<()> {
        while let Some(at) = self.pending.iter().rposition(|(_, expected)| expected.is_some()) {
            self.wait_for(at)?;
        }
        for (packed, data) in self.packed.drain(..) {
            packed.copy_to(&data);
        }
        Ok(())
    }

    fn combine(&mut self, earlier: &SendData, later: &RecvData) -> Result<()> {
        self.op.map_or(Ok(()), |op| op.combine(earlier, later))
    }

    fn copy(&mut self, from: &SendData, to: &RecvData) -> Result<()> {
        from.copy_to(to);
        Ok(())
    }

    fn examine(&mut self, bytes: &SendData, look: fn(&[u8]) -> Result<()>) -> Result<()> {
        bytes.as_bytes().map_or(Ok(()), |bytes| with_slice(bytes, look))
    }

    fn scratch(&mut self, count: u64, datatype: &Datatype) -> Result<RecvData> {
        let spare = self.communicator.state()?.spare.take();
        let (scratch, elements) = Scratch::with_elements(spare, count, datatype)?;
        self.scratch.push(scratch);
        Ok(elements)
    }

    fn among_own(&mut self, part: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let whole = self.communicator;
        self.communicator = whole.local();
        let result = part(self);
        self.communicator = whole;
        result
    }

    #[inline]
    fn push(&mut self, data: &SendData, to: u32) -> Result<()> {
        if !self.is_in_pieces(data.packed_len()) {
            return self.push_one(data, to);
        }
        let bytes = self.bytes_to_send(data)?;
        self.pieces(bytes.count()).try_for_each(|(at, len)| self.push_one(&bytes.part(at, len), to))
    }

    #[inline]
    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        if !self.is_in_pieces(data.packed_len()) {
            return self.pull_one(data, from);
        }
        let bytes = self.bytes_to_receive(data)?;
        self.pieces(bytes.count()).try_for_each(|(at, len)| self.pull_one(&bytes.part(at, len), from))?;
        self.wait_for_receives()
    }

    #[inline]
    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        if self.is_in_pieces(out.packed_len()) || self.is_in_pieces(data.packed_len()) {
            return self.across_in_pieces((out, to), (data, from));
        }
        let route = self.communicator.route(Space::Collective, to, TAG)?;
        let pattern = self.communicator.pattern(Space::Collective, from.into(), TAG.into())?;
        let mut state = self.communicator.state()?;
        let from = (self.communicator.task_now(from), pattern);
        let status = blocking::send_receive_data(&mut state, &route, out, from, data)?;
        check_len(status, Some(data.packed_len()))
    }
}
