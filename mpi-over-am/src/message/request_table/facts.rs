//! Properties of a request, and data that only some requests have: memory, a layout, a recipe, parts.

use am_core::handler::Destination;

use super::parts::Parts;
use super::phase::Phase;
use super::recipe::Recipe;
use super::record::{NO_CONTEXT, Record, pattern_of, unusual};
use super::{Requests, unknown};
use crate::data::buffer::{KeptVec, Scatter};
use crate::error::{Error, Result};
use crate::matching::ContextId;
use crate::message::request_id::{RequestFacts, RequestId};
use crate::message::status::Status;

impl Requests {
    /// Properties of a request, for layers above.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`].
    pub(crate) fn facts(&self, id: RequestId) -> Result<RequestFacts> {
        self.check(id)?;
        let record = self.get(id).ok_or_else(|| unknown(id))?;
        Ok(RequestFacts {
            is_persistent: self.recipe(id).is_some(),
            is_inactive: record.phase == Phase::Inactive,
            is_generalized: record.unusual & unusual::GENERALIZED != 0,
            context_id: (record.context() != NO_CONTEXT).then_some(record.context()),
        })
    }

    /// Records that the operation belongs to a communicator with this context id.
    pub(crate) fn set_context(&mut self, id: RequestId, context: u32) {
        // The entry of a posted receive holds its pattern, which has the context id of its communicator already.
        let can_change =
            |record: &&mut Record| record.unusual & unusual::RESERVED == 0 && record.phase != Phase::Posted;
        if let Some(record) = self.get_mut(id).filter(can_change) {
            record.entry.pattern = pattern_of(context, record.status());
        }
    }

