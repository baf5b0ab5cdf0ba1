//! Errors. Each names the party at fault: the caller, a peer, a resource, the system. "Not now" is an [`Outcome`], not an error.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use am_contract::task::NoSuchEndpoint;

use crate::task::{Endpoint, TaskId};

/// Outcome of a request to the layer below. None of these is an error.
#[must_use = "a Retry means that nothing was done"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out before the call returned.
    Done,
    /// Accepted; a later poll returns the operation's completion.
    Posted,
    /// Not possible now, usually for want of a credit: make progress and try again. Nothing was done, unless the call says otherwise.
    Retry,
}

/// The party that an [`Error`] blames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call was wrong: correct the program.
    Caller,
    /// Another task misbehaved or died.
    Peer,
    /// Something ran out: raise a limit or ask for less.
    Resource,
    /// The operating system refused.
    System,
}

/// Every error of this layer, with the values that a person needs to act.
#[expect(
    clippy::error_impl_error,
    reason = "the one error type of the crate, named by its path, like io::Error"
)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A communicating call was made from inside a handler (LAPI forbids it: the engine is not re-entrant).
    #[error("a handler called `{call}`: handlers may not communicate; answer with a completion instead")]
    InHandler {
        /// The call that was refused.
        call: &'static str,
    },
    /// A communicating call was made in a forked copy of a task.
    #[error(
        "a copy of a task, made by fork, called `{call}`: only the task itself may communicate; start another program instead (std::process::Command), or fork before the job is joined"
    )]
    CopiedProcess {
        /// The call that was refused.
        call: &'static str,
    },
    /// A task number outside the job (LAPI_ERR_TGT).
    #[error("{endpoint} does not exist: the job has tasks 0 to {last}; use a number in that range", last = num_tasks - 1)]
    UnknownTask {
        /// The endpoint that was named.
        endpoint: Endpoint,
        /// Number of tasks in the job.
        num_tasks: u32,
    },
    /// A context number that no task can have (LAPI_ERR_HNDL_INVALID).
    #[error("{endpoint} does not exist: a task has contexts 0 to {last}; use a number in that range", last = contexts_max - 1)]
    UnknownContext {
        /// The endpoint that was named.
        endpoint: Endpoint,
        /// Maximum number of contexts of a task.
        contexts_max: u8,
    },
    /// A handler number that the target has not registered (LAPI_ERR_HDR_HNDLR_NULL).
    #[error(
        "{origin} sent a message for handler {handler}, and this task has registered {registered} handlers, numbered from 0: register the same handlers in the same order in every task, before the first message"
    )]
    UnknownHandler {
        /// The handler number.
        handler: u16,
        /// The sender of the message.
        origin: Endpoint,
        /// How many handlers are registered here.
        registered: usize,
    },
    /// A call of a function in a context that has not registered it.
    #[error(
        "function {handler} is none of the {registered} handlers of this context: register the function in this context before you call it"
    )]
    UnregisteredHandler {
        /// The handler number.
        handler: u16,
        /// How many handlers are registered here.
        registered: usize,
    },
    /// A user header too long for the first packet of a message (LAPI_ERR_UHDR_LEN).
    #[error(
        "a user header of {len} bytes: at most {max} travel with a message; put the rest into the user data"
    )]
    UserHeaderTooLong {
        /// Bytes given.
        len: usize,
        /// Maximum in bytes.
        max: usize,
    },
    /// A counter that does not exist or was removed.
    #[error("counter {counter:#x} does not exist: it was removed, or it belongs to another context")]
    UnknownCounter {
        /// The number on the wire.
        counter: u32,
    },
    /// A remote range outside the exposed regions, in a region that is no longer exposed, or without the right to access it.
    #[error(
        "{len} bytes at offset {offset:#x} of region {region} (generation {generation}) of {task}: {why}"
    )]
    RemoteRange {
        /// The owner.
        task: TaskId,
        /// The region number.
        region: u32,
        /// The generation in the address.
        generation: u32,
        /// The offset in the region, in bytes.
        offset: u64,
        /// The length asked for, in bytes.
        len: u64,
        /// Why the range is refused.
        why: RangeFault,
    },
    /// A region was given to a context that did not expose it.
    #[error(
        "{context} was asked to unexpose a region that {owner} exposed (another context, or an earlier one): the region stays exposed, and its memory is not reused; call unexpose of the context that exposed the region"
    )]
    ForeignRegion {
        /// The endpoint that exposed the memory.
        owner: Endpoint,
        /// The endpoint that was asked to unexpose the region.
        context: Endpoint,
    },
    /// A local range that does not lie in its region.
    #[error("{len} bytes at offset {offset} do not lie inside a region of {region_len} bytes")]
    LocalRange {
        /// The offset, in bytes.
        offset: u64,
        /// The length, in bytes.
        len: u64,
        /// The region's length, in bytes.
        region_len: u64,
    },
    /// An invalid layout (`LAPI_ERR_STRIDE` and the like).
    #[error("an invalid layout: {0}")]
    Layout(LayoutFault),
    /// The two sides of a transfer have different lengths (`LAPI_ERR_VEC_LEN_DIFF`).
    #[error(
        "the layout here has {here} bytes, and the layout at the other side {there}: the lengths must agree"
    )]
    LengthsDiffer {
        /// Bytes at this side.
        here: u64,
        /// Bytes at the other.
        there: u64,
    },
    /// An accumulation or rmw that the element type does not support (`LAPI_ERR_RMW_OP`).
    #[error(
        "elements of type {element} do not support {operation}: bitwise operations need integers, and floating-point numbers have 4 or 8 bytes"
    )]
    NoSuchOperation {
        /// The operation.
        operation: &'static str,
        /// The element type.
        element: &'static str,
    },
    /// A setting that cannot be changed, or a value that it cannot have (`LAPI_ERR_QUERY_TYPE`, `LAPI_ERR_SET_VAL`).
    #[error("{name} can't be set to {value}: {why}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The value.
        value: u64,
        /// What is wrong, and which values are valid.
        why: &'static str,
    },
    /// Nothing arrived within the time-out (`LAPI_ERR_TIMEOUT`).
    #[error(
        "{what} saw nothing arrive for {limit:?}: a peer does not answer; query its state, raise TIMEOUT, or purge the peer"
    )]
    TimedOut {
        /// The waiting call.
        what: &'static str,
        /// The time-out.
        limit: core::time::Duration,
    },
    /// Several threads wait for one counter without polling (`LAPI_ERR_MULTIPLE_WAITERS`).
    #[error(
        "counter {counter:#x} has a waiter already: one thread at a time may wait for it without polling"
    )]
    MultipleWaiters {
        /// The counter's number on the wire.
        counter: u32,
    },
    /// Operations with a task were purged (`LAPI_ERR_TGT_PURGED`).
    #[error(
        "operations with {task} were purged by {by}: {by} starts no new ones until it calls resume_totask"
    )]
    Purged {
        /// The task at the other side.
        task: TaskId,
        /// The task that purged the operations.
        by: TaskId,
    },
    /// An address that is not a multiple of the operand's size.
    #[error(
        "an atomic operation of {size} bytes at offset {offset:#x} is misaligned: the address must be a multiple of {size}"
    )]
    Misaligned {
        /// The offset in the region.
        offset: u64,
        /// The operand's size in bytes.
        size: u64,
    },
    /// A task has failed, and operations with it have ended (VIP_ERROR_CONN_LOST, LAPI_ERR_TGT_PURGED).
    #[error("{task} has failed{how}: operations to it have ended, and new ones are refused", how = in_brackets(what))]
    PeerFailed {
        /// The failed task.
        task: TaskId,
        /// How the task failed; empty if not known.
        what: String,
    },
    /// An unknown query (`LAPI_ERR_QUERY_TYPE`).
    #[error("{name} cannot be queried: {why}")]
    UnknownQuery {
        /// The name.
        name: String,
        /// Where to ask, or why there is no answer.
        why: &'static str,
    },
    /// A task closed a context and lives on (`LAPI_ERR_HNDL_INVALID`, seen from another task).
    #[error("{endpoint} {}", closed(after))]
    ContextClosed {
        /// The context.
        endpoint: Endpoint,
        /// The first failure of the job, which may be why the task closed the context; empty if none is known, or if the fabric does not
        /// say.
        after: String,
    },
    /// A packet that no correct peer sends.
    #[error("{peer} broke the protocol: {what}")]
    Protocol {
        /// The sender of the packet.
        peer: Endpoint,
        /// What was wrong with the packet.
        what: String,
    },
    /// The target refused an operation, and says why.
    #[error("{target} refused an operation of this task: {why}")]
    Refused {
        /// The endpoint that refused the operation.
        target: Endpoint,
        /// The reason.
        why: Refusal,
    },
    /// Arguments of a call that serde could not write.
    #[error("the arguments of a call can't be written: {why}")]
    Arguments {
        /// What serde or postcard reported.
        why: String,
    },
    /// A completion answers a message whose origin has not allowed an answer.
    #[error(
        "a completion answers the message of {origin}, which was sent without allowing an answer: set AmOptions::answerable there"
    )]
    NotAnswerable {
        /// The sender of the message.
        origin: Endpoint,
    },
    /// A ticket that was used before, or whose message is gone.
    #[error(
        "ticket {ticket:#x} names no waiting message: the ticket was used before, or the message's sender failed or withdrew it"
    )]
    UnknownTicket {
        /// The ticket's number.
        ticket: u32,
    },
    /// A handle that was used before, or belongs to another context.
    #[error("handle {handle:#x} names no operation of this context: each handle can be used once")]
    UnknownHandle {
        /// The handle's number.
        handle: u32,
    },
    /// A contribution longer than an exchange can carry.
    #[error("{len} bytes to exchange: the maximum is {max} per task; put the rest into exposed memory")]
    ContributionTooLong {
        /// Bytes given.
        len: usize,
        /// Maximum in bytes.
        max: usize,
    },
    /// Something ran out.
    #[error("out of {resource}: {needed} needed, {available} available; {remedy}")]
    Exhausted {
        /// What ran out.
        resource: &'static str,
        /// How much was asked for.
        needed: u64,
        /// How much there is.
        available: u64,
        /// What the user can do about the shortage.
        remedy: &'static str,
    },
    /// A task exposes as many pieces of memory as it may.
    #[error(
        "all {max} regions of this task are in use: unexpose memory that peers no longer need, or expose larger pieces"
    )]
    TooManyRegions {
        /// Maximum number of regions.
        max: u32,
    },
    /// A handler, a sink or a gatherer panicked; the operation it served has ended.
    #[error("the {kind} handler of a message from {origin} panicked: {message}")]
    HandlerPanicked {
        /// "header", "completion", "sink" or "gather".
        kind: &'static str,
        /// The sender of the message.
        origin: Endpoint,
        /// The panic's message.
        message: String,
    },
    /// The job could not be joined or set up.
    #[error("joining the job: {what}")]
    Job {
        /// The party at fault.
        fault: Fault,
        /// What happened and what to do.
        what: String,
    },
    /// The operating system refused.
    #[error("{doing}: {source}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: Box<dyn core::error::Error + Send + Sync>,
    },
}

