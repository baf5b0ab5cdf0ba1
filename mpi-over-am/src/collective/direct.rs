//! Carries out an algorithm immediately.

use std::sync::Arc;

use am_core::fabric::Fabric;
use smallvec::SmallVec;

use super::plan::{Others, Plan};
use crate::communicator::Communicator;
use crate::communicator::hosts::Hosts;
use crate::context_id::Space;
use crate::data::buffer::{Arriving, Operand, RecvData, Scratch, SendData, with_slice};
use crate::data::op::Combine;
use crate::error::Result;
use crate::message::board::Step;
use crate::message::progress::{check_len, end, receive_packets};
use crate::message::protocol;
use crate::message::request_id::RequestId;
use crate::message::route::Mode;
use crate::policy::LockPolicy;
use crate::request::blocking;
use crate::settings::Selection;
use mpi_datatype::Datatype;

/// Maximum bytes of scratch memory kept for a later collective: new memory can cost more than a whole reduction.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// The tag of all messages of blocking collectives. One tag is enough: messages between two tasks do not overtake each other, all tasks
/// call these collectives in the same order, and a task starts the next collective only after it has finished this one.
pub(super) const TAG: i32 = 0;

/// A collective that is carried out while its caller waits. When it has been dropped, nothing uses the caller's memory.
pub(super) struct Direct<'a, F: Fabric, L: LockPolicy> {
    pub(super) communicator: &'a Communicator<F, L>,
    op: Option<&'a dyn Combine>,
    selection: Selection,
    /// The present step of the communicator's board, if it is one with a counter.
    pub(super) step: Option<Step>,
    pending: SmallVec<[(RequestId, Option<u64>); 8]>,
    scratch: SmallVec<[Scratch; 2]>,
}

impl<'a, F: Fabric, L: LockPolicy> Direct<'a, F, L> {
    pub(super) fn new(communicator: &'a Communicator<F, L>, op: Option<&'a dyn Combine>) -> Result<Self> {
        let selection = communicator.state_for_all()?.selection;
        let (pending, scratch) = (SmallVec::new(), SmallVec::new());
        Ok(Self { communicator, op, selection, step: None, pending, scratch })
    }

    /// Combines elements directly from the packets in this task's receive area, before they are copied anywhere. Returns the number of
    /// combined elements, which may be fewer than all.
    fn combined_in_line(&mut self, buffer: &RecvData, from: u32, others: Others<'_>) -> Result<u64> {
        let operand = match (others, buffer.as_buffer()) {
            (Others::Earlier(own), Some(buffer)) => own.as_bytes().map(|own| Operand::Earlier(own, buffer)),
            (Others::Later(into), _) => into.as_buffer().map(Operand::Later),
            _ => None,
        };
        // Only operations without code of the program: such code must not run during this task's turn.
        let op = self.op.and_then(|op| op.without_code_of_program());
        let arriving =
            op.zip(buffer.datatype().as_predefined()).and_then(|(op, datatype)| Arriving::new(op, datatype));
        let (Some(operand), Some(arriving), Some(source)) =
            (operand, arriving, self.communicator.task_now(from))
        else {
            return Ok(0);
        };
        // The result 0 must mean that no message was taken, so a message without elements is not taken here.
        let Some(len) = usize::try_from(buffer.packed_len()).ok().filter(|&len| len > 0 && !L::takes_turns())
        else {
            return Ok(0);
        };
        let pattern = self.communicator.pattern(Space::Collective, from.into(), TAG.into())?;
        let mut state = self.communicator.state_for_all()?;
        let received = receive_packets(&mut state, source, &pattern, len, |offset, packet| {
            arriving.combine(packet, offset, operand);
        })?;
        Ok((received / arriving.element_bytes()) as u64)
    }

    /// Waits for the pending operation at this index.
    fn wait_for(&mut self, at: usize) -> Result<()> {
        let (request, expected) = self.pending[at];
        let mut state = self.communicator.state_for_all()?;
        state.wait_over(request)?;
        self.pending.remove(at);
        let status = state.handlers().requests.take(request)?;
        check_len(status, expected)
    }

    /// After a failure, ends the operations that are still under way.
    #[cold]
    #[inline(never)]
    fn abandon(&mut self) {
        let mut state = self.communicator.state_or_abort("a blocking collective");
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
        let route = self.communicator.route(Space::Collective, to, TAG)?;
        let mut state = self.communicator.state_for_all()?;
        // Between two tasks most sends complete at once, so `try_send` saves a request. For more tasks it does not pay: with `try_send`,
        // four tasks on two processors took 1.24 times as long for a reduction of 1 MiB.
        let is_sent = self.communicator.size() == 2
            && data.as_bytes().is_some_and(|bytes| {
                with_slice(bytes, |bytes| protocol::try_send(&mut state, &route, bytes))
            });
        if is_sent {
            return Ok(());
        }
        let request = protocol::send_or_start(&mut state, Mode::Standard, &route, data)?;
        if request != RequestId::ENDED_SEND {
            self.pending.push((request, None));
        }
        Ok(())
    }

    fn receive(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let pattern = self.communicator.pattern(Space::Collective, from.into(), TAG.into())?;
        let mut state = self.communicator.state_for_all()?;
        let request = protocol::start_receive_data(&mut state, pattern, data);
        self.pending.push((request, Some(data.packed_len())));
        Ok(())
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
        let spare = self.communicator.state_for_all()?.spare.take();
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
        let route = self.communicator.route(Space::Collective, to, TAG)?;
        blocking::send_data(&mut self.communicator.state_for_all()?, Mode::Standard, &route, data)
    }

    #[inline]
    fn pull(&mut self, data: &RecvData, from: u32) -> Result<()> {
        let pattern = self.communicator.pattern(Space::Collective, from.into(), TAG.into())?;
        let source = self.communicator.task_now(from);
        let status = blocking::receive_data(&mut self.communicator.state_for_all()?, source, pattern, data)?;
        check_len(status, Some(data.packed_len()))
    }

    fn pull_and_combine(&mut self, buffer: &RecvData, from: u32, others: Others<'_>) -> Result<()> {
        let combined = self.combined_in_line(buffer, from, others)?;
        let left = buffer.count() - combined;
        if combined > 0 && left == 0 {
            return Ok(());
        }
        self.pull(buffer, from)?;
        let first = combined.cast_signed();
        let buffer = buffer.part(first, left);
        match others {
            Others::Earlier(own) => self.combine(&own.part(first, left), &buffer),
            Others::Later(into) => self.combine(&buffer.as_send(), &into.part(first, left)),
        }
    }

    #[inline]
    fn across(&mut self, (out, to): (&SendData, u32), (data, from): (&RecvData, u32)) -> Result<()> {
        let route = self.communicator.route(Space::Collective, to, TAG)?;
        let pattern = self.communicator.pattern(Space::Collective, from.into(), TAG.into())?;
        let mut state = self.communicator.state_for_all()?;
        let from = (self.communicator.task_now(from), pattern);
        let status = blocking::send_receive_data(&mut state, &route, out, from, data)?;
        check_len(status, Some(data.packed_len()))
    }
}
