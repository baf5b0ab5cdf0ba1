//! Connections: the common part of both ways to make one, and their end (`VipDisconnect`).
//!
//! A VI sends a *request* with its address, the requested endpoint, and its attributes. The other side *accepts* it with a VI of matching
//! attributes, or *rejects* it. Client and server ask and answer as their programs call (`client_server`). Of two peers that both ask, the
//! one with the lower address answers (`peer_to_peer`): if both answered, two pairs of VIs could be joined crosswise.

use crate::address::{Discriminator, NetAddress};
use crate::error::VipError;
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::entry::{
    Kind, PEER_TO_PEER, PeerAttributes, SENDER_SHIFT, TO_NIC, get_discriminators, introduce, sender,
};
use am_via_nic::ViState;
use am_via_nic::device::{Device, Entry, Payload, ViNumber};

/// A request of a VI at another NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) number: ViNumber,
    pub(crate) from: NetAddress,
    /// The requested endpoint of this NIC.
    pub(crate) to: Discriminator,
    pub(crate) connection: u32,
    pub(crate) attributes: PeerAttributes,
}

/// Maximum number of requests of peers that wait for a VI of this NIC. Further ones are rejected.
const CALLERS_MAX: usize = 1024;

/// Why a request is rejected. The number is sent in the extra word, in place of the sender's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Rejection {
    /// The program rejects the request.
    Refused = 1,
    /// No program waits at that endpoint.
    NoMatch = 2,
    /// The attributes do not match. Those of this side come with the rejection.
    Attributes = 3,
}

impl<D: Device> UserAgent<D> {
    /// Connects the VI to a peer that has already asked; returns whether there was one.
    pub(crate) fn answer_waiting_caller(
        &mut self,
        vi: ViHandle,
        local: Discriminator,
        to: NetAddress,
    ) -> bool {
        let fits = |caller: &Caller| caller.from == to && caller.to == local && self.is_another(vi, caller);
        let Some(at) = self.callers.iter().position(fits) else { return false };
        let caller = self.callers.remove(at);
        self.answer_peer(vi, &caller);
        true
    }

    fn answer_peer(&mut self, vi: ViHandle, caller: &Caller) {
        let checked =
            self.nic.vis.get(vi.0).map_or(Ok(()), |found| caller.attributes.check(&found.work.attributes));
        match checked {
            Ok(()) => self.accept(vi, caller),
            Err(error) => {
                self.reject(caller, Rejection::Attributes, Some(vi));
                self.fail_attempt(vi, error);
            }
        }
    }

    /// Connects a VI to the sender of a request with matching attributes, and sends the acceptance.
    pub(crate) fn accept(&mut self, vi: ViHandle, caller: &Caller) {
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        let mut connection = found.work.connection;
        if connection == 0 {
            connection = self.new_connection(vi);
        }
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        found.work.connection = connection;
        found.set_state(ViState::Connected);
        found.peer = caller.from.host;
        found.set_link(Some(caller.number));
        found.work.their_connection = caller.connection;
        found.work.theirs = Some(caller.attributes);
        found.work.attempt = None;
        let entry = introduce(Kind::Accept.entry(caller.connection), &found.work.attributes, connection);
        // If this VI has itself sent a request to this NIC, that request ends here.
        let own = self.nic.device.endpoint();
        self.callers.retain(|other| other.from.host != own || other.connection != connection);
        self.owe(caller.number, entry, Payload::default());
    }

    /// Rejects a request. If the attributes are the reason, sends the attributes of `with`.
    pub(crate) fn reject(&mut self, caller: &Caller, why: Rejection, with: Option<ViHandle>) {
        let attributes = with.and_then(|vi| self.nic.vis.get(vi.0)).map(|found| found.work.attributes);
        let entry = Kind::Reject.entry(caller.connection);
        let mut entry = attributes.map_or(entry, |attributes| introduce(entry, &attributes, 0));
        // A rejection has no connection number of its sender, so those bits are free.
        entry.extra |= u64::from(why as u32) << SENDER_SHIFT;
        self.owe(caller.number, entry, Payload::default());
    }

    /// Handles a request for a connection.
    pub(crate) fn handle_request(&mut self, number: ViNumber, entry: &Entry, payload: &Payload) {
        let Some(host) = self.channels.get(&number).map(|channel| channel.peer) else { return };
        let Some([from, to]) = get_discriminators(payload) else { return };
        let caller = Caller {
            number,
            from: NetAddress::new(host, from),
            to,
            connection: sender(entry),
            attributes: PeerAttributes::parse(entry),
        };
        if caller.connection == 0 {
            return;
        }
        if entry.extra & PEER_TO_PEER == 0 {
            self.handle_client(&caller);
        } else {
            self.handle_peer(&caller);
        }
    }

