//! Virtual interfaces: the two ends of a connection, and the state machine of VIA 1.0 chapter 2.

use std::time::Duration;

use crate::device::{Device, DeviceError, Entry, NodeAddress, Operation, Payload, Posted, ViNumber};
use crate::provider::PTag;
use crate::vipl::attempt::Attempt;
use crate::vipl::channel::CONNECTION_SHIFT;
use crate::vipl::completion_queue::CqHandle;
use crate::vipl::connection::PeerAttributes;
use crate::vipl::credits::{Class, CreditPlan, Credits, Immediate, Packets};
use crate::vipl::descriptor::{Descriptor, Status};
use crate::vipl::error::{PostError, VipError};
use crate::vipl::receiving::Receiving;
use crate::vipl::sending::Sending;
use crate::vipl::staged::Serving;
use crate::vipl::table::Slot;
use crate::vipl::user_agent::UserAgent;
use crate::vipl::work_queue::{Queue, WorkQueue};

/// The states of a VI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViState {
    /// Not connected.
    Idle,
    /// A connection was asked for.
    ConnectPending,
    /// Connected: descriptors are carried out.
    Connected,
    /// Broken: descriptors are flushed; only a disconnect leads out of it.
    Error,
}

/// A VI: one end of a connection.
#[derive(Debug)]
pub(crate) struct Vi {
    /// How much may be posted: nothing, unless the state and the reliability level allow it.
    credits: Credits,
    /// The device's connection. It means something only while the VI is connected.
    link: ViNumber,
    state: ViState,
    reliability: Reliability,
    /// Its peer, or the one to be connected to.
    pub(crate) peer: NodeAddress,
    /// The peer lives, and has closed its NIC.
    pub(crate) is_peer_closed: bool,
}

/// Number of times that a post which has a reserved slot is repeated before its refusal is taken to be the peer's fault.
const INSIST_TRIES: u32 = 100;

impl Vi {
    /// A VI with standing receives, which need reliable delivery, idle.
    pub(super) fn standing(peer: NodeAddress, plan: CreditPlan) -> Self {
        Self {
            credits: Credits::new(plan),
            link: ViNumber(u32::MAX),
            state: ViState::Idle,
            reliability: Reliability::ReliableDelivery,
            peer,
            is_peer_closed: false,
        }
    }

    #[inline(always)]
    pub(crate) fn link(&self) -> ViNumber {
        self.link
    }

    pub(crate) fn state(&self) -> ViState {
        self.state
    }

    /// Packets so far.
    pub(super) fn packets(&self) -> Packets {
        self.credits.packets()
    }

    pub(super) fn connected(&mut self, link: ViNumber) {
        self.link = link;
        self.set_state(ViState::Connected);
    }

    /// The one place in which a state changes, and with it what may be posted.
    pub(super) fn set_state(&mut self, state: ViState) {
        self.state = state;
        let may_send = state == ViState::Connected && self.reliability != Reliability::Unreliable;
        if may_send || cfg!(broken_state_check) {
            self.credits.open();
        } else {
            self.credits.stop();
        }
    }

    /// Posts an entry: `carry` gives it to the device. All bytes that leave a VI leave here, and one comparison of its allowance
    /// says whether they may: it is 0 unless the VI may send. The caller of a post that was not [`Posted::Done`] looks why.
    ///
    /// # Errors
    /// The connection is closed.
    #[inline(always)]
    pub(crate) fn post<D: Device>(
        &mut self,
        device: &mut D,
        class: Class,
        entry: Entry,
        carry: impl FnOnce(&mut D, ViNumber, Entry) -> Result<Posted, DeviceError>,
    ) -> Result<Posted, DeviceError> {
        if !self.credits.may_send(class) {
            return Ok(Posted::Retry);
        }
        let posted = carry(device, self.link, entry);
        if let Ok(Posted::Done) = posted {
            self.credits.sent(class);
        }
        posted
    }