/// Why a layout is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutFault {
    /// The blocks would overlap.
    #[error("a stride of {stride} bytes is shorter than its block of {block} bytes")]
    StrideTooShort {
        /// Bytes of a block.
        block: u64,
        /// Bytes from block to block.
        stride: u64,
    },
    /// A block ends beyond 2^64, or the blocks together are longer than that.
    #[error("{len} bytes at offset {offset} end beyond 2^64")]
    TooLong {
        /// Where the block begins.
        offset: u64,
        /// The length in bytes; of a strided layout, that of all blocks together.
        len: u64,
    },
}

/// Why a remote range is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeFault {
    /// The region is not exposed, was unexposed, or was exposed anew.
    #[error("the region is not exposed, or was exposed anew; exchange addresses again after each expose")]
    Stale,
    /// The range ends beyond the region.
    #[error("the region has only {region_len} bytes")]
    Bounds {
        /// The region's length in bytes.
        region_len: u64,
    },
    /// The region was exposed without this right.
    #[error("the region was exposed without the right to {0}")]
    Access(&'static str),
}

/// Why a target refused an operation, in a form that fits into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such handler is registered there.
    #[error(
        "it has registered {registered} handlers, numbered from 0, and the message names handler {handler}: register the same handlers in the same order in every task, before the first message"
    )]
    UnknownHandler {
        /// The handler number.
        handler: u16,
        /// Number of handlers that the target has registered.
        registered: u32,
    },
    /// The program at the target refused the operation.
    #[error("the program there refused the message (Context::refuse): look there for the reason")]
    ByProgram,
    /// A remote range that the target does not expose for this access.
    #[error("bytes from offset {offset:#x}: {why}")]
    Range {
        /// The offset in the region.
        offset: u64,
        /// What is wrong.
        why: RangeFault,
    },
    /// The handler at the target panicked.
    #[error("the handler there panicked")]
    HandlerPanicked,
    /// The packet does not follow the protocol.
    #[error("the packet does not follow the protocol")]
    Malformed,
    /// The origin withdrew the operation.
    #[error("the operation was withdrawn by its origin")]
    Withdrawn,
    /// The target is out of a resource.
    #[error("it has reached its limit of unfinished messages")]
    Exhausted,
    /// Words at an address that is not a multiple of their size. The origin reports [`Error::Misaligned`].
    #[error("words of {size} bytes at offset {offset:#x} are misaligned")]
    Misaligned {
        /// The offset in the region.
        offset: u64,
        /// The words' size in bytes.
        size: u64,
    },
}

