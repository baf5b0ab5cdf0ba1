//! Connections, peer to peer: both programs ask, and both get one connection (`VipConnectPeerRequest`, `VipConnectPeerDone`,
//! `VipConnectPeerWait`, `VipDisconnect`).
//!
//! The device joins a pair of NICs once, whoever asks first. Over that connection the two VIs then tell each other their
//! attributes, and are connected when those match.

use std::time::Duration;

use crate::device::{Device, Entry, NodeAddress, Operation, Payload, Posted, ViNumber};
use crate::vipl::error::VipError;
use crate::vipl::user_agent::UserAgent;
use crate::vipl::vi::{Reliability, ViAttributes, ViHandle, ViState};

/// What a VI knows of the VI at the other end. Claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerAttributes {
    reliability: Option<Reliability>,
    transfer_bytes_max: u32,
    /// The tag that a registration must have to be reached through the peer's VI.
    pub(super) ptag: u32,
    pub(super) rdma_write: bool,
    pub(super) rdma_read: bool,
}

const RDMA_WRITE: u64 = 1 << 8;
const RDMA_READ: u64 = 1 << 9;

impl PeerAttributes {
    fn parse(entry: &Entry, payload: &Payload) -> Self {
        let reliability = match entry.extra & 0xff {
            1 => Some(Reliability::Unreliable),
            2 => Some(Reliability::ReliableDelivery),
            4 => Some(Reliability::ReliableReception),
            _ => None,
        };
        Self {
            reliability,
            transfer_bytes_max: low_word(payload[0]),
            ptag: low_word(payload[1]),
            rdma_write: entry.extra & RDMA_WRITE != 0,
            rdma_read: entry.extra & RDMA_READ != 0,
        }
    }

    fn entry(attributes: &ViAttributes) -> (Entry, Payload) {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let extra = u64::from(attributes.reliability as u8)
            | flag(attributes.rdma_write, RDMA_WRITE)
            | flag(attributes.rdma_read, RDMA_READ);
        let entry = Entry { operation: Operation::Attributes as u32, extra, ..Entry::default() };
        let words = [attributes.transfer_bytes_max, attributes.ptag.number(), 0, 0, 0];
        (entry, words.map(u64::from))
    }

    fn check(&self, ours: &ViAttributes) -> Result<(), VipError> {
        if self.reliability != Some(ours.reliability) {
            return Err(VipError::InvalidReliabilityLevel {
                ours: ours.reliability,
                theirs: self.reliability,
            });
        }
        if self.transfer_bytes_max != ours.transfer_bytes_max {
            let (ours, theirs) = (ours.transfer_bytes_max, self.transfer_bytes_max);
            return Err(VipError::InvalidMtu { ours, theirs });
        }
        Ok(())
    }
}

/// The lower half of a payload word.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is not asked for")]
pub(super) fn low_word(word: u64) -> u32 {
    word as u32
}

/// A connection of the device that no VI has asked for yet.
#[derive(Debug)]
pub(super) struct Stranger {
    number: ViNumber,
    theirs: Option<PeerAttributes>,
    /// The peer has gone again.
    lost: bool,
}

impl<D: Device> UserAgent<D> {
    /// Asks for a connection to a peer's NIC, which must ask for one to this NIC too. Does not block.
    ///
    /// # Errors
    /// The VI is not idle, or the peer does not exist.
    pub fn connect_peer_request(&mut self, vi: ViHandle, to: NodeAddress) -> Result<(), VipError> {
        let num_tasks = self.device.attributes().num_tasks;
        let found = self.vi(vi)?;
        if found.state != ViState::Idle {
            let (call, needed) = ("connect_peer_request", "idle: disconnect it first");
            return Err(VipError::InvalidState { call, needed, state: found.state });
        }
        if to.task >= num_tasks {
            let most = u64::from(num_tasks.saturating_sub(1));
            return Err(VipError::InvalidParameter {
                what: "the task to connect to",
                given: u64::from(to.task),
                least: 0,
                most,
            });
        }
        found.state = ViState::ConnectPending;
        found.peer = Some(to);
        self.carry_on(vi);
        Ok(())
    }

    /// Whether the connection that was asked for is made. Makes progress, never blocks.
    ///
    /// # Errors
    /// None was asked for; or the peer's VI has other attributes, the peer has gone or is dead, and the VI is idle again.
    pub fn connect_peer_done(&mut self, vi: ViHandle) -> Result<bool, VipError> {
        self.progress();
        self.connect_outcome(vi)
    }

    /// Waits for the connection that was asked for; for ever if `timeout` is `None`. After a timeout the request stands.
    ///
    /// # Errors
    /// As for [`connect_peer_done`](Self::connect_peer_done), or the time is over.
    pub fn connect_peer_wait(&mut self, vi: ViHandle, timeout: Option<Duration>) -> Result<(), VipError> {
        self.wait_for(timeout, |agent| Ok(agent.connect_outcome(vi)?.then_some(())))
    }

    fn connect_outcome(&mut self, vi: ViHandle) -> Result<bool, VipError> {
        let state = self.vi(vi)?.state;
        let outcome = match state {
            ViState::Connected => Ok(true),
            ViState::ConnectPending => self.try_connect(vi),
            ViState::Error => Err(self.why_refused(vi)?),
            ViState::Idle => {
                let (call, needed) = ("connect_peer_done", "connecting: call connect_peer_request first");
                return Err(VipError::InvalidState { call, needed, state });
            }
        };
        if outcome.is_err() {
            self.become_idle(vi);
        }
        outcome
    }

