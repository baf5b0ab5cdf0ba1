//! Connections of clients to a server: the client asks, the server waits, and accepts or rejects (`VipConnectRequest`,
//! `VipConnectWait`, `VipConnectAccept`, `VipConnectReject`).

use std::time::Duration;

use crate::address::{Discriminator, NetAddress};
use crate::error::VipError;
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::attempt::CONNECT_STEP;
use crate::user_agent::connection::{Caller, Rejection};
use crate::user_agent::entry::PeerAttributes;
use crate::user_agent::work::Way;
use am_via_nic::Slot;
use am_via_nic::ViState;
use am_via_nic::device::Device;

/// A client that waits for the server's answer (VIA's connection handle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionRequest {
    slot: Slot,
    /// Address of the client.
    pub from: NetAddress,
    /// The attributes of the client's VI.
    pub attributes: PeerAttributes,
}

/// An endpoint at which a server waits.
#[derive(Debug)]
pub(crate) struct Listener {
    local: Discriminator,
    caller: Option<Caller>,
}

impl Listener {
    /// Forgets a client that has withdrawn its request.
    pub(crate) fn forget(&mut self, is_it: impl Fn(&Caller) -> bool) {
        self.caller = self.caller.filter(|caller| !is_it(caller));
    }
}

impl<D: Device> UserAgent<D> {
    /// Asks for a connection to an endpoint at which a server waits, and waits for the server's answer, without a limit if `timeout` is
    /// `None`. Returns the attributes of the server's VI.
    ///
    /// # Errors
    /// No such VI, the VI is not idle, or the server's task or context does not exist. Or the server does not wait there, has a VI with
    /// other attributes, rejects, is dead, or does not answer in time: the VI is then idle.
    pub fn connect_request(
        &mut self,
        vi: ViHandle,
        local: Discriminator,
        to: impl Into<NetAddress>,
        timeout: Option<Duration>,
    ) -> Result<PeerAttributes, VipError> {
        self.begin_connect_request(vi, local, to, timeout)?;
        self.wait_in_steps(None, CONNECT_STEP, |agent| agent.peer_outcome(vi))
    }

    /// Begins what [`connect_request`](Self::connect_request) does, and does not wait: [`connect_peer_done`](Self::connect_peer_done) tells
    /// the outcome.
    ///
    /// # Errors
    /// The VI is not idle, or the address is invalid.
    pub fn begin_connect_request(
        &mut self,
        vi: ViHandle,
        local: Discriminator,
        to: impl Into<NetAddress>,
        timeout: Option<Duration>,
    ) -> Result<(), VipError> {
        self.begin_attempt(vi, ("connect_request", Way::Client), local, to.into(), timeout)
    }

    /// Waits at endpoint `local` for a client, without a limit if `timeout` is `None`. A client that asks while no program waits gets an
    /// error.
    ///
    /// # Errors
    /// The time limit has passed, or the caller is a handler that runs inside another such wait.
    pub fn connect_wait(
        &mut self,
        local: Discriminator,
        timeout: Option<Duration>,
    ) -> Result<ConnectionRequest, VipError> {
        if self.listener.is_some() {
            return Err(VipError::InUse { what: "wait for clients of this NIC", users: 1 });
        }
        self.listener = Some(Listener { local, caller: None });
        let heard =
            self.wait_for(timeout, |agent| Ok(agent.listener.as_ref().and_then(|listener| listener.caller)));
        self.listener = None;
        let caller = heard?;
        let slot = self.requests.insert(caller);
        Ok(ConnectionRequest { slot, from: caller.from, attributes: caller.attributes })
    }

    /// Handles the request of a client.
    pub(crate) fn handle_client(&mut self, caller: &Caller) {
        let free = |listener: &&mut Listener| listener.local == caller.to && listener.caller.is_none();
        match self.listener.as_mut().filter(free) {
            Some(listener) => listener.caller = Some(*caller),
            None => self.reject(caller, Rejection::NoMatch, None),
        }
    }

    /// Accepts a client with a VI of the same level, transfer size and quality of service (`VipConnectAccept`). If these differ, the
    /// request can be accepted with another VI.
    ///
    /// # Errors
    /// The request was answered or withdrawn, there is no such VI, it is not idle, or its attributes do not match.
    pub fn connect_accept(&mut self, request: &ConnectionRequest, vi: ViHandle) -> Result<(), VipError> {
        let caller = *self.request(request)?;
        let found = self.vi(vi)?;
        if found.state() != ViState::Idle {
            let (call, needed) = ("connect_accept", "idle: disconnect it first");
            return Err(VipError::InvalidState { call, needed, state: found.state() });
        }
        caller.attributes.check(&found.work.attributes)?;
        self.requests.remove(request.slot);
        self.accept(vi, &caller);
        Ok(())
    }

    /// Rejects a client (`VipConnectReject`).
    ///
    /// # Errors
    /// The request was answered or withdrawn.
    pub fn connect_reject(&mut self, request: &ConnectionRequest) -> Result<(), VipError> {
        let caller = *self.request(request)?;
        self.requests.remove(request.slot);
        self.reject(&caller, Rejection::Refused, None);
        Ok(())
    }

    fn request(&mut self, request: &ConnectionRequest) -> Result<&Caller, VipError> {
        // A withdrawal may have arrived: make progress first.
        self.progress();
        self.requests.get(request.slot).ok_or(VipError::UnknownHandle { what: "connection request" })
    }
}