    /// Whether a packet of this class may be posted now.
    pub(crate) fn may_send(&self, class: Class) -> bool {
        self.credits.may_send(class)
    }

    /// The immediate word of the next packet: with standing receives, the accounts travel in it.
    #[inline(always)]
    pub(crate) fn immediate(&self, class: Class, label: u16) -> u32 {
        self.credits.immediate(class, label)
    }

    /// Takes what a standing receive brought: the accounts of its immediate word, and of an inline packet, whose bytes are copied,
    /// the slot. `None`: it only gave credits back.
    #[inline(always)]
    pub(crate) fn take<D: Device>(
        &mut self,
        device: &mut D,
        word: Immediate,
        is_inline: bool,
    ) -> Option<Class> {
        self.credits.returned(word);
        let Some(class) = word.class() else {
            device.release(self.link);
            return None;
        };
        if is_inline {
            self.release(device, class);
        }
        Some(class)
    }

    /// Posts the standing receive of the oldest packet again: its slot belongs to the peer from now on.
    #[inline(always)]
    pub(crate) fn release<D: Device>(&mut self, device: &mut D, class: Class) {
        device.release(self.link);
        self.credits.consumed(class);
        if self.credits.must_return() {
            self.return_credits(device);
        }
    }

    /// A request of the peer will not be answered.
    #[inline(always)]
    pub(crate) fn waive<D: Device>(&mut self, device: &mut D) {
        self.credits.waive();
        if self.credits.must_return() {
            self.return_credits(device);
        }
    }

    /// Sends back credits that no packet carried, when the peer is owed many. The slots for this are apart. If the peer fills them with
    /// something else, or is gone, it is told with the next packet, or never.
    #[cold]
    #[inline(never)]
    fn return_credits<D: Device>(&mut self, device: &mut D) {
        let word = self.credits.take_owed();
        let entry = Entry { immediate: word.0, operation: Operation::Inline as u32, ..Entry::default() };
        if !matches!(insist(|| device.post(self.link, entry, &Payload::default())), Ok(Posted::Done)) {
            self.credits.owe(word);
        }
    }
}

/// Posts what has a reserved slot, an answer or returned credits. It is taken at once but by a device that refuses at random;
/// only a peer that takes more than its share can keep its ring full, and then it is the one to suffer.
#[cold]
#[inline(never)]
pub(crate) fn insist(mut post: impl FnMut() -> Result<Posted, DeviceError>) -> Result<Posted, DeviceError> {
    (0..INSIST_TRIES).map(|_| post()).find(|posted| !matches!(posted, Ok(Posted::Retry))).unwrap_or({
        Err(DeviceError::Exhausted {
            resource: "reserved slots in a peer's receive queue",
            needed: 1,
            available: 0,
            remedy: "the peer breaks the protocol: it asks for more answers than it has slots for",
        })
    })
}

/// A VI of a user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViHandle(pub(super) Slot);

/// VIA's reliability levels (`VIP_SERVICE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reliability {
    /// Data may be lost, never doubled. An error costs one descriptor, and the connection stays.
    Unreliable = 1,
    /// Data arrive once and in order, or the connection is broken. A descriptor is done when its data have left.
    ReliableDelivery = 2,
    /// The same, and a descriptor is done when its data are in place at the peer.
    ReliableReception = 4,
}

/// How a VI is to behave (`VIP_VI_ATTRIBUTES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViAttributes {
    /// The reliability level; both ends need the same.
    pub reliability: Reliability,
    /// Bytes of the largest transfer; both ends need the same.
    pub transfer_bytes_max: u32,
    /// Quality of service: a number that means what the programs agree on; both ends need the same.
    pub qos: u16,
    /// The tag of the memory that this VI may touch.
    pub ptag: PTag,
    /// The peer may write memory of this tag.
    pub rdma_write: bool,
    /// The peer may read memory of this tag.
    pub rdma_read: bool,
}

