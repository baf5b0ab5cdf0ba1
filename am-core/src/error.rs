//! What can go wrong, sorted by who is at fault. "Not now" is not here: that is an [`Outcome`].

use std::io;

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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A communicating call was made from inside a handler (LAPI forbids it: the engine is not re-entrant).
    #[error("a handler called `{call}`: handlers may not communicate; answer with a completion instead")]
    InHandler {
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
    /// An address that is not a multiple of the operand's size.
    #[error("an atomic operation of {size} bytes at offset {offset:#x}, which is not a multiple of {size}")]
    Misaligned {
        /// The offset in the region.
        offset: u64,
        /// The operand's size in bytes.
        size: u64,
    },
    /// A task died; what was under way to it is over (VIP_ERROR_CONN_LOST, LAPI_ERR_TGT_PURGED).
    #[error("{task} has failed{what}: operations to it have ended, and new ones are refused")]
    PeerFailed {
        /// Who died.
        task: TaskId,
        /// How, if known, beginning with a colon.
        what: String,
    },
    /// A message of a peer that no correct peer sends.
    #[error("{peer} broke the protocol: {what}")]
    Protocol {
        /// Who sent it.
        peer: Endpoint,
        /// What was wrong with it.
        what: String,
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
    /// A handler panicked; the operation it served has ended.
    #[error("the {kind} handler of a message from {origin} panicked: {message}")]
    HandlerPanicked {
        /// Header or completion.
        kind: &'static str,
        /// Whose message it was.
        origin: Endpoint,
        /// The panic's message.
        message: String,
    },
    /// The job could not be joined or set up.
    #[error("joining the job: {what}")]
    Job {
        /// What happened and what to do.
        what: String,
    },
    /// The operating system refused.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
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

impl Error {
    /// Whom this error blames.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::InHandler { .. }
            | Self::UnknownTask { .. }
            | Self::UnregisteredHandler { .. }
            | Self::UserHeaderTooLong { .. }
            | Self::RemoteRange { .. }
            | Self::LocalRange { .. }
            | Self::Misaligned { .. }
            | Self::UnknownCounter { .. }
            | Self::HandlerPanicked { .. } => Fault::Caller,
            Self::UnknownHandler { .. } | Self::PeerFailed { .. } | Self::Protocol { .. } => Fault::Peer,
            Self::Exhausted { .. } => Fault::Resource,
            Self::Job { .. } | Self::System { .. } => Fault::System,
        }
    }
}

/// What every call here returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
