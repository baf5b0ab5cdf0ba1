//! Errors of MPI calls, by MPI's error classes and by the party at fault.

use std::fmt;

pub use am_core::error::Fault;

/// The result of an MPI call. Errors are values: no error aborts the job by itself.
pub type Result<T> = std::result::Result<T, Error>;

/// MPI's error classes (MPI 5.0 section 9.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// `MPI_ERR_BUFFER`
    Buffer,
    /// `MPI_ERR_COUNT`
    Count,
    /// `MPI_ERR_TYPE`
    Type,
    /// `MPI_ERR_TAG`
    Tag,
    /// `MPI_ERR_COMM`
    Communicator,
    /// `MPI_ERR_RANK`
    Rank,
    /// `MPI_ERR_REQUEST`
    Request,
    /// `MPI_ERR_ROOT`
    Root,
    /// `MPI_ERR_GROUP`
    Group,
    /// `MPI_ERR_OP`
    Operation,
    /// `MPI_ERR_TOPOLOGY`
    Topology,
    /// `MPI_ERR_DIMS`
    Dimensions,
    /// `MPI_ERR_ARG`
    Argument,
    /// `MPI_ERR_UNKNOWN`
    Unknown,
    /// `MPI_ERR_TRUNCATE`
    Truncate,
    /// `MPI_ERR_OTHER`
    Other,
    /// `MPI_ERR_INTERN`
    Intern,
    /// `MPI_ERR_IN_STATUS`
    InStatus,
    /// `MPI_ERR_PENDING`
    Pending,
    /// `MPI_ERR_KEYVAL`
    Keyval,
    /// `MPI_ERR_NO_MEM`
    NoMemory,
    /// `MPI_ERR_BASE`
    Base,
    /// `MPI_ERR_INFO_KEY`
    InfoKey,
    /// `MPI_ERR_INFO_VALUE`
    InfoValue,
    /// `MPI_ERR_INFO_NOKEY`
    InfoNoKey,
    /// `MPI_ERR_SPAWN`
    Spawn,
    /// `MPI_ERR_PORT`
    Port,
    /// `MPI_ERR_SERVICE`
    Service,
    /// `MPI_ERR_NAME`
    Name,
    /// `MPI_ERR_WIN`
    Window,
    /// `MPI_ERR_SIZE`
    Size,
    /// `MPI_ERR_DISP`
    Displacement,
    /// `MPI_ERR_INFO`
    Info,
    /// `MPI_ERR_LOCKTYPE`
    LockType,
    /// `MPI_ERR_ASSERT`
    Assertion,
    /// `MPI_ERR_RMA_CONFLICT`
    RmaConflict,
    /// `MPI_ERR_RMA_SYNC`
    RmaSync,
    /// `MPI_ERR_RMA_RANGE`
    RmaRange,
    /// `MPI_ERR_RMA_ATTACH`
    RmaAttach,
    /// `MPI_ERR_RMA_SHARED`
    RmaShared,
    /// `MPI_ERR_RMA_FLAVOR`
    RmaFlavor,
    /// `MPI_ERR_FILE`
    File,
    /// `MPI_ERR_NOT_SAME`
    NotSame,
    /// `MPI_ERR_AMODE`
    AccessMode,
    /// `MPI_ERR_UNSUPPORTED_DATAREP`
    UnsupportedDatarep,
    /// `MPI_ERR_UNSUPPORTED_OPERATION`
    UnsupportedOperation,
    /// `MPI_ERR_NO_SUCH_FILE`
    NoSuchFile,
    /// `MPI_ERR_FILE_EXISTS`
    FileExists,
    /// `MPI_ERR_BAD_FILE`
    BadFile,
    /// `MPI_ERR_ACCESS`
    Access,
    /// `MPI_ERR_NO_SPACE`
    NoSpace,
    /// `MPI_ERR_QUOTA`
    Quota,
    /// `MPI_ERR_READ_ONLY`
    ReadOnly,
    /// `MPI_ERR_FILE_IN_USE`
    FileInUse,
    /// `MPI_ERR_DUP_DATAREP`
    DuplicateDatarep,
    /// `MPI_ERR_CONVERSION`
    Conversion,
    /// `MPI_ERR_IO`
    Io,
    /// `MPI_ERR_SESSION`
    Session,
    /// `MPI_ERR_PROC_ABORTED`
    ProcessAborted,
    /// `MPI_ERR_VALUE_TOO_LARGE`
    ValueTooLarge,
    /// `MPI_ERR_ERRHANDLER`
    ErrorHandler,
    /// `MPI_ERR_ABI`
    Abi,
}

