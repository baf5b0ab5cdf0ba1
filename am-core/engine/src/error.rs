//! What can go wrong, sorted by who is at fault. "Not now" is not here: that is an [`Outcome`].

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use crate::task::{Endpoint, TaskId};

/// What became of a request to the layer below. None of the three is an error.
#[must_use = "a Retry means that nothing was done"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out before the call returned.
    Done,
    /// Accepted; a completion will come up by polling.
    Posted,
    /// No room now. Nothing was done; make progress and ask again.
    Retry,
}

/// Whom an [`Error`] blames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call was wrong: mend the program.
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
    reason = "the one error type of the crate, named by its path as io::Error is"
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
    /// A communicating call was made in a copy of a task.
    #[error(
        "a copy of a task, made by fork, called `{call}`: only the task itself may communicate; start another program instead (std::process::Command), or fork before the job is joined"
    )]
    CopiedProcess {
        /// The call that was refused.
        call: &'static str,
    },
    /// A task number that the job does not have (LAPI_ERR_TGT).
    #[error("{endpoint} does not exist: the job has tasks 0 to {last}; use a number in that range", last = num_tasks - 1)]
    UnknownTask {
        /// What was asked for.
        endpoint: Endpoint,
        /// How many tasks the job has.
        num_tasks: u32,
    },
    /// A context number that no task can have (LAPI_ERR_HNDL_INVALID).
    #[error("{endpoint} does not exist: a task has contexts 0 to {last}; use a number in that range", last = contexts_max - 1)]
    UnknownContext {
        /// What was asked for.
        endpoint: Endpoint,
        /// How many contexts a task can have.
        contexts_max: u8,
    },
    /// A handler number that the target has not registered (LAPI_ERR_HDR_HNDLR_NULL).
    #[error(
        "{origin} sent a message for handler {handler}, and this task has registered handlers 0 to {registered} (excluded): register the same handlers in the same order in every task, before the first message"
    )]
    UnknownHandler {
        /// The handler number.
        handler: u16,
        /// Who sent the message.
        origin: Endpoint,
        /// How many handlers are registered here.
        registered: usize,
    },
    /// A handler number was given that this task itself never registered.
    #[error("handler {handler} is not registered: this task has {registered} handlers")]
    UnregisteredHandler {
        /// The handler number.
        handler: u16,
        /// How many handlers are registered here.
        registered: usize,
    },
    /// A user header longer than what travels with the first packet (LAPI_ERR_UHDR_LEN).
    #[error(
        "a user header of {len} bytes: at most {max} travel with a message; put the rest into the user data"
    )]
    UserHeaderTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes possible.
        max: usize,
    },
    /// A counter that does not exist (any more).
    #[error(
        "counter {counter:#x} does not exist (any more): it was removed, or it belongs to another context"
    )]
    UnknownCounter {
        /// The number on the wire.
        counter: u32,
    },
    /// A remote address outside of every exposed region, or a region that is not exposed any more.
    #[error(
        "{len} bytes at offset {offset:#x} of region {region} (generation {generation}) of {task}: {why}"
    )]
    RemoteRange {
        /// The owner.
        task: TaskId,
        /// The region number.
        region: u32,
        /// The generation that was named.
        generation: u32,
        /// The offset in the region, in bytes.
        offset: u64,
        /// The length asked for, in bytes.
        len: u64,
        /// What is wrong with it.
        why: RangeFault,
    },
    /// A region that another context has exposed, and that this one was to take back.
    #[error(
        "{context} was given a region to take back that {owner} has exposed, which is another context or an earlier one: call unexpose of the context that exposed it; the region stays exposed, and its memory is not used again"
    )]
    ForeignRegion {
        /// The endpoint that exposed it.
        owner: Endpoint,
        /// The endpoint that was to take it back.
        context: Endpoint,
    },
    /// A local range outside of its region.
    #[error("{len} bytes at offset {offset} of a region of {region_len} bytes")]
    LocalRange {
        /// The offset, in bytes.
        offset: u64,
        /// The length, in bytes.
        len: u64,
        /// The region's length, in bytes.
        region_len: u64,
    },
    /// A layout of data that can't be (`LAPI_ERR_STRIDE` and the like).
    #[error("a layout that can't be: {0}")]
    Layout(LayoutFault),
    /// Two sides of a transfer of different length (`LAPI_ERR_VEC_LEN_DIFF`).
    #[error("the layout here has {here} bytes and the one at the other side {there}: they must agree")]
    LengthsDiffer {
        /// Bytes at this side.
        here: u64,
        /// Bytes at the other.
        there: u64,
    },
    /// An accumulation that its element type does not have (`LAPI_ERR_RMW_OP`).
    #[error(
        "{operation} of elements of type {element}: bits are combined of integers only, and floating-point numbers have 4 or 8 bytes"
    )]
    NoSuchOperation {
        /// What was asked for.
        operation: &'static str,
        /// Of what.
        element: &'static str,
    },
    /// A query or setting that there is not, or a value that it can't have (`LAPI_ERR_QUERY_TYPE`, `LAPI_ERR_SET_VAL`).
    #[error("{name} can't be set to {value}: {why}")]
    Setting {
        /// Which.
        name: &'static str,
        /// The value.
        value: u64,
        /// What would be right.
        why: &'static str,
    },
    /// Nothing arrived for as long as the time-out allows (`LAPI_ERR_TIMEOUT`).
    #[error(
        "{what} saw nothing arrive for {limit:?}: a peer does not answer; ask for its state, raise TIMEOUT, or purge it"
    )]
    TimedOut {
        /// What waited.
        what: &'static str,
        /// How long it was to wait.
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
    /// The program has given up all operations with a task (`LAPI_ERR_TGT_PURGED`).
    #[error("operations with {task} were purged by {by}: new ones are refused until this task resumes it")]
    Purged {
        /// The other side.
        task: TaskId,
        /// Who gave them up.
        by: TaskId,
    },
    /// An address that is not a multiple of the operand's size.
    #[error(
        "an atomic operation of {size} bytes at offset {offset:#x}, where the address is not a multiple of {size}"
    )]
    Misaligned {
        /// The offset in the region.
        offset: u64,
        /// The operand's size in bytes.
        size: u64,
    },
    /// A task died; what was under way to it is over (VIP_ERROR_CONN_LOST, LAPI_ERR_TGT_PURGED).
    #[error("{task} has failed{how}: operations to it have ended, and new ones are refused", how = in_brackets(what))]
    PeerFailed {
        /// Who died.
        task: TaskId,
        /// How; empty if not known.
        what: String,
    },
    /// A name that no query has (`LAPI_ERR_QUERY_TYPE`).
    #[error("{name} cannot be asked for: {why}")]
    UnknownQuery {
        /// The name.
        name: String,
        /// Where to ask, or why there is no answer.
        why: &'static str,
    },
    /// A context was closed by its task, which lives on (`LAPI_ERR_HNDL_INVALID`, seen from afar).
    #[error("{endpoint} {}", closed(after))]
    ContextClosed {
        /// Which context.
        endpoint: Endpoint,
        /// The failure of another task that its task knew of; empty if there was none.
        after: String,
    },
    /// A message of a peer that no correct peer sends.
    #[error("{peer} broke the protocol: {what}")]
    Protocol {
        /// Who sent it.
        peer: Endpoint,
        /// What was wrong with it.
        what: String,
    },
    /// The target refused an operation, and says why.
    #[error("{target} refused an operation of this task: {why}")]
    Refused {
        /// Who refused.
        target: Endpoint,
        /// Why.
        why: Refusal,
    },
    /// Arguments of a call that serde could not write.
    #[error("the arguments of a call can't be written: {why}")]
    Arguments {
        /// What serde or postcard says.
        why: String,
    },
    /// A completion that answers, for a message whose origin has not allowed an answer.
    #[error(
        "a completion answers the message of {origin}, which was not sent to be answered: set AmOptions::answerable there"
    )]
    NotAnswerable {
        /// Who sent the message.
        origin: Endpoint,
    },
    /// A ticket that was used, or whose message has gone.
    #[error(
        "ticket {ticket:#x} names no waiting message: it was used before, or its sender failed or gave it up"
    )]
    UnknownTicket {
        /// The ticket's number.
        ticket: u32,
    },
    /// A handle that was used before, or belongs to another context.
    #[error("handle {handle:#x} names no operation of this context: each is to be used once")]
    UnknownHandle {
        /// The handle's number.
        handle: u32,
    },
    /// A contribution longer than what is exchanged.
    #[error("{len} bytes to exchange: at most {max} a task; put the rest into exposed memory")]
    ContributionTooLong {
        /// Bytes given.
        len: usize,
        /// Bytes possible.
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
        /// What a person can do about it.
        remedy: &'static str,
    },
    /// A handler, a sink or a gatherer panicked; the operation it served has ended.
    #[error("the {kind} handler of a message from {origin} panicked: {message}")]
    HandlerPanicked {
        /// Header, completion, sink or gather.
        kind: &'static str,
        /// Whose message it was.
        origin: Endpoint,
        /// The panic's message.
        message: String,
    },
    /// The job could not be joined or set up.
    #[error("joining the job: {what}")]
    Job {
        /// Whose fault it is.
        fault: Fault,
        /// What happened and what to do.
        what: String,
    },
    /// The operating system refused.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: Box<dyn core::error::Error + Send + Sync>,
    },
}

