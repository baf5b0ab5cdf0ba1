//! What VIPL calls return when they fail (`VIP_RETURN`), and what happened without a call (`VIP_ERROR_CODE`).
//!
//! `VIP_NOT_DONE` is not an error: "not yet" is an outcome. The error of a descriptor is in its status.

use std::time::Duration;

use crate::descriptor::Descriptor;
use crate::handle::{CqHandle, ViHandle};
use crate::provider::RegistrationFault;
use am_via_nic::device::{DeviceError, Endpoint};
use am_via_nic::{Reliability, ViState};

/// The party that an error blames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call was wrong: fix the program.
    Caller,
    /// The task at the other end.
    Peer,
    /// A resource is exhausted.
    Resource,
    /// The operating system, or the job's files.
    System,
}

/// The error of a call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VipError {
    /// A number out of its range (`VIP_INVALID_PARAMETER`).
    #[error("{what} was {given}; it must be {least} to {most}")]
    InvalidParameter {
        /// The parameter.
        what: &'static str,
        /// The value given.
        given: u64,
        /// Minimum.
        least: u64,
        /// Maximum.
        most: u64,
    },
    /// A handle of an object that does not exist or was destroyed (`VIP_INVALID_PARAMETER`).
    #[error("the {what} does not exist: it was destroyed, or belongs to another NIC")]
    UnknownHandle {
        /// The kind of object.
        what: &'static str,
    },
    /// A NIC that this task does not have (`VIP_INVALID_PARAMETER`).
    #[error("there is no NIC {name:?}: a task has shm0 to shm{last}")]
    UnknownNic {
        /// The name.
        name: String,
        /// The number of the task's last NIC.
        last: u32,
    },
    /// A NIC that was already opened by name, or is used by a context (`VIP_ERROR_RESOURCE`).
    #[error(
        "NIC {name:?} of this task was already opened, and each can be opened once: use another of shm0 to shm{last}"
    )]
    NicTaken {
        /// The name.
        name: String,
        /// The number of the task's last NIC.
        last: u32,
    },
    /// An object that is still in use (`VIP_ERROR_RESOURCE`).
    #[error("the {what} is still in use (users: {users}): end those uses first")]
    InUse {
        /// The kind of object.
        what: &'static str,
        /// Number of users of the object.
        users: u32,
    },
    /// A limit of the NIC is reached, or no memory is left (`VIP_ERROR_RESOURCE`).
    #[error("no more {resource}{}: {remedy}", limit_of(*available))]
    ErrorResource {
        /// The resource.
        resource: &'static str,
        /// The limit; 0 for memory.
        available: u64,
        /// What the user can do.
        remedy: &'static str,
    },
    /// The time limit has passed (`VIP_TIMEOUT`).
    #[error(
        "nothing arrived within the time limit of {0:?}: wait longer, or check whether the peer still runs"
    )]
    Timeout(Duration),
    /// The peer refused the connection, withdrew its request, or ended the connection (`VIP_REJECT`).
    #[error("{} (context {}) refused or ended the connection", .peer.task, .peer.context)]
    Reject {
        /// The peer.
        peer: Endpoint,
    },
    /// The two VIs have different reliability levels (`VIP_INVALID_RELIABILITY_LEVEL`).
    #[error("this VI has the level {ours}, the peer's has {}: create both with the same level", named(.theirs))]
    InvalidReliabilityLevel {
        /// The level of this side's VI.
        ours: Reliability,
        /// The level of the peer's VI; `None`: the peer claims a level that does not exist.
        theirs: Option<Reliability>,
    },
    /// The two VIs have different maximum transfer sizes (`VIP_INVALID_MTU`).
    #[error(
        "this VI takes transfers of up to {ours} bytes, the peer's of up to {theirs}: create both with the same maximum"
    )]
    InvalidMtu {
        /// The maximum transfer size of this side's VI, in bytes.
        ours: u32,
        /// The maximum transfer size of the peer's VI, in bytes.
        theirs: u32,
    },
    /// The two VIs have different qualities of service (`VIP_INVALID_QOS`).
    #[error("this VI has quality of service {ours}, the peer's {theirs}: create both with the same")]
    InvalidQos {
        /// The quality of this side's VI.
        ours: u16,
        /// The quality of the peer's VI.
        theirs: u16,
    },
    /// No program waits at the requested endpoint (`VIP_NO_MATCH`).
    #[error(
        "no program waits at this endpoint of {} (context {}): try again when one waits",
        .peer.task, .peer.context
    )]
    NoMatch {
        /// The NIC.
        peer: Endpoint,
    },
    /// RDMA reads on an unreliable VI (`VIP_INVALID_RDMAREAD`).
    #[error("an unreliable VI has no RDMA reads: choose a reliable level, or set rdma_read to false")]
    InvalidRdmaRead,
    /// The VI's state does not allow the call (`VIP_INVALID_STATE`).
    #[error("{call}: this VI is {state:?}, and must be {needed}")]
    InvalidState {
        /// The call.
        call: &'static str,
        /// The state that the call needs.
        needed: &'static str,
        /// The state found.
        state: ViState,
    },
    /// No NIC has this name (`VIP_ERROR_NAMESERVICE`).
    #[error(
        "{name:?}, NIC {index}, is not in this job; names are task0 to task{last}, or task0.1 for a second context"
    )]
    NameService {
        /// The name.
        name: String,
        /// The index of the NIC.
        index: u32,
        /// The number of the last task.
        last: u32,
    },
    /// The name service is not in the state that the call needs (`VIP_ERROR_NAMESERVICE`).
    #[error("the name service of this NIC is {}", if *.is_started { "started already" } else { "not started: call ns_init" })]
    NameServiceState {
        /// Whether the service is started.
        is_started: bool,
    },
    /// The peer is dead.
    #[error("task {task} has died{}", if how.is_empty() { String::new() } else { format!(" ({how})") })]
    PeerFailed {
        /// The task.
        task: u32,
        /// How the peer died, if known.
        how: String,
    },
    /// An error of a tag or a registration.
    #[error(transparent)]
    Registration(#[from] RegistrationFault),
    /// An error of the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The reliability level that a peer claims.
fn named(level: &Option<Reliability>) -> String {
    level.map_or_else(|| "one that does not exist".to_owned(), |level| level.to_string())
}

impl VipError {
    /// The party at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Reject { .. } | Self::NoMatch { .. } | Self::PeerFailed { .. } | Self::Timeout(_) => {
                Fault::Peer
            }
            Self::ErrorResource { .. }
            | Self::Registration(RegistrationFault::NoTagLeft(_) | RegistrationFault::NoBytesLeft { .. }) => {
                Fault::Resource
            }
            Self::Device(error) | Self::Registration(RegistrationFault::Device(error)) => device_fault(error),
            _ => Fault::Caller,
        }
    }
}

