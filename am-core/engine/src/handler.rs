//! Header handlers and completion handlers (LAPI's `hdr_hndlr` and `compl_hndlr`; MPI-LAPI paper, sections 3 and 5.3).
//!
//! A header handler runs at the target when the first packet of a message has arrived. It returns the destination of the data, and the
//! completion to run when they have arrived. It cannot communicate: a communicating call in a handler is rejected, because the engine is
//! not re-entrant and the handler could wait for itself.

mod scatter;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::AtomicBool;

use crate::buffer::{Arrived, ExposedRange, JobBuffer, RawBuffer};
use crate::counter::{Counter, CounterName};
use crate::error::Error;
use crate::fabric::WaitFacts;
use crate::task::{Endpoint, TaskId};

pub use scatter::Scatter;

/// The number of a registered header handler. Tasks that register the same handlers in the same order have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u16);

impl HandlerId {
    /// Maximum number of handlers. The label of a packet can name one more, and that number stands for a put.
    pub const COUNT_MAX: usize = 4095;
}

/// The arguments of a header handler (most of them are in LAPI's `lapi_return_info_t`).
#[derive(Debug)]
pub struct Message<'a> {
    /// The sender of the message.
    pub source: Endpoint,
    /// The user header, in private memory.
    pub uhdr: &'a [u8],
    /// Bytes of user data in the whole message.
    pub len: u64,
    /// The whole user data, if they arrived with the header (LAPI's one-packet pointer): the handler may consume them here.
    pub here: Option<Arrived<'a>>,
    /// Names the message in a later `accept`, if the handler answers [`Destination::Later`].
    pub ticket: Ticket,
}

/// Names a message whose destination is not known yet (see [`Destination::Later`]). The message can be accepted or refused once. A number
/// that names no such message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// What a header handler returns.
#[derive(Debug)]
pub enum Answer {
    /// The answer to most short messages: destination and completion own no memory.
    Plain(PlainAnswer),
    /// Any other destination and completion.
    Full(Destination, Completion),
}

/// An answer that owns nothing.
#[derive(Clone, Copy, Debug)]
pub struct PlainAnswer {
    /// The destination of the data.
    pub destination: PlainDestination,
    /// What to do when all data have arrived.
    pub completion: PlainCompletion,
}

/// A [`Destination`] that owns nothing.
#[derive(Clone, Copy, Debug)]
pub enum PlainDestination {
    /// [`Destination::Nowhere`].
    Nowhere,
    /// [`Destination::Raw`].
    Raw(RawBuffer),
    /// [`Destination::Exposed`].
    Exposed(ExposedRange),
}

/// A [`Completion`] that owns nothing.
#[derive(Clone, Copy, Debug)]
pub enum PlainCompletion {
    /// [`Completion::None`].
    None,
    /// [`Completion::Bump`].
    Bump(Counter),
    /// [`Completion::MarkRequest`].
    MarkRequest(u64),
}

impl Answer {
    /// Stores the data at `destination`; then runs `completion`.
    #[inline(always)]
    #[must_use]
    pub fn new(destination: Destination, completion: Completion) -> Self {
        // Each variant is converted on its own, so that the compiler sees that plain variants need no drop.
        let destination = match destination {
            Destination::Nowhere => PlainDestination::Nowhere,
            Destination::Raw(to) => PlainDestination::Raw(to),
            Destination::Exposed(range) => PlainDestination::Exposed(range),
            Destination::Owned(buffer) => return Self::Full(Destination::Owned(buffer), completion),
            Destination::Sink(sink) => return Self::Full(Destination::Sink(sink), completion),
            Destination::Scatter(scatter) => return Self::Full(Destination::Scatter(scatter), completion),
            Destination::Later => return Self::Full(Destination::Later, completion),
        };
        let full = |completion| Self::Full(destination.into(), completion);
        let completion = match completion {
            Completion::None => PlainCompletion::None,
            Completion::Bump(counter) => PlainCompletion::Bump(counter),
            Completion::MarkRequest(request) => PlainCompletion::MarkRequest(request),
            Completion::BumpAtSource(counter) => return full(Completion::BumpAtSource(counter)),
            Completion::SetFlag(flag) => return full(Completion::SetFlag(flag)),
            Completion::Reply(reply) => return full(Completion::Reply(reply)),
            Completion::Wants => return full(Completion::Wants),
            Completion::Call(call) => return full(Completion::Call(call)),
            Completion::Thread(handler) => return full(Completion::Thread(handler)),
        };
        Self::Plain(PlainAnswer { destination, completion })
    }

    /// The destination and the completion.
    pub(crate) fn into_parts(self) -> (Destination, Completion) {
        match self {
            Self::Plain(PlainAnswer { destination, completion }) => (destination.into(), completion.into()),
            Self::Full(destination, completion) => (destination, completion),
        }
    }

    /// Drops the data, and does nothing else (LAPI's `LAPI_BURY_MSG`).
    #[must_use]
    pub fn discard() -> Self {
        Self::Plain(PlainAnswer { destination: PlainDestination::Nowhere, completion: PlainCompletion::None })
    }