impl ViAttributes {
    /// Reliable delivery of transfers of any size, and RDMA both ways, for memory of this tag.
    #[must_use]
    pub fn new(ptag: PTag) -> Self {
        Self {
            reliability: Reliability::ReliableDelivery,
            transfer_bytes_max: u32::MAX,
            qos: 0,
            ptag,
            rdma_write: true,
            rdma_read: true,
        }
    }

    fn check(&self) -> Result<(), VipError> {
        if self.transfer_bytes_max == 0 {
            return Err(VipError::InvalidParameter {
                what: "the largest transfer of a VI, in bytes,",
                given: 0,
                least: 1,
                most: u64::from(u32::MAX),
            });
        }
        if self.reliability == Reliability::Unreliable && self.rdma_read {
            return Err(VipError::InvalidRdmaRead);
        }
        Ok(())
    }
}

/// What `VipQueryVi` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViInfo {
    /// The state.
    pub state: ViState,
    /// The attributes.
    pub attributes: ViAttributes,
    /// Whether the send queue holds no descriptor.
    pub send_queue_empty: bool,
    /// Whether the receive queue holds no descriptor.
    pub receive_queue_empty: bool,
}

/// The VI itself.
#[derive(Debug)]
pub(super) struct VirtualInterface {
    pub(super) state: ViState,
    pub(super) attributes: ViAttributes,
    /// Whom it is connected to, or has asked.
    pub(super) peer: Option<NodeAddress>,
    /// The device's connection to the peer's NIC, shared with other VIs.
    pub(super) number: Option<ViNumber>,
    /// The number of this VI's connection at this NIC and at the peer's; 0: none.
    pub(super) connection: u32,
    pub(super) their_connection: u32,
    pub(super) theirs: Option<PeerAttributes>,
    /// What it has asked for, until the outcome was heard.
    pub(super) attempt: Option<Attempt>,
    pub(super) sends: WorkQueue,
    pub(super) receives: WorkQueue,
    send_cq: Option<CqHandle>,
    receive_cq: Option<CqHandle>,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    pub(super) serving: Option<Serving>,
}

impl VirtualInterface {
    pub(super) fn queue(&self, queue: Queue) -> &WorkQueue {
        match queue {
            Queue::Send => &self.sends,
            Queue::Receive => &self.receives,
        }
    }

    pub(super) fn queue_mut(&mut self, queue: Queue) -> &mut WorkQueue {
        match queue {
            Queue::Send => &mut self.sends,
            Queue::Receive => &mut self.receives,
        }
    }

    pub(super) fn cq(&self, queue: Queue) -> Option<CqHandle> {
        match queue {
            Queue::Send => self.send_cq,
            Queue::Receive => self.receive_cq,
        }
    }

    pub(super) fn is_reliable(&self) -> bool {
        self.attributes.reliability != Reliability::Unreliable
    }

    /// Forgets how far its descriptors were, after they were flushed.
    pub(super) fn forget_progress(&mut self) {
        self.sending = Sending::default();
        self.receiving = Receiving::default();
        self.serving = None;
    }

    /// The operation word of an entry for the peer's VI.
    pub(super) fn operation(&self, operation: Operation) -> u32 {
        operation as u32 | self.their_connection << CONNECTION_SHIFT
    }
}

