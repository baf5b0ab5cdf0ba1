//! The table of requests. A request's number contains a slot and the slot's generation, so that an old number finds nothing.

mod facts;
mod matched;
mod parts;
mod phase;
mod recipe;
mod record;
mod schedule;
mod wakers;

use am_core::buffer::Arrived;
use am_core::error::Refusal;
use am_core::handler::Delivered;
use am_core::task::TaskId;

use crate::context_id::Space;
use crate::data::buffer::KeptVec;
use crate::error::{Error, Result};
use crate::matching::{ContextId, Envelope, Pattern, PostedList};
use crate::message::request_id::{RequestId, SLOTS_KEPT, SLOTS_MAX};
use crate::message::route::ReceiveBuffer;
use crate::message::status::Status;
pub(crate) use matched::MatchedMessages;
pub use matched::MessageId;
pub(crate) use parts::{Channel, Exchange, Parts, Receiving, Sending};
pub(crate) use phase::Phase;
pub(crate) use recipe::Recipe;
pub(crate) use record::NO_SCOPE;
use record::{Cold, NO_CONTEXT, NO_SLOT, Record, pattern_of, unusual};
pub(crate) use schedule::{Act, Awaited, LinesPart, MetPart, Schedule, Step};
pub(crate) use wakers::Wakers;

/// All operations of an environment.
#[derive(Debug)]
pub(crate) struct Requests {
    records: Vec<Record>,
    /// Rare data of requests, at the index of their record; ends with the last record that has had some. A box stays with its slot, empty
    /// unless [`unusual::COLD`] is set.
    cold: Vec<Option<Box<Cold>>>,
    /// Receives that wait for their message.
    posted: PostedList,
    /// The next free slot, or [`NO_SLOT`].
    free: u32,
    /// Number of operations that ended while a call watched them.
    watched_ended: u64,
}

impl Default for Requests {
    fn default() -> Self {
        let blocking = Record {
            is_receive: true,
            ..Record::reserved(RequestId::BLOCKING_RECEIVE, Phase::Free, Status::EMPTY)
        };
        let unused = Record::free();
        let sent = Record::reserved(RequestId::ENDED_SEND, Phase::Done, Status::EMPTY);
        let received = Record {
            is_receive: true,
            ..Record::reserved(RequestId::RECEIVED_FROM_NOBODY, Phase::Done, Status::OF_PROC_NULL)
        };
        Self {
            records: vec![blocking, unused, sent, received],
            cold: Vec::new(),
            posted: PostedList::new(),
            free: NO_SLOT,
            watched_ended: 0,
        }
    }
}

/// Whether a message ended because its sender withdrew it before it was matched.
fn is_withdrawn(error: &am_core::error::Error) -> bool {
    matches!(error, am_core::error::Error::Refused { why: Refusal::Withdrawn, .. })
}

impl Requests {
    /// A new request without a scope.
    #[inline]
    pub(crate) fn insert(&mut self, is_receive: bool) -> RequestId {
        self.insert_in(is_receive, NO_CONTEXT)
    }

    /// A new request for a message of a communicator.
    #[inline]
    pub(crate) fn insert_of(&mut self, is_receive: bool, context: ContextId) -> RequestId {
        self.insert_in(is_receive, context.0)
    }

    #[inline(always)]
    fn insert_in(&mut self, is_receive: bool, context: u32) -> RequestId {
        let slot = self.free_slot();
        let record = &mut self.records[slot as usize];
        record.occupy(&mut self.free);
        record.phase = Phase::Moving;
        record.is_receive = is_receive;
        record.scope = NO_SCOPE;
        record.entry.pattern = pattern_of(context, Status::EMPTY);
        record.entry.number = 0;
        RequestId::of_slot(slot, record.generation)
    }

    /// The first free slot, or a new one.
    #[inline(always)]
    fn free_slot(&mut self) -> u32 {
        match self.free {
            NO_SLOT => self.new_slot(),
            slot => slot,
        }
    }

