//! The errors of am-core for what the device refused.

use am_core::buffer::{Grant, RemoteAddress};
use am_core::error::{Error, RangeFault};
use am_core::task::{ContextNumber, Endpoint};
use am_via_vipl::below::Device;
use am_via_vipl::{ClaimFault, DeviceError};

use super::ViaFabric;
use super::terms::wrong;

impl<D: Device> ViaFabric<D> {
    /// The error for a context that its task has closed or whose memory it has taken back, with the failure that ends the job.
    #[cold]
    pub(super) fn closed(&self, endpoint: Endpoint) -> Error {
        Error::ContextClosed { endpoint, after: self.nic.device.end_of_job().unwrap_or_default() }
    }

    /// The error of am-core for an access that the device refused.
    #[cold]
    pub(super) fn refused(&self, at: RemoteAddress, len: u64, error: DeviceError) -> Error {
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
                let what = self.nic.device.cause_of_death(at.task.0).unwrap_or_default();
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
