//! How a NIC connects to a peer: through memory files, or over the network.

use am_via_job::Carrier;
use am_via_os::fork;
use am_via_shm::CheckedRange;
use am_via_shm::layout::{ACCESS_READ, REGIONS_PER_CONTEXT};
use am_via_shm::regions::{Claim, ClaimFault};

use super::far::{Far, Question};
use super::{Shm, Vi};
use crate::device::{ContextNumber, DeviceError, Endpoint, MemHandle, NICS_MAX, TaskId, Transfer};

impl Shm {
    /// Makes progress on the network, and handles its events.
    pub(super) fn look_at_network(&mut self) {
        let Some(far) = &self.far else { return };
        let progress = match far.progress() {
            Ok(progress) => progress,
            Err(why) => {
                self.end_network();
                return self.files.fail(&why);
            }
        };
        for peer in progress.strangers {
            if let Err(error) = self.accept_far(peer) {
                self.note_unopened(&error);
            }
        }
        for question in progress.questions {
            let Question { handle: MemHandle { region, generation }, ptag, .. } = question;
            // The claimed length exceeds any memory: the refusal contains the true length.
            let claim = |len| Claim { region, generation, offset: 0, len, ptag };
            let memory = match self.regions.memory(claim(u64::MAX), ACCESS_READ) {
                Err(ClaimFault::Bounds { len }) => self.regions.memory(claim(len), ACCESS_READ),
                other => other,
            };
            if let Some(far) = &self.far {
                far.answer(question, memory);
            }
        }
        self.reads_ended.extend(progress.reads_ended);
        progress.closed.into_iter().for_each(|peer| self.note_closing(peer));
    }

    /// Ends the use of the network.
    pub(super) fn end_network(&mut self) {
        let Some(far) = self.far.take() else { return };
        far.end_thread();
        if fork::is_copy() {
            // The endpoint belongs to the task that this process was copied from: closing its connections here would close the task's.
            std::mem::forget(far);
        }
    }

    /// Reads memory of a task of another host.
    pub(super) fn read_far(
        &mut self,
        (from, claim): (TaskId, Claim),
        to: CheckedRange<'_>,
        id: u64,
    ) -> Result<Transfer, DeviceError> {
        let Some(far) = self.far.clone().filter(Far::can_read) else { return Ok(Transfer::Unreachable) };
        let context = u8::try_from(claim.region / REGIONS_PER_CONTEXT).ok();
        let context = context.filter(|&context| context < NICS_MAX).ok_or(ClaimFault::Stale)?;
        let peer = Endpoint::new(from, ContextNumber(context));
        if !far.has_link(peer) {
            self.accept_far(peer)?;
            if !far.has_link(peer) {
                return Ok(Transfer::Retry);
            }
        }
        far.read(peer, claim, to, id)?;
        Ok(Transfer::Posted)
    }

    /// Connects to a task on another host that has sent something or whose memory is to be read, unless there is a connection already.
    pub(super) fn accept_far(&mut self, peer: Endpoint) -> Result<(), DeviceError> {
        peer.check(self.job.tasks_end(), NICS_MAX)?;
        let is_known = self.connection_to(peer).is_some() || self.accepted.iter().any(|vi| vi.peer == peer);
        if !is_known && let Some(vi) = self.make_connection(peer)? {
            self.accepted.push(vi);
            self.connected.push(peer);
        }
        Ok(())
    }

    /// Makes a connection to a peer; `None`: not yet.
    pub(super) fn make_connection(&mut self, to: Endpoint) -> Result<Option<Vi>, DeviceError> {
        let (me, barrier) = (self.address, self.barrier);
        let (connection, slot) = match self.far.as_ref().filter(|_| self.job.is_far(to.task.0)) {
            None => match self.files.connect(me, to, barrier)? {
                Some(made) => made,
                None => return Ok(None),
            },
            Some(far) => {
                let Some(address) = self.job.network_address(to.task.0, u32::from(to.context.0)) else {
                    return Ok(None);
                };
                let (mut near, end, slot) = self.files.make_far(me, barrier)?;
                if let Err(error) = far.join(to, &address, &mut near, end) {
                    self.files.give_back_vi((me.task.0, slot));
                    return Err(error);
                }
                (near, slot)
            }
        };
        Ok(Some(Vi { connection, slot, peer: to, consumed_when_last_counted: 0 }))
    }
}
