//! What all communicators of an environment share: the am-core context with MPI's handlers in it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use am_core::counter::CounterName;
use am_core::fabric::Fabric;
use am_core::task::TaskId;
use am_core::{AmOptions, Context};

use crate::buffer::Scratch;
use crate::completion::Completions;
use crate::context_id::ContextIds;
use crate::envelope;
use crate::error::{Error, ErrorClass, Result};
use crate::events;
use crate::handlers::{self, MpiHandlers};
use crate::lanes::Lanes;
use crate::notes::{self, Slot, Words};
use crate::protocol::{Buffers, EagerLimits};
use crate::request::{MatchedMessages, Phase, RequestId, Schedules, drive, drive_schedules};
use crate::settings::{Selection, Settings};

/// The shared state. One thread at a time: a call borrows it once, for as long as it lasts.
#[derive(Debug)]
pub(crate) struct State<F: Fabric> {
    pub(crate) context: Context<F, MpiHandlers>,
    pub(crate) eager_limits: EagerLimits,
    /// The counter that eager messages name, where the receiver counts them.
    pub(crate) target_counter: Option<CounterName>,
    pub(crate) buffers: Buffers,
    pub(crate) matched: MatchedMessages,
    /// Collectives under way.
    pub(crate) schedules: Schedules,
    pub(crate) selection: Selection,
    /// Memory that the last reduction worked in, for the next one.
    pub(crate) spare: Option<Scratch>,
    /// How many collectives were started without a wait, on each context id.
    pub(crate) started: HashMap<u32, u32>,
    /// Of communicators that are gone, and of which other tasks may still tell something.
    pub(crate) former_lanes: Vec<Lanes>,
    next_partition_tag: i32,
    posted_receives_max: usize,
    long_sends_max: Option<u64>,
    pub(crate) finalized: bool,
    /// Waits and tests since the last progress that had nothing to wait for.
    waits_without_progress: u32,
    pub(crate) context_ids: ContextIds,
    last_scope: u32,
}

/// What a packet needs beside user header and data, at most (am-core's own head).
const PACKET_HEAD_BYTES: usize = 16;
/// Waits and tests that have nothing to wait for, until one of them makes progress: a program that only sends and waits takes part
/// in what the other tasks do.
const WAITS_WITHOUT_PROGRESS_MAX: u32 = 64;
/// Rounds of progress of a call that looks at all that has arrived: others may send without end.
const LOOKS_MAX: u32 = 1 << 12;

