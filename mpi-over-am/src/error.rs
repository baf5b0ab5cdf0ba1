//! Errors of MPI calls, by MPI's error classes and by the party at fault.

use std::fmt;

pub use am_core::error::Fault;

/// The result of an MPI call. Errors are values: no error aborts the job by itself.
pub type Result<T> = std::result::Result<T, Error>;

macro_rules! error_classes {
    ($($(#[$text:meta])* $class:ident,)*) => {
        /// MPI's error classes (MPI 5.0 section 9.4).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorClass {
            $($(#[$text])* $class,)*
        }

        impl ErrorClass {
            /// All classes, each at the place of its number.
            pub const ALL: &[Self] = &[$(Self::$class,)*];
        }
    };
}

error_classes! {
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
    /// `MPIX_ERR_PROC_FAILED`: a task that the operation needs has failed.
    TaskFailed,
    /// `MPIX_ERR_PROC_FAILED_PENDING`: a receive from any source may wait for a task that has failed.
    TaskFailedPending,
    /// `MPIX_ERR_REVOKED`: the communicator was revoked.
    Revoked,
}

impl ErrorClass {
    /// The class as a word, by which one task tells it to another.
    pub(crate) const fn to_word(self) -> u64 {
        self as u64
    }

    /// The class that another task has told; [`Unknown`](Self::Unknown) for a word that stands for none.
    pub(crate) fn of_word(word: u64) -> Self {
        let class = usize::try_from(word).ok().and_then(|number| Self::ALL.get(number));
        class.copied().unwrap_or(Self::Unknown)
    }
}

/// Whether the sender or the receiver of a ready-mode message reports an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The task that sent the message. The rank in the error is the receiver.
    Sender,
    /// The task without a posted receive. The rank in the error is the sender.
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

/// The property of a collective about which the tasks disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The collective itself.
    Call,
    /// The collective's root.
    Root,
    /// The collective's operator.
    Operator,
    /// The collective's length in bytes.
    Length,
    /// The type of the collective's elements.
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
#[expect(clippy::error_impl_error, reason = "the crate has only one, named by its path")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank that the communicator does not have.
    #[error("rank {rank} does not exist: the communicator has ranks 0 to {last}", last = size - 1)]
    UnknownRank {
        /// The rank that was named.
        rank: u32,
        /// Number of ranks in the communicator.
        size: u32,
    },
    /// A root rank that the communicator does not have.
    #[error("root {root} does not exist: the communicator has ranks 0 to {last}", last = size - 1)]
    UnknownRoot {
        /// The rank that was named.
        root: u32,
        /// Number of ranks in the communicator.
        size: u32,
    },
    /// A tag below 0 or above the largest one.
    #[error("tag {tag} is out of range: tags are 0 to {max}; to receive any tag, use Tag::Any (MPI_ANY_TAG)")]
    TagOutOfRange {
        /// The tag that was named.
        tag: i32,
        /// The largest tag (`MPI_TAG_UB`).
        max: i32,
    },
    /// A message longer than its receive buffer, which holds the beginning of the message.
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
    /// Tasks of a communicator disagree about a collective. All of them get this error. Detected if the setting `check_collectives` is on.
    #[error(
        "the tasks of this communicator disagree about {difference} of a collective: {calls}. All tasks must call the same collectives in the same order, with the same root, operator and datatype, and with matching lengths"
    )]
    Mismatched {
        /// The property that differs.
        difference: Difference,
        /// The tasks in each collective.
        calls: Box<str>,
    },
    /// A part of a collective with another length than the task expects: the tasks disagree about the collective.
    #[error(
        "{sent} bytes{} met a receive of {expected} bytes in a collective: the tasks are in different collectives, or disagree about \
         its length, datatype or root; with AM_CHECK_COLLECTIVES=on the error says what each task calls",
        source_rank.map_or_else(String::new, |rank| format!(" from rank {rank}"))
    )]
    UnequalParts {
        /// The sender's rank, if it is known.
        source_rank: Option<u32>,
        /// Bytes sent.
        sent: u64,
        /// Bytes that this task expects.
        expected: u64,
    },
    /// A ready-mode message arrived before its receive was posted (MPI 5.0 section 3.4). Its data are lost.
    #[error(
        "a ready-mode message of {len} bytes {side} rank {peer} with tag {tag} arrived before its receive was posted: post the receive first, or send in standard mode"
    )]
    NotReady {
        /// The side on which the error is reported.
        side: Side,
        /// The rank of the receiver, or of the sender if the receiver reports the error.
        peer: u32,
        /// The message's tag.
        tag: i32,
        /// Bytes sent.
        len: u64,
    },
    /// A buffered send without an attached buffer.
    #[error(
        "a buffered send of {len} bytes without an attached buffer: attach one of at least {needed} bytes"
    )]
    NoBuffer {
        /// Bytes of the message.
        len: u64,
        /// Bytes that the message takes in a buffer.
        needed: u64,
    },
    /// A buffered send that does not fit into the attached buffer.
    #[error(
        "a buffered send of {len} bytes needs {needed} contiguous bytes, and {free} of the {attached} bytes attached are free: attach a longer buffer, or receive the messages in it"
    )]
    BufferExhausted {
        /// Bytes of the message.
        len: u64,
        /// Bytes that the message takes in a buffer.
        needed: u64,
        /// Bytes that are free, not necessarily contiguous.
        free: u64,
        /// Bytes of the buffer.
        attached: u64,
    },
    /// More operations under way than a setting allows.
    #[error(
        "{max} {what} are under way, the maximum of the setting {setting}: wait for some first, or raise the setting"
    )]
    TooMany {
        /// The kind of operation.
        what: &'static str,
        /// Maximum number.
        max: u64,
        /// The setting.
        setting: &'static str,
    },
    /// A second buffer was attached.
    #[error("a buffer of {attached} bytes is already attached: detach it first")]
    BufferAttached {
        /// Bytes of the buffer that is attached.
        attached: u64,
    },
    /// Buffers whose lengths do not match.
    #[error("{call}: {given} elements instead of {expected}")]
    Count {
        /// The call.
        call: &'static str,
        /// Number of elements given.
        given: usize,
        /// Number of elements needed.
        expected: usize,
    },
    /// A task's part for itself that has another length than the memory that receives it.
    #[error("{call}: {given} bytes instead of {expected}")]
    PartLength {
        /// The call, and the part.
        call: &'static str,
        /// Bytes sent.
        given: u64,
        /// Bytes that the receive memory takes.
        expected: u64,
    },
    /// A length, count or displacement beyond 2^63 bytes.
    #[error("{call} exceeds 2^63 bytes: use smaller counts")]
    TooLarge {
        /// The call, or the object.
        call: &'static str,
    },
    /// A rank that a group does not have.
    #[error("rank {rank} is not in the group, which has {size} ranks from 0 on")]
    NotInGroup {
        /// The rank that was named.
        rank: i64,
        /// Number of ranks in the group.
        size: u32,
    },
    /// A rank that is in a list twice.
    #[error("rank {rank} is listed twice: a group has each task once")]
    TwiceInGroup {
        /// The rank.
        rank: i64,
    },
    /// An argument that the call rejects.
    #[error("{call}: {}", Shown(what, *value))]
    Refused {
        /// The error class.
        class: ErrorClass,
        /// The call.
        call: &'static str,
        /// What is wrong, and what to do.
        what: &'static str,
        /// The value of the argument; `None` if no single argument is at fault.
        value: Option<i64>,
    },
    /// No more memory can be shown to other tasks, so that a window cannot be made.
    #[error(
        "this task shows {max} pieces of memory to other tasks, the maximum (a window takes one or two, attached memory one): free windows, or detach memory"
    )]
    TooManyWindows {
        /// Maximum number of pieces.
        max: u32,
    },
    /// A call about a file that the library or the system rejects.
    #[error("the file {path}: {what}")]
    File {
        /// The error class.
        class: ErrorClass,
        /// The file's name, as the program has given it.
        path: Box<str>,
        /// What is wrong, and what to do.
        what: Box<str>,
    },
    /// Memory cannot be attached to a dynamic window, because something is used up.
    #[error("the memory cannot be attached: {why}")]
    Unattachable {
        /// What is used up, and what helps.
        why: String,
    },
    /// Memory that all tasks of a window share cannot be allocated.
    #[error("memory shared by all tasks cannot be allocated: {why}")]
    Unshareable {
        /// Why the memory cannot be allocated.
        why: String,
    },
    /// Elements that are not inside a task's part of a window.
    #[error("{len} bytes at {offset} are not in the window of rank {rank}, which has {size} bytes")]
    OutsideWindow {
        /// The rank that owns the part of the window.
        rank: u32,
        /// Bytes from the window's start.
        offset: i64,
        /// Length of the elements in bytes.
        len: u64,
        /// Bytes of the window.
        size: u64,
    },
    /// Bytes of a dynamic window that are not all in attached memory.
    #[error(
        "{len} bytes at address {address:#x} are not attached to the window of rank {rank}, which has {pieces} pieces attached: \
         attach all of them, in one piece or in several that touch each other"
    )]
    NotAttached {
        /// The rank that owns the part of the window.
        rank: u32,
        /// The address in that task.
        address: i64,
        /// Length of the elements in bytes.
        len: u64,
        /// Number of pieces attached there.
        pieces: u64,
    },
    /// A callback of the program, such as an attribute's, failed.
    #[error("{call}: the program's callback failed with code {code}")]
    Callback {
        /// The call.
        call: &'static str,
        /// The callback's own code.
        code: i32,
    },
    /// A buffer that this task has to pass to the call is missing.
    #[error("{what} is missing: only the root may use MPI_IN_PLACE, and each task has to pass its own data")]
    Missing {
        /// The missing buffer.
        what: &'static str,
    },
    /// A reduction that is not defined for a type (MPI 5.0 section 6.9.2).
    #[error(
        "{op} is not defined for {datatype}: use another operation, another type, or a user-defined operation"
    )]
    Undefined {
        /// The operation.
        op: &'static str,
        /// The type.
        datatype: &'static str,
    },
    /// A request that was already waited for, or that belongs to another environment.
    #[error(
        "request {request:#x} does not exist: it was already waited for, or belongs to another environment"
    )]
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
        /// Whether the request is persistent. If so, it is already under way.
        is_persistent: bool,
    },
    /// A partition that does not exist, or that cannot be marked ready.
    #[error("partition {partition} of request {request:#x} with {partitions} partitions: {what}")]
    Partition {
        /// The request's number.
        request: u64,
        /// The partition that was named.
        partition: u64,
        /// Number of partitions of the request.
        partitions: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A matched message that was already received, or that belongs to another environment.
    #[error(
        "matched message {message} does not exist: it was already received, or belongs to another environment"
    )]
    UnknownMessage {
        /// The message's number.
        message: u64,
    },
    /// An invalid datatype, or a value that does not fit into its external form.
    #[error(transparent)]
    Datatype(#[from] mpi_datatype::Error),
    /// Fewer packed bytes than the elements need.
    #[error("unpacking needs {needed} bytes, and there are {given}")]
    Packed {
        /// Bytes that the elements have.
        needed: u64,
        /// Bytes given.
        given: u64,
    },
    /// Elements outside the given memory.
    #[error("{count} elements from byte {from} up to byte {to} do not lie inside the memory of {len} bytes")]
    Outside {
        /// Number of elements.
        count: u64,
        /// The first byte.
        from: i64,
        /// The byte after the last.
        to: i64,
        /// Bytes of the memory.
        len: usize,
    },
    /// A wait for a receive from any source, after a task has failed that could have sent the message. The receive is still posted.
    #[error(
        "a receive from any source may wait for a task that has failed; the receive goes on: acknowledge the failure \
         (failure_ack), and wait again for messages of the others, or cancel the receive"
    )]
    ReceiveInDoubt,
    /// An operation on a revoked communicator.
    #[error(
        "the communicator was revoked (task {told_by} has told it): only agree, shrink and the questions about failures work on it; \
         shrink makes a communicator of the tasks that have not failed"
    )]
    Revoked {
        /// The task from which this one has learned it.
        told_by: u32,
    },
    /// Tasks could not be started, or a port or name is not there. Contains the name of the program, or of what was asked for.
    #[error("{what}")]
    Processes {
        /// The class.
        class: ErrorClass,
        /// The reason.
        what: String,
    },
    /// The operation was cancelled before it was matched.
    #[error("the operation was cancelled before it was matched")]
    Cancelled,
    /// A call from inside another call, for instance from a user-defined operator.
    #[error("an MPI call was made inside another call of the same environment: return from that call first")]
    Nested,
    /// A call after [`Environment::finalize`](crate::Environment::finalize).
    #[error("the environment was finalized: no further calls are possible")]
    Finalized,
    /// A thread of the library cannot be started, or has ended.
    #[error("a thread of the library cannot run: {error}; the system may allow no more threads")]
    Thread {
        /// The system's error.
        error: std::io::Error,
    },
    /// A message that no correct peer sends.
    #[error("task {peer} broke the protocol: {what}")]
    Protocol {
        /// The number of the task that sent it.
        peer: u32,
        /// What was wrong.
        what: &'static str,
    },
    /// The tasks of a group have agreed on a context id for their new communicator that no correct task proposes.
    #[error(
        "a task of the group broke the protocol: it proposed {number} as the context id of a communicator"
    )]
    ContextId {
        /// The number.
        number: u64,
    },
    /// An error of am-core.
    #[error(transparent)]
    Core(am_core::error::Error),
}