    /// Removes a request whose result is not needed, for example because its operation could not be started. A persistent request becomes
    /// inactive.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.remove(id);
    }

    /// Gives memory to the operation, which returns it with the result. Does nothing for an operation that was complete at once. Memory
    /// that the operation has already is leaked, because the operation may be using it.
    pub(crate) fn keep(&mut self, id: RequestId, memory: KeptVec) {
        if self.get(id).is_some_and(|record| record.unusual & unusual::RESERVED == 0) {
            std::mem::forget(self.cold_of(id).kept.replace(memory));
        }
    }

    /// Withholds the request from calls by number. The caller must be the only one that removes the request from now on: numbers repeat.
    pub(crate) fn hold(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id).filter(|record| record.unusual & unusual::RESERVED == 0) {
            record.unusual |= unusual::HELD;
        }
    }

    /// Ends [`hold`](Self::hold): the program gets the number.
    pub(crate) fn give_number(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id) {
            record.unusual &= !unusual::HELD;
        }
    }

    /// A new persistent request, inactive and [held](Self::hold).
    pub(crate) fn insert_persistent(&mut self, is_receive: bool, recipe: Recipe) -> RequestId {
        let id = self.insert(is_receive);
        self.records[id.index()].phase = Phase::Inactive;
        self.cold_of(id).recipe = Some(recipe);
        self.hold(id);
        id
    }

    /// Marks the request as under way, and returns what its start has to do.
    ///
    /// # Errors
    /// [`Error::UnknownRequest`]; [`Error::NotStartable`]: not persistent, or already under way.
    pub(crate) fn begin(&mut self, id: RequestId) -> Result<Recipe> {
        let recipe = self.recipe(id).cloned();
        let record = self.get_mut(id).ok_or_else(|| unknown(id))?;
        match recipe {
            Some(recipe) if record.phase == Phase::Inactive => {
                record.phase = Phase::Moving;
                Ok(recipe)
            }
            recipe => Err(Error::NotStartable { request: id.number(), is_persistent: recipe.is_some() }),
        }
    }

    /// Whether this is a persistent request whose peer is [`PROC_NULL`](crate::PROC_NULL).
    pub(crate) fn is_to_proc_null(&self, id: RequestId) -> bool {
        matches!(self.recipe(id), Some(Recipe::Nobody { .. }))
    }

    /// Whether a wait for the request has something to wait for: the request exists, and is not an inactive persistent request.
    pub(crate) fn is_active(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|record| record.phase != Phase::Inactive)
    }

    /// Takes the parts of an operation, to be [put back](Self::put_parts).
    pub(crate) fn take_parts(&mut self, id: RequestId) -> Option<Box<Parts>> {
        self.get(id)?;
        self.cold_mut(id)?.parts.take()
    }

    /// Gives an operation its parts.
    pub(crate) fn put_parts(&mut self, id: RequestId, parts: Box<Parts>) {
        if self.get(id).is_some() {
            self.cold_of(id).parts = Some(parts);
        }
    }

    /// The parts of an operation, if it has some.
    pub(crate) fn parts(&self, id: RequestId) -> Option<&Parts> {
        self.get(id)?;
        self.cold(id)?.parts.as_deref()
    }

    /// Like [`parts`](Self::parts), for changes.
    pub(crate) fn parts_mut(&mut self, id: RequestId) -> Option<&mut Parts> {
        self.get(id)?;
        self.cold_mut(id)?.parts.as_deref_mut()
    }

    /// Records that the operation consists of several messages.
    pub(crate) fn in_parts(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id) {
            record.phase = Phase::Parts;
        }
    }

    /// Records that the program carries the operation out.
    pub(crate) fn by_program(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id) {
            record.phase = Phase::ByProgram;
            record.unusual |= unusual::GENERALIZED;
        }
    }

    /// Records that the helper thread carries the operation out, if it has not done so already.
    pub(crate) fn by_helper(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id).filter(|record| record.phase == Phase::Moving) {
            record.phase = Phase::ByHelper;
        }
    }

    /// Whether the helper thread carries out an operation.
    pub(crate) fn wait_for_helper(&self) -> bool {
        self.records.iter().any(|record| record.phase == Phase::ByHelper)
    }

    /// Whether the operation was cancelled, and has not been waited for since.
    pub(crate) fn was_cancelled(&self, id: RequestId) -> bool {
        let cold = self.get(id).and_then(|_| self.cold(id));
        matches!(cold.and_then(|cold| cold.failure.as_ref()), Some(Error::Cancelled))
    }

    /// The status that a wait would return now, if the operation is complete.
    pub(crate) fn status(&self, id: RequestId) -> Option<Status> {
        self.get(id).filter(|record| record.is_over()).map(Record::status)
    }

    /// Sets the status that a wait will return.
    pub(crate) fn set_status(&mut self, id: RequestId, status: Status) {
        if let Some(record) = self.get_mut(id) {
            record.set_status(status);
        }
    }

    /// Gives the receive a layout, which scatters the message.
    pub(crate) fn set_layout(&mut self, id: RequestId, layout: Scatter) {
        if let Some(record) = self.get_mut(id) {
            record.unusual |= unusual::LAYOUT;
            let cold = self.cold_of(id);
            cold.capacity = layout.size();
            cold.layout = Some(Box::new(layout));
        }
    }

    /// The layout of the message's destination.
    pub(crate) fn layout(&self, id: RequestId) -> Option<&Scatter> {
        self.get(id)?;
        self.cold(id)?.layout.as_deref()
    }

    /// The destination of a message that has been matched, and the destination's length in bytes.
    #[inline(never)]
    pub(crate) fn take_layout(&mut self, id: RequestId) -> (Destination, u64) {
        let cold = if self.get(id).is_some() { self.cold_mut(id) } else { None };
        match cold.and_then(|cold| cold.layout.take().map(|layout| (layout, cold.capacity))) {
            Some((layout, capacity)) => (Destination::Sink(layout), capacity),
            None => (Destination::Nowhere, 0),
        }
    }

    /// Whether the operation is a receive.
    pub(crate) fn is_receive(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|record| record.is_receive)
    }

    /// Records that no call will wait for the request. The request is removed when its operation completes, or now if it is complete
    /// already. Does nothing for a reserved request.
    pub(crate) fn detach(&mut self, id: RequestId) {
        if let Some(record) = self.get_mut(id).filter(|record| record.unusual & unusual::RESERVED == 0) {
            record.unusual |= unusual::DETACHED;
            if record.is_over() {
                self.remove(id);
            }
        }
    }

    /// Records that the operation belongs to a scope, which waits for it and [holds](Self::hold) it.
    pub(crate) fn set_scope(&mut self, id: RequestId, scope: u32) {
        if let Some(record) = self.get_mut(id) {
            record.scope = scope;
            record.unusual |= unusual::HELD;
        }
    }

    /// The requests that belong to a scope.
    pub(crate) fn of_scope(&self, scope: u32) -> Vec<RequestId> {
        self.ids(|record| record.scope == scope)
    }

    /// The operations that are not complete.
    pub(crate) fn unfinished(&self) -> Vec<RequestId> {
        self.ids(|record| !record.is_over())
    }

    /// The operations with this context id that are not complete.
    pub(crate) fn unfinished_of(&self, context_id: ContextId) -> Vec<RequestId> {
        self.ids(|record| !record.is_over() && record.context() == context_id.0)
    }

    /// The context id of an operation that belongs to a communicator.
    pub(crate) fn context_of(&self, id: RequestId) -> Option<u32> {
        self.get(id).map(Record::context).filter(|&context| context != NO_CONTEXT)
    }

    /// The context id of a message, or of the messages of a collective, that starting a persistent request sends or receives.
    pub(crate) fn context_of_recipe(&self, id: RequestId) -> Option<u32> {
        match self.recipe(id)? {
            Recipe::Send { route, .. } => Some(route.envelope.context_id().0),
            Recipe::Receive { pattern, .. } => Some(pattern.context_id().0),
            Recipe::Schedule(schedule) => schedule.context_id(),
            Recipe::Nobody { .. } | Recipe::Parts => None,
        }
    }

    /// Sets the error with which an operation under way will end, whatever becomes of it. Returns false if it has such an error already.
    pub(crate) fn end_with(&mut self, id: RequestId, why: Error) -> bool {
        let failure = &mut self.cold_of(id).failure;
        let is_new = failure.is_none();
        failure.get_or_insert(why);
        is_new
    }

    fn ids(&self, wanted: impl Fn(&Record) -> bool) -> Vec<RequestId> {
        let live = self.records.iter().zip(0..).skip(RequestId::RESERVED as usize);
        live.filter(|(record, _)| record.phase != Phase::Free && wanted(record))
            .map(|(record, slot)| RequestId::of_slot(slot, record.generation))
            .collect()
    }
}
