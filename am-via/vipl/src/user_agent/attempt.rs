//! Connection attempts of a NIC's VIs, in the order in which they began.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::address::{Discriminator, NetAddress};
use crate::error::VipError;
use crate::handle::ViHandle;
use crate::user_agent::UserAgent;
use crate::user_agent::entry::{Kind, PEER_TO_PEER, TO_NIC, introduce, put_discriminators};
use crate::user_agent::work::{Attempt, Way};
use am_via_nic::ViState;
use am_via_nic::device::{Device, DeviceError, Endpoint, NICS_MAX};

/// Longest sleep of a program that waits for a connection: the time limit of its request is checked after each sleep.
pub(crate) const CONNECT_STEP: Duration = Duration::from_millis(5);

/// State of an attempt after a step.
enum AttemptState {
    /// The attempt cannot proceed now. Later attempts at the same endpoints wait behind it.
    Blocked,
    /// The VI is connected, or its request has been sent. Later attempts at the same endpoints can proceed.
    Done,
}

impl<D: Device> UserAgent<D> {
    pub(crate) fn begin_attempt(
        &mut self,
        vi: ViHandle,
        (call, way): (&'static str, Way),
        local: Discriminator,
        to: NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), VipError> {
        let num_tasks = self.nic.device.attributes().num_tasks;
        let found = self.vi(vi)?;
        if found.state() != ViState::Idle {
            let needed = "idle: disconnect it first";
            return Err(VipError::InvalidState { call, needed, state: found.state() });
        }
        to.host.check(num_tasks, NICS_MAX).map_err(DeviceError::from)?;
        found.set_state(ViState::ConnectPending);
        found.peer = to.host;
        found.work.attempt =
            Some(Attempt { way, local, to, asked: Instant::now(), timeout, sent: false, failed: None });
        let connection = self.new_connection(vi);
        self.vi(vi)?.work.connection = connection;
        self.attempts.retain(|&other| other != vi);
        self.attempts.push(vi);
        self.go_on_with_attempts();
        self.carry_on(vi);
        Ok(())
    }

    /// Takes a step for each attempt. VIs that ask for the same endpoints are connected in the order in which they asked: an attempt that
    /// is blocked also blocks the later ones at its endpoints.
    pub(crate) fn go_on_with_attempts(&mut self) {
        if self.attempts.is_empty() {
            return;
        }
        let mut blocked = HashSet::new();
        for vi in std::mem::take(&mut self.attempts) {
            let attempt = self.nic.vis.get(vi.0).filter(|_| self.is_asking(vi));
            let Some(attempt) = attempt.and_then(|found| found.work.attempt.as_ref()) else { continue };
            let asked_for = (attempt.way, attempt.local, attempt.to);
            let stand = match self.still_holds(attempt) {
                Ok(()) if blocked.contains(&asked_for) => Ok(AttemptState::Blocked),
                Ok(()) => self.step_to_connection(vi, asked_for),
                Err(error) => Err(error),
            };
            match stand {
                Ok(AttemptState::Done) => {}
                Ok(AttemptState::Blocked) => drop(blocked.insert(asked_for)),
                Err(error) => self.fail_attempt(vi, error),
            }
            if self.is_asking(vi) {
                self.attempts.push(vi);
            }
        }
    }

    /// Returns whether the VI is connected. If its attempt has failed, or it has lost the connection since, returns the error and makes the
    /// VI idle.
    pub(crate) fn connect_outcome(&mut self, vi: ViHandle) -> Result<bool, VipError> {
        let found = self.vi(vi)?;
        let outcome = match found.state() {
            ViState::Connected => return Ok(true),
            // The VI was connected, and has lost the connection since.
            ViState::Error => Err(self.why_lost(vi)?),
            ViState::ConnectPending => {
                self.go_on_with_attempts();
                let found = self.vi(vi)?;
                let state = found.state();
                let failed = found.work.attempt.as_mut().and_then(|attempt| attempt.failed.take());
                failed.map_or(Ok(state == ViState::Connected), Err)
            }
            ViState::Idle => {
                let (call, needed) = ("asking for the outcome", "connecting: request a connection first");
                return Err(VipError::InvalidState { call, needed, state: ViState::Idle });
            }
        };
        if outcome.is_err() {
            self.become_idle(vi);
        }
        outcome
    }

    fn why_lost(&mut self, vi: ViHandle) -> Result<VipError, VipError> {
        let peer = self.vi(vi)?.peer;
        Ok(match self.nic.device.failure(peer.task) {
            Some(how) => VipError::PeerFailed { task: peer.task.0, how },
            None => VipError::Reject { peer },
        })
    }

    /// Ends an attempt with an error, which the program gets when it asks for the result.
    pub(crate) fn fail_attempt(&mut self, vi: ViHandle, why: VipError) {
        if let Some(attempt) = self.nic.vis.get_mut(vi.0).and_then(|found| found.work.attempt.as_mut()) {
            attempt.failed.get_or_insert(why);
        }
    }

    /// Checks that the time limit of an attempt has not passed, and that its peer is not gone.
    fn still_holds(&self, attempt: &Attempt) -> Result<(), VipError> {
        if let Some(timeout) = attempt.timeout.filter(|&timeout| attempt.asked.elapsed() > timeout) {
            return Err(VipError::Timeout(timeout));
        }
        let task = attempt.to.host.task;
        self.nic.device.failure(task).map_or(Ok(()), |how| Err(VipError::PeerFailed { task: task.0, how }))
    }

    /// Takes one step for an attempt that no earlier attempt at its endpoints blocks.
    fn step_to_connection(
        &mut self,
        vi: ViHandle,
        (way, local, to): (Way, Discriminator, NetAddress),
    ) -> Result<AttemptState, VipError> {
        let own = self.nic.device.endpoint();
        let answers = way == Way::Peer && own <= to.host;
        if answers && self.answer_waiting_caller(vi, local, to) {
            return Ok(AttemptState::Done);
        }
        // Of two peers, the NIC with the lower address answers the first request that arrives.
        let asks = way == Way::Client || own >= to.host;
        if !asks {
            return Ok(AttemptState::Blocked);
        }
        if self.vi(vi)?.work.attempt.as_ref().is_none_or(|attempt| attempt.sent) {
            return Ok(AttemptState::Done);
        }
        let Some(number) = self.channel_to(to.host)? else { return Ok(AttemptState::Blocked) };
        if !self.takes_request(number) {
            return Ok(AttemptState::Blocked);
        }
        let found = self.vi(vi)?;
        found.set_link(Some(number));
        let mut entry = introduce(Kind::Request.entry(TO_NIC), &found.work.attributes, found.work.connection);
        entry.extra |= if way == Way::Peer { PEER_TO_PEER } else { 0 };
        if let Some(attempt) = &mut found.work.attempt {
            attempt.sent = true;
        }
        self.owe(number, entry, put_discriminators(local, to.discriminator));
        Ok(AttemptState::Done)
    }

    /// Whether a VI waits for a connection that may still come.
    pub(crate) fn is_asking(&self, vi: ViHandle) -> bool {
        let found = self.nic.vis.get(vi.0).filter(|found| found.state() == ViState::ConnectPending);
        let attempt = found.and_then(|found| found.work.attempt.as_ref());
        attempt.is_some_and(|attempt| attempt.failed.is_none())
    }

    /// Fails the attempt of a VI whose peer is gone.
    pub(crate) fn lose_attempt(&mut self, vi: ViHandle, peer: Endpoint) {
        let error = match self.nic.device.failure(peer.task) {
            Some(how) => VipError::PeerFailed { task: peer.task.0, how },
            None => VipError::Reject { peer },
        };
        self.fail_attempt(vi, error);
    }
}
