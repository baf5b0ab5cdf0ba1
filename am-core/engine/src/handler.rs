//! Header handlers and completion handlers (LAPI's `hdr_hndlr` and `compl_hndlr`; seed paper section 3 and 5.3).
//!
//! A header handler runs at the target when the first packet of a message is in, and returns where to place the data and what to do when
//! they have arrived. It has no access to anything that communicates, and a communicating call inside a handler is rejected: the engine is
//! not re-entrant, and a handler that waited could wait for itself.

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

/// The number of a registered header handler: the same in every task that registers the same handlers in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u16);

impl HandlerId {
    /// The greatest number of handlers: as many as the label of a packet can name, except the last number, which stands for a put.
    pub const COUNT_MAX: usize = 4095;
}

/// The arguments of a header handler: the five facts of LAPI's `lapi_return_info_t`, as values.
#[derive(Debug)]
pub struct Message<'a> {
    /// Who sent it.
    pub source: Endpoint,
    /// The user header, in private memory.
    pub uhdr: &'a [u8],
    /// Bytes of user data in the whole message.
    pub len: u64,
    /// The whole user data, if they arrived with the header (LAPI's one-packet pointer): the handler may consume them here.
    pub here: Option<Arrived<'a>>,
    /// The name under which the message can be accepted later, if the handler answers [`Destination::Later`].
    pub ticket: Ticket,
}

/// A message whose destination is not known yet (see [`Destination::Later`]). It can be accepted or refused once. The number is only a claim: one
/// that names no such message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u32);

/// What a header handler returns.
#[derive(Debug)]
pub enum Answer {
    /// The answer to most short messages: its destination and its completion own no memory.
    Plain(PlainAnswer),
    /// Any other destination and completion.
    Full(Destination, Completion),
}

/// An answer that owns nothing.
#[derive(Clone, Copy, Debug)]
pub struct PlainAnswer {
    /// Where the data go.
    pub destination: PlainDestination,
    /// What to do when the last byte has arrived.
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
    /// Places the data at `place`; then does `completion`.
    #[inline(always)]
    #[must_use]
    pub fn new(destination: Destination, completion: Completion) -> Self {
        // Each variant is converted on its own, so that the compiler sees that plain ones leave nothing to drop.
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

    /// Drops the data, if any; nothing follows (LAPI's `LAPI_BURY_MSG`).
    #[must_use]
    pub fn discard() -> Self {
        Self::Plain(PlainAnswer { destination: PlainDestination::Nowhere, completion: PlainCompletion::None })
    }

    /// Drops the data, if any, or the handler has consumed them itself; then does `completion`.
    #[inline(always)]
    #[must_use]
    pub fn consumed(completion: Completion) -> Self {
        Self::new(Destination::Nowhere, completion)
    }

    /// Places the data in a part of exposed memory; then does `completion`.
    #[inline(always)]
    #[must_use]
    pub fn exposed(range: ExposedRange, completion: Completion) -> Self {
        Self::new(Destination::Exposed(range), completion)
    }

    /// Places the data in `buffer`, which the completion gets; data beyond its end are dropped.
    #[inline(always)]
    #[must_use]
    pub fn owned(buffer: JobBuffer, completion: Completion) -> Self {
        Self::Full(Destination::Owned(buffer), completion)
    }

    /// Scatters the data; then does `completion`.
    #[must_use]
    pub fn scatter(scatter: Scatter, completion: Completion) -> Self {
        Self::Full(Destination::Scatter(Box::new(scatter)), completion)
    }

    /// Leaves the destination open, until `Context::accept` is called with the message's ticket.
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

/// The destination of a message's data. Data that do not fit are dropped (LAPI's truncation), and [`Delivered`] tells.
#[derive(Debug)]
pub enum Destination {
    /// None: the data are dropped, or the handler has consumed them.
    Nowhere,
    /// Memory that was lent for the purpose (the constructor of [`RawBuffer`] is `unsafe`).
    Raw(RawBuffer),
    /// A part of this task's exposed memory.
    Exposed(ExposedRange),
    /// A buffer that the completion gets.
    Owned(JobBuffer),
    /// A sink, which gets the data straight from the NIC's buffer (LAPI's DGSP).
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

/// What to do when the data are in place. The choice is made per message; that is the point of the seed paper's section 5.3. All but the
/// last run in the context that polls.
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
    /// A closure over local state, in the polling context. It has no access to anything that communicates.
    Call(Box<dyn FnOnce(Delivered) + Send>),
    /// A closure on the handler thread, which may communicate through its argument. Costs a thread switch.
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
            Self::Call(_) => "Call",
            Self::Thread(_) => "Thread",
        })
    }
}

