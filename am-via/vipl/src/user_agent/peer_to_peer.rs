//! Connections between peers: both programs ask, and one connection is made (`VipConnectPeerRequest`, `VipConnectPeerDone`,
//! `VipConnectPeerWait`).

use std::time::Duration;

use crate::address::{Discriminator, NetAddress};
use crate::error::VipError;
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::attempt::CONNECT_STEP;
use crate::user_agent::entry::PeerAttributes;
use crate::user_agent::work::Way;
use am_via_nic::device::Device;

impl<D: Device> UserAgent<D> {
    /// Asks for a connection to an endpoint of a peer, which must itself ask for a connection to endpoint `local` of this NIC. Does not
    /// block. VIs that ask with the same two endpoints are joined in the order in which they asked. The request is valid for `timeout`,
    /// without a limit if it is `None`.
    ///
    /// # Errors
    /// No such VI, the VI is not idle, or the peer's task or context does not exist.
    pub fn connect_peer_request(
        &mut self,
        vi: ViHandle,
        local: Discriminator,
        to: impl Into<NetAddress>,
        timeout: Option<Duration>,
    ) -> Result<(), VipError> {
        // Progress first: a request that has arrived may have been withdrawn since.
        self.progress();
        self.begin_attempt(vi, ("connect_peer_request", Way::Peer), local, to.into(), timeout)
    }

    /// Returns the peer's attributes once the requested connection is made, and `None` before that. Makes progress, never blocks.
    ///
    /// # Errors
    /// No connection was requested. The time limit has passed, the attributes do not match, the peer is gone or dead, or the connection was
    /// lost again: the VI is then idle.
    pub fn connect_peer_done(&mut self, vi: ViHandle) -> Result<Option<PeerAttributes>, VipError> {
        self.progress();
        self.peer_outcome(vi)
    }

    /// Waits for the requested connection, as long as the request is valid.
    ///
    /// # Errors
    /// Those of [`connect_peer_done`](Self::connect_peer_done).
    pub fn connect_peer_wait(&mut self, vi: ViHandle) -> Result<PeerAttributes, VipError> {
        self.wait_in_steps(None, CONNECT_STEP, |agent| agent.peer_outcome(vi))
    }

    pub(crate) fn peer_outcome(&mut self, vi: ViHandle) -> Result<Option<PeerAttributes>, VipError> {
        if !self.connect_outcome(vi)? {
            return Ok(None);
        }
        Ok(self.vi(vi)?.work.theirs)
    }
}