/// Why a layout can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutFault {
    /// Blocks would overlap.
    #[error("a stride of {stride} bytes is shorter than its block of {block} bytes")]
    StrideTooShort {
        /// Bytes of a block.
        block: u64,
        /// Bytes from block to block.
        stride: u64,
    },
    /// Its end has no number.
    #[error("{len} bytes from offset {offset} on end beyond 2^64")]
    TooLong {
        /// Where it begins.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// Why a remote range is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeFault {
    /// Nothing is exposed under this number, or not any more, or anew.
    #[error("no such region is exposed now; exchange addresses again after each expose")]
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

/// Why a target refused an operation, in the words that travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such handler is registered there.
    #[error(
        "it has registered handlers 0 to {registered} (excluded), and the message names handler {handler}: register the same handlers in the same order in every task, before the first message"
    )]
    UnknownHandler {
        /// The handler number.
        handler: u16,
        /// How many it has.
        registered: u32,
    },
    /// Its program did.
    #[error("its program does not want the message")]
    ByProgram,
    /// A remote range that it does not expose.
    #[error("bytes from offset {offset:#x}: {why}")]
    Range {
        /// The offset in the region.
        offset: u64,
        /// What is wrong.
        why: RangeFault,
    },
    /// Its handler panicked.
    #[error("its handler panicked")]
    HandlerPanicked,
    /// What it got is no packet of this protocol.
    #[error("it could not read the packet")]
    Malformed,
    /// This task itself gave the operation up.
    #[error("the operation was given up by its origin")]
    Withdrawn,
    /// It cannot take more at present.
    #[error("it has no room for more unfinished messages")]
    Exhausted,
    /// Words that do not lie at a multiple of their size. Its origin has it as [`Error::Misaligned`].
    #[error("words of {size} bytes from offset {offset:#x} on are not aligned")]
    Misaligned {
        /// The offset in the region.
        offset: u64,
        /// The words' size in bytes.
        size: u64,
    },
}