/// The limit of a resource, in parentheses. Memory has none.
fn limit_of(available: u64) -> String {
    if available == 0 { String::new() } else { format!(" (limit: {available})") }
}

/// The codes of VIPL's calls (`VIP_RETURN`). Not among them: `VIP_SUCCESS` and `VIP_NOT_DONE`, which are outcomes, and
/// `VIP_DESCRIPTOR_ERROR`, which is in the descriptor's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VipReturn {
    /// `VIP_INVALID_PARAMETER`.
    InvalidParameter,
    /// `VIP_ERROR_RESOURCE`.
    ErrorResource,
    /// `VIP_TIMEOUT`.
    Timeout,
    /// `VIP_REJECT`.
    Reject,
    /// `VIP_INVALID_RELIABILITY_LEVEL`.
    InvalidReliabilityLevel,
    /// `VIP_INVALID_MTU`.
    InvalidMtu,
    /// `VIP_INVALID_QOS`.
    InvalidQos,
    /// `VIP_INVALID_PTAG`.
    InvalidPtag,
    /// `VIP_INVALID_RDMAREAD`.
    InvalidRdmaRead,
    /// `VIP_INVALID_STATE`.
    InvalidState,
    /// `VIP_ERROR_NAMESERVICE`.
    ErrorNameService,
    /// `VIP_NO_MATCH`.
    NoMatch,
}