    /// Runs `completion`. The handler has consumed the data, or they are dropped.
    #[inline(always)]
    #[must_use]
    pub fn consumed(completion: Completion) -> Self {
        Self::new(Destination::Nowhere, completion)
    }

    /// Stores the data in a part of exposed memory; then runs `completion`.
    #[inline(always)]
    #[must_use]
    pub fn exposed(range: ExposedRange, completion: Completion) -> Self {
        Self::new(Destination::Exposed(range), completion)
    }

    /// Stores the data in `buffer`, which the completion gets in [`Delivered::buffer`]. Data beyond its end are dropped.
    #[inline(always)]
    #[must_use]
    pub fn owned(buffer: JobBuffer, completion: Completion) -> Self {
        Self::Full(Destination::Owned(buffer), completion)
    }

    /// Scatters the data; then runs `completion`.
    #[must_use]
    pub fn scatter(scatter: Scatter, completion: Completion) -> Self {
        Self::Full(Destination::Scatter(Box::new(scatter)), completion)
    }

    /// Leaves the destination open until `Context::accept` is called with the message's ticket.
    #[inline(always)]
    #[must_use]
    pub fn later() -> Self {
        Self::Full(Destination::Later, Completion::None)
    }
}

impl From<PlainDestination> for Destination {
    #[inline(always)]
    fn from(destination: PlainDestination) -> Self {
        match destination {
            PlainDestination::Nowhere => Self::Nowhere,
            PlainDestination::Raw(to) => Self::Raw(to),
            PlainDestination::Exposed(range) => Self::Exposed(range),
        }
    }
}

impl From<PlainCompletion> for Completion {
    #[inline(always)]
    fn from(completion: PlainCompletion) -> Self {
        match completion {
            PlainCompletion::None => Self::None,
            PlainCompletion::Bump(counter) => Self::Bump(counter),
            PlainCompletion::MarkRequest(request) => Self::MarkRequest(request),
        }
    }
}

/// The destination of a message's data. Data that do not fit are dropped (LAPI's truncation), as [`Delivered`] reports.
#[derive(Debug)]
pub enum Destination {
    /// None: the data are dropped, or the handler has consumed them.
    Nowhere,
    /// Memory lent for this message (the constructor of [`RawBuffer`] is `unsafe`).
    Raw(RawBuffer),
    /// A part of this task's exposed memory.
    Exposed(ExposedRange),
    /// A buffer, which the completion gets in [`Delivered::buffer`]. A completion without a [`Delivered`] drops it.
    Owned(JobBuffer),
    /// A sink, which reads the data in the NIC's buffer (LAPI's DGSP).
    Sink(Box<dyn Sink>),
    /// Several pieces of memory: see [`Scatter`].
    Scatter(Box<Scatter>),
    /// Not known yet: the message waits until its ticket is accepted. Data that have already arrived are kept.
    Later,
}

/// Consumes the bytes of a message in any order: LAPI's scatter by datatype program.
pub trait Sink: fmt::Debug + Send {
    /// Consumes `bytes`, which start at byte `offset` of the message's user data. Each byte is passed once; pieces may come in any order.
    fn take(&mut self, offset: u64, bytes: Arrived<'_>);
}

/// What to do when the data have been stored, chosen for each message (MPI-LAPI paper, section 5.3). All variants but the last run in the
/// polling context.
pub enum Completion {
    /// Nothing.
    None,
    /// Predefined: adds 1 to a counter of this task.
    Bump(Counter),
    /// Predefined: adds 1 to a counter at the message's source. Only for messages that may be answered.
    BumpAtSource(CounterName),
    /// Predefined: sets a flag.
    SetFlag(Arc<AtomicBool>),
    /// Predefined: marks a request complete ([`HandlerSet::complete_request`]).
    MarkRequest(u64),
    /// Predefined: sends a short message to the source. Only for messages that may be answered.
    Reply(Reply),
    /// The handler set has messages for the context to send: [`HandlerSet::next_wanted`].
    Wants,
    /// A closure over local state, in the polling context. It cannot communicate.
    Call(Box<dyn FnOnce(Delivered) + Send>),
    /// A closure on the handler thread, which may communicate through its argument. It costs a thread switch.
    Thread(ThreadHandler),
}

/// A completion handler for the handler thread.
pub type ThreadHandler = Box<dyn FnOnce(Delivered, &mut dyn Deferred) + Send>;

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bump(_) => "Bump",
            Self::BumpAtSource(_) => "BumpAtSource",
            Self::SetFlag(_) => "SetFlag",
            Self::MarkRequest(_) => "MarkRequest",
            Self::Reply(_) => "Reply",
            Self::Wants => "Wants",
            Self::Call(_) => "Call",
            Self::Thread(_) => "Thread",
        })
    }
}

