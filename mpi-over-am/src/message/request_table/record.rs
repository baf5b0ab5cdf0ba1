//! A slot of the table: one cache line, and separately the rare data.

use am_core::task::TaskId;

use super::parts::Parts;
use super::phase::Phase;
use super::recipe::Recipe;
use crate::data::buffer::{KeptVec, Scatter};
use crate::error::Error;
use crate::matching::{ContextId, Pattern, PostedEntry, PostedSlot};
use crate::message::request_id::{LIVE_BIT, RequestId};
use crate::message::route::ReceiveBuffer;
use crate::message::status::Status;

/// No context id.
pub(super) const NO_CONTEXT: u32 = u32::MAX;

/// Rare properties of a request, as bits.
pub(super) mod unusual {
    /// No call will wait for the request: the record is freed when the operation ends.
    pub(in super::super) const DETACHED: u8 = 1;
    /// A layout scatters the message.
    pub(in super::super) const LAYOUT: u8 = 2;
    /// A call waits for the first of several operations to end, and this request is one of them: its end is counted.
    pub(in super::super) const WATCHED: u8 = 4;
    /// Properties that matter when the operation ends.
    pub(in super::super) const AT_END: u8 = DETACHED | LAYOUT | WATCHED;
    /// The request has rare data: it has failed, or has memory, a layout, a recipe or parts.
    pub(in super::super) const COLD: u8 = 8;
    /// The program carries out the operation.
    pub(in super::super) const GENERALIZED: u8 = 16;
    /// The slot is never allocated.
    pub(in super::super) const RESERVED: u8 = 32;
    /// A synchronous send that ends when its receiver acknowledges it. The length field of its status holds the receiver's task number.
    pub(in super::super) const UNACKNOWLEDGED: u8 = 64;
    /// A typed object waits for the request, or the library itself: calls by number do not find it.
    pub(in super::super) const HELD: u8 = 128;
}

/// An operation: one cache line, which is also a link of the list of posted receives.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Record {
    /// The entry of the posted list while the receive waits there. Otherwise the entry holds the status (source, tag and length) and the
    /// communicator's context id (or [`NO_CONTEXT`]).
    pub(super) entry: PostedEntry,
    /// The destination of the message, for a posted receive.
    pub(super) buffer: ReceiveBuffer,
    /// The high bits of the request's number. For a free slot, the high bits of the slot's next number, without [`LIVE_BIT`].
    pub(super) generation: u8,
    pub(super) phase: Phase,
    pub(super) is_receive: bool,
    pub(super) unusual: u8,
    /// The scope that waits for the request; 0: none. In a free slot: the next free one, or [`NO_SLOT`].
    pub(super) scope: u32,
}

const _: () = assert!(size_of::<Record>() == 64);

/// No scope waits for the operation.
pub(crate) const NO_SCOPE: u32 = 0;
/// Ends the list of free slots.
pub(super) const NO_SLOT: u32 = u32::MAX;

impl PostedSlot for Record {
    #[inline(always)]
    fn entry(&self) -> &PostedEntry {
        &self.entry
    }

    #[inline(always)]
    fn entry_mut(&mut self) -> &mut PostedEntry {
        &mut self.entry
    }
}

/// Rare data of a request.
#[derive(Debug, Default)]
pub(super) struct Cold {
    pub(super) failure: Option<Error>,
    /// The destination of a receive that scatters its message ([`ReceiveBuffer::Layout`]), until the receive is matched.
    pub(super) layout: Option<Box<Scatter>>,
    /// Capacity of the layout in bytes. It is needed because a sink accepts any number of bytes.
    pub(super) capacity: u64,
    /// Memory that belongs to the operation.
    pub(super) kept: Option<KeptVec>,
    /// What a start does, if the request is persistent.
    pub(super) recipe: Option<Recipe>,
    /// The messages of an operation that has several.
    pub(super) parts: Option<Box<Parts>>,
}

impl Record {
    pub(super) fn free() -> Self {
        Self {
            entry: PostedEntry::new(pattern_of(NO_CONTEXT, Status::EMPTY), 0),
            buffer: ReceiveBuffer::Layout,
            generation: 0,
            phase: Phase::Free,
            is_receive: false,
            unusual: 0,
            scope: NO_SLOT,
        }
    }

    pub(super) fn reserved(id: RequestId, phase: Phase, status: Status) -> Self {
        let generation = id.generation();
        let mut record = Self { phase, generation, unusual: unusual::RESERVED, scope: 0, ..Self::free() };
        record.set_status(status);
        record
    }

    #[inline(always)]
    pub(super) fn is_of(&self, id: RequestId) -> bool {
        self.generation == id.generation()
    }

    #[inline(always)]
    pub(super) fn status(&self) -> Status {
        let facts = self.entry.pattern.key();
        Status::new(facts.source(), facts.tag(), self.entry.number)
    }

    pub(super) fn set_status(&mut self, status: Status) {
        self.entry.pattern = pattern_of(self.context(), status);
        self.entry.number = status.len;
    }

    pub(super) fn context(&self) -> u32 {
        self.entry.pattern.context_id().0
    }

    #[expect(clippy::cast_possible_truncation, reason = "it is the number of a task")]
    pub(super) fn acknowledged_by(&self) -> Option<TaskId> {
        (self.unusual & unusual::UNACKNOWLEDGED != 0).then_some(TaskId(self.entry.number as u32))
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Inactive)
    }

    /// Begins a request in this slot, which must be the first free one.
    #[inline(always)]
    pub(super) fn occupy(&mut self, free: &mut u32) {
        *free = self.scope;
        self.generation |= LIVE_BIT;
    }

    /// Ends the request; its slot becomes the first free one. The generation increases, so that the old number finds nothing.
    #[inline(always)]
    pub(super) fn vacate(&mut self, free: &mut u32, id: RequestId) {
        self.phase = Phase::Free;
        self.generation = id.generation().wrapping_add(1) & (LIVE_BIT - 1);
        self.scope = *free;
        *free = id.slot();
    }
}

#[inline(always)]
pub(super) const fn pattern_of(context: u32, status: Status) -> Pattern {
    Pattern::exact(ContextId(context), status.source(), status.tag())
}