impl<F: Fabric> State<F> {
    /// The state over a fabric.
    ///
    /// # Errors
    /// Too many tasks for the variant of completion that the settings name.
    pub(crate) fn new(fabric: F, settings: &Settings) -> Result<Self> {
        events::look_at_recorder();
        let packet_room =
            fabric.limits().packet_bytes_max.saturating_sub(PACKET_HEAD_BYTES + envelope::BYTES);
        let handlers = MpiHandlers::new(fabric.num_tasks(), settings);
        let mut context = Context::with_handlers(fabric, handlers);
        let (completions, target_counter) = Completions::new(settings.completion, &mut context)?;
        let is_in_context = completions.are_in_context();
        context.handlers_mut().has_chores = !is_in_context;
        context.handlers_mut().completions = completions;
        // The older variants count and place each message by themselves.
        let synchronous_room = packet_room.saturating_sub(envelope::NAME_BYTES);
        let eager_limits = EagerLimits {
            bytes: settings.eager_limit_bytes.min(packet_room),
            synchronous_end: if settings.eager_synchronous && is_in_context {
                settings.eager_limit_bytes.min(synchronous_room) + 1
            } else {
                0
            },
        };
        let context_ids = ContextIds::new(context.task(), context.num_tasks());
        Ok(Self {
            context,
            context_ids,
            target_counter,
            eager_limits,
            buffers: Buffers::default(),
            matched: MatchedMessages::default(),
            schedules: Schedules::default(),
            selection: settings.collectives,
            spare: None,
            started: HashMap::new(),
            former_lanes: Vec::new(),
            next_partition_tag: 0,
            posted_receives_max: settings
                .posted_receives_max
                .map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX)),
            long_sends_max: settings.long_sends_max,
            finalized: false,
            waits_without_progress: 0,
            last_scope: 0,
        })
    }

    #[inline(always)]
    pub(crate) fn handlers(&mut self) -> &mut MpiHandlers {
        self.context.handlers_mut()
    }

    /// Refuses a call after the end, and reports an error that an earlier call has left.
    ///
    /// # Errors
    /// As said.
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
        let handlers = self.handlers();
        let error = if handlers.deferred.is_empty() { None } else { Some(handlers.deferred.remove(0)) };
        handlers.attention = finalized || !handlers.deferred.is_empty();
        match error {
            Some(error) => Err(error),
            None if finalized => Err(Error::Finalized),
            None => Ok(()),
        }
    }

    /// Makes progress once, also with schedules; whether anything came.
    ///
    /// # Errors
    /// What progress reports.
    #[inline]
    pub(crate) fn probe(&mut self) -> Result<bool> {
        let moved = self.context.probe()?;
        if !self.schedules.is_empty() {
            drive_schedules(self);
        }
        Ok(moved)
    }

    /// Makes progress with all that has arrived, or until `done` finds something: what it is. Never waits. What a program tests for may have
    /// arrived behind much else, and its other half may have told it so in another way.
    ///
    /// # Errors
    /// What progress reports; what `done` returns.
    #[inline]
    pub(crate) fn look<T>(
        &mut self,
        mut done: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        for _ in 0..LOOKS_MAX {
            if let Some(found) = done(self)? {
                return Ok(Some(found));
            }
            if !self.probe()? {
                break;
            }
        }
        done(self)
    }

    /// A wait or a test had nothing to wait for: makes progress now and then.
    ///
    /// # Errors
    /// What progress reports.
    #[inline(always)]
    pub(crate) fn waited_for_nothing(&mut self) -> Result<()> {
        self.waits_without_progress += 1;
        if self.waits_without_progress < WAITS_WITHOUT_PROGRESS_MAX {
            Ok(())
        } else {
            self.progress_at_last()
        }
    }

    #[cold]
    #[inline(never)]
    fn progress_at_last(&mut self) -> Result<()> {
        self.waits_without_progress = 0;
        self.probe().map(|_| ())
    }

    /// Makes progress with all that has arrived. Never waits.
    ///
    /// # Errors
    /// What progress reports.
    pub(crate) fn take_in(&mut self) -> Result<()> {
        self.look(|_| Ok(None::<()>)).map(drop)
    }

    /// Makes progress until `done` says so, also with schedules.
    ///
    /// # Errors
    /// What progress reports.
    #[inline(always)]
    pub(crate) fn wait_for(
        &mut self,
        mut done: impl FnMut(&mut Context<F, MpiHandlers>) -> bool,
    ) -> Result<()> {
        if self.schedules.is_empty() {
            return Ok(self.context.wait_until(|context| Ok(done(context)))?);
        }
        self.wait_and_drive(&mut done)
    }

    #[cold]
    #[inline(never)]
    fn wait_and_drive(&mut self, done: &mut dyn FnMut(&mut Context<F, MpiHandlers>) -> bool) -> Result<()> {
        loop {
            drive_schedules(self);
            let Self { context, schedules, .. } = self;
            let mut is_done = false;
            context.wait_until(|context| {
                is_done = done(context);
                Ok(is_done || schedules.can_go_on(context))
            })?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// Makes progress until the operation is over.
    ///
    /// # Errors
    /// What progress reports; the operation may then still be under way.
    #[inline(never)]
    pub(crate) fn wait_over(&mut self, request: RequestId) -> Result<()> {
        self.wait_for(move |context| is_over(context, request))
    }

    /// As [`wait_over`](Self::wait_over), for the request of blocking receives; the error, if there is one. For a policy that takes no turns.
    #[inline(never)]
    pub(crate) fn wait_receive_over(&mut self) -> Option<Box<Error>> {
        self.wait_for(is_receive_over).err().map(Box::new)
    }

    /// Makes progress with what has arrived; whether the operation is over then.
    ///
    /// # Errors
    /// What progress reports; the operation may then still be under way.
    #[inline]
    pub(crate) fn is_over_after_progress(&mut self, request: RequestId) -> Result<bool> {
        Ok(self.look(|state| Ok(is_over(&mut state.context, request).then_some(())))?.is_some())
    }

    /// Refuses one more non-blocking receive than the settings allow.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    #[inline(always)]
    pub(crate) fn check_receives(&mut self) -> Result<()> {
        if self.has_room() { Ok(()) } else { Err(too_many_receives(self.posted_receives_max)) }
    }

    /// Whether [`check_receives`](Self::check_receives) allows one more.
    #[inline(always)]
    pub(crate) fn has_room(&mut self) -> bool {
        let max = self.posted_receives_max;
        let requests = &self.handlers().requests;
        requests.posted() < max && requests.has_room()
    }

    /// Refuses one more long non-blocking send than the settings allow.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    #[inline(always)]
    pub(crate) fn check_sends(&mut self, len: u64) -> Result<()> {
        match self.long_sends_max {
            Some(max) if len > self.eager_limits.bytes as u64 => self.check_long_sends(max),
            _ if self.context.handlers().requests.has_room() => Ok(()),
            _ => Err(too_many_requests()),
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

    /// Tags for so many partitions, used by no other partitioned send of this task (until 2^32 have been given out).
    #[expect(clippy::cast_possible_truncation, reason = "tags go around")]
    pub(crate) fn take_partition_tags(&mut self, partitions: u64) -> i32 {
        let first = self.next_partition_tag;
        self.next_partition_tag = first.wrapping_add(partitions as i32);
        first
    }

    /// Sends a note, under this context id and tag.
    ///
    /// # Errors
    /// A dead task.
    pub(crate) fn send_note(
        &mut self,
        to: TaskId,
        (context_id, tag): (u32, i32),
        words: Words,
    ) -> Result<()> {
        let uhdr = notes::to_bytes(context_id, tag, words);
        Ok(self.context.amsend(to, handlers::NOTE, &uhdr, &[], AmOptions::default())?)
    }

    /// A request that is over when the next note with this key is in the slot.
    pub(crate) fn start_note(&mut self, key: notes::Key) -> (RequestId, Slot) {
        let handlers = self.handlers();
        let request = handlers.requests.insert(true);
        let slot = Slot::default();
        if handlers.notes.take_or_wait(key, &slot, request) {
            handlers.requests.end(request, None);
        }
        (request, slot)
    }

    /// A number for a new scope, not used by any other that is open.
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

/// More operations are under way than handles can name.
#[cold]
#[inline(never)]
fn too_many_requests() -> Error {
    let what = "more operations are under way than requests can name: wait for some";
    Error::refused(ErrorClass::NoMemory, "a non-blocking operation", what, RequestId::MAX)
}

impl<F: Fabric> Drop for State<F> {
    /// A task that unwinds out of MPI without having finalized has failed: its peers must see it, or they would wait for it.
    fn drop(&mut self) {
        if std::thread::panicking() && !self.finalized {
            self.context.fail("it unwound without having ended MPI");
        }
    }
}

/// Whether the operation is over.
#[inline(always)]
pub(crate) fn is_over<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) -> bool {
    let handlers = context.handlers();
    match handlers.requests.phase(request) {
        Phase::Free | Phase::Done | Phase::Inactive => true,
        Phase::Parts => is_over_by_now(context, request),
        _ if handlers.has_chores => is_over_by_now(context, request),
        _ => false,
    }
}

/// Whether the blocking receive is over.
#[inline(always)]
fn is_receive_over<F: Fabric>(context: &mut Context<F, MpiHandlers>) -> bool {
    let handlers = context.handlers();
    handlers.requests.is_blocking_over()
        || handlers.has_chores && is_over_by_now(context, RequestId::BLOCKING_RECEIVE)
}

#[cold]
#[inline(never)]
fn is_over_by_now<F: Fabric>(context: &mut Context<F, MpiHandlers>, request: RequestId) -> bool {
    do_chores(context);
    if context.handlers().requests.phase(request) == Phase::Parts {
        drive(context, request);
    }
    context.handlers().requests.is_over(request)
}

/// Shows the queues if they were asked for, and marks what has become complete other than in context.
pub(crate) fn do_chores<F: Fabric>(context: &mut Context<F, MpiHandlers>) {
    if let Some(wanted) = context.handlers().show_queues {
        // Ordering: the flag publishes nothing but itself.
        if wanted.swap(false, Ordering::Relaxed) {
            eprint!("{}", context.handlers().queues().show(context.task()));
        }
    }
    if !context.handlers().completions.are_in_context() {
        mark_completed(context);
    }
}

/// Marks the requests that have become complete other than in context.
#[cold]
#[inline(never)]
fn mark_completed<F: Fabric>(context: &mut Context<F, MpiHandlers>) {
    let handlers = context.handlers_mut();
    while let Some((request, delivered)) = handlers.completions.next_by_thread() {
        handlers.requests.complete(request, delivered);
    }
    let Some(mut awaited) = handlers.completions.take_awaited() else { return };
    awaited.retain(|awaited| {
        let counter = context.handlers().completions.counter(awaited.task);
        let is_counted = counter
            .and_then(|counter| context.counter_value(counter).ok())
            .is_some_and(|value| value >= awaited.number);
        if is_counted {
            context.handlers_mut().requests.delivered(awaited.request, awaited.len, awaited.placed);
        }
        !is_counted
    });
    context.handlers_mut().completions.put_awaited(awaited);
}
