//! Converts between the types of am-core and of VIPL: addresses, grants and memory handles, errors.

use am_core::buffer::{Access, Executor, Grant, RemoteAddress};
use am_core::error::Error;
use am_core::task::{Endpoint, TaskId};

use am_via_nic::{DeviceError, MemHandle};
use am_via_shm::layout::{ACCESS_READ, ACCESS_WRITE};
use am_via_shm::regions::{Claim, Registration};

/// A device's error as am-core's.
#[cold]
pub(super) fn wrong(peer: Endpoint, error: DeviceError) -> Error {
    match error {
        DeviceError::NoSuchEndpoint(fault) => Error::no_such_endpoint(fault),
        DeviceError::Exhausted { resource, needed, available, remedy } => {
            Error::Exhausted { resource, needed, available, remedy }
        }
        DeviceError::TooManyRegistrations { max } => Error::TooManyRegions { max },
        DeviceError::System { doing, source } => Error::System { doing, source: source.into() },
        DeviceError::PeerClosed(endpoint) => Error::ContextClosed { endpoint, after: String::new() },
        DeviceError::NotConnected(_) | DeviceError::Closed(_) => {
            Error::PeerFailed { task: peer.task, what: "its connection is closed".to_owned() }
        }
        other => Error::Protocol { peer, what: other.to_string() },
    }
}

/// The claim to `len` bytes from `offset` on of the memory of a grant.
#[inline(always)]
pub(super) fn claim(grant: Grant, offset: u64, len: u64) -> Claim {
    let MemHandle { region, generation } = handle(grant);
    Claim { region, generation, offset, len, ptag: tag(grant.is_for_operation()) }
}

/// The task at which `at` is, and the claim to `len` bytes there.
#[inline(always)]
pub(super) fn remote(at: RemoteAddress, len: u64) -> (TaskId, Claim) {
    (at.task, claim(at.grant, at.offset, len))
}

pub(super) fn own_address(Endpoint { task, context }: Endpoint, grant: Grant, offset: u64) -> RemoteAddress {
    RemoteAddress { task, context, executor: Executor::Anyone, grant, offset }
}

#[inline(always)]
pub(super) fn handle(grant: Grant) -> MemHandle {
    MemHandle { region: grant.region & !Grant::OPERATION_BIT, generation: grant.generation }
}

/// The grant of one operation.
pub(super) fn for_operation(handle: MemHandle) -> Grant {
    Grant { region: handle.region | Grant::OPERATION_BIT, generation: handle.generation }
}

#[inline(always)]
pub(super) fn registration(access: Access) -> Registration {
    Registration { access: rights(access), ptag: tag(access.for_operation) }
}

/// The rights, as bits.
#[inline(always)]
pub(super) fn rights(access: Access) -> u32 {
    let read = if access.read { ACCESS_READ } else { 0 };
    let write = if access.write { ACCESS_WRITE } else { 0 };
    read | write
}

/// The protection tag of memory lent to one operation, or of memory exposed by a program. The tags differ, so that even a forged grant for
/// one kind never accesses the other.
#[inline(always)]
fn tag(for_operation: bool) -> u32 {
    u32::from(for_operation)
}