impl<D: Device> UserAgent<D> {
    /// Makes a VI (`VipCreateVi`), idle. Completions of a queue with a completion queue are named there.
    ///
    /// # Errors
    /// An unknown tag or completion queue, RDMA reads on an unreliable VI, or no VI left.
    pub fn create_vi(
        &mut self,
        attributes: ViAttributes,
        send_cq: Option<CqHandle>,
        receive_cq: Option<CqHandle>,
    ) -> Result<ViHandle, VipError> {
        let limits = self.limits();
        if self.vis.count() >= limits.vis_max {
            return Err(VipError::ErrorResource {
                resource: "VIs",
                available: u64::from(limits.vis_max),
                remedy: "destroy one first",
            });
        }
        attributes.check()?;
        for cq in [send_cq, receive_cq].into_iter().flatten() {
            self.cqs.get(cq.0).ok_or(VipError::UnknownHandle { what: "completion queue" })?;
        }
        self.kernel.registrations.use_ptag(attributes.ptag)?;
        for cq in [send_cq, receive_cq].into_iter().flatten() {
            if let Some(cq) = self.cqs.get_mut(cq.0) {
                cq.work_queues += 1;
            }
        }
        let descriptors_max = limits.descriptors_per_queue_max;
        Ok(ViHandle(self.vis.insert(VirtualInterface {
            state: ViState::Idle,
            attributes,
            peer: None,
            number: None,
            connection: 0,
            their_connection: 0,
            theirs: None,
            attempt: None,
            sends: WorkQueue::new(descriptors_max),
            receives: WorkQueue::new(descriptors_max),
            send_cq,
            receive_cq,
            sending: Sending::default(),
            receiving: Receiving::default(),
            serving: None,
        })))
    }

    /// Ends a VI (`VipDestroyVi`).
    ///
    /// # Errors
    /// It is not idle, or a queue still holds descriptors.
    pub fn destroy_vi(&mut self, vi: ViHandle) -> Result<(), VipError> {
        let found = self.vi(vi)?;
        if found.state != ViState::Idle || !found.sends.is_empty() || !found.receives.is_empty() {
            let needed = "idle, with both queues empty: disconnect it and dequeue what is done";
            return Err(VipError::InvalidState { call: "destroy_vi", needed, state: found.state });
        }
        let Some(gone) = self.vis.remove(vi.0) else { return Ok(()) };
        self.forget_notices(vi);
        self.kernel.registrations.leave_ptag(gone.attributes.ptag);
        for cq in [gone.send_cq, gone.receive_cq].into_iter().flatten() {
            if let Some(cq) = self.cqs.get_mut(cq.0) {
                cq.work_queues -= 1;
                cq.forget(vi);
            }
        }
        Ok(())
    }

    /// State and attributes (`VipQueryVi`).
    ///
    /// # Errors
    /// No such VI.
    pub fn query_vi(&self, vi: ViHandle) -> Result<ViInfo, VipError> {
        let found = self.vis.get(vi.0).ok_or(VipError::UnknownHandle { what: "VI" })?;
        Ok(ViInfo {
            state: found.state,
            attributes: found.attributes,
            send_queue_empty: found.sends.is_empty(),
            receive_queue_empty: found.receives.is_empty(),
        })
    }

    /// Changes the attributes of a VI (`VipSetViAttributes`).
    ///
    /// # Errors
    /// It is not idle, the tag does not exist, or RDMA reads on an unreliable VI. Nothing is changed then.
    pub fn set_vi_attributes(&mut self, vi: ViHandle, attributes: ViAttributes) -> Result<(), VipError> {
        let found = self.vi(vi)?;
        let (state, old) = (found.state, found.attributes.ptag);
        if state != ViState::Idle {
            let (call, needed) = ("set_vi_attributes", "idle: disconnect it first");
            return Err(VipError::InvalidState { call, needed, state });
        }
        attributes.check()?;
        self.kernel.registrations.use_ptag(attributes.ptag)?;
        self.kernel.registrations.leave_ptag(old);
        self.vi(vi)?.attributes = attributes;
        Ok(())
    }

    pub(super) fn vi(&mut self, vi: ViHandle) -> Result<&mut VirtualInterface, VipError> {
        self.vis.get_mut(vi.0).ok_or(VipError::UnknownHandle { what: "VI" })
    }

