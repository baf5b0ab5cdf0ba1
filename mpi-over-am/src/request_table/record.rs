//! A slot of the table: one cache line, and what few requests have beside it.

use am_core::task::TaskId;

use super::parts::Parts;
use super::phase::Phase;
use super::recipe::Recipe;
use crate::buffer::{KeptVec, Scatter};
use crate::error::Error;
use crate::matching::{ContextId, Pattern, PostedEntry, PostedSlot};
use crate::message::ReceiveBuffer;
use crate::request_id::{LIVE_BIT, RequestId};
use crate::status::Status;

/// No context id.
pub(super) const NO_CONTEXT: u32 = u32::MAX;

/// What is unusual about a request, in bits.
pub(super) mod unusual {
    /// Nobody will wait for it: the record goes when the operation ends.
    pub(in super::super) const DETACHED: u8 = 1;
    /// The message goes where a layout says.
    pub(in super::super) const LAYOUT: u8 = 2;
    /// A call waits for this one or others: it counts what ends.
    pub(in super::super) const WATCHED: u8 = 4;
    /// Each of these needs a look when the operation ends.
    pub(in super::super) const AT_END: u8 = DETACHED | LAYOUT | WATCHED;
    /// It has failed, or has memory, a recipe or parts.
    pub(in super::super) const COLD: u8 = 8;
    /// The program carries it out.
    pub(in super::super) const GENERALIZED: u8 = 16;
    /// The slot is never given out.
    pub(in super::super) const RESERVED: u8 = 32;
    /// A send in synchronous mode that ends when the task acknowledges it whose number stands for the length of the status.
    pub(in super::super) const UNACKNOWLEDGED: u8 = 64;
}

/// An operation: one cache line, which the posted receive list links too.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Record {
    /// The place in the posted list while the receive waits there. Otherwise the pattern is that of the status, in the context of
    /// the communicator that the operation belongs to, or [`NO_CONTEXT`], and the number is the length of the status.
    pub(super) entry: PostedEntry,
    /// Where a message goes that this receive is posted for.
    pub(super) buffer: ReceiveBuffer,
    /// The high bits of the request's number; without [`LIVE_BIT`] while the slot is free, and then of its next one.
    pub(super) generation: u8,
    pub(super) phase: Phase,
    pub(super) is_receive: bool,
    pub(super) unusual: u8,
    /// The scope that waits for it; 0: none. In a free slot: the next free one, or [`NO_SLOT`].
    pub(super) scope: u32,
}

const _: () = assert!(size_of::<Record>() == 64);

/// No scope waits for the operation.
pub(super) const NO_SCOPE: u32 = 0;
/// The end of the free slots.
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

/// What few requests have.
#[derive(Debug, Default)]
pub(super) struct Cold {
    pub(super) failure: Option<Error>,
    /// Where the message goes, until it has met its receive.
    pub(super) layout: Option<Box<Scatter>>,
    /// Bytes that the layout has room for; a sink takes any number.
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
        Status { source: facts.source(), tag: facts.tag(), len: self.entry.number }
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

    /// A request begins in this slot, the first of the free ones.
    #[inline(always)]
    pub(super) fn occupy(&mut self, free: &mut u32) {
        *free = self.scope;
        self.generation |= LIVE_BIT;
    }

    /// The request is gone, and its slot the first of the free ones. The generation moves on, so that the old number finds nothing.
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
    Pattern::exact(ContextId(context), status.source, status.tag)
}