impl Refusal {
    /// The wire form: a reason and two values.
    pub(crate) fn to_wire(self) -> (u32, u64, u64) {
        match self {
            Self::UnknownHandler { handler, registered } => (1, u64::from(handler), u64::from(registered)),
            Self::ByProgram => (2, 0, 0),
            Self::Range { offset, why: RangeFault::Stale } => (3, offset, 0),
            Self::Range { offset, why: RangeFault::Bounds { region_len } } => (4, offset, region_len),
            Self::Range { offset, why: RangeFault::Access(right) } => (5, offset, u64::from(right == WRITE)),
            Self::HandlerPanicked => (6, 0, 0),
            Self::Malformed => (7, 0, 0),
            Self::Withdrawn => (8, 0, 0),
            Self::Exhausted => (9, 0, 0),
            Self::Misaligned { offset, size } => (10, offset, size),
        }
    }

    /// Decodes the wire form. An unknown reason reads as [`Refusal::Malformed`].
    pub(crate) fn from_wire(reason: u32, first: u64, second: u64) -> Self {
        match reason {
            1 => Self::UnknownHandler { handler: first as u16, registered: second as u32 },
            2 => Self::ByProgram,
            3 => Self::Range { offset: first, why: RangeFault::Stale },
            4 => Self::Range { offset: first, why: RangeFault::Bounds { region_len: second } },
            5 => {
                Self::Range { offset: first, why: RangeFault::Access(if second == 0 { READ } else { WRITE }) }
            }
            6 => Self::HandlerPanicked,
            8 => Self::Withdrawn,
            9 => Self::Exhausted,
            10 => Self::Misaligned { offset: first, size: second },
            _ => Self::Malformed,
        }
    }