/// A short message to the source of the message that is being completed, and to nobody else (LAPI error 501).
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
    /// Who sent the message.
    pub source: Endpoint,
    /// Bytes of user data that were sent.
    pub len: u64,
    /// Bytes that were placed: fewer than `len` if the place was shorter.
    pub placed: u64,
    /// The buffer of [`Destination::Owned`], filled.
    pub buffer: Option<JobBuffer>,
    /// Whether all data have arrived; otherwise why not (a peer that died, for instance).
    pub outcome: Result<(), Box<Error>>,
}

/// What a completion handler on the handler thread may do: the context's owner carries its calls out at its next progress, in order.
pub trait Deferred {
    /// Sends a message; `udata` is owned by the message.
    fn amsend(&mut self, target: Endpoint, handler: HandlerId, uhdr: &[u8], udata: Vec<u8>);

    /// Adds 1 to a counter of the context.
    fn bump(&mut self, counter: Counter);
}

/// The name of a message in traces and statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageName {
    /// The protocol that carries it: "eager", "rendezvous", "amsend".
    pub protocol: &'static str,
    /// MPI's tag, or the number of the header handler.
    pub tag: i32,
    /// What the tag belongs to: a communicator, or [`OF_HANDLER`](Self::OF_HANDLER).
    pub context: u32,
}

impl MessageName {
    /// The context of tags that are numbers of handlers.
    pub const OF_HANDLER: u32 = u32::MAX;
}

/// The handlers of a context, either known at compile time, or registered one by one as in am-core's `HandlerTable`.
pub trait HandlerSet {
    /// Whether [`header`](Self::header) runs code of the program, during which communicating calls must be rejected. If it is false the
    /// engine need not mark when a handler runs; a set that is part of a library must then keep the rule itself.
    const RUNS_USER_CODE: bool;

    /// Runs header handler `id`; `None` if there is no such handler.
    fn header(&mut self, id: HandlerId, message: &Message<'_>) -> Option<Answer>;

    /// Consumes a message whose data are all `here`, before [`header`](Self::header) is called: places the data, and does what follows
    /// (LAPI's header handlers do so with `LAPI_BURY_MSG`). Returns whether it did; if not, nothing has changed. Only for sets that run no
    /// code of the program.
    #[inline(always)]
    fn consume(&mut self, _id: HandlerId, _source: Endpoint, _uhdr: &[u8], _here: Arrived<'_>) -> bool {
        false
    }

    /// Reports that the request named by [`Completion::MarkRequest`] is complete.
    fn complete_request(&mut self, request: u64, delivered: Delivered);

    /// The same for a message that arrived whole and had no buffer of its own, which is the frequent case: a set that handles many
    /// small messages can do without a [`Delivered`] here.
    #[inline(always)]
    fn complete_plain_request(&mut self, request: u64, source: Endpoint, len: u64, placed: u64) {
        self.complete_request(request, Delivered { source, len, placed, buffer: None, outcome: Ok(()) });
    }

    /// Whether the origin may withdraw an announcement that was answered with [`Destination::Later`] and has not been accepted. If so, the ticket
    /// is invalid when this returns, and the set forgets the message.
    fn withdraw(&mut self, _ticket: Ticket) -> bool {
        true
    }

    /// Reports that nothing more will come from a task, which has died or closed its context: a set that waits for messages from it ends
    /// that, with the error that `why` makes.
    fn peer_is_gone(&mut self, _task: TaskId, _why: &dyn Fn() -> Error) {}

    /// The name of a message to header handler `id` in traces and statistics. Called only while the process has a recorder.
    fn describe(&self, id: HandlerId, _uhdr: &[u8]) -> MessageName {
        MessageName { protocol: "amsend", tag: i32::from(id.0), context: MessageName::OF_HANDLER }
    }

    /// How many handlers there are, for error messages.
    fn count(&self) -> usize;

    /// Called when the task has waited for a while and nothing has come: a set that is part of a library adds a description of the wait,
    /// for people to read.
    fn add_to_facts(&self, _facts: &mut WaitFacts) {}
}