    /// Posts a send, an RDMA write or an RDMA read (`VipPostSend`). A VI that is not connected flushes it at once.
    ///
    /// # Errors
    /// No such VI, or a full queue; the descriptor comes back.
    pub fn post_send(&mut self, vi: ViHandle, descriptor: Box<Descriptor>) -> Result<(), PostError> {
        self.post(vi, Queue::Send, descriptor)?;
        self.carry_on(vi);
        Ok(())
    }

    /// Posts a receive (`VipPostRecv`). A VI that is idle keeps it for its connection; a broken one flushes it at once.
    ///
    /// # Errors
    /// No such VI, or a full queue; the descriptor comes back.
    pub fn post_recv(&mut self, vi: ViHandle, descriptor: Box<Descriptor>) -> Result<(), PostError> {
        self.post(vi, Queue::Receive, descriptor)
    }

    fn post(&mut self, vi: ViHandle, queue: Queue, mut descriptor: Box<Descriptor>) -> Result<(), PostError> {
        let limits = self.limits();
        let Some(found) = self.vis.get_mut(vi.0) else {
            return Err(PostError { error: VipError::UnknownHandle { what: "VI" }, descriptor });
        };
        if !found.queue(queue).has_room() {
            let error = VipError::ErrorResource {
                resource: "descriptors of a work queue",
                available: u64::from(limits.descriptors_per_queue_max),
                remedy: "dequeue those that are done",
            };
            return Err(PostError { error, descriptor });
        }
        let mut flaw = descriptor.flaw(queue == Queue::Send, limits.segments_per_descriptor_max);
        if queue == Queue::Send && descriptor.length > found.attributes.transfer_bytes_max {
            flaw = flaw.or(Some(Status::LENGTH_ERROR));
        }
        descriptor.status = Status::default();
        found.queue_mut(queue).post(descriptor, flaw);
        let flushes = match queue {
            Queue::Send => found.state != ViState::Connected,
            Queue::Receive => found.state == ViState::Error,
        };
        if flushes {
            self.flush_queue(vi, queue);
        }
        Ok(())
    }

    /// The next send that is done (`VipSendDone`); `None`: not yet. Makes progress, never blocks.
    ///
    /// # Errors
    /// No such VI.
    pub fn send_done(&mut self, vi: ViHandle) -> Result<Option<Box<Descriptor>>, VipError> {
        self.done(vi, Queue::Send)
    }

    /// The next receive that is done (`VipRecvDone`); `None`: not yet. Makes progress, never blocks.
    ///
    /// # Errors
    /// No such VI.
    pub fn recv_done(&mut self, vi: ViHandle) -> Result<Option<Box<Descriptor>>, VipError> {
        self.done(vi, Queue::Receive)
    }

    fn done(&mut self, vi: ViHandle, queue: Queue) -> Result<Option<Box<Descriptor>>, VipError> {
        if let Some(done) = self.vi(vi)?.queue_mut(queue).dequeue() {
            return Ok(Some(done));
        }
        self.progress();
        Ok(self.vi(vi)?.queue_mut(queue).dequeue())
    }

    /// Waits for the next send that is done (`VipSendWait`), for ever if `timeout` is `None`.
    ///
    /// # Errors
    /// No such VI, or the time is over.
    pub fn send_wait(
        &mut self,
        vi: ViHandle,
        timeout: Option<Duration>,
    ) -> Result<Box<Descriptor>, VipError> {
        self.wait_for(timeout, |agent| Ok(agent.vi(vi)?.sends.dequeue()))
    }

    /// Waits for the next receive that is done (`VipRecvWait`), for ever if `timeout` is `None`.
    ///
    /// # Errors
    /// No such VI, or the time is over.
    pub fn recv_wait(
        &mut self,
        vi: ViHandle,
        timeout: Option<Duration>,
    ) -> Result<Box<Descriptor>, VipError> {
        self.wait_for(timeout, |agent| Ok(agent.vi(vi)?.receives.dequeue()))
    }
}