    /// The refusal that tells the origin of a packet about `error`.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::UnknownHandler { handler, registered, .. } => {
                Self::UnknownHandler { handler: *handler, registered: *registered as u32 }
            }
            Error::RemoteRange { offset, why, .. } => Self::Range { offset: *offset, why: *why },
            Error::Misaligned { offset, size } => Self::Misaligned { offset: *offset, size: *size },
            Error::HandlerPanicked { .. } => Self::HandlerPanicked,
            Error::Exhausted { .. } | Error::TooManyRegions { .. } => Self::Exhausted,
            _ => Self::Malformed,
        }
    }
}

fn closed(after: &str) -> String {
    if after.is_empty() {
        String::from(
            "was closed by its task: operations with it have ended, and new ones are refused; call a collective fence in every task \
             before any of them closes its context",
        )
    } else {
        format!("left after {after}: operations with it have ended, and new ones are refused")
    }
}

fn in_brackets(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!(" ({what})") }
}

/// The rights that [`RangeFault::Access`] names.
const READ: &str = "read";
const WRITE: &str = "write";

impl Error {
    /// The error of a caller that named an endpoint which the job cannot have. Not a `From`: it would make the type of `?` in closures of
    /// programs ambiguous.
    #[cold]
    pub fn no_such_endpoint(fault: NoSuchEndpoint) -> Self {
        match fault {
            NoSuchEndpoint::Task { endpoint, num_tasks } => Self::UnknownTask { endpoint, num_tasks },
            NoSuchEndpoint::Context { endpoint, contexts_max } => {
                Self::UnknownContext { endpoint, contexts_max }
            }
        }
    }

    /// Whether the error reports the panic of a handler of this task.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::HandlerPanicked { .. })
    }

    /// The party that this error blames.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::InHandler { .. }
            | Self::CopiedProcess { .. }
            | Self::UnknownTask { .. }
            | Self::UnknownContext { .. }
            | Self::UnregisteredHandler { .. }
            | Self::UserHeaderTooLong { .. }
            | Self::RemoteRange { .. }
            | Self::ForeignRegion { .. }
            | Self::LocalRange { .. }
            | Self::Misaligned { .. }
            | Self::Layout(_)
            | Self::LengthsDiffer { .. }
            | Self::NoSuchOperation { .. }
            | Self::Setting { .. }
            | Self::UnknownQuery { .. }
            | Self::MultipleWaiters { .. }
            | Self::Purged { .. }
            | Self::UnknownCounter { .. }
            | Self::NotAnswerable { .. }
            | Self::Arguments { .. }
            | Self::UnknownTicket { .. }
            | Self::UnknownHandle { .. }
            | Self::ContributionTooLong { .. }
            | Self::HandlerPanicked { .. } => Fault::Caller,
            Self::Refused { why: Refusal::Range { .. } | Refusal::UnknownHandler { .. }, .. } => {
                Fault::Caller
            }
            Self::Refused { why: Refusal::Exhausted, .. } => Fault::Resource,
            Self::Refused { .. }
            | Self::UnknownHandler { .. }
            | Self::PeerFailed { .. }
            | Self::ContextClosed { .. }
            | Self::TimedOut { .. }
            | Self::Protocol { .. } => Fault::Peer,
            Self::Exhausted { .. } | Self::TooManyRegions { .. } => Fault::Resource,
            Self::Job { fault, .. } => *fault,
            Self::System { .. } => Fault::System,
        }
    }
}

/// The result of every call of this crate.
pub type Result<T, E = Error> = core::result::Result<T, E>;
