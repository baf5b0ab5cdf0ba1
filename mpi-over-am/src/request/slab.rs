//! The table of requests: a slot and how often it was given out, so that an old number finds nothing.

use std::any::Any;

use am_core::error::Refusal;
use am_core::handler::{Delivered, Place};

use super::persistent::Recipe;
use crate::buffer::Scatter;
use crate::error::{Error, Result};
use crate::matching::{Envelope, PostedHandle};
use crate::status::Status;

/// Names an operation that is under way. Good for the environment that gave it, until it has been waited for.
///
/// One word, with the slot in its low half and the generation in its high one: of two fields each would be stored by itself, and the
/// processor, when they are then loaded together, waits for all stores before, the line to the peer among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// The receive of a blocking call. There is one at a time, and its slot is never given out.
    pub(crate) const BLOCKING_RECEIVE: Self = Self::new(0, 0);
    /// All sends that were over when they were started, and of which there is nothing to say. It is there always, however often it
    /// is waited for.
    pub const FINISHED_SEND: Self = Self::new(1, 0);
    const RESERVED: u32 = 2;

    #[inline(always)]
    const fn new(slot: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | slot as u64)
    }

    /// The number under which am-core knows the request.
    #[inline(always)]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number)
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    fn slot(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    fn index(self) -> usize {
        self.slot() as usize
    }
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The slot is free.
    Free,
    /// Persistent, and not started: over, for whoever waits.
    Inactive,
    /// A receive that waits for its message.
    Posted(PostedHandle),
    /// A send, or a receive that has met its message.
    Moving,
    /// Partitioned: over when all of its messages are.
    Parts,
    /// The program carries it out, and says when it is over.
    ByProgram,
    /// Over.
    Done,
}

/// An operation.
#[derive(Debug)]
struct Record {
    generation: u32,
    phase: Phase,
    is_receive: bool,
    /// Its end needs a closer look: it is detached, or its message goes where a layout says.
    is_unusual: bool,
    /// Nobody will wait for it: the record goes when the operation ends.
    detached: bool,
    /// The scope that waits for it; 0: none.
    scope: u32,
    status: Status,
    failure: Option<Box<Error>>,
    /// Where the message goes, until it has met its receive.
    layout: Option<Box<Scatter>>,
    /// Bytes that the layout has room for; a sink takes any number.
    room: u64,
    /// Memory that belongs to the operation.
    kept: Option<Box<dyn Any>>,
    /// What a start does, if the request is persistent.
    recipe: Option<Box<Recipe>>,
}

impl Record {
    const fn free(generation: u32) -> Self {
        Self {
            generation,
            phase: Phase::Free,
            is_receive: false,
            is_unusual: false,
            detached: false,
            scope: 0,
            status: Status::EMPTY,
            failure: None,
            layout: None,
            room: u64::MAX,
            kept: None,
            recipe: None,
        }
    }
}

/// All operations of an environment.
#[derive(Debug)]
pub(crate) struct Requests {
    records: Vec<Record>,
    /// Free slots; the last one is given out next.
    free: Vec<u32>,
}

impl Default for Requests {
    fn default() -> Self {
        let finished = Record { phase: Phase::Done, ..Record::free(0) };
        Self { records: vec![Record::free(0), finished], free: Vec::new() }
    }
}

/// Whether a message ended because its sender gave it up, and its receiver had not matched it.
fn is_withdrawn(error: &am_core::error::Error) -> bool {
    matches!(error, am_core::error::Error::Refused { why: Refusal::Withdrawn, .. })
}

