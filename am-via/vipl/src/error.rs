//! What VIPL calls return when they fail (`VIP_RETURN`), and what happened without a call (`VIP_ERROR_CODE`).
//!
//! `VIP_NOT_DONE` is not among them: "not yet" is an outcome. An error of one descriptor is in its status.

use std::time::Duration;

use crate::descriptor::Descriptor;
use crate::device::{DeviceError, NodeAddress};
use crate::provider::RegistrationFault;
use crate::table::{CqHandle, ViHandle};
use crate::vi::{Reliability, ViState};

/// Whom an error blames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call was wrong: mend the program.
    Caller,
    /// The task at the other end.
    Peer,
    /// Something ran out.
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
        /// Of what.
        what: &'static str,
        /// The number given.
        given: u64,
        /// The least that is allowed.
        least: u64,
        /// The most that is allowed.
        most: u64,
    },
    /// A handle of an object that does not exist, or not any more (`VIP_INVALID_PARAMETER`).
    #[error("the {what} does not exist (any more)")]
    UnknownHandle {
        /// What kind of object.
        what: &'static str,
    },
    /// A NIC that this task does not have (`VIP_INVALID_PARAMETER`).
    #[error("there is no NIC {name:?}: a task has shm0 to shm{last}")]
    UnknownNic {
        /// The name.
        name: String,
        /// The number of the last one.
        last: u32,
    },
    /// A NIC that is opened by name or used by a context already, or was (`VIP_ERROR_RESOURCE`).
    #[error(
        "NIC {name:?} of this task was opened before, and each is opened once: take another of shm0 to shm{last}"
    )]
    NicTaken {
        /// The name.
        name: String,
        /// The number of the last one.
        last: u32,
    },
    /// An object that others still need (`VIP_ERROR_RESOURCE`).
    #[error("the {what} is still in use by {users} others: end those first")]
    InUse {
        /// What kind of object.
        what: &'static str,
        /// By how many.
        users: u32,
    },
    /// A limit of the NIC is reached (`VIP_ERROR_RESOURCE`).
    #[error("all {available} {resource} of this NIC are in use: {remedy}")]
    ErrorResource {
        /// Of what.
        resource: &'static str,
        /// How many there are.
        available: u64,
        /// What a person can do.
        remedy: &'static str,
    },
    /// The time is over (`VIP_TIMEOUT`).
    #[error("nothing came within {0:?}")]
    Timeout(Duration),
    /// The peer has refused the connection, or gave it up (`VIP_REJECT`).
    #[error("task {} (context {}) refused the connection", .peer.task, .peer.context)]
    Reject {
        /// Who.
        peer: NodeAddress,
    },
    /// The two VIs have different reliability levels (`VIP_INVALID_RELIABILITY_LEVEL`).
    #[error("this VI is {ours:?}, the peer's is {theirs:?}: open both with the same level")]
    InvalidReliabilityLevel {
        /// Of this side.
        ours: Reliability,
        /// Of the other side.
        theirs: Option<Reliability>,
    },
    /// The two VIs have different transfer sizes (`VIP_INVALID_MTU`).
    #[error("this VI takes transfers of {ours} bytes, the peer's of {theirs}: open both with the same")]
    InvalidMtu {
        /// Of this side, in bytes.
        ours: u32,
        /// Of the other side, in bytes.
        theirs: u32,
    },
    /// The two VIs have different qualities of service (`VIP_INVALID_QOS`).
    #[error("this VI has quality of service {ours}, the peer's {theirs}: open both with the same")]
    InvalidQos {
        /// Of this side.
        ours: u16,
        /// Of the other side.
        theirs: u16,
    },
    /// No program waits at the endpoint that was asked for (`VIP_NO_MATCH`).
    #[error(
        "at task {} (context {}) nobody waits at this endpoint: ask again when its program waits",
        .peer.task, .peer.context
    )]
    NoMatch {
        /// Whose NIC.
        peer: NodeAddress,
    },
    /// RDMA reads on a VI that can't have them (`VIP_INVALID_RDMAREAD`).
    #[error("an unreliable VI has no RDMA reads")]
    InvalidRdmaRead,
    /// The VI's state does not allow the call (`VIP_INVALID_STATE`).
    #[error("{call} needs a VI that is {needed}, and this one is {state:?}")]
    InvalidState {
        /// The call.
        call: &'static str,
        /// What it needs.
        needed: &'static str,
        /// What it found.
        state: ViState,
    },
    /// No NIC has this name (`VIP_ERROR_NAMESERVICE`).
    #[error(
        "{name:?}, NIC {index}, is not in this job; names are task0 to task{last}, or task0.1 for a second context"
    )]
    NameService {
        /// The name.
        name: String,
        /// Which of its NICs.
        index: u32,
        /// The last task.
        last: u32,
    },
    /// The name service is started, or is not, and the call needs the contrary (`VIP_ERROR_NAMESERVICE`).
    #[error("the name service of this NIC is {}", if *.is_started { "started already" } else { "not started: call ns_init" })]
    NameServiceState {
        /// Whether it is.
        is_started: bool,
    },
    /// The peer is dead.
    #[error("task {task} has died{}", if how.is_empty() { String::new() } else { format!(" ({how})") })]
    PeerFailed {
        /// Which.
        task: u32,
        /// How, if it is known.
        how: String,
    },
    /// A tag or a registration.
    #[error(transparent)]
    Registration(#[from] RegistrationFault),
    /// The device's word.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl VipError {
    /// Whose fault it is.
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
    /// The code that VIPL has for it.
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
        DeviceError::UnknownTask { .. } | DeviceError::UnknownContext { .. } | DeviceError::Refused(_) => {
            VipReturn::InvalidParameter
        }
        DeviceError::NotConnected(_) | DeviceError::Closed(_) | DeviceError::PeerClosed(_) => {
            VipReturn::InvalidState
        }
        DeviceError::ContextOpen { .. }
        | DeviceError::Exhausted { .. }
        | DeviceError::Damaged { .. }
        | DeviceError::System { .. } => VipReturn::ErrorResource,
    }
}