impl Refusal {
    /// The wire form: reason and two values.
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

    /// What the wire form claims; a reason that does not exist reads as [`Refusal::Malformed`].
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

    /// What to tell the origin of a packet that met `error` here.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::UnknownHandler { handler, registered, .. } => {
                Self::UnknownHandler { handler: *handler, registered: *registered as u32 }
            }
            Error::RemoteRange { offset, why, .. } => Self::Range { offset: *offset, why: *why },
            Error::Misaligned { offset, size } => Self::Misaligned { offset: *offset, size: *size },
            Error::HandlerPanicked { .. } => Self::HandlerPanicked,
            Error::Exhausted { .. } => Self::Exhausted,
            _ => Self::Malformed,
        }
    }
}

fn closed(after: &str) -> String {
    if after.is_empty() {
        String::from(
            "was closed by its task: operations with it have ended, and new ones are refused; let every task finish with its peers (a \
             collective fence) before it closes",
        )
    } else {
        format!("has left after {after}: operations with it have ended, and new ones are refused")
    }
}

fn in_brackets(what: &str) -> String {
    if what.is_empty() { String::new() } else { format!(" ({what})") }
}

/// The rights that [`RangeFault::Access`] names.
const READ: &str = "read";
const WRITE: &str = "write";

impl Error {
    /// Whether it says that a handler of this task has panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::HandlerPanicked { .. })
    }

    /// Whom this error blames.
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
            Self::Exhausted { .. } => Fault::Resource,
            Self::Job { fault, .. } => *fault,
            Self::System { .. } => Fault::System,
        }
    }
}

/// What every call here returns.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Endpoint {
    /// Checks that a job of `num_tasks` tasks, of which each may open `contexts_max` contexts, can have this endpoint. The one check
    /// of an endpoint that a program or a peer names. Says nothing of whether the context is open.
    ///
    /// # Errors
    /// [`Error::UnknownTask`] or [`Error::UnknownContext`].
    #[inline]
    pub fn check(self, num_tasks: u32, contexts_max: u8) -> Result<()> {
        if self.task.0 >= num_tasks {
            return Err(Error::UnknownTask { endpoint: self, num_tasks });
        }
        if self.context.0 >= contexts_max {
            return Err(Error::UnknownContext { endpoint: self, contexts_max });
        }
        Ok(())
    }
}