impl VipError {
    /// VIPL's code for this error.
    #[must_use]
    pub fn vip_return(&self) -> VipReturn {
        match self {
            Self::InvalidParameter { .. } | Self::UnknownHandle { .. } | Self::UnknownNic { .. } => {
                VipReturn::InvalidParameter
            }
            Self::InUse { .. } | Self::NicTaken { .. } | Self::ErrorResource { .. } => {
                VipReturn::ErrorResource
            }
            Self::Timeout(_) => VipReturn::Timeout,
            Self::Reject { .. } | Self::PeerFailed { .. } => VipReturn::Reject,
            Self::InvalidReliabilityLevel { .. } => VipReturn::InvalidReliabilityLevel,
            Self::InvalidMtu { .. } => VipReturn::InvalidMtu,
            Self::InvalidQos { .. } => VipReturn::InvalidQos,
            Self::NoMatch { .. } => VipReturn::NoMatch,
            Self::InvalidRdmaRead => VipReturn::InvalidRdmaRead,
            Self::InvalidState { .. } => VipReturn::InvalidState,
            Self::NameService { .. } | Self::NameServiceState { .. } => VipReturn::ErrorNameService,
            Self::Registration(fault) => registration_return(fault),
            Self::Device(error) => device_return(error),
        }
    }
}

fn registration_return(fault: &RegistrationFault) -> VipReturn {
    match fault {
        RegistrationFault::UnknownTag(_) => VipReturn::InvalidPtag,
        RegistrationFault::UnknownHandle(_) | RegistrationFault::Range { .. } => VipReturn::InvalidParameter,
        RegistrationFault::TagInUse { .. }
        | RegistrationFault::NoTagLeft(_)
        | RegistrationFault::NoBytesLeft { .. } => VipReturn::ErrorResource,
        RegistrationFault::Device(error) => device_return(error),
    }
}

fn device_return(error: &DeviceError) -> VipReturn {
    match error {
        DeviceError::NoSuchEndpoint(_) | DeviceError::Refused(_) => VipReturn::InvalidParameter,
        DeviceError::NotConnected(_) | DeviceError::Closed(_) | DeviceError::PeerClosed(_) => {
            VipReturn::InvalidState
        }
        DeviceError::ContextOpen { .. }
        | DeviceError::ContextUsed { .. }
        | DeviceError::Exhausted { .. }
        | DeviceError::TooManyRegistrations { .. }
        | DeviceError::Damaged { .. }
        | DeviceError::System { .. } => VipReturn::ErrorResource,
    }
}

fn device_fault(error: &DeviceError) -> Fault {
    match error {
        DeviceError::NoSuchEndpoint(_)
        | DeviceError::ContextOpen { .. }
        | DeviceError::ContextUsed { .. } => Fault::Caller,
        DeviceError::Exhausted { .. } | DeviceError::TooManyRegistrations { .. } => Fault::Resource,
        DeviceError::System { .. } => Fault::System,
        _ => Fault::Peer,
    }
}

/// A post that was refused, with its descriptor.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PostError {
    /// The error.
    #[source]
    pub error: VipError,
    /// The descriptor.
    pub descriptor: Box<Descriptor>,
}

/// The object of an asynchronous error (`VIP_RESOURCE_CODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The VI.
    Vi,
    /// The completion queue of one of the VI's work queues.
    CompletionQueue(CqHandle),
}

/// An error that no call returned (`VipErrorCallback`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncError {
    /// The object.
    pub resource: Resource,
    /// The VI concerned.
    pub vi: ViHandle,
    /// The error code.
    pub code: AsyncCode,
}

/// The cause of an asynchronous error (`VIP_ERROR_CODE`).
///
/// VIA's other codes cannot occur here: the type of a descriptor guarantees its location and alignment, a full work queue refuses the post,
/// completions are not written to registered memory, and data are not corrupted in transit. An interrupted write or read ends with its
/// connection, and a NIC that has failed returns an error from each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncCode {
    /// The connection is lost: the peer has disconnected or died, or one side broke the protocol.
    ConnectionLost,
    /// Data arrived while no receive was posted.
    ReceiveQueueEmpty,
    /// A completion queue was full.
    CompletionOverrun,
    /// A peer's RDMA write was refused.
    RdmaWriteProtection,
    /// A peer's RDMA read was refused.
    RdmaReadProtection,
}
