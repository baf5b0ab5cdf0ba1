//! The errors of am-core for what the device refused.

use am_core::buffer::{Grant, RemoteAddress};
use am_core::error::{Error, RangeFault};
use am_core::task::{ContextNumber, Endpoint};
use am_via_nic::Device;
use am_via_nic::{ClaimFault, DeviceError};

use super::ViaFabric;
use super::convert::wrong;

impl<D: Device> ViaFabric<D> {
    /// The error for a context that its task has closed or whose memory it has taken back, with the failure that ends the job.
    #[cold]
    pub(super) fn closed(&self, endpoint: Endpoint) -> Error {
        Error::ContextClosed { endpoint, after: self.nic.device.end_of_job().unwrap_or_default() }
    }

    /// The error for an access to a peer's memory that the device refused. Memory that went with its owner's context is no mistake of the
    /// caller: the error says that the owner has left.
    #[cold]
    pub(super) fn refused(&mut self, at: RemoteAddress, len: u64, error: DeviceError) -> Error {
        let owner = Endpoint::new(at.task, at.context);
        match self.not_in_range(at, len, error) {
            Error::RemoteRange { why: RangeFault::Stale, .. }
                if !at.grant.is_for_operation() && self.nic.device.has_closed(owner) =>
            {
                self.closed(owner)
            }
            error => error,
        }
    }

    /// Like [`refused`](Self::refused), also for a range of memory of this task.
    #[cold]
    pub(super) fn not_in_range(&self, at: RemoteAddress, len: u64, error: DeviceError) -> Error {
        let why = match error {
            // A task that leaves a job after a failure first takes back its exposed memory.
            DeviceError::Refused(ClaimFault::Stale)
                if !at.grant.is_for_operation() && self.nic.device.job_is_about_to_end() =>
            {
                return self.closed(Endpoint::new(at.task, at.context));
            }
            DeviceError::Refused(ClaimFault::Stale | ClaimFault::Tag) => RangeFault::Stale,
            DeviceError::Refused(ClaimFault::Bounds { len }) => RangeFault::Bounds { region_len: len },
            DeviceError::Refused(ClaimFault::NotWritable) => RangeFault::Access("write"),
            DeviceError::Refused(ClaimFault::NotReadable) => RangeFault::Access("read"),
            DeviceError::Refused(ClaimFault::Misaligned) => {
                return Error::Misaligned { offset: at.offset, size: len };
            }
            DeviceError::Refused(ClaimFault::PeerDead) => {
                let what = self.nic.device.cause_of_death(at.task).unwrap_or_default();
                return Error::PeerFailed { task: at.task, what };
            }
            other => return wrong(Endpoint::new(at.task, ContextNumber(0)), other),
        };
        Error::RemoteRange {
            task: at.task,
            region: at.grant.region & !Grant::OPERATION_BIT,
            generation: at.grant.generation,
            offset: at.offset,
            len,
            why,
        }
    }
}