/// On which side of a ready-mode message an error is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The task that sent it; the rank in the error is the receiver.
    Sender,
    /// The task that had not posted the receive; the rank in the error is the sender.
    Receiver,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sender => "to",
            Self::Receiver => "from",
        })
    }
}

/// What the tasks of a communicator disagree about in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Which collective it is.
    Call,
    /// Its root.
    Root,
    /// Its operator.
    Operator,
    /// How many bytes it is about.
    Length,
    /// Of what type its elements are.
    Datatype,
}

impl Difference {
    const fn class(self) -> ErrorClass {
        match self {
            Self::Call => ErrorClass::Other,
            Self::Root => ErrorClass::Root,
            Self::Operator => ErrorClass::Operation,
            Self::Length => ErrorClass::Count,
            Self::Datatype => ErrorClass::Type,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "the call",
            Self::Root => "the root",
            Self::Operator => "the operator",
            Self::Length => "the length",
            Self::Datatype => "the datatype",
        })
    }
}

/// Every error of this layer, with the values that the user needs.
#[expect(clippy::error_impl_error, reason = "there is one, and its crate says whose it is")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank that the communicator does not have.
    #[error("rank {rank} does not exist: the communicator has ranks 0 to {last}", last = size - 1)]
    UnknownRank {
        /// What was asked for.
        rank: u32,
        /// Ranks of the communicator.
        size: u32,
    },
    /// A root rank that the communicator does not have.
    #[error("root {root} does not exist: the communicator has ranks 0 to {last}", last = size - 1)]
    UnknownRoot {
        /// What was asked for.
        root: u32,
        /// Ranks of the communicator.
        size: u32,
    },
    /// A tag below 0 or above the largest one.
    #[error("tag {tag} is out of range: tags are 0 to {max}; to receive any tag use Tag::Any")]
    TagOutOfRange {
        /// What was asked for.
        tag: i32,
        /// The largest tag (`MPI_TAG_UB`).
        max: i32,
    },
    /// A message longer than the buffer that received it. The buffer holds the message's beginning.
    #[error(
        "a message of {sent} bytes from rank {source_rank} with tag {tag} met a receive of {capacity} bytes: receive with a longer buffer, or probe for the length first"
    )]
    Truncated {
        /// The sender's rank.
        source_rank: u32,
        /// The message's tag.
        tag: i32,
        /// Bytes sent.
        sent: u64,
        /// Bytes of the receive buffer.
        capacity: u64,
    },
    /// Tasks of a communicator disagree about a collective: all of them get this error. Detected if the setting `check_collectives` is on.
    #[error(
        "the tasks of this communicator disagree about {difference} of a collective: {calls}. All of them call the same collectives in the same order, with the same root, operator and datatype, and with lengths that fit"
    )]
    Mismatched {
        /// What is not the same.
        difference: Difference,
        /// Which tasks are in which collective.
        calls: Box<str>,
    },
    /// A ready-mode message whose receive had not been posted (MPI 4.1 section 3.4). Its data are lost.
    #[error(
        "a ready-mode message of {len} bytes {side} rank {peer} with tag {tag} came before its receive was posted: post the receive first, or send in standard mode"
    )]
    NotReady {
        /// Whose error this is.
        side: Side,
        /// The rank on the other side.
        peer: u32,
        /// The message's tag.
        tag: i32,
        /// Bytes sent.
        len: u64,
    },
    /// A buffered send without an attached buffer.
    #[error(
        "a buffered send of {len} bytes, and no buffer is attached: attach one of at least {needed} bytes"
    )]
    NoBuffer {
        /// Bytes of the message.
        len: u64,
        /// Bytes that the message takes in a buffer.
        needed: u64,
    },
    /// A buffered send that does not fit into the attached buffer.
    #[error(
        "a buffered send of {len} bytes takes {needed} bytes in one piece, and of the {attached} bytes attached {free} are free: attach a longer buffer, or receive the messages that wait in it"
    )]
    BufferExhausted {
        /// Bytes of the message.
        len: u64,
        /// Bytes that the message takes in a buffer.
        needed: u64,
        /// Bytes that are free, perhaps not in one piece.
        free: u64,
        /// Bytes of the buffer.
        attached: u64,
    },
    /// More operations under way than a setting allows.
    #[error(
        "{max} {what} are under way, and the setting {setting} allows no more: wait for some first, or raise it"
    )]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// As many are allowed.
        max: u64,
        /// The setting.
        setting: &'static str,
    },
    /// A second buffer was attached.
    #[error("a buffer of {attached} bytes is attached already: detach it first")]
    BufferAttached {
        /// Bytes of the buffer that is attached.
        attached: u64,
    },
    /// Buffers whose lengths do not fit together.
    #[error("{call}: {given} elements where {expected} are needed")]
    Count {
        /// The call.
        call: &'static str,
        /// Elements given.
        given: usize,
        /// Elements needed.
        expected: usize,
    },
    /// A length, a count or a displacement that is beyond 2^63 bytes.
    #[error("{call} would be longer than 2^63 bytes: use smaller counts")]
    TooLarge {
        /// What it was for.
        call: &'static str,
    },
    /// A rank that a group does not have.
    #[error("rank {rank} is not in the group, which has {size} ranks from 0 on")]
    NotInGroup {
        /// What was asked for.
        rank: i64,
        /// Ranks of the group.
        size: u32,
    },
    /// A rank that stands in a list twice.
    #[error("rank {rank} is named twice: a group has each task once")]
    TwiceInGroup {
        /// Which.
        rank: i64,
    },
    /// An argument that the call cannot do anything with.
    #[error("{call}: {what} (the value is {value})")]
    Refused {
        /// The error class.
        class: ErrorClass,
        /// The call.
        call: &'static str,
        /// What is wrong, and what to do.
        what: &'static str,
        /// What was given.
        value: i64,
    },
    /// Memory that all tasks of a window map cannot be allocated.
    #[error("memory that all tasks share is not to be had: {why}")]
    Unshareable {
        /// What the task that cannot make or map it says.
        why: String,
    },
    /// Elements outside a window, or in no piece of memory that is attached to it.
    #[error("{len} bytes at {offset} are not in the window of rank {rank}, which has {size} bytes")]
    OutsideWindow {
        /// Whose window.
        rank: u32,
        /// Bytes from the window's start.
        offset: i64,
        /// Bytes.
        len: u64,
        /// Bytes of the window.
        size: u64,
    },
    /// An address in a dynamic window without attached memory, or with too little.
    #[error(
        "{len} bytes at address {address:#x} are not attached to the window of rank {rank}, which has {pieces} pieces attached: \
         attach all of them, in one piece or in several that touch each other"
    )]
    NotAttached {
        /// Whose window.
        rank: u32,
        /// The address in that task.
        address: i64,
        /// Bytes.
        len: u64,
        /// Pieces that are attached there.
        pieces: u64,
    },
    /// A callback of the program has failed: an attribute's, for instance.
    #[error("{call}: the program's callback has failed with code {code}")]
    Callback {
        /// The call.
        call: &'static str,
        /// The callback's own code.
        code: i32,
    },
    /// A buffer that the call needs from this task was not given.
    #[error(
        "{what} is missing: only the root may have its data in place, and each task has to give what is its own"
    )]
    Missing {
        /// What.
        what: &'static str,
    },
    /// A reduction that is not defined for a type (MPI 5.0 section 6.9.2).
    #[error("{op} is not defined for {datatype}: use another type, or an operation of your own")]
    Undefined {
        /// The operation.
        op: &'static str,
        /// The type.
        datatype: &'static str,
    },
    /// A request that was waited for before, or that belongs to another environment.
    #[error("request {request:#x} does not exist (any more): each request is waited for once")]
    UnknownRequest {
        /// The request's number.
        request: u64,
    },
    /// A start of a request that cannot be started.
    #[error(
        "request {request:#x} cannot be started: it is {}",
        if *is_persistent { "under way, and must be waited for first" } else { "not persistent" }
    )]
    NotStartable {
        /// The request's number.
        request: u64,
        /// It is persistent, but under way.
        is_persistent: bool,
    },
    /// A partition of a partitioned request that does not exist, or that cannot be marked (again).
    #[error("partition {partition} of request {request:#x}, which has {partitions}: {what}")]
    Partition {
        /// The request's number.
        request: u64,
        /// What was asked for.
        partition: u64,
        /// Partitions of the request.
        partitions: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A matched message that was received before, or that belongs to another environment.
    #[error("matched message {message} does not exist (any more): each is received once")]
    UnknownMessage {
        /// The message's number.
        message: u64,
    },
    /// An invalid datatype, or a value that does not fit into its external form.
    #[error(transparent)]
    Datatype(#[from] mpi_datatype::Error),
    /// Fewer packed bytes than the elements need.
    #[error("{needed} bytes are to be unpacked, and there are {given}")]
    Packed {
        /// Bytes that the elements have.
        needed: u64,
        /// Bytes that are there.
        given: u64,
    },
    /// Elements outside the given memory.
    #[error("{count} elements lie in the bytes {from} to {to} of memory that has {len}")]
    Outside {
        /// Elements.
        count: u64,
        /// The first byte.
        from: i64,
        /// The byte behind the last.
        to: i64,
        /// Bytes of the memory.
        len: usize,
    },
    /// The operation was cancelled before a message matched it.
    #[error("the operation was cancelled before it met its message")]
    Cancelled,
    /// A call from inside another call (from a reduction's own operator, for instance).
    #[error("an MPI call was made from inside another one of the same environment: return from there first")]
    Nested,
    /// A call after [`Environment::finalize`](crate::Environment::finalize).
    #[error("the environment has been finalized: no call is possible any more")]
    Finalized,
    /// The progress thread cannot be started.
    #[error(
        "the thread that makes progress cannot be started: {error}; the system may allow no more threads"
    )]
    Thread {
        /// The system's error.
        error: std::io::Error,
    },
    /// A message that no correct peer sends.
    #[error("task {peer} broke the protocol: {what}")]
    Protocol {
        /// Who sent it.
        peer: u32,
        /// What was wrong.
        what: &'static str,
    },
    /// An error of am-core.
    #[error(transparent)]
    Core(#[from] am_core::error::Error),
}