    fn why_refused(&mut self, vi: ViHandle) -> Result<VipError, VipError> {
        let found = self.vi(vi)?;
        let (theirs, ours, peer) = (found.theirs, found.attributes, found.peer);
        let peer = peer.unwrap_or(self.device.address());
        if let Some(how) = self.device.failure(peer.task) {
            return Ok(VipError::PeerFailed { task: peer.task, how });
        }
        let mismatch = theirs.and_then(|theirs| theirs.check(&ours).err());
        Ok(mismatch.unwrap_or(VipError::Reject { peer }))
    }

    /// One step towards the connection; whether it is made.
    pub(super) fn try_connect(&mut self, vi: ViHandle) -> Result<bool, VipError> {
        let found = self.vi(vi)?;
        let Some(peer) = found.peer else { return Ok(false) };
        if found.number.is_none() && !self.find_number(vi, peer)? {
            return Ok(false);
        }
        let Some(found) = self.vis.get_mut(vi.0) else { return Ok(false) };
        let Some(number) = found.number else { return Ok(false) };
        if !found.attributes_sent {
            let (entry, payload) = PeerAttributes::entry(&found.attributes);
            found.attributes_sent = self.device.post(number, entry, &payload)? == Posted::Done;
        }
        let Some(theirs) = found.theirs.filter(|_| found.attributes_sent) else { return Ok(false) };
        theirs.check(&found.attributes)?;
        found.state = ViState::Connected;
        if !found.is_reliable() {
            self.device.allow_loss(number);
        }
        Ok(true)
    }

    fn find_number(&mut self, vi: ViHandle, peer: NodeAddress) -> Result<bool, VipError> {
        if let Some(how) = self.device.failure(peer.task) {
            return Err(VipError::PeerFailed { task: peer.task, how });
        }
        let Some(number) = self.device.connect(peer)? else { return Ok(false) };
        if self.spent.contains(&number) || self.by_number.contains_key(&number) {
            return Err(VipError::ErrorResource {
                resource: "connections between two NICs",
                available: 1,
                remedy: "open another context of the task: each has a NIC of its own",
            });
        }
        let stranger = self.strangers.iter().position(|stranger| stranger.number == number);
        let stranger = stranger.map(|at| self.strangers.swap_remove(at));
        self.by_number.insert(number, vi);
        let found = self.vi(vi)?;
        found.number = Some(number);
        found.theirs = stranger.as_ref().and_then(|stranger| stranger.theirs);
        if stranger.is_some_and(|stranger| stranger.lost) {
            // Whoever asks for the outcome hears of it.
            found.state = ViState::Error;
            return Ok(false);
        }
        Ok(true)
    }

    /// Ends the connection (`VipDisconnect`): what is queued is flushed in order, and the VI is idle again.
    ///
    /// # Errors
    /// There is none.
    pub fn disconnect(&mut self, vi: ViHandle) -> Result<(), VipError> {
        let found = self.vi(vi)?;
        if found.state == ViState::Idle {
            let (call, needed) = ("disconnect", "connected, connecting or broken");
            return Err(VipError::InvalidState { call, needed, state: ViState::Idle });
        }
        self.become_idle(vi);
        Ok(())
    }

    fn become_idle(&mut self, vi: ViHandle) {
        let Some(found) = self.vis.get_mut(vi.0) else { return };
        if let Some(number) = found.number.take() {
            found.send_replies(&mut self.device);
            // The connection is over for us in any case.
            let _ = self.device.disconnect(number);
            self.by_number.remove(&number);
            self.spent.insert(number);
        }
        found.state = ViState::Error;
        self.flush(vi);
        let Some(found) = self.vis.get_mut(vi.0) else { return };
        found.state = ViState::Idle;
        (found.peer, found.theirs, found.attributes_sent) = (None, None, false);
        found.forget_replies();
    }

    /// A peer has made a connection.
    pub(super) fn handle_connected(&mut self, number: ViNumber) {
        let known = self.by_number.contains_key(&number)
            || self.strangers.iter().any(|stranger| stranger.number == number);
        if !known {
            self.strangers.push(Stranger { number, theirs: None, lost: false });
        }
    }

    /// An entry on a connection that no VI has asked for yet.
    pub(super) fn handle_stranger(
        &mut self,
        number: ViNumber,
        operation: Option<Operation>,
        entry: &Entry,
        payload: &Payload,
    ) {
        if self.spent.contains(&number) {
            return;
        }
        self.handle_connected(number);
        let Some(stranger) = self.strangers.iter_mut().find(|stranger| stranger.number == number) else {
            return;
        };
        match operation {
            Some(Operation::Attributes) => stranger.theirs = Some(PeerAttributes::parse(entry, payload)),
            Some(Operation::Disconnect) => stranger.lost = true,
            // Nobody sends data before both sides have told their attributes.
            _ => {}
        }
    }

    /// The peer's VI has told its attributes: once.
    pub(super) fn handle_attributes(&mut self, vi: ViHandle, entry: &Entry, payload: &Payload) {
        let Some(found) = self.vis.get_mut(vi.0) else { return };
        if found.theirs.is_none() && found.state == ViState::ConnectPending {
            found.theirs = Some(PeerAttributes::parse(entry, payload));
            // At once: if ours were sent before, the peer may be connected already, and its first message next in line. An
            // error stays until the program asks for the outcome.
            let _ = self.try_connect(vi);
        }
    }
}