/// A short message to the source of the completed message, and to no other task (LAPI error 501).
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// The handler to run at the source.
    pub handler: HandlerId,
    len: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl Reply {
    /// The longest user header of a reply, in bytes.
    pub const BYTES_MAX: usize = 32;

    /// A reply whose user header is `uhdr`; `None` if it is longer than [`BYTES_MAX`](Self::BYTES_MAX).
    #[must_use]
    pub fn new(handler: HandlerId, uhdr: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..uhdr.len())?.copy_from_slice(uhdr);
        Some(Self { handler, len: u8::try_from(uhdr.len()).ok()?, bytes })
    }

    /// The user header.
    #[must_use]
    pub fn uhdr(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The argument of a completion handler.
#[derive(Debug)]
pub struct Delivered {
    /// The sender of the message.
    pub source: Endpoint,
    /// Bytes of user data that were sent.
    pub len: u64,
    /// Bytes that were stored: fewer than `len` if the destination was shorter; 0 if `outcome` is an error.
    pub placed: u64,
    /// The buffer of the destination, if the destination owned one. Its contents are the data only if `outcome` is `Ok`.
    pub buffer: Option<JobBuffer>,
    /// `Ok` if all data have arrived; otherwise the reason, such as the death of a peer.
    pub outcome: Result<(), Box<Error>>,
}

/// What a completion handler on the handler thread may do. The context's owner carries the calls out, in order, when it next makes
/// progress.
pub trait Deferred {
    /// Sends a message, which owns `udata`.
    fn amsend(&mut self, target: Endpoint, handler: HandlerId, uhdr: &[u8], udata: Vec<u8>);

    /// Adds 1 to a counter of the context.
    fn bump(&mut self, counter: Counter);
}

/// A message that a handler set wants its context to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The target: its context of the same number.
    pub to: TaskId,
    /// The handler there.
    pub handler: HandlerId,
    /// The user header.
    pub uhdr: Vec<u8>,
    /// The user data.
    pub udata: Vec<u8>,
}

/// The name of a message in traces and statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName {
    /// The protocol that carries the message: "eager", "rendezvous", "amsend".
    pub protocol: &'static str,
    /// MPI's tag, or the number of the header handler.
    pub tag: i32,
    /// The number space of the tag: a communicator, or [`OF_HANDLER`](Self::OF_HANDLER).
    pub context: u32,
}

impl MessageName {
    /// The context of tags that are handler numbers.
    pub const OF_HANDLER: u32 = u32::MAX;
}

/// The handlers of a context, either known at compile time, or registered one by one as in am-core's `HandlerTable`.
pub trait HandlerSet {
    /// Whether [`header`](Self::header) runs code of the program, during which communicating calls are rejected. If false, the engine does
    /// not mark when a handler runs: the handlers, which belong to a library, must then not communicate.
    const RUNS_USER_CODE: bool;

    /// Runs header handler `id`; `None` if there is no such handler.
    fn header(&mut self, id: HandlerId, message: &Message<'_>) -> Option<Answer>;

    /// Consumes a message whose data are all `here`, instead of [`header`](Self::header): stores the data, and runs the completion (LAPI's
    /// header handlers do this with `LAPI_BURY_MSG`). Returns whether the message was consumed. If not, the set must have changed nothing,
    /// and `header` is called. Only for sets that run no code of the program.
    #[inline(always)]
    fn consume(&mut self, _id: HandlerId, _source: Endpoint, _uhdr: &[u8], _here: Arrived<'_>) -> bool {
        false
    }

    /// Called when a request has ended: one that [`Completion::MarkRequest`] names, or that of an operation of this task.
    fn complete_request(&mut self, request: u64, delivered: Delivered);

    /// Like [`complete_request`](Self::complete_request), for a message that arrived whole and had no buffer of its own. This is the
    /// frequent case, in which no [`Delivered`] is made.
    #[inline(always)]
    fn complete_plain_request(&mut self, request: u64, source: Endpoint, len: u64, placed: u64) {
        self.complete_request(request, Delivered { source, len, placed, buffer: None, outcome: Ok(()) });
    }

    /// Whether the origin may withdraw an announcement that was answered with [`Destination::Later`] and has not been accepted. A set that
    /// returns true must have forgotten the message: the ticket is invalid from now on.
    fn withdraw(&mut self, _ticket: Ticket) -> bool {
        true
    }

    /// Called when nothing more will arrive from a task, because it died or closed its context. The set must end all requests that wait for
    /// messages from the task, with the error that `why` makes.
    fn peer_is_gone(&mut self, _task: TaskId, _why: &dyn Fn() -> Error) {}

    /// The next message that the set wants its context to send, if there is one. Asked for after a message whose completion is
    /// [`Completion::Wants`], and after [`peer_is_gone`](Self::peer_is_gone). A message to a task that is gone has no effect.
    fn next_wanted(&mut self) -> Option<Wanted> {
        None
    }

    /// The name of a message to header handler `id` in traces and statistics. Called only if the process has a recorder.
    fn describe(&self, id: HandlerId, _uhdr: &[u8]) -> MessageName {
        MessageName { protocol: "amsend", tag: i32::from(id.0), context: MessageName::OF_HANDLER }
    }

    /// Number of handlers, for error messages.
    fn count(&self) -> usize;

    /// Called when the task has waited for a while without an event: the set of a library adds a readable description of the wait.
    fn add_to_facts(&self, _facts: &mut WaitFacts) {}
}
