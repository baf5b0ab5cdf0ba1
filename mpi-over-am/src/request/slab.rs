//! The table of requests: a slot and how often it was given out, so that an old number finds nothing.

use std::any::Any;

use am_core::error::Refusal;
use am_core::handler::{Delivered, Place};

use super::persistent::Recipe;
use crate::buffer::Scatter;
use crate::error::{Error, Result};
use crate::matching::{ContextId, Envelope, PostedHandle};
use crate::status::Status;

/// Names an operation that is under way. Good for the environment that gave it, until it has been waited for.
///
/// ```text
/// bits  0..24   slot
/// bits 24..30   generation of the slot
/// bit  30       set
/// ```
///
/// The number is above those that the C interface has predefined, and below 2^31: it is C's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u32);

/// Set in the number of a request.
const LIVE: u32 = 1 << 30;
const SLOT_BITS: u32 = 24;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
const GENERATION: u32 = 1 << SLOT_BITS;
/// Slots that the calls of a program leave to what the library starts by itself.
const SLOTS_KEPT: usize = 1 << 16;

impl RequestId {
    /// The receive of a blocking call. There is one at a time, and its slot is never given out.
    pub(crate) const BLOCKING_RECEIVE: Self = Self(LIVE);
    /// Every send that ended in the call that started it. It names no record, and can be waited for, copied and freed any number of
    /// times.
    pub const ENDED_SEND: Self = Self(LIVE | 2);
    /// Every receive from [`PROC_NULL`](crate::PROC_NULL), which ends in its call. As [`ENDED_SEND`](Self::ENDED_SEND).
    pub const RECEIVED_FROM_NOBODY: Self = Self(LIVE | 3);
    const RESERVED: u32 = 4;
    /// Operations that a program can have under way.
    pub(crate) const MAX: i64 = (SLOTS_MAX - SLOTS_KEPT) as i64;

    /// The request of a C handle. A number that is no request's finds none.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "what is cut is compared before")]
    pub const fn from_handle(handle: usize) -> Self {
        if handle >> (LIVE.trailing_zeros() + 1) == 0 { Self(handle as u32) } else { Self(0) }
    }

    /// The C handle of the request.
    #[inline(always)]
    #[must_use]
    pub const fn handle(self) -> usize {
        self.0 as usize
    }

    /// The number under which am-core knows the request.
    #[inline(always)]
    pub(crate) fn number(self) -> u64 {
        u64::from(self.0)
    }

    /// The request that am-core knows under this number.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "am-core gives back what it got")]
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number as u32)
    }

    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & (GENERATION - 1)) as usize
    }

    #[cfg(test)]
    fn slot(self) -> u32 {
        self.0 & (GENERATION - 1)
    }

    /// The status of an operation that ended in its call; `None` for the number of one that has a record.
    #[inline(always)]
    const fn ended_status(self) -> Option<Status> {
        match self {
            Self::ENDED_SEND => Some(Status::EMPTY),
            Self::RECEIVED_FROM_NOBODY => Some(Status::OF_NOBODY),
            _ => None,
        }
    }
}

/// What a layer above may ask about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestFacts {
    /// A wait leaves the request, to be started again.
    pub is_persistent: bool,
    /// The program carries the operation out (`MPI_Grequest_start`).
    pub is_generalized: bool,
    /// A context id of the communicator that the operation belongs to; `None` if it belongs to no one.
    pub context_id: Option<u32>,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// Persistent, and not started: over, for whoever waits.
    Inactive,
    /// A receive that waits for its message.
    Posted,
    /// A send, or a receive that has met its message.
    Moving,
    /// Partitioned: over when all of its messages are.
    Parts,
    /// The program carries it out, and says when it is over.
    ByProgram,
    /// Over.
    Done,
}

/// No context id.
const NO_CONTEXT: u32 = u32::MAX;

