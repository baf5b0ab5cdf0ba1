//! Converts between the types of am-core and of VIPL: endpoints and addresses, grants and memory handles, classes, updates, errors.

use am_core::buffer::{Access, Executor, Grant, RemoteAddress};
use am_core::error::Error;
use am_core::task::{ContextNumber, Endpoint, TaskId};
use am_core::transfer::{Class, Transfer};

use am_via_job::{UnderWay, WaitFacts};
use am_via_os::threads;
use am_via_vipl::below::{Class as ViClass, RemoteMemory, Transfer as ViTransfer};
use am_via_vipl::{DeviceError, MemAttributes, MemHandle, NodeAddress};

#[inline(always)]
pub(super) fn class_of(class: Class) -> ViClass {
    match class {
        Class::OneWay => ViClass::OneWay,
        Class::Request => ViClass::Request,
        Class::Answer => ViClass::Answer,
    }
}

#[inline(always)]
pub(super) fn class_from(class: ViClass) -> Class {
    match class {
        ViClass::OneWay => Class::OneWay,
        ViClass::Request => Class::Request,
        ViClass::Answer => Class::Answer,
    }
}

pub(super) fn endpoint(address: NodeAddress) -> Endpoint {
    Endpoint::new(TaskId(address.task), ContextNumber(address.context as u8))
}

pub(super) fn node(endpoint: Endpoint) -> NodeAddress {
    NodeAddress { task: endpoint.task.0, context: u32::from(endpoint.context.0) }
}

/// A device's error as am-core's.
#[cold]
pub(super) fn wrong(peer: Endpoint, error: DeviceError) -> Error {
    match error {
        DeviceError::UnknownTask { num_tasks, .. } => Error::UnknownTask { endpoint: peer, num_tasks },
        DeviceError::UnknownContext { contexts_max, .. } => {
            Error::UnknownContext { endpoint: peer, contexts_max: contexts_max as u8 }
        }
        DeviceError::Exhausted { resource, needed, available, remedy } => {
            Error::Exhausted { resource, needed, available, remedy }
        }
        DeviceError::System { doing, source } => Error::System { doing, source: source.into() },
        DeviceError::PeerClosed(at) => Error::ContextClosed { endpoint: endpoint(at), after: String::new() },
        DeviceError::NotConnected(_) | DeviceError::Closed(_) => {
            Error::PeerFailed { task: peer.task, what: "its connection is closed".to_owned() }
        }
        other => Error::Protocol { peer, what: other.to_string() },
    }
}

#[inline(always)]
pub(super) fn remote(at: RemoteAddress) -> RemoteMemory {
    RemoteMemory {
        task: at.task.0,
        handle: handle(at.grant),
        offset: at.offset,
        ptag: tag(at.grant.is_for_operation()),
    }
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
pub(super) fn mem_attributes(access: Access) -> MemAttributes {
    MemAttributes { ptag: tag(access.for_operation), rdma_write: access.write, rdma_read: access.read }
}

/// The protection tag of memory lent to one operation, or of memory exposed by a program. The tags differ, so that even a forged grant for
/// one kind never accesses the other.
#[inline(always)]
fn tag(for_operation: bool) -> u32 {
    u32::from(for_operation)
}

pub(super) fn outcome(transfer: ViTransfer) -> Transfer {
    match transfer {
        ViTransfer::Done => Transfer::Done,
        ViTransfer::Posted => Transfer::Posted,
        ViTransfer::Retry => Transfer::Retry,
        ViTransfer::Unreachable => Transfer::Staged,
    }
}

/// Converts am-core's facts about a wait of this thread into the job's type.
pub(super) fn told(facts: &am_core::fabric::WaitFacts) -> WaitFacts {
    let told = |operation: &am_core::fabric::UnderWay| UnderWay {
        what: operation.what.to_owned(),
        partner: operation.partner.map(|task| task.0),
        details: operation.details.clone(),
    };
    WaitFacts {
        operations: facts.operations.iter().map(told).collect(),
        operations_left_out: facts.operations_left_out,
        early_messages: facts.early_messages,
        first_early: facts.first_early.clone(),
        may_end_alone: facts.may_end_alone || facts.has_threads && threads::others_may_act(),
    }
}
