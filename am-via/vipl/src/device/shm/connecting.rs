//! How a NIC connects to a peer: through memory files, or over the network.

use super::far::Far;
use super::{Shm, Vi};
use crate::device::{DeviceError, NodeAddress};

impl Shm {
    /// Makes progress of the network, and handles its events.
    pub(super) fn look_at_network(&mut self, far: &Far) {
        let progress = match far.progress() {
            Ok(progress) => progress,
            Err(why) => {
                self.far = None;
                return self.files.fail(&why);
            }
        };
        for peer in progress.strangers {
            if let Err(error) = self.accept_far(peer) {
                tracing::warn!(?peer, %error, "a connection that a task of another host made cannot be opened");
            }
        }
        progress.closed.into_iter().for_each(|peer| self.note_closing(peer));
    }

    /// Accepts a connection: a task of another host has sent, and is not connected yet.
    pub(super) fn accept_far(&mut self, peer: NodeAddress) -> Result<(), DeviceError> {
        peer.check(self.layout.num_tasks)?;
        let is_known = self.connection_to(peer).is_some() || self.accepted.iter().any(|vi| vi.peer == peer);
        if !is_known && let Some(vi) = self.make_connection(peer)? {
            self.accepted.push(vi);
            self.connected.push(peer);
        }
        Ok(())
    }

    /// Makes a connection to a peer; `None`: not yet.
    pub(super) fn make_connection(&mut self, to: NodeAddress) -> Result<Option<Vi>, DeviceError> {
        let (me, barrier) = (self.address, self.barrier);
        let (connection, slot) = match self.far.as_ref().filter(|_| self.files.is_far(to.task)) {
            None => match self.files.connect(&mut self.peers, me, to, barrier)? {
                Some(made) => made,
                None => return Ok(None),
            },
            Some(far) => {
                let Some(address) = self.files.network_address(to) else { return Ok(None) };
                let (mut near, end, slot) = self.files.make_far(&mut self.peers, me, barrier)?;
                far.join(to, &address, &mut near, end)?;
                (near, slot)
            }
        };
        Ok(Some(Vi { connection, slot, peer: to, consumed_when_last_counted: 0 }))
    }
}
