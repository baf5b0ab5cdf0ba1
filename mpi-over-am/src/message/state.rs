//! The state that all communicators of an environment share: the am-core context with MPI's handlers.

use std::collections::HashMap;
use std::sync::Arc;

use am_core::counter::CounterName;
use am_core::fabric::{Fabric, Peer, PeerIndex, World};
use am_core::task::{Target, TaskId};
use am_core::{AmOptions, Context};

use crate::context_id::ContextIds;
use crate::data::buffer::{Keeps, Scratch};
use crate::data::conversion::Conversion;
use crate::error::{Error, ErrorClass, Result};
use crate::events;
use crate::message::board::OwnBoards;
use crate::message::budget::UNKNOWN;
use crate::message::completion::Completions;
use crate::message::early_message::SHORT_BYTES_MAX;
use crate::message::envelope;
use crate::message::handlers::{self, IN_PIECES_BYTES_MAX, MpiHandlers};
use crate::message::notes::{self, Slot, Words};
use crate::message::request_id::RequestId;
use crate::message::request_table::MatchedMessages;
use crate::message::route::{EagerLimits, UNSPLIT_BYTES_MAX};
use crate::message::under_way::Schedules;
use crate::settings::{Selection, Settings};

/// The shared state, used by one thread at a time: each call borrows the state once, until the call returns.
#[derive(Debug)]
pub(crate) struct State<F: Fabric> {
    pub(crate) context: Context<F, MpiHandlers>,
    pub(crate) eager_limits: EagerLimits,
    /// This task's counter at each receiver, which its eager messages name; `None` if receivers use no counters.
    pub(crate) target_counter: Option<CounterName>,
    pub(crate) matched: MatchedMessages,
    /// Collectives under way.
    pub(crate) schedules: Schedules,
    pub(crate) selection: Selection,
    pub(crate) boards: OwnBoards,
    /// Scratch memory of an earlier collective, kept for a later one.
    pub(crate) spare: Option<Scratch>,
    /// Number of non-blocking and persistent collectives of each communicator so far, by context id.
    pub(crate) started: HashMap<u32, u32>,
    next_partition_tag: i32,
    posted_receives_max: usize,
    long_sends_max: Option<u64>,
    pub(crate) finalized: bool,
    /// Whether this task goes on when another one has failed.
    pub(crate) goes_on: bool,
    /// Whether the job went on after failures when MPI was started, which is the same at all tasks: they meet at the end as survivors do.
    pub(crate) job_goes_on: bool,
    /// Number of waits and tests with nothing to wait for since the last of them that made progress.
    pub(crate) waits_without_progress: u32,
    pub(crate) context_ids: ContextIds,
    last_scope: u32,
    /// The program's representations of numbers in files.
    pub(crate) representations: Vec<Arc<dyn Conversion>>,
}

/// Minimum eager limit, in bytes, with which messages are sent in pieces: a lower limit means that long messages are to be announced.
const PIECE_BYTES_MIN: usize = 512;
/// Upper bound on am-core's own head of a packet, in bytes: what a packet holds besides the user header and the data.
const PACKET_HEAD_BYTES: usize = 16;

// SAFETY: the table of requests returns an operation's memory only when the operation is complete, and otherwise leaks the memory.
#[expect(unsafe_code, reason = "a promise about the buffers of operations (`buffer::Keeps`)")]
unsafe impl<F: Fabric> Keeps for State<F> {}