    /// Keeps a request until all entries that have arrived are handled: its withdrawal may be among them.
    fn handle_peer(&mut self, caller: &Caller) {
        if self.callers.len() < CALLERS_MAX {
            self.callers.push(*caller);
        } else {
            self.reject(caller, Rejection::NoMatch, None);
        }
    }

    /// Whether a request comes from another NIC, or from another VI of this NIC that is still asking for a connection. A VI is never joined
    /// to itself.
    fn is_another(&self, vi: ViHandle, caller: &Caller) -> bool {
        caller.from.host != self.nic.device.endpoint()
            || self.by_connection.get(&caller.connection).is_some_and(|&own| own != vi && self.is_asking(own))
    }

    /// Handles the acceptance of a request. If no VI is asking for the connection any more, ends the connection; `vi` may then be `None`.
    pub(crate) fn handle_accept(&mut self, number: ViNumber, vi: Option<ViHandle>, entry: &Entry) {
        let theirs = PeerAttributes::parse(entry);
        let asking = vi.filter(|&vi| {
            let of_channel = self.nic.vis.get(vi.0).is_some_and(|found| found.linked() == Some(number));
            of_channel && self.is_asking(vi)
        });
        let Some(vi) = asking else {
            let target = sender(entry);
            if target != 0 {
                self.owe(number, Kind::Disconnect.entry(target), Payload::default());
            }
            return;
        };
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        found.work.their_connection = sender(entry);
        found.work.theirs = Some(theirs);
        match theirs.check(&found.work.attributes) {
            Ok(()) => {
                found.set_state(ViState::Connected);
                found.work.attempt = None;
            }
            // A correct peer accepts only matching attributes.
            Err(error) => self.fail_attempt(vi, error),
        }
    }

    /// Handles the rejection of a request.
    pub(crate) fn handle_reject(&mut self, vi: ViHandle, entry: &Entry) {
        let Some(found) = self.nic.vis.get(vi.0).filter(|_| self.is_asking(vi)) else { return };
        let peer = found.peer;
        let error = match sender(entry) {
            code if code == Rejection::NoMatch as u32 => VipError::NoMatch { peer },
            code if code == Rejection::Attributes as u32 => {
                let mismatch = PeerAttributes::parse(entry).check(&found.work.attributes).err();
                mismatch.unwrap_or(VipError::Reject { peer })
            }
            _ => VipError::Reject { peer },
        };
        self.fail_attempt(vi, error);
    }

    /// Handles the withdrawal of a request.
    pub(crate) fn handle_withdraw(&mut self, number: ViNumber, entry: &Entry) {
        let connection = sender(entry);
        let is_it = |caller: &Caller| caller.number == number && caller.connection == connection;
        self.callers.retain(|caller| !is_it(caller));
        if let Some(listener) = &mut self.listener {
            listener.forget(is_it);
        }
        for slot in self.requests.all() {
            if self.requests.get(slot).is_some_and(is_it) {
                self.requests.remove(slot);
            }
        }
        // This side may have just accepted the request.
        for slot in self.nic.vis.all() {
            let found = self.nic.vis.get(slot).filter(|found| found.linked() == Some(number));
            if found.is_some_and(|found| found.work.their_connection == connection) {
                self.lose(ViHandle(slot));
            }
        }
    }

    /// Ends the connection (`VipDisconnect`): queued descriptors are flushed in order, and the VI becomes idle.
    ///
    /// # Errors
    /// No such VI, or it is already idle.
    pub fn disconnect(&mut self, vi: ViHandle) -> Result<(), VipError> {
        let found = self.vi(vi)?;
        if found.state() == ViState::Idle {
            let (call, needed) = ("disconnect", "connected, connecting or broken");
            return Err(VipError::InvalidState { call, needed, state: ViState::Idle });
        }
        self.become_idle(vi);
        Ok(())
    }

    pub(crate) fn become_idle(&mut self, vi: ViHandle) {
        let Some(found) = self.nic.vis.get(vi.0) else { return };
        if let Some(number) = found.linked() {
            let entry = if found.work.their_connection != 0 {
                Kind::Disconnect.entry(found.work.their_connection)
            } else {
                let entry = Kind::Withdraw.entry(TO_NIC);
                Entry { extra: entry.extra | u64::from(found.work.connection) << SENDER_SHIFT, ..entry }
            };
            self.owe(number, entry, Payload::default());
        }
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        let connection = std::mem::take(&mut found.work.connection);
        self.by_connection.remove(&connection);
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        found.set_state(ViState::Error);
        self.flush(vi);
        let Some(found) = self.nic.vis.get_mut(vi.0) else { return };
        found.set_state(ViState::Idle);
        found.work.their_connection = 0;
        found.set_link(None);
        (found.work.theirs, found.work.attempt) = (None, None);
    }
}
