//! The VIs of a program: creation, queries, changes and destruction.

use crate::attributes::{ViAttributes, ViInfo};
use crate::error::VipError;
use crate::handle::{CqHandle, ViHandle};
use crate::user_agent::UserAgent;
use crate::user_agent::work::{Vi, Work};
use am_via_nic::device::Device;
use am_via_nic::{Reliability, ViState};

impl<D: Device> UserAgent<D> {
    /// Makes an idle VI (`VipCreateVi`). A work queue that has a completion queue adds an entry there for each completion.
    ///
    /// # Errors
    /// An unknown protection tag or completion queue, a maximum transfer size of 0, RDMA reads on an unreliable VI, or no VI left.
    pub fn create_vi(
        &mut self,
        attributes: ViAttributes,
        send_cq: Option<CqHandle>,
        receive_cq: Option<CqHandle>,
    ) -> Result<ViHandle, VipError> {
        let limits = self.limits();
        if self.nic.vis.count() >= limits.vis_max {
            return Err(VipError::ErrorResource {
                resource: "VIs",
                available: u64::from(limits.vis_max),
                remedy: "destroy one first",
            });
        }
        check(&attributes)?;
        for cq in [send_cq, receive_cq].into_iter().flatten() {
            self.cqs.get(cq.0).ok_or(VipError::UnknownHandle { what: "completion queue" })?;
        }
        self.kernel.registrations.use_ptag(attributes.ptag)?;
        for cq in [send_cq, receive_cq].into_iter().flatten() {
            if let Some(cq) = self.cqs.get_mut(cq.0) {
                cq.work_queues += 1;
            }
        }
        let work = Work::new(attributes, send_cq, receive_cq);
        let vi = Vi::uncounted(self.address(), attributes.reliability, work);
        Ok(ViHandle(self.nic.vis.insert(vi)))
    }

    /// Destroys a VI (`VipDestroyVi`).
    ///
    /// # Errors
    /// No such VI, the VI is not idle, or a queue still holds descriptors.
    pub fn destroy_vi(&mut self, vi: ViHandle) -> Result<(), VipError> {
        let found = self.vi(vi)?;
        if found.state() != ViState::Idle || !found.work.sends.is_empty() || !found.work.receives.is_empty() {
            let needed = "idle, with both queues empty: disconnect it and dequeue what is done";
            return Err(VipError::InvalidState { call: "destroy_vi", needed, state: found.state() });
        }
        let Some(gone) = self.nic.vis.remove(vi.0) else { return Ok(()) };
        self.forget_notices(vi);
        self.kernel.registrations.leave_ptag(gone.work.attributes.ptag);
        for cq in [gone.work.send_cq, gone.work.receive_cq].into_iter().flatten() {
            if let Some(cq) = self.cqs.get_mut(cq.0) {
                cq.work_queues -= 1;
                cq.forget(vi);
            }
        }
        Ok(())
    }

    /// State and attributes of a VI, and whether its queues are empty (`VipQueryVi`).
    ///
    /// # Errors
    /// No such VI.
    pub fn query_vi(&self, vi: ViHandle) -> Result<ViInfo, VipError> {
        let found = self.nic.vis.get(vi.0).ok_or(VipError::UnknownHandle { what: "VI" })?;
        Ok(ViInfo {
            state: found.state(),
            attributes: found.work.attributes,
            send_queue_empty: found.work.sends.is_empty(),
            receive_queue_empty: found.work.receives.is_empty(),
        })
    }

    /// Changes the attributes of a VI (`VipSetViAttributes`).
    ///
    /// # Errors
    /// No such VI, the VI is not idle, an unknown protection tag, a maximum transfer size of 0, or RDMA reads on an unreliable VI. Nothing
    /// is changed.
    pub fn set_vi_attributes(&mut self, vi: ViHandle, attributes: ViAttributes) -> Result<(), VipError> {
        let found = self.vi(vi)?;
        let (state, old) = (found.state(), found.work.attributes.ptag);
        if state != ViState::Idle {
            let (call, needed) = ("set_vi_attributes", "idle: disconnect it first");
            return Err(VipError::InvalidState { call, needed, state });
        }
        check(&attributes)?;
        self.kernel.registrations.use_ptag(attributes.ptag)?;
        self.kernel.registrations.leave_ptag(old);
        let found = self.vi(vi)?;
        found.set_reliability(attributes.reliability);
        found.work.attributes = attributes;
        Ok(())
    }

    pub(crate) fn vi(&mut self, vi: ViHandle) -> Result<&mut Vi, VipError> {
        self.nic.vis.get_mut(vi.0).ok_or(VipError::UnknownHandle { what: "VI" })
    }
}

fn check(attributes: &ViAttributes) -> Result<(), VipError> {
    if attributes.transfer_bytes_max == 0 {
        return Err(VipError::InvalidParameter {
            what: "the largest transfer of a VI, in bytes,",
            given: 0,
            least: 1,
            most: u64::from(u32::MAX),
        });
    }
    if attributes.reliability == Reliability::Unreliable && attributes.rdma_read {
        return Err(VipError::InvalidRdmaRead);
    }
    Ok(())
}