    #[cold]
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "a slot is below SLOTS_MAX")]
    fn new_slot(&mut self) -> u32 {
        let slot = self.records.len();
        assert!(slot < SLOTS_MAX, "the library's own requests have used up their slots");
        self.records.push(Record::free());
        slot as u32
    }

    /// The rare data of this request.
    fn cold_of(&mut self, id: RequestId) -> &mut Cold {
        self.records[id.index()].unusual |= unusual::COLD;
        if self.cold.len() <= id.index() {
            self.cold.resize_with(id.index() + 1, || None);
        }
        self.cold[id.index()].get_or_insert_default()
    }

    fn cold(&self, id: RequestId) -> Option<&Cold> {
        self.cold.get(id.index())?.as_deref()
    }

    fn cold_mut(&mut self, id: RequestId) -> Option<&mut Cold> {
        self.cold.get_mut(id.index())?.as_deref_mut()
    }

    fn recipe(&self, id: RequestId) -> Option<&Recipe> {
        self.get(id)?;
        self.cold(id)?.recipe.as_ref()
    }

    /// Whether the program may start one more operation.
    #[inline(always)]
    pub(crate) fn has_free_slot(&self) -> bool {
        self.free != NO_SLOT || self.records.len() < SLOTS_MAX - SLOTS_KEPT
    }

    /// Gives an operation that was complete at once a record, so that memory can be kept for it. Any other request is returned unchanged.
    pub(crate) fn with_record(&mut self, id: RequestId) -> RequestId {
        let Some(status) = id.ended_status() else { return id };
        let request = self.insert(self.is_receive(id));
        self.set_status(request, status);
        self.end(request, None);
        request
    }

    /// Makes the request of blocking receives ready for its next use.
    #[inline(always)]
    pub(crate) fn begin_blocking(&mut self) {
        self.blocking().phase = Phase::Moving;
    }

    #[inline(always)]
    fn blocking(&mut self) -> &mut Record {
        &mut self.records[RequestId::BLOCKING_RECEIVE.index()]
    }

    /// Whether the blocking receive is over.
    #[inline(always)]
    pub(crate) fn is_blocking_over(&self) -> bool {
        self.records[RequestId::BLOCKING_RECEIVE.index()].phase == Phase::Done
    }

    #[inline(always)]
    fn get(&self, id: RequestId) -> Option<&Record> {
        self.records.get(id.index()).filter(|record| record.is_of(id))
    }

    #[inline(always)]
    fn get_mut(&mut self, id: RequestId) -> Option<&mut Record> {
        self.records.get_mut(id.index()).filter(|record| record.is_of(id))
    }

    /// The state of the operation; `Free` if the operation does not exist.
    #[inline(always)]
    pub(crate) fn phase(&self, id: RequestId) -> Phase {
        self.get(id).map_or(Phase::Free, |record| record.phase)
    }

    /// Whether the operation is over (or does not exist).
    #[inline(always)]
    pub(crate) fn is_over(&self, id: RequestId) -> bool {
        self.get(id).is_none_or(Record::is_over)
    }

    /// Number of receives that wait for their message.
    #[inline(always)]
    pub(crate) fn posted(&self) -> usize {
        self.posted.len()
    }

    /// The receives that wait for their message, with their patterns, in the order of posting.
    pub(crate) fn posted_receives(&self) -> impl Iterator<Item = (RequestId, Pattern)> {
        self.posted.iter(&self.records).map(|slot| {
            let record = &self.records[slot as usize];
            (RequestId::of_slot(slot, record.generation), record.entry.pattern)
        })
    }

    /// The pattern of a receive that waits for its message.
    #[inline(always)]
    pub(crate) fn posted_pattern(&self, id: RequestId) -> Option<Pattern> {
        self.get(id).filter(|record| record.phase == Phase::Posted).map(|record| record.entry.pattern)
    }

    /// A new request for a receive that waits for its message.
    #[inline(always)]
    pub(crate) fn insert_posted(&mut self, pattern: Pattern, buffer: ReceiveBuffer) -> RequestId {
        let slot = self.free_slot();
        // A slice, so that pointer and length stay in registers.
        let records = self.records.as_mut_slice();
        let record = &mut records[slot as usize];
        record.occupy(&mut self.free);
        record.phase = Phase::Posted;
        record.is_receive = true;
        record.scope = NO_SCOPE;
        record.buffer = buffer;
        let id = RequestId::of_slot(slot, record.generation);
        self.posted.post(records, slot, pattern);
        id
    }

    /// Posts the receive: it waits for its message.
    #[inline(always)]
    pub(crate) fn post(&mut self, id: RequestId, pattern: Pattern, buffer: ReceiveBuffer) {
        let record = &mut self.records[id.index()];
        debug_assert!(record.is_of(id) && record.phase == Phase::Moving);
        record.phase = Phase::Posted;
        record.buffer = buffer;
        self.posted.post(&mut self.records, id.slot(), pattern);
    }

    /// The earliest receive that the message matches, and the message's destination. The receive is no longer posted.
    #[inline(always)]
    pub(crate) fn take_match(&mut self, envelope: &Envelope) -> Option<(RequestId, ReceiveBuffer)> {
        let (slot, record) = self.posted.take_match(&mut self.records, envelope)?;
        record.phase = Phase::Moving;
        Some((RequestId::of_slot(slot, record.generation), record.buffer))
    }

    /// Delivers a message that has arrived whole to the earliest receive that it matches. That receive is then complete; returns its slot.
    /// `None`: no posted receive matches.
    #[inline(always)]
    pub(crate) fn deliver(&mut self, envelope: &Envelope, here: Arrived<'_>) -> Option<u32> {
        let (slot, record) = self.posted.take_match(&mut self.records, envelope)?;
        let len = here.len();
        record.entry.number = len as u64;
        record.phase = Phase::Done;
        match record.buffer {
            ReceiveBuffer::Bytes(buffer) if len <= buffer.len() && record.unusual & unusual::AT_END == 0 => {
                here.copy_to_buffer(buffer);
            }
            buffer => {
                let id = RequestId::of_slot(slot, record.generation);
                self.deliver_unusual(id, buffer, here);
            }
        }
        Some(slot)
    }

    /// Like [`deliver`](Self::deliver), for a receive that has a layout or a buffer shorter than the message, or whose end is counted or
    /// frees the record.
    #[cold]
    #[inline(never)]
    fn deliver_unusual(&mut self, id: RequestId, buffer: ReceiveBuffer, here: Arrived<'_>) {
        let placed = self.store(id, buffer, 0, here);
        self.delivered(id, here.len() as u64, placed);
    }

    /// Stores bytes of a receive's message, which begin at `offset` in the message, as many as fit; returns their number.
    pub(crate) fn store(
        &self,
        id: RequestId,
        buffer: ReceiveBuffer,
        offset: usize,
        here: Arrived<'_>,
    ) -> u64 {
        let placed = match buffer {
            ReceiveBuffer::Bytes(buffer) => {
                let left = buffer.part(offset, buffer.len().saturating_sub(offset));
                left.map_or(0, |left| here.copy_to_buffer(left))
            }
            ReceiveBuffer::Layout => self.layout(id).map_or(0, |scatter| scatter.place(offset as u64, here)),
        };
        placed as u64
    }

    /// Ends a receive that waits for its message with this error.
    pub(crate) fn withdraw(&mut self, id: RequestId, why: Error) {
        if self.phase(id) == Phase::Posted {
            self.posted.cancel(&mut self.records, id.slot());
            self.records[id.index()].set_status(Status::EMPTY);
            self.end(id, Some(why));
        }
    }

    /// Records that the receive has matched a message.
    #[inline(always)]
    pub(crate) fn matched(&mut self, id: RequestId, envelope: &Envelope) {
        if let Some(record) = self.get_mut(id) {
            record.entry.pattern = Pattern::of(envelope);
        }
    }

    /// Records that the operation is complete, as am-core reports.
    #[inline(always)]
    pub(crate) fn complete(&mut self, id: RequestId, delivered: Delivered) {
        let Some(record) = self.get_mut(id) else { return };
        record.entry.number = delivered.len;
        record.phase = Phase::Done;
        let cut = record.is_receive && delivered.placed != delivered.len;
        if cut || record.unusual & unusual::AT_END != 0 || delivered.outcome.is_err() {
            self.complete_unusual(id, delivered);
        }
    }

    /// Like [`complete`](Self::complete), for a message whose only result is its length.
    #[inline(always)]
    pub(crate) fn complete_plain(&mut self, id: RequestId, len: u64, placed: u64) {
        let Some(record) = self.get_mut(id) else { return };
        record.entry.number = len;
        record.phase = Phase::Done;
        if record.is_receive && placed != len || record.unusual & unusual::AT_END != 0 {
            self.delivered(id, len, placed);
        }
    }

    #[cold]
    #[inline(never)]
    fn complete_unusual(&mut self, id: RequestId, delivered: Delivered) {
        let Delivered { len, placed, outcome, .. } = delivered;
        let Some(is_receive) = self.get(id).map(|record| record.is_receive) else { return };
        match outcome {
            Ok(()) if is_receive => self.delivered(id, len, placed),
            Ok(()) => self.end(id, None),
            Err(error) if is_withdrawn(&error) && !is_receive => {
                let why = self.cold_mut(id).and_then(|cold| cold.failure.take());
                self.end(id, Some(why.unwrap_or(Error::Cancelled)));
            }
            Err(error) => self.end(id, Some(Error::Core(*error))),
        }
    }

    /// Records that the receive is complete: `placed` of the message's `len` bytes have been passed to its destination. A layout stores no
    /// more than its capacity.
    #[inline(never)]
    pub(crate) fn delivered(&mut self, id: RequestId, len: u64, placed: u64) {
        let Some(record) = self.get_mut(id) else { return };
        record.entry.number = len;
        let status = record.status();
        let (source_rank, tag) = (status.source(), status.tag());
        let is_collective = Space::Collective.has(record.context());
        let (is_receive, has_layout) = (record.is_receive, record.unusual & unusual::LAYOUT != 0);
        let capacity = match self.cold(id) {
            Some(cold) if has_layout => placed.min(cold.capacity),
            _ => placed,
        };
        let is_cut = is_receive && capacity != len;
        if is_cut && let Some(record) = self.get_mut(id) {
            // The status of a message that was cut tells what was received.
            record.entry.number = capacity;
        }
        let error = || {
            if is_collective {
                return Error::UnequalParts { source_rank: Some(source_rank), sent: len, expected: capacity };
            }
            Error::Truncated { source_rank, tag, sent: len, capacity }
        };
        self.end(id, is_cut.then(error));
    }

    /// Records that the operation is complete, with this error if any.
    pub(crate) fn end(&mut self, id: RequestId, failure: Option<Error>) {
        let Some(record) = self.get_mut(id) else { return };
        record.phase = Phase::Done;
        let unusual = record.unusual;
        if failure.is_some() {
            self.cold_of(id).failure = failure;
        }
        if unusual & unusual::WATCHED != 0 {
            self.watched_ended += 1;
        }
        if unusual & unusual::DETACHED != 0 {
            self.remove(id);
        }
    }

    /// Records that the send will be complete when `task` acknowledges it.
    #[inline(always)]
    pub(crate) fn await_acknowledgement(&mut self, id: RequestId, task: TaskId) {
        if let Some(record) = self.get_mut(id) {
            record.unusual |= unusual::UNACKNOWLEDGED;
            record.entry.number = task.0.into();
        }
    }

    /// The task whose acknowledgement ends the send, if it waits for one.
    pub(crate) fn acknowledged_by(&self, id: RequestId) -> Option<TaskId> {
        self.get(id).and_then(Record::acknowledged_by)
    }

    /// The sends that wait for an acknowledgement, and the tasks that they wait for.
    pub(crate) fn unacknowledged(&self) -> impl Iterator<Item = (RequestId, TaskId)> {
        self.records.iter().zip(0..).filter_map(|(record, slot)| {
            record.acknowledged_by().map(|task| (RequestId::of_slot(slot, record.generation), task))
        })
    }

    /// Ends the send, with `failure` if any, if it waits for the acknowledgement of `task`.
    pub(crate) fn acknowledged(&mut self, id: RequestId, task: TaskId, failure: Option<Error>) {
        let Some(record) = self.get_mut(id).filter(|record| record.acknowledged_by() == Some(task)) else {
            return;
        };
        record.unusual &= !unusual::UNACKNOWLEDGED;
        record.entry.number = 0;
        self.end(id, failure);
    }

    /// Number of operations that ended while a call watched them. As long as it is unchanged, no watched operation has ended.
    #[inline(always)]
    pub(crate) fn watched_ended(&self) -> u64 {
        self.watched_ended
    }

    /// Sets whether the end of an operation is counted.
    pub(crate) fn watch(&mut self, id: RequestId, is_watched: bool) {
        if let Some(record) = self.get_mut(id).filter(|record| record.unusual & unusual::RESERVED == 0) {
            record.unusual &= !unusual::WATCHED;
            record.unusual |= if is_watched { unusual::WATCHED } else { 0 };
        }
    }

    /// Takes the result of a complete operation whose only result is a status: the frequent case, inline. `None`: any other request.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, id: RequestId) -> Option<Status> {
        let record = self.records.get_mut(id.index())?;
        let is_plain =
            record.generation == id.generation() && record.phase == Phase::Done && record.unusual == 0;
        if !is_plain {
            // The records of operations that were complete at once are unusual.
            return id.ended_status();
        }
        let status = record.status();
        record.vacate(&mut self.free, id);
        Some(status)
    }

    /// Takes the result of a complete operation.
    ///
    /// # Errors
    /// The operation's error; [`Error::UnknownRequest`].
    #[inline(always)]
    pub(crate) fn take(&mut self, id: RequestId) -> Result<Status> {
        self.take_kept(id).map(|(status, _)| status)?
    }

    /// Takes the result of the blocking receive, which must be complete. Its slot stays.
    ///
    /// # Errors
    /// The operation's error.
    #[inline(always)]
    pub(crate) fn take_blocking(&mut self) -> std::result::Result<Status, Box<Error>> {
        let record = self.blocking();
        record.phase = Phase::Free;
        let status = record.status();
        if record.unusual == unusual::RESERVED {
            return Ok(status);
        }
        match self.take_blocking_failure() {
            None => Ok(status),
            Some(error) => Err(error),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_blocking_failure(&mut self) -> Option<Box<Error>> {
        self.blocking().unusual = unusual::RESERVED;
        let cold = self.cold_mut(RequestId::BLOCKING_RECEIVE);
        cold.and_then(|cold| cold.failure.take()).map(Box::new)
    }

    /// Takes the result of a complete operation, and the memory that it kept.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`]. [`Error::ReceiveInDoubt`]: a wait has ended although the receive is under way; the request stays.
    pub(crate) fn take_kept(&mut self, id: RequestId) -> Result<(Result<Status>, Option<KeptVec>)> {
        if !self.is_over(id) {
            return Err(Error::ReceiveInDoubt);
        }
        let (status, cold) = self.remove(id).ok_or_else(|| unknown(id))?;
        let Cold { failure, kept, .. } = cold.unwrap_or_default();
        Ok((failure.map_or(Ok(status), Err), kept))
    }

    /// Refuses a number from the program, unless it names a request that the program may end by number. Numbers can be guessed, and they
    /// repeat, so each call by number begins with this check.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`]: no such request, or a typed object [holds](Self::hold) it.
    #[inline(always)]
    pub(crate) fn check(&self, id: RequestId) -> Result<()> {
        let is_held = self.get(id).is_none_or(|record| record.unusual & unusual::HELD != 0);
        if is_held || id == RequestId::BLOCKING_RECEIVE { Err(unknown(id)) } else { Ok(()) }
    }

    /// Like [`take`](Self::take), for a number from the program: while the call waited, the number may have become that of another request.
    ///
    /// # Errors
    /// The operation's error; those of [`check`](Self::check).
    pub(crate) fn take_by_number(&mut self, id: RequestId) -> Result<Status> {
        self.check(id)?;
        self.take(id)
    }

    /// Removes an operation from the table. A persistent request stays, inactive, unless it is detached.
    fn remove(&mut self, id: RequestId) -> Option<(Status, Option<Cold>)> {
        if let Some(status) = id.ended_status() {
            return Some((status, None));
        }
        let record = self.get_mut(id)?;
        let (status, unusual) = (record.status(), record.unusual);
        record.unusual = 0;
        let cold = if unusual & unusual::COLD != 0 { self.cold_mut(id) } else { None };
        let mut cold = cold.map(std::mem::take);
        let recipe = cold.as_mut().and_then(|cold| cold.recipe.take());
        match recipe.filter(|_| unusual & unusual::DETACHED == 0) {
            Some(recipe) => {
                let record = &mut self.records[id.index()];
                record.phase = Phase::Inactive;
                record.unusual = unusual & unusual::HELD;
                record.set_status(Status::EMPTY);
                let parts = cold.as_mut().and_then(|cold| cold.parts.take());
                let kept = self.cold_of(id);
                (kept.recipe, kept.parts) = (Some(recipe), parts);
            }
            None => self.records[id.index()].vacate(&mut self.free, id),
        }
        Some((status, cold))
    }
}

impl Drop for Requests {
    /// Peers may still access the memory of incomplete operations, so the memory is leaked.
    fn drop(&mut self) {
        for (record, cold) in self.records.iter().zip(&mut self.cold) {
            if !record.is_over() {
                std::mem::forget(cold.take().and_then(|cold| cold.kept));
            }
        }
    }
}

#[cold]
#[inline(never)]
fn unknown(id: RequestId) -> Error {
    Error::UnknownRequest { request: id.number() }
}

#[cfg(test)]
mod tests;