impl Requests {
    /// A new request for a scope (0: none).
    pub(crate) fn insert(&mut self, is_receive: bool, scope: u32) -> RequestId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record::free(0));
            u32::try_from(self.records.len() - 1).expect("fewer than 2^32 requests fit into memory")
        });
        let record = &mut self.records[slot as usize];
        record.phase = Phase::Moving;
        record.is_receive = is_receive;
        record.scope = scope;
        RequestId::new(slot, record.generation)
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
        self.records
            .get(id.index())
            .filter(|record| record.generation == id.generation() && record.phase != Phase::Free)
    }

    #[inline(always)]
    fn get_mut(&mut self, id: RequestId) -> Option<&mut Record> {
        self.records
            .get_mut(id.index())
            .filter(|record| record.generation == id.generation() && record.phase != Phase::Free)
    }

    /// How far the operation is; `Free` for one that does not exist.
    #[inline(always)]
    pub(crate) fn phase(&self, id: RequestId) -> Phase {
        self.get(id).map_or(Phase::Free, |record| record.phase)
    }

    /// Whether the operation is over (or does not exist).
    #[inline(always)]
    pub(crate) fn is_over(&self, id: RequestId) -> bool {
        self.get(id).is_none_or(|record| matches!(record.phase, Phase::Done | Phase::Inactive))
    }

    /// The receive waits in the posted queue.
    #[inline(always)]
    pub(crate) fn posted(&mut self, id: RequestId, handle: PostedHandle) {
        if let Some(record) = self.get_mut(id) {
            record.phase = Phase::Posted(handle);
        }
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
        if cut || record.is_unusual || delivered.outcome.is_err() {
            self.complete_unusual(id, delivered);
        }
    }

    /// The same for a message of which there is nothing to say but its length.
    #[inline(always)]
    pub(crate) fn complete_plain(&mut self, id: RequestId, len: u64, placed: u64) {
        let Some(record) = self.get_mut(id) else { return };
        record.status.len = len;
        record.phase = Phase::Done;
        if record.is_receive && placed != len || record.is_unusual {
            let placed = placed.min(record.room);
            self.delivered(id, len, placed);
        }
    }

    #[cold]
    #[inline(never)]
    fn complete_unusual(&mut self, id: RequestId, delivered: Delivered) {
        let Delivered { len, placed, outcome, .. } = delivered;
        let Some(record) = self.get_mut(id) else { return };
        let placed = placed.min(record.room);
        record.failure = match outcome {
            Err(error) if is_withdrawn(&error) && !record.is_receive => Some(Box::new(Error::Cancelled)),
            Err(error) => Some(Box::new(Error::Core(*error))),
            Ok(()) if record.is_receive && placed != len => Some(Box::new(Error::Truncated {
                source_rank: record.status.source,
                tag: record.status.tag,
                sent: len,
                room: placed,
            })),
            Ok(()) => None,
        };
        if record.detached {
            self.remove(id);
        }
    }

    /// The receive is over: `placed` of `len` bytes are in place.
    #[inline(never)]
    pub(crate) fn delivered(&mut self, id: RequestId, len: u64, placed: u64) {
        let Some(record) = self.get_mut(id) else { return };
        record.status.len = len;
        if placed == len {
            self.end(id, None);
        } else {
            let Status { source: source_rank, tag, .. } = record.status;
            self.end(id, Some(Error::Truncated { source_rank, tag, sent: len, room: placed }));
        }
    }

    /// The operation is over, with this error if there is one.
    pub(crate) fn end(&mut self, id: RequestId, failure: Option<Error>) {
        let Some(record) = self.get_mut(id) else { return };
        record.phase = Phase::Done;
        record.failure = failure.map(Box::new);
        if record.detached {
            self.remove(id);
        }
    }

    /// A send that nobody has the number of yet: under which one its starter gets it.
    #[inline(always)]
    pub(crate) fn started_send(&mut self, id: RequestId) -> RequestId {
        match self.take_plain(id) {
            Some(_) => RequestId::FINISHED_SEND,
            None => id,
        }
    }

    /// Takes the result of an operation that is over and has left nothing but its status: the frequent case, in place. `None`:
    /// any other request.
    #[inline(always)]
    pub(crate) fn take_plain(&mut self, id: RequestId) -> Option<Status> {
        if id == RequestId::FINISHED_SEND {
            return Some(Status::EMPTY);
        }
        let record = self.records.get_mut(id.index())?;
        let is_plain = record.phase == Phase::Done
            && record.generation == id.generation()
            && id.slot() >= RequestId::RESERVED
            && !record.is_unusual
            && record.failure.is_none()
            && record.kept.is_none()
            && record.recipe.is_none();
        if !is_plain {
            return None;
        }
        record.phase = Phase::Free;
        record.generation = id.generation().wrapping_add(1);
        record.scope = 0;
        self.free.push(id.slot());
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
        match record.failure.take() {
            None => Ok(record.status),
            Some(error) => Err(*error),
        }
    }

    /// Takes the result of an operation that is over, and the memory that belonged to it.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`].
    #[expect(clippy::type_complexity, reason = "the two halves of what a record holds, taken apart at once")]
    pub(crate) fn take_kept(&mut self, id: RequestId) -> Result<(Result<Status>, Option<Box<dyn Any>>)> {
        match self.remove(id) {
            Some(Record { failure: None, status, kept, .. }) => Ok((Ok(status), kept)),
            Some(Record { failure: Some(error), kept, .. }) => Ok((Err(*error), kept)),
            None => Err(unknown(id)),
        }
    }

    /// Refuses the number of a request that does not exist.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`].
    #[inline(always)]
    pub(crate) fn check(&self, id: RequestId) -> Result<()> {
        if self.get(id).is_some() && id != RequestId::BLOCKING_RECEIVE { Ok(()) } else { Err(unknown(id)) }
    }

    /// Drops a request whose operation was not started.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.remove(id);
    }

    /// Gives memory to the operation. It is returned with the result.
    pub(crate) fn keep(&mut self, id: RequestId, memory: Box<dyn Any>) {
        if let Some(record) = self.get_mut(id) {
            record.kept = Some(memory);
        }
    }

    /// A new persistent request, which is not started.
    pub(crate) fn insert_persistent(&mut self, is_receive: bool, recipe: Recipe) -> RequestId {
        let id = self.insert(is_receive, 0);
        let record = &mut self.records[id.index()];
        record.phase = Phase::Inactive;
        record.recipe = Some(Box::new(recipe));
        id
    }

    /// What a start of the request does. It is under way from now on.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`]; [`Error::NotStartable`]: not persistent, or under way already.
    pub(crate) fn begin(&mut self, id: RequestId) -> Result<Recipe> {
        let record = self.get_mut(id).ok_or_else(|| unknown(id))?;
        match &record.recipe {
            Some(recipe) if record.phase == Phase::Inactive => {
                record.phase = Phase::Moving;
                Ok(Recipe::clone(recipe))
            }
            recipe => Err(Error::NotStartable { request: id.number(), is_persistent: recipe.is_some() }),
        }
    }

    /// Whether it is a persistent request whose other side is nobody.
    pub(crate) fn is_to_nobody(&self, id: RequestId) -> bool {
        let recipe = self.get(id).and_then(|record| record.recipe.as_deref());
        matches!(recipe, Some(Recipe::Nobody { .. }))
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
        }
    }

    /// Whether the operation was withdrawn, and nobody has waited for it since.
    pub(crate) fn was_cancelled(&self, id: RequestId) -> bool {
        let failure = self.get(id).and_then(|record| record.failure.as_deref());
        matches!(failure, Some(Error::Cancelled))
    }

    /// What a wait would tell now, if the operation is over.
    pub(crate) fn status(&self, id: RequestId) -> Option<Status> {
        self.get(id)
            .filter(|record| matches!(record.phase, Phase::Done | Phase::Inactive))
            .map(|record| record.status)
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
            record.room = layout.size();
            record.layout = Some(Box::new(layout));
            record.is_unusual = true;
        }
    }

    /// Where the message goes.
    pub(crate) fn layout(&self, id: RequestId) -> Option<&Scatter> {
        self.get(id)?.layout.as_deref()
    }

    /// The place for a message that has met its receive, and its bytes.
    #[inline(never)]
    pub(crate) fn take_layout(&mut self, id: RequestId) -> (Place, u64) {
        match self.get_mut(id).and_then(|record| record.layout.take().map(|layout| (layout, record.room))) {
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
        if let Some(record) = self.get_mut(id).filter(|_| id != RequestId::FINISHED_SEND) {
            record.detached = true;
            record.is_unusual = true;
            if matches!(record.phase, Phase::Done | Phase::Inactive) {
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
        self.ids(|record| !matches!(record.phase, Phase::Done | Phase::Inactive))
    }

    fn ids(&self, wanted: impl Fn(&Record) -> bool) -> Vec<RequestId> {
        let live = self.records.iter().zip(0u32..).skip(RequestId::RESERVED as usize);
        live.filter(|(record, _)| record.phase != Phase::Free && wanted(record))
            .map(|(record, slot)| RequestId::new(slot, record.generation))
            .collect()
    }

    /// Takes the record out. A persistent request stays, as one that is not started.
    fn remove(&mut self, id: RequestId) -> Option<Record> {
        if id == RequestId::FINISHED_SEND {
            return Some(Record { phase: Phase::Done, ..Record::free(0) });
        }
        let Record { is_receive, detached, ref mut recipe, .. } = *self.get_mut(id)?;
        if !detached && recipe.is_some() {
            let recipe = recipe.take();
            let inactive =
                Record { phase: Phase::Inactive, is_receive, recipe, ..Record::free(id.generation()) };
            return Some(std::mem::replace(&mut self.records[id.index()], inactive));
        }
        // The generation moves on, so that the old number finds nothing.
        let next = Record::free(id.generation().wrapping_add(1));
        self.free.push(id.slot());
        Some(std::mem::replace(&mut self.records[id.index()], next))
    }
}

impl Drop for Requests {
    /// Peers may still read the memory of operations that are not over: it is given up, not freed.
    fn drop(&mut self) {
        for record in &mut self.records {
            if !matches!(record.phase, Phase::Done | Phase::Inactive) {
                std::mem::forget(record.kept.take());
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
mod tests {
    use super::*;
    use crate::matching::ContextId;

    #[test]
    fn an_old_number_finds_nothing() {
        let mut requests = Requests::default();
        let first = requests.insert(true, 0);
        requests.matched(first, &Envelope::new(ContextId(0), 4, 5));
        requests.delivered(first, 10, 10);
        assert_eq!(requests.take(first).unwrap(), Status { source: 4, tag: 5, len: 10 });
        let second = requests.insert(false, 0);
        assert_eq!(first.slot(), second.slot());
        assert!(matches!(requests.take(first), Err(Error::UnknownRequest { .. })));
        assert!(requests.is_over(first));
        assert!(!requests.is_over(second));
    }

    #[test]
    fn the_blocking_slot_is_never_given_out_nor_waited_for_by_number() {
        let mut requests = Requests::default();
        requests.begin_blocking(RequestId::BLOCKING_RECEIVE);
        assert!(requests.check(RequestId::BLOCKING_RECEIVE).is_err());
        assert!(requests.insert(true, 0).slot() >= RequestId::RESERVED);
    }

    #[test]
    fn a_send_that_is_over_at_once_leaves_no_record_and_can_be_waited_for_by_everybody() {
        let mut requests = Requests::default();
        let id = requests.insert(false, 0);
        assert_eq!(requests.started_send(id), id, "it is under way");
        requests.end(id, None);
        let finished = requests.started_send(id);
        assert_eq!(finished, RequestId::FINISHED_SEND);
        assert!(requests.check(id).is_err());
        assert_eq!(requests.insert(true, 0).slot(), id.slot(), "its slot is free again");
        for _ in 0..2 {
            assert!(
                requests.check(finished).is_ok()
                    && requests.is_over(finished)
                    && requests.is_active(finished)
            );
            assert_eq!(requests.take_plain(finished), Some(Status::EMPTY));
            assert_eq!(requests.take(finished).unwrap(), Status::EMPTY);
            requests.detach(finished);
            assert_eq!(requests.status(finished), Some(Status::EMPTY));
        }
        assert!(requests.insert(false, 0).slot() >= RequestId::RESERVED);
    }

    #[test]
    fn a_send_that_has_failed_keeps_its_record() {
        let mut requests = Requests::default();
        let id = requests.insert(false, 0);
        requests.end(id, Some(Error::Cancelled));
        assert_eq!(requests.started_send(id), id);
        assert!(matches!(requests.take(id), Err(Error::Cancelled)));
    }

    #[test]
    fn a_detached_request_goes_when_it_is_over() {
        let mut requests = Requests::default();
        let id = requests.insert(false, 7);
        requests.detach(id);
        assert_eq!(requests.unfinished(), [id]);
        assert_eq!(requests.of_scope(7), [id]);
        requests.end(id, None);
        assert!(requests.unfinished().is_empty());
        assert!(requests.check(id).is_err());
    }

    #[test]
    fn a_cut_receive_ends_with_the_four_values() {
        let mut requests = Requests::default();
        let id = requests.insert(true, 0);
        requests.matched(id, &Envelope::new(ContextId(0), 2, 3));
        requests.delivered(id, 100, 60);
        assert!(matches!(
            requests.take(id),
            Err(Error::Truncated { source_rank: 2, tag: 3, sent: 100, room: 60 })
        ));
    }
}