/// What is unusual about a request, in bits.
mod unusual {
    /// Nobody will wait for it: the record goes when the operation ends.
    pub(super) const DETACHED: u8 = 1;
    /// The message goes where a layout says.
    pub(super) const LAYOUT: u8 = 2;
    /// A call waits for this one or others: it counts what ends.
    pub(super) const WATCHED: u8 = 4;
    /// Each of these needs a look when the operation ends.
    pub(super) const AT_END: u8 = DETACHED | LAYOUT | WATCHED;
    /// It has failed, or has memory or a recipe.
    pub(super) const COLD: u8 = 8;
    /// The program carries it out.
    pub(super) const GENERALIZED: u8 = 16;
    /// The slot is never given out.
    pub(super) const RESERVED: u8 = 32;
}

/// An operation.
#[derive(Debug)]
struct Record {
    /// The number of the request; without [`LIVE`] while the slot is free, and then of its next one.
    number: u32,
    phase: Phase,
    is_receive: bool,
    unusual: u8,
    /// The scope that waits for it; 0: none.
    scope: u32,
    /// Of the communicator that it belongs to, or [`NO_CONTEXT`].
    context: u32,
    status: Status,
    /// In the posted queue, while it waits there.
    posted: Option<PostedHandle>,
    /// Stays with the slot, empty unless [`unusual::COLD`] is set.
    cold: Option<Box<Cold>>,
}

/// What few requests have.
#[derive(Debug, Default)]
struct Cold {
    failure: Option<Error>,
    /// Where the message goes, until it has met its receive.
    layout: Option<Box<Scatter>>,
    /// Bytes that the layout has room for; a sink takes any number.
    room: u64,
    /// Memory that belongs to the operation.
    kept: Option<Box<dyn Any>>,
    /// What a start does, if the request is persistent.
    recipe: Option<Recipe>,
}

impl Record {
    const fn free(number: u32) -> Self {
        Self {
            number,
            phase: Phase::Free,
            is_receive: false,
            unusual: 0,
            scope: 0,
            context: NO_CONTEXT,
            status: Status::EMPTY,
            posted: None,
            cold: None,
        }
    }

    fn reserved(id: RequestId, phase: Phase, status: Status) -> Self {
        Self { phase, status, unusual: unusual::RESERVED, ..Self::free(id.0) }
    }

    fn cold(&mut self) -> &mut Cold {
        self.unusual |= unusual::COLD;
        self.cold.get_or_insert_default()
    }

    fn recipe(&self) -> Option<&Recipe> {
        self.cold.as_ref()?.recipe.as_ref()
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Inactive)
    }
}

/// The number of the next request in a slot, while it is free.
const fn next_number(number: u32) -> u32 {
    number.wrapping_add(GENERATION) & (LIVE - 1)
}

/// All operations of an environment.
#[derive(Debug)]
pub(crate) struct Requests {
    records: Vec<Record>,
    /// Free slots; the last one is given out next.
    free: Vec<u32>,
    /// For the next send that may end in its call: its number can be given to am-core, and its record is as it must be if the send
    /// does not end. [`NO_SPARE`] while it is in use.
    spare: u32,
    /// Operations that ended while a call watched them.
    watched_ended: u64,
}

const NO_SPARE: u32 = 0;

impl Default for Requests {
    fn default() -> Self {
        let blocking = Record::reserved(RequestId::BLOCKING_RECEIVE, Phase::Free, Status::EMPTY);
        let unused = Record::free(1);
        let sent = Record::reserved(RequestId::ENDED_SEND, Phase::Done, Status::EMPTY);
        let received = Record {
            is_receive: true,
            ..Record::reserved(RequestId::RECEIVED_FROM_NOBODY, Phase::Done, Status::OF_NOBODY)
        };
        Self {
            records: vec![blocking, unused, sent, received],
            free: Vec::new(),
            spare: NO_SPARE,
            watched_ended: 0,
        }
    }
}

/// Whether a message ended because its sender gave it up, and its receiver had not matched it.
fn is_withdrawn(error: &am_core::error::Error) -> bool {
    matches!(error, am_core::error::Error::Refused { why: Refusal::Withdrawn, .. })
}

impl Requests {
    /// A new request for a scope (0: none).
    #[inline]
    pub(crate) fn insert(&mut self, is_receive: bool, scope: u32) -> RequestId {
        self.insert_in(is_receive, scope, NO_CONTEXT)
    }