fn device_fault(error: &DeviceError) -> Fault {
    match error {
        DeviceError::UnknownTask { .. }
        | DeviceError::UnknownContext { .. }
        | DeviceError::ContextOpen { .. } => Fault::Caller,
        DeviceError::Exhausted { .. } => Fault::Resource,
        DeviceError::System { .. } => Fault::System,
        _ => Fault::Peer,
    }
}

/// A post that was not taken: the descriptor comes back.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PostError {
    /// Why.
    #[source]
    pub error: VipError,
    /// What was to be posted.
    pub descriptor: Box<Descriptor>,
}

/// What an asynchronous error is about (`VIP_RESOURCE_CODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// The VI.
    Vi,
    /// The completion queue of one of its work queues.
    CompletionQueue(CqHandle),
}

/// Something that went wrong without a call (`VipErrorCallback`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncError {
    /// What it is about.
    pub resource: Resource,
    /// The VI concerned.
    pub vi: ViHandle,
    /// What.
    pub code: AsyncCode,
}

/// What went wrong (`VIP_ERROR_CODE`).
///
/// VIA's other codes have no cause here: a descriptor can't be misplaced or unaligned (its type sees to that), a work queue can't
/// be overrun (the post is refused), completions are written to no registered memory, and data don't go bad on the way. A write
/// or a read that is cut short ends with its connection, which is told as that; a NIC that can do nothing any more says so in
/// each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncCode {
    /// The connection is gone: the peer has disconnected or died, or one of the two broke the rules.
    ConnectionLost,
    /// Data came while no receive was posted.
    ReceiveQueueEmpty,
    /// A completion queue had no room for an entry.
    CompletionOverrun,
    /// A peer's RDMA write was refused.
    RdmaWriteProtection,
    /// A peer's RDMA read was refused.
    RdmaReadProtection,
}