impl Error {
    /// An argument that `call` cannot accept.
    #[cold]
    pub(crate) fn refused(class: ErrorClass, call: &'static str, what: &'static str, value: i64) -> Self {
        Self::Refused { class, call, what, value }
    }

    /// The MPI error class.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownRank { .. } | Self::NotInGroup { .. } | Self::TwiceInGroup { .. } => {
                ErrorClass::Rank
            }
            Self::Refused { class, .. } => *class,
            Self::OutsideWindow { .. } | Self::NotAttached { .. } => ErrorClass::RmaRange,
            Self::Unshareable { .. } => ErrorClass::RmaShared,
            Self::UnknownRoot { .. } => ErrorClass::Root,
            Self::TagOutOfRange { .. } => ErrorClass::Tag,
            Self::Truncated { .. } => ErrorClass::Truncate,
            Self::Mismatched { difference, .. } => difference.class(),
            Self::NoBuffer { .. } | Self::BufferExhausted { .. } | Self::BufferAttached { .. } => {
                ErrorClass::Buffer
            }
            Self::Count { .. } | Self::TooLarge { .. } => ErrorClass::Count,
            Self::Undefined { .. } => ErrorClass::Operation,
            Self::Missing { .. } => ErrorClass::Buffer,
            Self::UnknownRequest { .. } | Self::NotStartable { .. } | Self::UnknownMessage { .. } => {
                ErrorClass::Request
            }
            Self::Partition { .. } | Self::Outside { .. } | Self::Packed { .. } => ErrorClass::Argument,
            Self::Datatype(error) => match error {
                mpi_datatype::Error::Count { .. } | mpi_datatype::Error::TooLarge { .. } => ErrorClass::Count,
                mpi_datatype::Error::Conversion { .. } => ErrorClass::Conversion,
                _ => ErrorClass::Argument,
            },
            Self::Thread { .. } => ErrorClass::Other,
            Self::TooMany { .. }
            | Self::NotReady { .. }
            | Self::Cancelled
            | Self::Nested
            | Self::Finalized
            | Self::Callback { .. } => ErrorClass::Other,
            Self::Protocol { .. } => ErrorClass::Intern,
            Self::Core(error) => match error.fault() {
                Fault::Caller => ErrorClass::Intern,
                Fault::Peer | Fault::Resource | Fault::System => ErrorClass::Other,
            },
        }
    }

    /// Whom this error blames.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::UnknownRank { .. }
            | Self::UnknownRoot { .. }
            | Self::TagOutOfRange { .. }
            | Self::NoBuffer { .. }
            | Self::BufferAttached { .. }
            | Self::Count { .. }
            | Self::TooLarge { .. }
            | Self::NotInGroup { .. }
            | Self::TwiceInGroup { .. }
            | Self::Refused { .. }
            | Self::OutsideWindow { .. }
            | Self::NotAttached { .. }
            | Self::Callback { .. }
            | Self::Undefined { .. }
            | Self::Missing { .. }
            | Self::UnknownRequest { .. }
            | Self::NotStartable { .. }
            | Self::Partition { .. }
            | Self::UnknownMessage { .. }
            | Self::Outside { .. }
            | Self::Datatype(_)
            | Self::Packed { .. }
            | Self::Cancelled
            | Self::Nested
            | Self::Finalized
            | Self::Truncated { .. }
            | Self::Mismatched { .. }
            | Self::NotReady { side: Side::Sender, .. } => Fault::Caller,
            Self::NotReady { side: Side::Receiver, .. } | Self::Protocol { .. } => Fault::Peer,
            Self::BufferExhausted { .. } | Self::TooMany { .. } => Fault::Resource,
            Self::Thread { .. } | Self::Unshareable { .. } => Fault::System,
            Self::Core(error) => error.fault(),
        }
    }
}