impl From<am_core::error::Error> for Error {
    fn from(error: am_core::error::Error) -> Self {
        match error {
            am_core::error::Error::TooManyRegions { max } => Self::TooManyWindows { max },
            error => Self::Core(error),
        }
    }
}

/// What is wrong with an argument, and its value. A text that ends with "; the value is NAME" says what the value is.
struct Shown<'a>(&'a str, Option<i64>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.1, self.0.split_once("; the value is ")) {
            (Some(value), Some((what, name))) => write!(f, "{what} ({name}: {value})"),
            (Some(value), None) => write!(f, "{} (the value is {value})", self.0),
            (None, _) => f.write_str(self.0),
        }
    }
}

impl Error {
    /// The error for a wrong number of elements or bytes.
    #[cold]
    pub(crate) fn count(call: &'static str, given: u64, expected: u64) -> Self {
        let [given, expected] = [given, expected].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Self::Count { call, given, expected }
    }

    /// The error for an argument that `call` rejects, or for a call that is not allowed now.
    #[cold]
    pub(crate) fn refused(
        class: ErrorClass,
        call: &'static str,
        what: &'static str,
        value: impl Into<Option<i64>>,
    ) -> Self {
        Self::Refused { class, call, what, value: value.into() }
    }

    /// The MPI error class.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownRank { .. } | Self::NotInGroup { .. } | Self::TwiceInGroup { .. } => {
                ErrorClass::Rank
            }
            Self::Refused { class, .. } | Self::File { class, .. } | Self::Processes { class, .. } => *class,
            Self::OutsideWindow { .. } | Self::NotAttached { .. } => ErrorClass::RmaRange,
            Self::Unshareable { .. } => ErrorClass::RmaShared,
            Self::Unattachable { .. } => ErrorClass::RmaAttach,

            Self::UnknownRoot { .. } => ErrorClass::Root,
            Self::TagOutOfRange { .. } => ErrorClass::Tag,
            Self::Truncated { .. } => ErrorClass::Truncate,
            Self::UnequalParts { sent, expected, .. } if sent > expected => ErrorClass::Truncate,
            Self::UnequalParts { .. } => ErrorClass::Count,
            Self::Mismatched { difference, .. } => difference.class(),
            Self::NoBuffer { .. } | Self::BufferExhausted { .. } | Self::BufferAttached { .. } => {
                ErrorClass::Buffer
            }
            Self::Count { .. } | Self::PartLength { .. } | Self::TooLarge { .. } => ErrorClass::Count,
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
            | Self::TooManyWindows { .. }
            | Self::NotReady { .. }
            | Self::Cancelled
            | Self::Nested
            | Self::Finalized
            | Self::Callback { .. } => ErrorClass::Other,
            Self::Protocol { .. } | Self::ContextId { .. } => ErrorClass::Intern,
            Self::ReceiveInDoubt => ErrorClass::TaskFailedPending,
            Self::Revoked { .. } => ErrorClass::Revoked,
            Self::Core(
                am_core::error::Error::PeerFailed { .. } | am_core::error::Error::ContextClosed { .. },
            ) => ErrorClass::TaskFailed,
            Self::Core(error) => match error.fault() {
                Fault::Caller => ErrorClass::Intern,
                Fault::Peer | Fault::Resource | Fault::System => ErrorClass::Other,
            },
        }
    }

    /// The task whose failure caused the error (its rank in the world), if the error says so.
    #[must_use]
    pub fn failed_task(&self) -> Option<u32> {
        match self {
            Self::Core(am_core::error::Error::PeerFailed { task, .. }) => Some(task.0),
            Self::Core(am_core::error::Error::ContextClosed { endpoint, .. }) => Some(endpoint.task.0),
            _ => None,
        }
    }

    /// The party that this error blames.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::UnknownRank { .. }
            | Self::UnknownRoot { .. }
            | Self::TagOutOfRange { .. }
            | Self::NoBuffer { .. }
            | Self::BufferAttached { .. }
            | Self::Count { .. }
            | Self::PartLength { .. }
            | Self::TooLarge { .. }
            | Self::NotInGroup { .. }
            | Self::TwiceInGroup { .. }
            | Self::Refused { .. }
            | Self::Processes { .. }
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
            | Self::UnequalParts { .. }
            | Self::Mismatched { .. }
            | Self::NotReady { side: Side::Sender, .. } => Fault::Caller,
            Self::ReceiveInDoubt
            | Self::Revoked { .. }
            | Self::NotReady { side: Side::Receiver, .. }
            | Self::Protocol { .. }
            | Self::ContextId { .. } => Fault::Peer,
            Self::BufferExhausted { .. }
            | Self::TooMany { .. }
            | Self::TooManyWindows { .. }
            | Self::Unattachable { .. } => Fault::Resource,
            Self::File { class, .. } => match class {
                ErrorClass::NoSpace | ErrorClass::Quota | ErrorClass::NoMemory => Fault::Resource,
                ErrorClass::Io | ErrorClass::Access | ErrorClass::FileInUse => Fault::System,
                _ => Fault::Caller,
            },
            Self::Thread { .. } | Self::Unshareable { .. } => Fault::System,
            Self::Core(error) => error.fault(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_shown_memory_is_told_in_words_of_mpi() {
        let error = Error::from(am_core::error::Error::TooManyRegions { max: 3 });
        let told = error.to_string();
        assert!(told.contains("3 pieces of memory") && told.contains("free windows"), "{told}");
        assert_eq!(error.fault(), Fault::Resource);
    }
}