    /// A new request for a message of a communicator.
    #[inline]
    pub(crate) fn insert_of(&mut self, is_receive: bool, scope: u32, context: ContextId) -> RequestId {
        self.insert_in(is_receive, scope, context.0)
    }

    #[inline(always)]
    fn insert_in(&mut self, is_receive: bool, scope: u32, context: u32) -> RequestId {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => self.new_slot(),
        };
        let record = &mut self.records[slot];
        record.number |= LIVE;
        record.phase = Phase::Moving;
        record.is_receive = is_receive;
        record.scope = scope;
        record.context = context;
        RequestId(record.number)
    }

    #[cold]
    #[inline(never)]
    fn new_slot(&mut self) -> usize {
        let slot = self.records.len();
        assert!(slot < SLOTS_MAX, "requests that the library starts by itself find a slot");
        self.records.push(Record::free(slot as u32));
        slot
    }

    /// Whether a call of the program may start one more operation.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.records.len() < SLOTS_MAX - SLOTS_KEPT
    }

    /// A request for a send that may end in its call. To be given to [`sent`](Self::sent).
    #[inline(always)]
    pub(crate) fn begin_send(&mut self) -> RequestId {
        let spare = std::mem::replace(&mut self.spare, NO_SPARE);
        if spare == NO_SPARE { self.insert(false, 0) } else { RequestId(spare) }
    }

    /// The send has ended, in the call that has begun it: its request is for the next one.
    #[inline(always)]
    pub(crate) fn sent(&mut self, id: RequestId) {
        if self.spare == NO_SPARE { self.spare = id.0 } else { self.forget(id) }
    }

    /// The send goes on after its call, or has ended in a way that its record knows.
    ///
    /// # Errors
    /// What it has failed with: the call reports it.
    #[inline(never)]
    pub(crate) fn goes_on(&mut self, id: RequestId, scope: u32, context: ContextId) -> Result<RequestId> {
        let Some(record) = self.get_mut(id) else { return Ok(RequestId::ENDED_SEND) };
        record.scope = scope;
        record.context = context.0;
        if record.phase == Phase::Done { self.take(id).map(|_| RequestId::ENDED_SEND) } else { Ok(id) }
    }

    /// A record for an operation that ended in its call, where memory is to be kept under its number.
    pub(crate) fn with_record(&mut self, id: RequestId) -> RequestId {
        let Some(status) = id.ended_status() else { return id };
        let request = self.insert(self.is_receive(id), 0);
        self.set_status(request, status);
        self.end(request, None);
        request
    }

    /// Makes the request of blocking receives ready for its next use.
    #[inline(always)]
    pub(crate) fn begin_blocking(&mut self, id: RequestId) {
        debug_assert!(id == RequestId::BLOCKING_RECEIVE);
        let record = &mut self.records[id.index()];
        record.phase = Phase::Moving;
        record.is_receive = true;
    }

    #[inline(always)]
    fn get(&self, id: RequestId) -> Option<&Record> {
        self.records.get(id.index()).filter(|record| record.number == id.0 && record.phase != Phase::Free)
    }

    #[inline(always)]
    fn get_mut(&mut self, id: RequestId) -> Option<&mut Record> {
        self.records.get_mut(id.index()).filter(|record| record.number == id.0 && record.phase != Phase::Free)
    }

    /// How far the operation is; `Free` for one that does not exist.
    #[inline(always)]
    pub(crate) fn phase(&self, id: RequestId) -> Phase {
        self.get(id).map_or(Phase::Free, |record| record.phase)
    }

    /// Whether the operation is over (or does not exist).
    #[inline(always)]
    pub(crate) fn is_over(&self, id: RequestId) -> bool {
        self.get(id).is_none_or(Record::is_over)
    }

    /// The receive waits in the posted queue.
    #[inline(always)]
    pub(crate) fn posted(&mut self, id: RequestId, handle: PostedHandle) {
        if let Some(record) = self.get_mut(id) {
            record.phase = Phase::Posted;
            record.posted = Some(handle);
        }
    }

    /// Where a receive that waits lies in the posted queue.
    pub(crate) fn place(&self, id: RequestId) -> Option<PostedHandle> {
        self.get(id).filter(|record| record.phase == Phase::Posted)?.posted
    }

    /// The receive has met its message.
    #[inline(always)]
    pub(crate) fn matched(&mut self, id: RequestId, envelope: &Envelope) {
        if let Some(record) = self.get_mut(id) {
            record.phase = Phase::Moving;
            record.status.source = envelope.source();
            record.status.tag = envelope.tag();
        }
    }

    /// The operation is over, as am-core says.
    #[inline(always)]
    pub(crate) fn complete(&mut self, id: RequestId, delivered: Delivered) {
        let Some(record) = self.get_mut(id) else { return };
        record.status.len = delivered.len;
        record.phase = Phase::Done;
        let cut = record.is_receive && delivered.placed != delivered.len;
        if cut || record.unusual & unusual::AT_END != 0 || delivered.outcome.is_err() {
            self.complete_unusual(id, delivered);
        }
    }

    /// The same for a message of which there is nothing to say but its length.
    #[inline(always)]
    pub(crate) fn complete_plain(&mut self, id: RequestId, len: u64, placed: u64) {
        let Some(record) = self.get_mut(id) else { return };
        record.status.len = len;
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
            Err(error) if is_withdrawn(&error) && !is_receive => self.end(id, Some(Error::Cancelled)),
            Err(error) => self.end(id, Some(Error::Core(*error))),
        }
    }

    /// The receive is over: `placed` of `len` bytes are in place, or as many of them as its layout has.
    #[inline(never)]
    pub(crate) fn delivered(&mut self, id: RequestId, len: u64, placed: u64) {
        let Some(record) = self.get_mut(id) else { return };
        record.status.len = len;
        let room = match &record.cold {
            Some(cold) if record.unusual & unusual::LAYOUT != 0 => placed.min(cold.room),
            _ => placed,
        };
        let Status { source: source_rank, tag, .. } = record.status;
        let is_cut = record.is_receive && room != len;
        self.end(id, is_cut.then_some(Error::Truncated { source_rank, tag, sent: len, room }));
    }

    /// The operation is over, with this error if there is one.
    pub(crate) fn end(&mut self, id: RequestId, failure: Option<Error>) {
        let Some(record) = self.get_mut(id) else { return };
        record.phase = Phase::Done;
        if failure.is_some() {
            record.cold().failure = failure;
        }
        let unusual = record.unusual;
        if unusual & unusual::WATCHED != 0 {
            self.watched_ended += 1;
        }
        if unusual & unusual::DETACHED != 0 {
            self.remove(id);
        }
    }

    /// Operations that ended while a call watched them: a number that has not changed says that none has.
    #[inline(always)]
    pub(crate) fn watched_ended(&self) -> u64 {
        self.watched_ended
    }

    /// Says whether the end of an operation is to be counted.
    pub(crate) fn watch(&mut self, id: RequestId, is_watched: bool) {
        if let Some(record) = self.get_mut(id).filter(|record| record.unusual & unusual::RESERVED == 0) {
            record.unusual &= !unusual::WATCHED;
            record.unusual |= if is_watched { unusual::WATCHED } else { 0 };
        }
    }

    /// Takes the result of an operation that is over and has left nothing but its status: the frequent case, in place. `None`:
    /// any other request.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, id: RequestId) -> Option<Status> {
        if let Some(status) = id.ended_status() {
            return Some(status);
        }
        let record = self.records.get_mut(id.index())?;
        let is_plain = record.number == id.0 && record.phase == Phase::Done && record.unusual == 0;
        if !is_plain {
            return None;
        }
        record.phase = Phase::Free;
        record.number = next_number(id.0);
        self.free.push(id.0 & (GENERATION - 1));
        Some(std::mem::replace(&mut record.status, Status::EMPTY))
    }

    /// Takes the result of an operation that is over.
    ///
    /// # Errors
    /// The operation's own error; [`Error::UnknownRequest`].
    #[inline(always)]
    pub(crate) fn take(&mut self, id: RequestId) -> Result<Status> {
        self.take_kept(id).map(|(status, _)| status)?
    }

    /// Takes the result of a blocking operation that is over. Its slot stays.
    ///
    /// # Errors
    /// The operation's own error.
    #[inline(always)]
    pub(crate) fn take_blocking(&mut self, id: RequestId) -> Result<Status> {
        let record = &mut self.records[id.index()];
        record.phase = Phase::Free;
        if record.unusual == unusual::RESERVED {
            return Ok(record.status);
        }
        record.unusual = unusual::RESERVED;
        match record.cold.as_mut().and_then(|cold| cold.failure.take()) {
            None => Ok(record.status),
            Some(error) => Err(error),
        }
    }

    /// Takes the result of an operation that is over, and the memory that belonged to it.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`].
    #[expect(clippy::type_complexity, reason = "the two halves of what a record holds, taken apart at once")]
    pub(crate) fn take_kept(&mut self, id: RequestId) -> Result<(Result<Status>, Option<Box<dyn Any>>)> {
        let (status, cold) = self.remove(id).ok_or_else(|| unknown(id))?;
        let Cold { failure, kept, .. } = cold.unwrap_or_default();
        Ok((failure.map_or(Ok(status), Err), kept))
    }

    /// Refuses the number of a request that does not exist.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`].
    #[inline(always)]
    pub(crate) fn check(&self, id: RequestId) -> Result<()> {
        if self.get(id).is_some() && id != RequestId::BLOCKING_RECEIVE { Ok(()) } else { Err(unknown(id)) }
    }

    /// What a layer above may know of a request.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`].
    pub(crate) fn facts(&self, id: RequestId) -> Result<RequestFacts> {
        self.check(id)?;
        let record = self.get(id).ok_or_else(|| unknown(id))?;
        Ok(RequestFacts {
            is_persistent: record.recipe().is_some(),
            is_generalized: record.unusual & unusual::GENERALIZED != 0,
            context_id: (record.context != NO_CONTEXT).then_some(record.context),
        })
    }

    /// The operation belongs to a communicator with this context id.
    pub(crate) fn set_context(&mut self, id: RequestId, context: u32) {
        if let Some(record) = self.get_mut(id).filter(|record| record.unusual & unusual::RESERVED == 0) {
            record.context = context;
        }
    }

    /// Drops a request whose operation was not started.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.remove(id);
    }

    /// Gives memory to the operation. It is returned with the result. What has ended in its call needs none.
    pub(crate) fn keep(&mut self, id: RequestId, memory: Box<dyn Any>) {
        if let Some(record) = self.get_mut(id).filter(|record| record.unusual & unusual::RESERVED == 0) {
            record.cold().kept = Some(memory);
        }
    }

    /// A new persistent request, which is not started.
    pub(crate) fn insert_persistent(&mut self, is_receive: bool, recipe: Recipe) -> RequestId {
        let id = self.insert(is_receive, 0);
        let record = &mut self.records[id.index()];
        record.phase = Phase::Inactive;
        record.cold().recipe = Some(recipe);
        id
    }

    /// What a start of the request does. It is under way from now on.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`]; [`Error::NotStartable`]: not persistent, or under way already.
    pub(crate) fn begin(&mut self, id: RequestId) -> Result<Recipe> {
        let record = self.get_mut(id).ok_or_else(|| unknown(id))?;
        match record.recipe().cloned() {
            Some(recipe) if record.phase == Phase::Inactive => {
                record.phase = Phase::Moving;
                Ok(recipe)
            }
            recipe => Err(Error::NotStartable { request: id.number(), is_persistent: recipe.is_some() }),
        }
    }

    /// Whether it is a persistent request whose other side is nobody.
    pub(crate) fn is_to_nobody(&self, id: RequestId) -> bool {
        matches!(self.get(id).and_then(Record::recipe), Some(Recipe::Nobody { .. }))
    }

    /// Whether a wait for the request waits for anything: it is there, and not a persistent one that is not started.
    pub(crate) fn is_active(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|record| record.phase != Phase::Inactive)
    }

    /// The operation has messages of its own.
    pub(crate) fn in_parts(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id) {
            record.phase = Phase::Parts;
        }
    }

    /// The program carries the operation out.
    pub(crate) fn by_program(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id) {
            record.phase = Phase::ByProgram;
            record.unusual |= unusual::GENERALIZED;
        }
    }

    /// Whether the operation was withdrawn, and nobody has waited for it since.
    pub(crate) fn was_cancelled(&self, id: RequestId) -> bool {
        let cold = self.get(id).and_then(|record| record.cold.as_ref());
        matches!(cold.and_then(|cold| cold.failure.as_ref()), Some(Error::Cancelled))
    }

    /// What a wait would tell now, if the operation is over.
    pub(crate) fn status(&self, id: RequestId) -> Option<Status> {
        self.get(id).filter(|record| record.is_over()).map(|record| record.status)
    }

    /// What a wait will tell.
    pub(crate) fn set_status(&mut self, id: RequestId, status: Status) {
        if let Some(record) = self.get_mut(id) {
            record.status = status;
        }
    }

    /// The message goes where a layout says.
    pub(crate) fn set_layout(&mut self, id: RequestId, layout: Scatter) {
        if let Some(record) = self.get_mut(id) {
            record.unusual |= unusual::LAYOUT;
            let cold = record.cold();
            cold.room = layout.size();
            cold.layout = Some(Box::new(layout));
        }
    }

    /// Where the message goes.
    pub(crate) fn layout(&self, id: RequestId) -> Option<&Scatter> {
        self.get(id)?.cold.as_ref()?.layout.as_deref()
    }

    /// The place for a message that has met its receive, and its bytes.
    #[inline(never)]
    pub(crate) fn take_layout(&mut self, id: RequestId) -> (Place, u64) {
        let cold = self.get_mut(id).and_then(|record| record.cold.as_mut());
        match cold.and_then(|cold| cold.layout.take().map(|layout| (layout, cold.room))) {
            Some((layout, room)) => (Place::Sink(layout), room),
            None => (Place::Nowhere, 0),
        }
    }

    /// Whether it is a receive.
    pub(crate) fn is_receive(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|record| record.is_receive)
    }

    /// Nobody will wait for the operation.
    pub(crate) fn detach(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id).filter(|record| record.unusual & unusual::RESERVED == 0) {
            record.unusual |= unusual::DETACHED;
            if record.is_over() {
                self.remove(id);
            }
        }
    }

    /// The requests that belong to a scope.
    pub(crate) fn of_scope(&self, scope: u32) -> Vec<RequestId> {
        self.ids(|record| record.scope == scope)
    }

    /// The operations that are not over.
    pub(crate) fn unfinished(&self) -> Vec<RequestId> {
        self.ids(|record| !record.is_over())
    }

    fn ids(&self, wanted: impl Fn(&Record) -> bool) -> Vec<RequestId> {
        let live = self.records[RequestId::RESERVED as usize..].iter();
        live.filter(|record| record.phase != Phase::Free && record.number != self.spare && wanted(record))
            .map(|record| RequestId(record.number))
            .collect()
    }

    /// Takes what is known of an operation out. A persistent request stays, as one that is not started.
    fn remove(&mut self, id: RequestId) -> Option<(Status, Option<Cold>)> {
        if let Some(status) = id.ended_status() {
            return Some((status, None));
        }
        let record = self.get_mut(id)?;
        let status = std::mem::replace(&mut record.status, Status::EMPTY);
        let is_cold = record.unusual & unusual::COLD != 0;
        let mut cold = if is_cold { record.cold.as_deref_mut().map(std::mem::take) } else { None };
        let recipe = cold.as_mut().and_then(|cold| cold.recipe.take());
        let is_detached = record.unusual & unusual::DETACHED != 0;
        record.unusual = 0;
        record.posted = None;
        if let Some(recipe) = recipe.filter(|_| !is_detached) {
            record.phase = Phase::Inactive;
            record.cold().recipe = Some(recipe);
            return Some((status, cold));
        }
        record.phase = Phase::Free;
        // The generation moves on, so that the old number finds nothing.
        record.number = next_number(id.0);
        self.free.push(id.0 & (GENERATION - 1));
        Some((status, cold))
    }
}

impl Drop for Requests {
    /// Peers may still read the memory of operations that are not over: it is given up, not freed.
    fn drop(&mut self) {
        for record in self.records.iter_mut().filter(|record| !record.is_over()) {
            std::mem::forget(record.cold.take().and_then(|cold| cold.kept));
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