impl<F: Fabric> State<F> {
    /// The state over a fabric.
    ///
    /// # Errors
    /// Too many tasks for the completion variant in the settings.
    pub(crate) fn new(fabric: F, settings: &Settings) -> Result<Self> {
        events::look_at_recorder();
        let behind_head = fabric.limits().packet_bytes_max.saturating_sub(PACKET_HEAD_BYTES);
        let packet_room = behind_head.saturating_sub(envelope::BYTES);
        let own = fabric.world().endpoint().task;
        let mut handlers = MpiHandlers::new(own, fabric.world().tasks_at_start(), settings);
        handlers.limit_agreements(behind_head);
        let mut context = Context::with_handlers(fabric, handlers);
        let (completions, target_counter) = Completions::new(settings.completion, &mut context)?;
        let is_in_context = completions.are_in_context();
        context.handlers_mut().completions = completions;
        // Only completion in context allows pieces and synchronous messages with data: the other variants count and store each message
        // themselves.
        let word_room = packet_room.saturating_sub(envelope::WORD_BYTES);
        let bytes = settings.eager_limit_bytes.min(packet_room);
        let has_pieces = is_in_context && target_counter.is_none() && bytes >= PIECE_BYTES_MIN;
        let eager_limits = EagerLimits {
            bytes,
            unsplit: bytes.min(UNSPLIT_BYTES_MAX),
            in_pieces: if has_pieces { IN_PIECES_BYTES_MAX } else { 0 },
            synchronous_end: if settings.eager_synchronous && is_in_context {
                settings.eager_limit_bytes.min(word_room) + 1
            } else {
                0
            },
        };
        let context_ids = ContextIds::new(context.task(), context.tasks_at_start(), context.world());
        Ok(Self {
            context,
            context_ids,
            target_counter,
            eager_limits,
            matched: MatchedMessages::default(),
            schedules: Schedules::default(),
            selection: settings.collectives,
            boards: OwnBoards::default(),
            spare: None,
            started: HashMap::new(),
            next_partition_tag: 0,
            posted_receives_max: settings
                .posted_receives_max
                .map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX)),
            long_sends_max: settings.long_sends_max,
            finalized: false,
            goes_on: false,
            job_goes_on: false,
            waits_without_progress: 0,
            last_scope: 0,
            representations: Vec::new(),
        })
    }

    #[inline(always)]
    pub(crate) fn handlers(&mut self) -> &mut MpiHandlers {
        self.context.handlers_mut()
    }

    /// Refuses a call after finalize, and reports the deferred error of an earlier call.
    ///
    /// # Errors
    /// [`Error::Finalized`]; the deferred error.
    #[inline(always)]
    pub(crate) fn attend(&mut self) -> Result<()> {
        if self.needs_attention() { self.attend_now() } else { Ok(()) }
    }

    /// Whether [`attend`](Self::attend) has anything to do.
    #[inline(always)]
    pub(crate) fn needs_attention(&self) -> bool {
        self.context.handlers().attention
    }

    #[cold]
    #[inline(never)]
    fn attend_now(&mut self) -> Result<()> {
        let finalized = self.finalized;
        let first = self.first_deferred();
        let handlers = self.handlers();
        handlers.attention = finalized || !handlers.deferred.is_empty() || handlers.is_troubled();
        first.and(if finalized { Err(Error::Finalized) } else { Ok(()) })
    }

    /// Takes the oldest deferred error.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn first_deferred(&mut self) -> Result<()> {
        let deferred = &mut self.handlers().deferred;
        if deferred.is_empty() { Ok(()) } else { Err(deferred.remove(0)) }
    }

    /// Checks that one more non-blocking receive is allowed.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    #[inline(always)]
    pub(crate) fn check_receives(&mut self) -> Result<()> {
        if self.may_post_receive() { Ok(()) } else { Err(too_many_receives(self.posted_receives_max)) }
    }

    /// Whether one more receive may be posted: fewer than the maximum are posted, and a request slot is free.
    #[inline(always)]
    pub(crate) fn may_post_receive(&mut self) -> bool {
        let max = self.posted_receives_max;
        let requests = &self.handlers().requests;
        requests.posted() < max && requests.has_free_slot()
    }

    /// Checks that one more non-blocking send of `len` bytes is allowed.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    #[inline(always)]
    pub(crate) fn check_sends(&mut self, len: u64) -> Result<()> {
        if !self.context.handlers().requests.has_free_slot() {
            return Err(too_many_requests());
        }
        match self.long_sends_max {
            Some(max) if len > self.eager_limits.bytes as u64 => self.check_long_sends(max),
            _ => Ok(()),
        }
    }

    #[cold]
    #[inline(never)]
    fn check_long_sends(&mut self, max: u64) -> Result<()> {
        let requests = &self.context.handlers().requests;
        let is_send = |request: &&RequestId| !requests.is_receive(**request);
        if requests.unfinished().iter().filter(is_send).count() as u64 >= max {
            return Err(Error::TooMany { what: "non-blocking sends", max, setting: "AM_LONG_SENDS_MAX" });
        }
        Ok(())
    }

    /// The first of consecutive tags for this number of partitions. No other partitioned send of this task gets these tags, until 2^31 tags
    /// have been allocated.
    #[expect(clippy::cast_possible_truncation, reason = "tags wrap around")]
    pub(crate) fn take_partition_tags(&mut self, partitions: u64) -> i32 {
        let first = self.next_partition_tag;
        self.next_partition_tag = first.wrapping_add(partitions as i32);
        first
    }

    /// A task as a peer; `index` is the fabric's index of the task.
    #[inline(always)]
    pub(crate) fn peer(&self, task: TaskId, index: PeerIndex) -> Peer {
        Peer { endpoint: task.seen_from(self.context.endpoint().context), index }
    }

    /// Keeps the fabric's index of a task: from now on, short messages to the task and receives from it take the fast path. The index is
    /// not kept if the settings send short messages with a counter, or announce them.
    #[inline(always)]
    pub(crate) fn learn_peer(&mut self, task: TaskId) {
        if self.handlers().budget.index(task.0) == UNKNOWN {
            self.learn_peer_now(task);
        }
    }

    #[cold]
    #[inline(never)]
    fn learn_peer_now(&mut self, task: TaskId) {
        let goes_plainly = self.target_counter.is_none() && self.eager_limits.bytes >= SHORT_BYTES_MAX;
        if goes_plainly && let Ok(peer) = self.context.peer(task) {
            self.handlers().budget.set_index(task.0, peer.index);
        }
    }

    /// Sends a note, under this context id and tag.
    ///
    /// # Errors
    /// The task is dead.
    pub(crate) fn send_note(
        &mut self,
        to: TaskId,
        (context_id, tag): (u32, i32),
        words: Words,
    ) -> Result<()> {
        let uhdr = notes::to_bytes(context_id, tag, words);
        // A call of a port may be refused by its handler.
        let options = AmOptions { answerable: context_id == notes::CALLS, ..AmOptions::default() };
        Ok(self.context.amsend(to, handlers::NOTE, &uhdr, &[], options)?)
    }

    /// A request that completes when the next note with this key has arrived, and the slot in which the note is stored.
    pub(crate) fn start_note(&mut self, key: notes::Key) -> (RequestId, Slot) {
        let handlers = self.handlers();
        let request = handlers.requests.insert(true);
        let slot = Slot::default();
        handlers.await_note(key, &slot, request);
        (request, slot)
    }

    /// A number for a new scope. Numbers repeat after 2^32 - 1 scopes.
    pub(crate) fn next_scope(&mut self) -> u32 {
        self.last_scope = self.last_scope.checked_add(1).unwrap_or(1);
        self.last_scope
    }
}

#[cold]
#[inline(never)]
fn too_many_receives(max: usize) -> Error {
    match max {
        usize::MAX => too_many_requests(),
        max => Error::TooMany {
            what: "non-blocking receives",
            max: max as u64,
            setting: "AM_POSTED_RECEIVES_MAX",
        },
    }
}

/// The error for more operations than handles can name.
#[cold]
#[inline(never)]
fn too_many_requests() -> Error {
    let what = "too many operations are under way: wait for some; the value is the maximum";
    Error::refused(ErrorClass::NoMemory, "a non-blocking operation", what, RequestId::MAX)
}

impl<F: Fabric> Drop for State<F> {
    /// A task that unwinds without finalizing MPI has failed: its peers must see the failure, or they would wait forever.
    fn drop(&mut self) {
        if std::thread::panicking() && !self.finalized {
            self.context.fail("it unwound without finalizing MPI");
        }
    }
}
